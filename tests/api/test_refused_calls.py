"""Calls that are refused before anything is compiled, or by a pullback that was made."""

import ctypes
import pickle

import numpy as np
import pytest
from numba import TypingError, cfunc, guvectorize, njit
from numba.extending import overload

import activerules as ar


@njit
def square(x):
    return x * x


@pytest.mark.parametrize("make", [ar.grad, ar.value_and_grad, ar.jacobian, ar.hessian])
@pytest.mark.parametrize("value", [2.0, 1j, np.ones(3), (1.0, 2.0)], ids=str)
def test_values_in_place_of_argnums(make, value):
    name = make.__name__
    with pytest.raises(ar.ArityError, match=rf"(?s)is passed the arguments.*{name}\(square\)\(x\)"):
        make(square, value)


def test_a_function_without_arguments():
    @njit
    def one():
        return 1.0

    with pytest.raises(ar.ArityError, match=r"(?s)one has no arguments.*f\(x\)"):
        ar.grad(one)()


def test_fields_that_cannot_be_told_apart_belong_into_arrays_of_their_own():
    mixed = np.dtype([("a", "f8"), ("n", "i4")], align=True)

    @njit
    def of_records(v):
        records = np.zeros(3, mixed)
        for i in range(3):
            records[i].a, records[i].n = v[i], i
        records["a"][1:] *= 2  # of a copy of the field or of the records themselves
        return records["a"].sum() * records["n"].sum()

    with pytest.raises(ar.FloatBitsInInteger, match="floats of records in arrays of their own"):
        ar.grad(of_records)(np.ones(3))


@cfunc("float64(float64)")
def callback(x):
    return x * x


@guvectorize(["(float64[:], float64[:])"], "(n)->(n)", nopython=True)
def squares(x, out):
    for i in range(len(x)):
        out[i] = x[i] ** 2


def test_a_call_by_address_is_not_shown_as_numbas_lookup():
    with pytest.raises(ar.UnknownCall, match="by its address") as caught:
        ar.grad(njit(lambda x: callback(x) * 2))(2.0)
    assert "an @njit function in its place" in str(caught.value)
    assert "PyImport" not in str(caught.value)


def bessel_j0(x):
    """What an overload calls by its address, as packages call SciPy's special functions."""


J0 = ctypes.CDLL("libm.so.6").j0
J0.argtypes, J0.restype = [ctypes.c_double], ctypes.c_double


@overload(bessel_j0)
def _(x):
    return lambda x: J0(x)


def test_a_call_by_address_in_an_overload_is_named_as_the_user_spells_it():
    with pytest.raises(ar.UnknownCall, match=r"flows into bessel_j0, .*no derivative") as caught:
        ar.grad(njit(lambda x: bessel_j0(abs(x)) * float(x)))(2.0)
    assert "scalar_rule(bessel_j0, lambda Ω, x: " in str(caught.value)
    assert "called by its address" in str(caught.value)


def test_a_guvectorize_function_without_output():
    with pytest.raises(ar.NotCompilable, match=r"the array that it writes: f\(x, out\)"):
        ar.grad(njit(lambda x: squares(x).sum()))(np.ones(3))


def test_a_pullback_is_neither_pickled_nor_called_by_keyword():
    _, pullback = ar.vjp(square, 3.0)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(pullback)

    @njit
    def by_keyword(pull):
        return pull(cotangent=1.0)

    with pytest.raises((TypeError, TypingError), match="takes the cotangent, and no keyword"):
        by_keyword(pullback)


def test_a_holomorphic_jacobian_of_real_numbers():
    for make in (ar.jacfwd, ar.jacrev):
        with pytest.raises(ar.ActivityError, match="`x` is float64, and a holomorphic derivative"):
            make(square, holomorphic=True)(3.0)

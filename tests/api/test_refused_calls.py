"""Calls that are refused before anything is compiled, or by a pullback that was made."""

import copy
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


@njit
def total(x):
    return (x * x).sum()


@pytest.mark.parametrize("make", [ar.grad, ar.jacfwd, ar.jacrev, ar.hessian, ar.vjp, ar.jvp])
def test_annotations_in_place_of_plain_values(make):
    x = ar.Duplicated(np.ones(2), np.zeros(2))
    words = r"(?s)`x` is Duplicated\[float64\[::1\]\], an annotation.*`x` itself"
    with pytest.raises(ar.ActivityError, match=words):
        ar.vjp(total, x) if make is ar.vjp else (
            ar.jvp(total, (x,), (x,)) if make is ar.jvp else make(total)(x)
        )


DAYS = np.array(["2020-01-01", "2020-01-02"], "M8[D]")
OF_SINGLE_WORDS = np.zeros(2, [("a", "f8"), ("half", "f2")])


@pytest.mark.parametrize("mode", [ar.Reverse, ar.Forward])
def test_arrays_without_a_shadow(mode):
    result = ar.Active if mode is ar.Reverse else ar.Duplicated
    with pytest.raises(ar.ActivityError, match=r"(?s)`x` is .*datetime64\[D\].*Const\(x\)"):
        ar.autodiff(mode, total, result, ar.Duplicated(DAYS, DAYS.copy()))
    with pytest.raises(ar.NotYetSupported, match=r"(?s)`x.half` is of a type.*argument of its own"):
        ar.autodiff(mode, total, result, ar.Duplicated(OF_SINGLE_WORDS, OF_SINGLE_WORDS.copy()))


def test_a_masked_array():
    with pytest.raises(ar.ActivityError, match=r"(?s)masked array.*x\.filled\(0\.0\)"):
        ar.grad(total)(np.ma.masked_array(np.ones(2), [0, 1]))


def test_a_batch_where_one_derivative_is_asked_for():
    x = np.ones(2)
    batch = ar.BatchDuplicated(x, (x, x))
    with pytest.raises(ar.NotYetSupported, match=r"(?s)BatchDuplicated.*Duplicated\(x, make_zero"):
        ar.tape_bytes(total, batch)
    with pytest.raises(ar.NotYetSupported, match=r"(?s)holomorphic.*one shadow per argument"):
        ar.autodiff(ar.Reverse.holomorphic(), total, ar.Active, batch)


def test_another_value_in_place_of_the_mode_of_a_thunk():
    @njit
    def by_name(x):
        return ar.autodiff_thunk("reverse", square, ar.Active, ar.Active)[0](ar.Active(x))[1]

    with pytest.raises(ar.ActivityError, match=r"(?s)is a mode.*ReverseSplitWithPrimal"):
        by_name(1.0)


class Powers:
    @staticmethod
    def cube(x):
        return x * x * x


def test_tapes_and_pullbacks_name_their_function():
    augmented, _ = ar.autodiff_thunk(ar.ReverseSplitNoPrimal, square, ar.Active, ar.Active)
    tape = augmented(ar.Active(2.0))[0]
    assert repr(tape) == "<tape of square>"
    assert repr(ar.vjp(square, 3.0)[1]) == "<pullback of square>"
    assert repr(ar.vjp(lambda x: x * x, 3.0)[1]) == "<pullback of <lambda>>"
    assert repr(ar.vjp(Powers.cube, 3.0)[1]) == "<pullback of Powers.cube>"
    for copied in (pickle.dumps, copy.copy):
        with pytest.raises(TypeError, match="a tape cannot be pickled or copied"):
            copied(tape)


@pytest.mark.parametrize("annotated", [ar.Active(2.0), ar.BatchDuplicated(2.0, (1.0, 1.0))])
def test_annotations_given_to_a_checkpointed_function(annotated):
    @njit
    def compiled(x):
        return ar.checkpoint(square)(x)

    for function in (ar.checkpoint(square), compiled):
        refusal = rf"(?s)`x` is {type(annotated).__name__}.*square\(x\).*`x` itself"
        with pytest.raises(ar.ActivityError, match=refusal):
            function(annotated)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ar.grad(square)([]),
        lambda: ar.vjp(square, 3.0)[1]([]),
        lambda: ar.jvp(square, (3.0,), ([],)),
        lambda: ar.autodiff(ar.Reverse, square, ar.Active, ar.Const((1.0, []))),
        lambda: ar.tape_bytes(square, []),
    ],
)
def test_an_empty_list_has_no_type(call):
    with pytest.raises(ar.ActivityError):
        call()


def test_an_empty_list_is_named():
    with pytest.raises(ar.ActivityError, match=r"(?s)an empty list.*empty_list\(types\.float64\)"):
        ar.grad(square)([])
    derivative = ar.grad(square)
    assert derivative(3.0) == 6.0
    with pytest.raises(ar.ActivityError, match="an empty list"):  # where a call has been served
        derivative([])


def test_the_value_error_of_a_function_passes_through():
    @njit
    def refuses(x):
        if x > 0:
            raise ValueError("x is positive")
        return x

    with pytest.raises(ValueError, match="x is positive"):
        ar.grad(refuses)(1.0)


def test_options_of_another_type():
    with pytest.raises(ar.ArityError, match="neither a number nor a name"):
        ar.grad(square, argnums=int)
    with pytest.raises(ar.UnknownOption, match="no mode"):
        ar.jacobian(square, mode=[])
    with pytest.raises(ar.ActivityError, match="is no activity"):
        ar.tape_bytes(square, ar.Active(1.0), return_activity=[])


@njit
def cubes(x):
    return x * x * x


@njit
def sum_of_cubes(x):
    return cubes(x).sum()


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda x, v: ar.vjp(cubes, x)[1](v), "the cotangent"),
        (lambda x, v: ar.jvp(cubes, (x,), (v,)), "the tangent of `x`"),
        (lambda x, v: ar.hvp(sum_of_cubes, x, v), "the vector of a product with the Hessian"),
    ],
    ids=["vjp", "jvp", "hvp"],
)
def test_shapes_that_differ_are_named(call, what):
    message = rf"{what} has the shape \(4,\), and its value has \(3,\)"
    for _ in range(2):  # when it is compiled, and later
        with pytest.raises(ar.ShadowMismatch, match=message):
            call(np.ones(3), np.ones(4))
    call(np.ones(3), np.ones(3))


def test_arrays_in_place_of_flags():
    x = np.ones(3)
    for make in (ar.grad, ar.value_and_grad, ar.jacfwd, ar.jacrev):
        with pytest.raises(TypeError, match="has_aux is an array"):
            make(sum_of_cubes, 0, x)
    with pytest.raises(TypeError, match="nogil is an array"):
        ar.grad(sum_of_cubes, nogil=x)

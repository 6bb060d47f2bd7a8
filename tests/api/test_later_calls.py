"""Calls from Python after a first one, which take the shortest way: bad input is refused as it was
at the first call, and arguments of other kinds get the derivatives of their kind.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import rrule, scalar_rule


@njit
def product(x, y, k=2.0):
    return x[0] * x[1] * y * k


@njit
def of_params(p):
    return p["a"] * p["b"]


@njit
def overwrites(x, y):
    x[0] *= y
    return x[0] * x[1]


@dataclass
class Params:
    a: float
    b: float


X, V = np.array([2.0, 3.0]), np.array([0.5, 0.25])


def by_vjp(*args):
    out, pullback = ar.vjp(product, *args)
    return pullback(type(out)(1))[0]


def by_jvp(x, *rest):
    """The gradient, from one direction per entry."""
    constant = (None,) * len(rest)
    lines = [ar.jvp(product, (x, *rest), (v, *constant))[1] for v in np.eye(2, dtype=x.dtype)]
    return np.array(lines, x.dtype)


ENTRIES = {
    "grad": ar.grad(product),
    "value_and_grad": lambda *args: ar.value_and_grad(product)(*args)[1],
    "grad made in each call": lambda *args: ar.grad(product)(*args),
    "vjp": by_vjp,
    "jvp": by_jvp,
    "jacobian": ar.jacobian(product),
}


@pytest.fixture(scope="module", params=ENTRIES.values(), ids=list(ENTRIES))
def called(request):
    """An entry point that served calls."""
    for _ in range(2):
        np.testing.assert_array_equal(request.param(X, 3.0), [18.0, 12.0])
    return request.param


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ((read_only(X), 3.0), [18.0, 12.0]),
        ((np.repeat(X, 2)[::2], 3.0), [18.0, 12.0]),
        ((X.astype(np.float32), 3.0), [18.0, 12.0]),
        ((X, 3), [18.0, 12.0]),
        ((X, 3.0, 5.0), [45.0, 30.0]),
        ((X, True), [6.0, 4.0]),
        ((np.array([4.0, 5.0]), 1.0), [10.0, 8.0]),
    ],
    ids=["read-only", "strided", "float32", "int", "no default", "bool", "other values"],
)
def test_other_arguments_than_before(called, args, expected):
    np.testing.assert_array_equal(called(*args), expected)
    np.testing.assert_array_equal(called(X, 3.0), [18.0, 12.0])


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ((X,), ar.ArityError),
        ((X, 3.0, 2.0, 1.0), ar.ArityError),
        ((X, object()), ar.ActivityError),
        ((np.ma.array(X, mask=[True, False]), 3.0), ar.ActivityError),
        ((X.astype(">f8"), 3.0), ar.ActivityError),
        ((X, None), ar.NotCompilable),
    ],
    ids=["too few", "too many", "object", "masked", "byte order", "None"],
)
def test_bad_arguments_after_good_ones(called, args, error):
    with pytest.raises(error):
        called(*args)
    np.testing.assert_array_equal(called(X, 3.0), [18.0, 12.0])


def test_byte_order_inside_of_tuples():
    """Numba refuses it at the first call, and later reads the bytes as the machine's."""
    swapped = X.astype(">f8")
    of_tuple = njit(lambda pair: pair[0][0] * pair[0][1])
    gradient, zeros = ar.grad(of_tuple), (np.zeros(2),)
    _, pullback = ar.vjp(njit(lambda x: (x, 2.0 * x)), X)
    thunk, _ = ar.autodiff_thunk(ar.ReverseSplitWithPrimal, of_tuple, ar.Active, ar.Duplicated)
    calls = [
        lambda x: gradient((x,)),
        lambda x: ar.vjp(of_tuple, (x,)),
        lambda x: ar.jvp(of_tuple, ((X,),), ((x,),)),
        lambda x: ar.autodiff(ar.Reverse, of_tuple, ar.Duplicated((x,), zeros)),
        lambda x: ar.autodiff(ar.Forward, of_tuple, ar.Duplicated((X,), (x,))),
        lambda x: thunk(ar.Duplicated((x,), zeros)),
        lambda x: pullback((X, x)),
    ]
    for call in calls:
        call(X)
        with pytest.raises(ar.ActivityError, match="array of dtype >f8"):
            call(swapped)
    np.testing.assert_array_equal(gradient((X,))[0], [3.0, 2.0])
    by_list = njit(lambda x, rows: x * rows[0][0])
    with pytest.raises(ar.ActivityError, match="array of dtype >f8"):
        ar.vjp(by_list, 2.0, [X, swapped])
    assert rrule(np.sin, swapped) is None


def test_keywords_after_positions():
    gradient = ar.grad(product)
    gradient(X, 3.0)
    for found in (gradient(X, 3.0, k=5.0), gradient(k=5.0, y=3.0, x=X)):
        np.testing.assert_array_equal(found, [45.0, 30.0])
    for wrong in ({"q": 5.0}, {"y": 3.0}):
        with pytest.raises(ar.ArityError):
            gradient(X, 3.0, **wrong)


def test_arguments_named_as_ours_are():
    def f(self, function):
        return self * self * function

    two = ar.value_and_grad(f, ("function", "self"))(function=3.0, self=2.0)
    assert two == (12.0, (4.0, 12.0))
    for second in (ar.jacfwd, ar.jacrev, ar.jacobian):
        assert second(f, "self")(function=3.0, self=2.0) == 12.0
    assert ar.hessian(f)(function=3.0, self=2.0) == 6.0
    assert ar.hvp(f)(2.0, 0.5, function=3.0) == 3.0
    rows = ar.jacobian(lambda function, self: function * self, sparsity=np.eye(2))
    np.testing.assert_array_equal(rows(self=3.0, function=X).toarray(), 3.0 * np.eye(2))


def test_functions_made_alike_are_told_apart():
    by_default, by_place, by_name = ar.grad(product), ar.grad(product, 1), ar.grad(product, "y")
    np.testing.assert_array_equal(by_default(X, 3.0), [18.0, 12.0])
    assert by_place(X, 3.0) == by_name(X, 3.0) == 12.0
    (both,) = {ar.grad(product, (0, 1))(X, 3.0)[1], ar.grad(product, (0, 1))(X, 3.0)[1]}
    assert both == 12.0
    wrong: list[Any] = [0.0, (0.0,), 5, "z"]
    for argnums in wrong:
        with pytest.raises(ar.ArityError):
            ar.grad(product, argnums)


@pytest.mark.parametrize("call", [ar.grad(of_params), lambda p: ar.vjp(of_params, p)[1](1.0)[0]])
def test_parameters_change_their_form(call):
    for _ in range(2):
        assert call({"a": 2.0, "b": 3.0}) == {"a": 3.0, "b": 2.0}
    assert call({"b": 3.0, "a": 2.0}) == {"a": 3.0, "b": 2.0}
    assert call({"a": 2.0, "b": 3.0, "c": 1.0}) == {"a": 3.0, "b": 2.0, "c": 0.0}
    for wrong in ({"a": 2.0, "b": [3.0]}, {"a": 2.0, 3: 3.0}):
        with pytest.raises(ar.ActivityError):
            call(wrong)
    with pytest.raises(ar.NotCompilable):
        call(Params(2.0, 3.0))
    assert call({"a": 5.0, "b": 3.0}) == {"a": 3.0, "b": 5.0}


def test_cotangents_of_other_kinds():
    _, pullback = ar.vjp(njit(lambda x: x * 2.0), X)
    for good in (X, read_only(X), np.repeat(X, 2)[::2]):
        np.testing.assert_array_equal(pullback(good)[0], [4.0, 6.0])
    for wrong, error in [
        (np.ones(3), ar.ShadowMismatch),
        (X * 1j, ar.ActivityError),
        (1.0, ar.ActivityError),
        (None, ar.ActivityError),
        (np.ma.array(X), ar.ActivityError),
    ]:
        with pytest.raises(error):
            pullback(wrong)
    np.testing.assert_array_equal(pullback(X)[0], [4.0, 6.0])


class TestVectorsOfProducts:
    """`hvp` and `jvp` copy a vector that shares memory, or is laid out differently."""

    H = 6.0 * np.array([[0.0, 1.0], [1.0, 0.0]])

    def test_layouts(self):
        wide = np.array([0.5, 9.0, 0.25, 9.0])[::2]
        for v in (V, V, wide, V[::-1].copy()[::-1], read_only(V)):
            np.testing.assert_array_equal(ar.hvp(product, X, v, 3.0), self.H @ V)
            assert ar.jvp(product, (X, 3.0), (v, 0.0)) == (36.0, 12.0)

    def test_shared_memory(self):
        memory = np.array([2.0, 3.0, 4.0])
        x, shifted = memory[:2], memory[1:]
        ar.hvp(product, x, V, 3.0)
        np.testing.assert_array_equal(ar.hvp(product, x, x, 3.0), self.H @ x)
        np.testing.assert_array_equal(ar.hvp(product, x, shifted, 3.0), self.H @ shifted)
        whole = ar.hvp(overwrites)
        for v in (V, x, shifted):
            np.testing.assert_array_equal(whole(x, v, 3.0), self.H @ v / 2)
        np.testing.assert_array_equal(memory, [2.0, 3.0, 4.0])

    def test_refusals(self):
        ar.jvp(product, (X, 3.0), (V, 0.0))
        ar.hvp(product, X, V, 3.0)
        for v in (np.ones(3), 1.0, V.astype(np.float32)):
            with pytest.raises(ar.ShadowMismatch):
                ar.jvp(product, (X, 3.0), (v, 0.0))
            with pytest.raises(ar.ShadowMismatch):
                ar.hvp(product, X, v, 3.0)
        of_list: Any = [X, 3.0], (V, 0.0)
        of_dicts: Any = {"x": X, "y": 3.0}, {"x": V, "y": 0.0}
        for primals, tangents in (of_list, of_dicts):
            with pytest.raises(ar.ActivityError, match="are tuples"):
                ar.jvp(product, primals, tangents)
        with pytest.raises(ar.ArityError, match="2 primals and 1 tangents"):
            ar.jvp(product, (X, 3.0), (V,))
        with pytest.raises(ar.ArityError):
            ar.hvp(product, X, V)

    def test_written_tangents(self):
        x, v = X.copy(), np.array([0.5, 9.0, 0.25, 9.0])[::2]
        assert ar.jvp(overwrites, (x, 3.0), (v, 0.0)) == (18.0, 6.0)
        np.testing.assert_array_equal(x, [6.0, 3.0])
        np.testing.assert_array_equal(v, [1.5, 0.25])


def test_rules_registered_between_calls_are_used():
    @njit
    def inner(x):
        return x * x

    outer = njit(lambda x: inner(x))
    gradient = ar.grad(outer)

    def derivatives():
        return (
            gradient(3.0),
            ar.grad(outer)(3.0),
            ar.vjp(outer, 3.0)[1](1.0)[0],
            ar.jvp(outer, (3.0,), (1.0,))[1],
        )

    assert derivatives() == derivatives() == (6.0,) * 4
    scalar_rule(inner, lambda out, x: 100.0)
    assert derivatives() == derivatives() == (100.0,) * 4

"""The algebra of tangents, in Python and inside `@njit`."""

import operator
import pickle
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

from activerules.annotations.tangents import conjugate, is_zero
from activerules.chainrules import (
    InplaceableThunk,
    NoTangent,
    NotImplementedTangent,
    One,
    ProjectTo,
    Tangent,
    Thunk,
    ZeroTangent,
    add_inplace,
    canonicalize,
    extern,
    is_inplaceable_destination,
    unthunk,
)
from activerules.errors import TangentMismatch, TangentNotImplemented

ZERO, NONE, ONE = ZeroTangent(), NoTangent(), One()
PRIMALS = [2.5, 1 + 2j, np.float32(3.0), np.array([1.0, 2.0])]


class Point(NamedTuple):
    x: float
    y: float


class Swapped(NamedTuple):
    y: float
    x: float


@dataclass
class Body:
    mass: float
    velocity: float


def same(a, b):
    return np.array_equal(a, b)


@pytest.mark.parametrize("x", PRIMALS, ids=repr)
def test_zeros_vanish_in_sums_and_stay_in_products(x):
    for zero in (ZERO, NONE):
        assert same(x + zero, x)
        assert same(zero + x, x)
        assert same(x - zero, x)
        assert same(zero - x, -x)
        assert zero * x is zero
        assert x * zero is zero
        assert zero / x is zero


@pytest.mark.parametrize("zero", [ZERO, NoTangent()])
@pytest.mark.parametrize("consume", [list, sum, lambda zero: (lambda *entries: entries)(*zero)])
def test_a_zero_has_no_number_of_entries(zero, consume):
    with pytest.raises(TypeError, match="iterable"):
        consume(zero)


@pytest.mark.parametrize("x", PRIMALS, ids=repr)
def test_one_is_neutral_in_products(x):
    assert same(ONE * x, x)
    assert same(x * ONE, x)
    assert same(x / ONE, x)
    assert same(ONE / x, 1 / x)
    assert same(ONE + x, 1 + x)
    assert same(x - ONE, x - 1)


def test_sums_of_two_symbols_say_the_most():
    missing = NotImplementedTangent("later")
    assert ZERO + ZERO is ZERO
    assert ZERO + NONE is NONE
    assert NONE + ZERO is NONE
    assert ONE + ZERO is ONE
    assert ONE + ONE == 2.0
    assert -ONE == -1.0
    assert ONE * ONE is ONE
    assert missing + ZERO is missing
    assert missing * ZERO is ZERO


def test_symbols_are_one_object_through_pickle():
    for symbol in (ZERO, NONE, ONE):
        assert pickle.loads(pickle.dumps(symbol)) is symbol
        assert type(symbol)() is symbol


def test_a_missing_derivative_is_an_error_where_it_is_used():
    missing = NotImplementedTangent("see issue 4")
    for compute in (lambda: missing + 1.0, lambda: 2.0 * missing, lambda: float(missing)):
        with pytest.raises(TangentNotImplemented, match="see issue 4"):
            compute()


@pytest.mark.parametrize(
    "tangent", [Tangent[Point](x=1.0), Tangent[Point](1.0), Tangent[Point](x=1.0, y=ZERO)]
)
def test_absent_fields_are_zero(tangent):
    assert tangent == Tangent[Point](x=1.0)
    assert tangent.x == 1.0
    assert tangent.y is ZERO
    assert list(tangent) == [1.0, ZERO]
    assert canonicalize(tangent).backing == {"x": 1.0, "y": ZERO}
    assert len(tangent) == 2
    assert tangent[1] is ZERO


def test_structural_tangents_add_scale_and_move_primals():
    t = Tangent[Point](x=1.0)
    assert t + Tangent[Point](x=2.0, y=3.0) == Tangent[Point](x=3.0, y=3.0)
    assert 2.0 * t / 4.0 == Tangent[Point](x=0.5)
    assert np.float64(2.0) * t == Tangent[Point](x=2.0)
    assert t + ZERO is t
    assert ZERO + t is t
    assert Point(1.0, 2.0) + t == Point(2.0, 2.0)
    assert Body(1.0, 2.0) + Tangent[Body](velocity=0.5) == Body(1.0, 2.5)
    pair = (1.0, 2.0)
    assert pair + Tangent[tuple](0.5, ZERO) == pair + Tangent[tuple](0.5) == (1.5, 2.0)
    assert {"a": 1.0, "b": 2} + Tangent[dict](a=3.0) == {"a": 4.0, "b": 2}
    assert pickle.loads(pickle.dumps(t)) == t
    assert conjugate(Tangent[Point](x=1j)).x == -1j


def test_structural_tangents_refuse_what_does_not_fit():
    for primal, tangent in (
        ((1.0,), Tangent[tuple](1.0, 2.0)),
        ({"a": 1.0}, Tangent[dict](b=2.0)),
    ):
        with pytest.raises(TypeError, match="no such entries"):
            primal + tangent
    nested = ((1.0, 2.0),)
    with pytest.raises(TypeError, match="1 entries of a tuple of 2"):
        nested + Tangent[tuple]((1.0,))
    with pytest.raises(TypeError, match="no field 'z'"):
        Tangent[Point](z=1.0)
    with pytest.raises(AttributeError, match="no field 'z'"):
        _ = Tangent[Point](x=1.0).z
    with pytest.raises(TypeError, match="different types"):
        Tangent[Point](x=1.0) + Tangent[Body](mass=1.0)
    with pytest.raises(TypeError, match="not a Point"):
        Body(1.0, 2.0) + Tangent[Point](x=1.0)


def test_thunks_are_computed_when_they_are_used_and_not_before():
    calls = []

    def compute():
        calls.append(1)
        return np.ones(2)

    thunk = Thunk(compute)
    lazy = (2.0 * -thunk, conjugate(thunk), thunk / 2.0)
    assert not calls
    assert same(unthunk(lazy[0]), [-2.0, -2.0])
    assert same(thunk + np.ones(2), [2.0, 2.0])
    assert same(np.ones(2) + thunk, [2.0, 2.0])
    assert len(calls) == 3


X, MATRIX = np.array([1.5, -2.0]), np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    "use",
    [
        lambda t: X * t,
        lambda t: t * X,
        lambda t: t * Thunk(lambda: X),
        lambda t: t / X,
        lambda t: MATRIX @ t,
        lambda t: t @ MATRIX,
        lambda t: t[1],
        lambda t: list(t),
        lambda t: np.asarray(t, np.float32),
        lambda t: float(t[0] * Thunk(lambda: 2.0)),
    ],
)
def test_a_thunk_is_used_as_its_derivative_is(use):
    value = np.array([0.5, 3.0])
    assert same(unthunk(use(Thunk(lambda: value))), use(value))


def test_parts_of_symbolic_tangents_and_their_numbers():
    for zero in (ZERO, NONE):
        assert (float(zero), complex(zero), bool(zero)) == (0.0, 0j, False)
        assert zero.real is zero.imag is zero[3] is -zero is zero
    assert (float(ONE), complex(ONE), ONE.real, ONE.imag) == (1.0, 1 + 0j, ONE, ZERO)


def test_a_tangent_that_is_not_implemented_raises_where_it_is_needed():
    missing = NotImplementedTangent("see the paper")
    assert missing == NotImplementedTangent("see the paper") != NotImplementedTangent("")
    assert len({missing, NotImplementedTangent("see the paper")}) == 1
    assert -missing is conjugate(missing) is missing + ZERO is missing
    assert missing * ZERO is ZERO
    matrix = np.eye(2)
    for use in (
        lambda: missing / 2.0,
        lambda: 2.0 / missing,
        lambda: missing * 2.0,
        lambda: matrix @ missing,
        lambda: missing @ matrix,
        lambda: missing[0],
    ):
        with pytest.raises(TangentNotImplemented, match="see the paper"):
            use()


def test_extern_reaches_through_structures():
    inner = Thunk(lambda: Thunk(lambda: 2.0))
    found = extern((inner, [inner], {"a": inner}, Tangent[Point](x=inner), 1.0))
    assert found == (2.0, [2.0], {"a": 2.0}, Tangent[Point](x=2.0), 1.0)
    assert isinstance(unthunk(inner), Thunk)


def test_add_inplace_uses_memory_where_it_can():
    x = np.ones(2)
    added = []
    thunk = InplaceableThunk(lambda to: added.append(to) or to.__iadd__(1.0), Thunk(x.copy))
    assert add_inplace(x, thunk) is x
    assert added[0] is x
    assert add_inplace(x, Thunk(lambda: np.ones(2))) is x
    assert add_inplace(x, ZERO) is x
    assert same(x, [3.0, 3.0])
    counts = np.ones(2, int)
    assert not is_inplaceable_destination(counts)
    assert same(add_inplace(counts, np.array([0.5, 0.5])), [1.5, 1.5])
    assert same(counts, [1, 1])
    assert same(add_inplace(x, np.array([1j, 1j])), [3 + 1j, 3 + 1j])
    assert same(x, [3.0, 3.0])
    assert add_inplace(1.0, 2.0) == 3.0
    array, number = add_inplace((x, 1.0), (np.ones(2), 2.0))
    assert array is x
    assert (number, x[0]) == (3.0, 4.0)
    assert add_inplace(Point(1.0, 2.0), Tangent[Point](x=1.0)) == Point(2.0, 2.0)


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((2, 2)), np.ones(2)),
        (np.ones((2, 2)), np.ones((1, 2))),
        (np.ones(2), 1.0),
        (np.ones(2, np.int64), np.ones(1)),
        ((1.0, 2.0), (1.0,)),
    ],
)
def test_sums_in_place_do_not_broadcast(x, y):
    for add in (add_inplace, njit(lambda x, y: add_inplace(x, y))):
        with pytest.raises(TangentMismatch):
            add(x, y)


@pytest.mark.parametrize(
    ("x", "dx", "expected"),
    [
        (1.0, 2 + 1j, 2.0),
        (1.0, ONE, 1.0),
        (np.float32(1), 2.0, np.float32(2.0)),
        (1j, 2.0, 2 + 0j),
        (np.ones(2, np.float32), np.array([1 + 1j, 2]), np.array([1.0, 2.0], np.float32)),
        ((1.0, 2), (3.0, 4.0), (3.0, NONE)),
        (Point(1.0, 2.0), Tangent[Point](y=2.0), Point(ZERO, 2.0)),
        ([1.0, 2], (2j, 3.0), [0.0, NONE]),
        ({"a": 1.0, "b": 2}, {"a": 2 + 1j}, {"a": 2.0, "b": NONE}),
        ({"a": 1.0}, Tangent[dict](), {"a": ZERO}),
        (Body(1.0, 2), Tangent[Body](mass=1j), Tangent[Body](mass=0.0, velocity=NONE)),
        (3, 2.0, NONE),
        ("name", 2.0, NONE),
        (1.0, ZERO, ZERO),
    ],
)
def test_projection(x, dx, expected):
    found = ProjectTo(x)(dx)
    assert type(found) is type(expected)
    assert same(found, expected)


@pytest.mark.parametrize(
    ("x", "dx"),
    [
        (np.ones(2), np.ones(3)),
        (np.ones(2), 1.0),
        ((1.0, 2.0), (1.0,)),
        (1.0, "a"),
        ({"a": 1.0}, {"b": 1.0}),
        (Point(1.0, 2.0), Swapped(1.0, 2.0)),
        (Body(1.0, 2.0), 1.0),
        ([1.0], [1.0, 2.0]),
    ],
)
def test_projection_refuses_other_shapes(x, dx):
    with pytest.raises(TangentMismatch):
        ProjectTo(x)(dx)


@njit
def compiled_algebra(x):
    """Sums, differences, products and quotients of x with each symbol."""
    zero, one = ZeroTangent(), One()
    sums = x + zero, zero + x, x - zero, zero - x, x + one, one - x
    products = x * one, one * x, x / one, one / x
    symbols = zero + NoTangent(), -zero, one * one, one / one, zero / one, one + one, zero[0]
    differences = zero - zero, zero - one, one - zero, one - one, NoTangent() - zero
    truths = bool(one), bool(zero), float(one), float(zero)
    return sums, products, x * zero, NoTangent() * x, zero / x, symbols, differences, truths


def test_algebra_in_compiled_code_is_that_of_python():
    assert compiled_algebra(2.5) == compiled_algebra.py_func(2.5)


def test_symbols_cost_nothing_in_compiled_code():
    @njit("float64(float64)")
    def plain(x):
        return x

    @njit("float64(float64)")
    def symbolic(x):
        return (x + ZeroTangent()) * One() + NoTangent()

    assert is_zero(ZERO)
    for compiled in (plain, symbolic):
        (text,) = compiled.inspect_llvm().values()
        assert " fadd " not in text
        assert " fmul " not in text


def test_every_operator_is_registered_for_compiled_code():
    @njit
    def in_place(x):
        x += ZeroTangent()
        x *= One()
        return x

    assert in_place(3.0) == 3.0
    assert operator.neg(ZERO) is ZERO
    assert (operator.pos(ZERO), operator.pos(ONE)) == (ZERO, ONE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tangent[Point](1.0, 2.0, 3.0), "Point has 2 fields, not 3"),
        (lambda: Tangent[Point](1.0, z=2.0), "Point has no field 'z'"),
        (lambda: Tangent[Point](1.0, x=2.0), "gets the field 'x' twice"),
        (lambda: Tangent[object](1.0), "are given by name"),
    ],
)
def test_a_tangent_takes_the_fields_of_its_class_once(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_tangents_of_tuples_that_python_makes_and_reads():
    with pytest.raises(TypeError, match=r"Tangent\[P\]"):
        Tangent(1.0)
    pair, primal = Tangent[tuple](1.0, 2.0), (3.0, 4.0)
    assert pair[-1] == 2.0
    assert pair + primal == (4.0, 6.0)
    assert pair * ZERO == ZERO
    assert pair != 3.0
    with pytest.raises(IndexError, match="no entry 5"):
        _ = pair[5]
    with pytest.raises(TypeError, match="tangents of 2 and 3 entries"):
        Tangent[tuple]((1.0, 2.0)) + Tangent[tuple]((1.0, 2.0, 3.0))


def test_thunks_say_what_they_compute():
    thunk = Thunk(test_thunks_say_what_they_compute)
    assert repr(thunk) == "Thunk(test_thunks_say_what_they_compute)"
    assert repr(InplaceableThunk(operator.iadd, thunk)) == f"InplaceableThunk({thunk!r})"
    assert ProjectTo(2.0)(Thunk(lambda: 1 + 2j))() == 1.0
    assert ProjectTo(2.0)(None) == NONE
    missing = NotImplementedTangent("see issue 4")
    assert ProjectTo(2.0)(missing) is missing


def test_what_is_no_tangent_is_refused():
    with pytest.raises(TypeError, match="takes a Tangent, not None"):
        canonicalize(None)
    with pytest.raises(TangentMismatch, match="3, and no such tuple"):
        add_inplace((), 3)

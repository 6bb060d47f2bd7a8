"""`autodiff` in forward mode: kinds of values, batches, results, and what is refused."""

import contextlib
import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules import BatchDuplicated, Const, Duplicated, Forward, ForwardWithPrimal, autodiff


class Point(NamedTuple):
    x: float
    n: int
    y: float


@njit
def product(x, y):
    return math.sin(x) * y


@njit
def mixed(a, p, s):
    """Arrays, tuples and floats in; a view, a new array, a float, an integer and a constant out."""
    b = np.zeros(a.size)
    for i in range(a.size):
        b[i] = a[i] * a[i] * s + p.x
    a[0] = b[1] * p.y
    return a[1:], b, a.sum() * p.n, p.n, np.ones(2)


@njit
def guarded(a, s):
    b = a * s
    if s < 0.0:
        raise ValueError("negative")
    return b


def test_floats():
    tangent, value = autodiff(
        ForwardWithPrimal, product, Duplicated(0.5, 1.0), Duplicated(2.0, 3.0)
    )
    assert value == math.sin(0.5) * 2
    assert tangent == pytest.approx(math.cos(0.5) * 2 + math.sin(0.5) * 3)


def test_a_bare_value_is_const_and_an_integer_tangent_is_a_number():
    assert autodiff(Forward, product, Duplicated(0.5, 2), 2.0) == pytest.approx(4 * math.cos(0.5))


def test_const_return_gives_none():
    assert autodiff(Forward, product, Const, Duplicated(0.5, 1.0), 2.0) is None


def test_batch_of_floats():
    tangents = autodiff(
        Forward,
        product,
        BatchDuplicated(0.5, (1.0, 0.0, 2.0)),
        BatchDuplicated(2.0, (0.0, 1.0, 3.0)),
    )
    by_x, by_y = math.cos(0.5) * 2, math.sin(0.5)
    assert tangents == pytest.approx((by_x, by_y, 2 * by_x + 3 * by_y))


def expected_of_mixed(a, da, p, dp, s, ds):
    b, db = a * a * s + p.x, 2 * a * da * s + a * a * ds + dp.x
    end, dend = a.copy(), da.copy()
    end[0], dend[0] = b[1] * p.y, db[1] * p.y + b[1] * dp.y
    return dend, (dend[1:], db, dend.sum() * p.n, None, np.zeros(2))


def same(found, expected):
    for got, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert got is None
        else:
            np.testing.assert_allclose(got, wanted, rtol=1e-13)


@pytest.mark.parametrize("width", [None, 2])
def test_arrays_and_tuples(width):
    rng = np.random.default_rng(3)
    a, p, s = rng.normal(size=4), Point(0.3, 3, -0.7), 1.3
    lanes = [
        (rng.normal(size=4), Point(rng.normal(), 0, rng.normal()), rng.normal())
        for _ in range(width or 1)
    ]
    shadows = [da.copy() for da, _, _ in lanes]
    if width is None:
        ((_, dp, ds),) = lanes
        args = Duplicated(a.copy(), shadows[0]), Duplicated(p, dp), Duplicated(s, ds)
    else:
        args = (
            BatchDuplicated(a.copy(), tuple(shadows)),
            BatchDuplicated(p, tuple(dp for _, dp, _ in lanes)),
            BatchDuplicated(s, tuple(ds for *_, ds in lanes)),
        )
    tangents, value = autodiff(ForwardWithPrimal, mixed, *args)
    same(value, mixed(a.copy(), p, s))
    for (da, dp, ds), shadow, tangent in zip(
        lanes, shadows, (tangents,) if width is None else tangents, strict=True
    ):
        dend, expected = expected_of_mixed(a, da, p, dp, s, ds)
        np.testing.assert_allclose(shadow, dend, rtol=1e-13)
        same(tangent, expected)
        assert np.shares_memory(tangent[0], shadow), "the tangent of a view is a view"


def test_the_same_tangent_twice_where_nothing_is_written():
    @njit
    def inner(x, y):
        return (x * y).sum()

    x, y, v = np.arange(3.0), np.ones(3), np.full(3, 2.0)
    assert autodiff(Forward, inner, Duplicated(x, v), Duplicated(y, v)) == 2 * (x + y).sum()


def test_inside_njit_and_exceptions_of_the_primal():
    @njit
    def both(a, da, s):
        return autodiff(Forward, guarded, Duplicated(a, da), Duplicated(s, 1.0))

    a, da = np.arange(3.0), np.ones(3)
    np.testing.assert_allclose(both(a, da, 2.0), 2 * da + a)
    with pytest.raises(ValueError, match="negative"):
        both(a, da, -1.0)


@pytest.mark.parametrize("scale", [2.0, -1.0], ids=["returns", "raises"])
def test_shadows_leak_no_more_than_the_primal_does(scale, unfreed):
    """An exception leaves behind what is alive where it is raised; that is Numba's way."""
    a, lanes = np.ones(3), (np.ones(3), np.zeros(3))

    def primal():
        with contextlib.suppress(ValueError):
            guarded(a, scale)

    def forward():
        batch = BatchDuplicated(a, lanes), BatchDuplicated(scale, (1.0, 0.0))
        with contextlib.suppress(ValueError):
            autodiff(ForwardWithPrimal, guarded, *batch)

    assert unfreed(forward) == 3 * unfreed(primal)


class TestRefused:
    def test_active(self):
        with pytest.raises(ar.ActivityError, match="Active, which is for reverse mode"):
            autodiff(Forward, product, ar.Active(1.0), 2.0)

    def test_active_return(self):
        with pytest.raises(ar.ActivityError, match="return marked Active"):
            autodiff(Forward, product, ar.Active, Duplicated(1.0, 1.0), 2.0)

    def test_widths_that_differ(self):
        with pytest.raises(ar.BatchWidthMismatch, match="`x` has 1, `y` has 2"):
            autodiff(
                Forward, product, BatchDuplicated(1.0, (1.0,)), BatchDuplicated(1.0, (1.0, 2.0))
            )
        one = autodiff(Forward, product, BatchDuplicated(1.0, (1.0,)), Duplicated(1.0, 1.0))
        assert one == (autodiff(Forward, product, Duplicated(1.0, 1.0), Duplicated(1.0, 1.0)),)

    @pytest.mark.parametrize("value", [3, True, "text", np.arange(3)])
    def test_what_has_no_tangent(self, value):
        with pytest.raises(ar.ActivityError, match="has no tangent"):
            autodiff(Forward, product, Duplicated(value, value), 2.0)

    def test_tangent_of_another_type(self):
        with pytest.raises(ar.ShadowMismatch, match="the tangent of `x`"):
            autodiff(Forward, product, Duplicated(1.0, np.ones(2)), 2.0)

    def test_shadows_that_do_not_fit(self):
        a = np.ones(3)
        with pytest.raises(ar.ShadowMismatch, match="a different shape"):
            autodiff(Forward, guarded, Duplicated(a, np.ones(4)), 2.0)
        np.testing.assert_array_equal(autodiff(Forward, guarded, Duplicated(a, a), 2.0), 2 * a)
        a, p = np.ones(4), Point(0.3, 3, -0.7)
        with pytest.raises(ar.ShadowMismatch, match="overlaps its primal"):
            autodiff(Forward, mixed, Duplicated(a, a), p, 1.3)

    def test_lanes_that_overlap_where_they_are_written(self):
        p, shadow = Point(0.3, 3, -0.7), np.ones(4)
        with pytest.raises(ar.ShadowMismatch, match="different lanes overlap"):
            autodiff(
                Forward,
                mixed,
                BatchDuplicated(np.ones(4), (shadow, shadow)),
                BatchDuplicated(p, (p, p)),
                BatchDuplicated(1.3, (1.0, 0.0)),
            )

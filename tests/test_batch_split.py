"""Batches of shadows in split mode: one augmented primal, one reverse for all cotangents."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules import Active, BatchDuplicated, Duplicated, ReverseSplitWithPrimal

X, C = np.array([0.3, 0.5]), np.array([1.0, 2.0])
SEEDS = (1.0, 2.0, 0.5)


@njit
def step(x, c, s):
    """Writes x, reads c."""
    total = 0.0
    for i in range(x.size):
        x[i] = x[i] * x[i] * s + c[i]
        total += x[i] * c[i] * s
    return total


augmented, reverse = ar.autodiff_thunk(
    ReverseSplitWithPrimal, step, Active, BatchDuplicated, BatchDuplicated, Active
)
single, single_reverse = ar.autodiff_thunk(
    ReverseSplitWithPrimal, step, Active, Duplicated, Duplicated, Active
)


def lanes():
    """Shadows that start non-zero, other ones in every lane."""
    return tuple(
        tuple(np.array([a * k, b]) for k in (1.0, 2.0, 3.0)) for a, b in ((0.1, 0.2), (0.7, 0.4))
    )


def arguments(x, dx, dc):
    return BatchDuplicated(x, dx), BatchDuplicated(C, dc), Active(0.7)


def test_every_lane_is_a_reverse_of_its_own(unfreed):
    (dx, dc), x = lanes(), X.copy()
    args = arguments(x, dx, dc)
    tape, primal, shadow = augmented(*args)
    by_x, by_c, by_s = reverse(*args, SEEDS, tape)
    assert (shadow, by_x, by_c) == (None, None, None)
    for k, (one_dx, one_dc) in enumerate(zip(*lanes(), strict=True)):
        y = X.copy()
        one = Duplicated(y, one_dx), Duplicated(C, one_dc), Active(0.7)
        one_tape, value, _ = single(*one)
        *_, expected = single_reverse(*one, SEEDS[k], one_tape)
        np.testing.assert_allclose(dx[k], one_dx, rtol=1e-14)
        np.testing.assert_allclose(dc[k], one_dc, rtol=1e-14)
        assert (primal, by_s[k]) == (value, pytest.approx(expected, rel=1e-14))
        np.testing.assert_array_equal(x, y)
    with pytest.raises(ar.TapeError, match="second time"):
        reverse(*args, SEEDS, tape)
    assert unfreed(lambda: augmented(*args)) == 0
    assert unfreed(lambda: reverse(*args, SEEDS, augmented(*args)[0])) == 0


def test_misuse_changes_no_shadow():
    dx, dc = lanes()
    args = arguments(X.copy(), dx, dc)
    tape, _, _ = augmented(*args)
    with pytest.raises(ar.BatchWidthMismatch, match="3 shadows"):
        reverse(*args, (1.0, 2.0), tape)
    with pytest.raises(ar.TapeError, match="another `x`"):
        reverse(*arguments(X.copy(), dx, dc), SEEDS, tape)
    with pytest.raises(ar.ShadowMismatch, match="overlap"):
        augmented(*arguments(X.copy(), (dx[0], dx[0], dx[1]), dc))
    for found, expected in zip((dx, dc), lanes(), strict=True):
        np.testing.assert_array_equal(found, expected)
    thunk = ar.autodiff_thunk(ReverseSplitWithPrimal, solved, Duplicated, BatchDuplicated)
    with pytest.raises(ar.NotYetSupported, match="several shadows per argument"):
        thunk[0](BatchDuplicated(X, dx))


@njit
def solved(x):
    return np.linalg.solve(np.eye(2), x)


@njit
def parts(x, s):
    """A view of the argument, a new array, and a number."""
    y = np.empty(x.size)
    for i in range(x.size):
        y[i] = np.sin(x[i]) * s
    return x[1:], y, y[0] * x[1]


def test_arrays_that_are_returned_have_a_shadow_in_every_lane(unfreed):
    kinds = ar.MixedDuplicated, BatchDuplicated, Active
    first, second = ar.autodiff_thunk(ReverseSplitWithPrimal, parts, *kinds)
    x, s, seeds = np.array([0.3, 0.5, 0.9]), 1.7, (0.5, -1.5, 2.0)
    dx = tuple(np.random.default_rng(1).normal(size=(3, 3)))
    start = [d.copy() for d in dx]
    args = BatchDuplicated(x, dx), Active(s)
    tape, primal, shadows = first(*args)
    np.testing.assert_array_equal(primal[1], np.sin(x) * s)
    weights = np.random.default_rng(2).normal(size=(3, 3))
    cotangents = []
    for weight, (by_view, by_new, _), seed in zip(weights, shadows, seeds, strict=True):
        assert not by_new.any()
        by_new += weight
        by_view += 1.0
        cotangents.append((by_view, by_new, seed))
    _, by_s = second(*args, tuple(cotangents), tape)
    for lane, (weight, seed) in enumerate(zip(weights, seeds, strict=True)):
        by_y = weight + np.array([seed * x[1], 0.0, 0.0])
        expected = start[lane] + by_y * np.cos(x) * s + np.array([0.0, 1.0, 1.0])
        expected[1] += seed * np.sin(x[0]) * s
        np.testing.assert_allclose(dx[lane], expected, rtol=1e-13)
        assert by_s[lane] == pytest.approx((by_y * np.sin(x)).sum(), rel=1e-13)
    assert unfreed(lambda: first(*args)) == 0

    def both():
        tape, _, shadows = first(*args)
        second(*args, tuple((*arrays[:2], 1.0) for arrays in shadows), tape)

    assert unfreed(both) == 0

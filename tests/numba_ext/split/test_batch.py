"""Reverse mode for several shadows at once agrees, lane by lane, with a call per lane."""

import numpy as np
import pytest
from numba import njit

import activerules as ar

VECTOR = np.linspace(0.5, 1.4, 4)


@njit
def energy(x, y, a):
    """`x` is written, `y` is only read."""
    x *= a
    s = 0.0
    for i in range(len(x)):
        s += np.sin(x[i]) * y[i] + y[i - 1] * np.linalg.solve(np.eye(2) * x[i], y[:2])[0]
    return s


def shadows(seed, count=3):
    return tuple(np.random.default_rng(seed).normal(size=(count, 4)))


def one_by_one(dx, dy):
    """What calls of width one leave in the shadows, and return."""
    found = []
    for one, other in zip(dx, dy, strict=True):
        annotated = ar.Duplicated(VECTOR.copy(), one), ar.Duplicated(VECTOR, other)
        found.append(ar.autodiff(ar.Reverse, energy, ar.Active, *annotated, ar.Active(1.3))[2])
    return tuple(found)


@njit
def batched(x, dx, y, dy, a):
    args = ar.BatchDuplicated(x.copy(), dx), ar.BatchDuplicated(y, dy), ar.Active(a)
    return ar.autodiff(ar.ReverseWithPrimal, energy, ar.Active, args[0], args[1], args[2])


def test_every_lane_is_a_call_of_its_own(unfreed):
    dx, dy = shadows(1), shadows(2)
    expected_dx, expected_dy = ([d.copy() for d in lanes] for lanes in (dx, dy))
    expected = one_by_one(expected_dx, expected_dy)
    (bars, value) = batched(VECTOR, dx, VECTOR, dy, 1.3)
    assert value == energy(VECTOR.copy(), VECTOR, 1.3)
    assert bars[:2] == (None, None)
    np.testing.assert_allclose(bars[2], expected, rtol=1e-12)
    np.testing.assert_allclose(dx, expected_dx, rtol=1e-12)
    np.testing.assert_allclose(dy, expected_dy, rtol=1e-12)
    assert unfreed(lambda: batched(VECTOR, dx, VECTOR, dy, 1.3)) == 0


@njit
def counted(x, runs):
    runs[0] += 1
    return (x * x).sum()


def test_batch_runs_the_primal_once():
    runs, dx = np.zeros(1, np.int64), shadows(3)
    ar.autodiff(ar.Reverse, counted, ar.BatchDuplicated(VECTOR, dx), runs)
    assert runs[0] == 1


@njit
def squares(x, y):
    if x[0] < 0.0:
        raise ValueError("negative")
    for i in range(len(x)):
        y[i] = x[i] * x[i]


def test_one_sweep_with_several_cotangents():
    dx, dy = np.zeros((4, 4)), np.eye(4)
    y = np.zeros(4)
    arguments = ar.BatchDuplicated(VECTOR, tuple(dx)), ar.BatchDuplicated(y, tuple(dy))
    assert ar.autodiff(ar.Reverse, squares, ar.Const, *arguments) == (None, None)
    np.testing.assert_allclose(dx, np.diag(2.0 * VECTOR))
    np.testing.assert_array_equal(dy, 0.0)


def test_b3_an_exception_of_the_primal_leaves_the_shadows(unfreed):
    dx, dy = shadows(4), shadows(5)
    before = [d.copy() for d in (*dx, *dy)]

    def action():
        arguments = ar.BatchDuplicated(-VECTOR, dx), ar.BatchDuplicated(VECTOR.copy(), dy)
        with pytest.raises(ValueError, match="negative"):
            ar.autodiff(ar.Reverse, squares, ar.Const, *arguments)

    assert unfreed(action) == 0
    np.testing.assert_array_equal([*dx, *dy], before)


def test_lanes_b1_one_width_for_the_whole_call():
    dx, dy = shadows(6), shadows(7, count=2)
    batch = ar.BatchDuplicated(VECTOR, dx)
    for other in (ar.BatchDuplicated(VECTOR.copy(), dy), ar.Duplicated(VECTOR.copy(), dy[0])):
        with pytest.raises(ar.BatchWidthMismatch, match="`x` has 3, `y` has"):
            ar.autodiff(ar.Reverse, squares, ar.Const, batch, other)


def test_the_shadows_of_a_batch_are_a_tuple_of_arrays_of_one_type():
    x, (dx, dy) = VECTOR.copy(), shadows(6, count=2)
    for kinds, error, words in (
        (dx, ar.ActivityError, r"(?s)shadows of `x` are float64\[::1\].*\(x, \(dx1, dx2\)\)"),
        ((), ar.ActivityError, r"shadows of `x` are \(\)"),
        ((dx, dy[::-1]), ar.ShadowMismatch, r"(?s)types: float64\[::1\], float64\[:\].*make_zero"),
    ):
        for mode, result in ((ar.Reverse, ar.Const), (ar.Forward, ar.Const)):
            with pytest.raises(error, match=words):
                ar.autodiff(mode, squares, result, ar.BatchDuplicated(x, kinds), ar.Const(x))


def test_b2_memory_k5_lanes_that_share_memory_are_refused():
    dx, (one, other) = shadows(8, count=2), shadows(9, count=2)
    y = np.zeros(4)
    for dy in ((one, one), (one, y), (one, other[:3])):
        arguments = ar.BatchDuplicated(VECTOR, dx), ar.BatchDuplicated(y, dy)
        with pytest.raises(ar.ShadowMismatch):
            ar.autodiff(ar.Reverse, squares, ar.Const, *arguments)


@njit
def recursive(x, k):
    """Not inlined, with an array and a number of its own."""
    if k == 0:
        return x.sum()
    y = np.sin(x) * k
    return recursive(y, k - 1) * x[0]


@njit
def scaled(x, s):
    return x * s


@ar.augmented_primal(scaled)
def _(config, ret: ar.Active, x: ar.Active, s: ar.Active):
    return ar.AugmentedReturn(x.val * s.val, None, (x.val, s.val))


@ar.reverse(scaled)
def _(config, dret: ar.Active, tape, x: ar.Active, s: ar.Active):
    return dret.val * tape[1], dret.val * tape[0]


ar.opt_out(scaled, mode="forward")


@njit
def through_calls(x, s):
    y = np.empty(x.size - 1)
    for i in range(y.size):
        y[i] = scaled(x[i], s) * x[i + 1] if x[i] > 0.6 else recursive(x[i:], 2)
    return y


def test_rules_and_calls_that_are_not_inlined_have_lanes():
    x = np.linspace(0.4, 1.1, 7)
    by_x, by_s = ar.jacrev(through_calls, (0, 1))(x, 1.7)
    forward_x, forward_s = ar.jacfwd(through_calls, (0, 1))(x, 1.7)
    np.testing.assert_allclose(by_x, forward_x, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(by_s, forward_s, rtol=1e-12)

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


@njit
def kept(x):
    return x * x


@ar.augmented_primal(kept)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    y = x.val * x.val
    shadow = np.zeros_like(y)
    return ar.AugmentedReturn(y, shadow, (x.val.copy(), shadow))


@ar.reverse(kept)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
    ar.accumulate(x, 2.0 * tape[0] * tape[1])


@njit
def step_by_rule(x, c, s):
    """The same, with a rule that keeps a shadow: there is one reverse sweep per lane."""
    y, total = kept(x), 0.0
    for i in range(x.size):
        x[i] = y[i] * s + c[i]
        total += x[i] * c[i] * s
    return total


def thunk_of(function):
    kinds = Active, BatchDuplicated, BatchDuplicated, Active
    return ar.autodiff_thunk(ReverseSplitWithPrimal, function, *kinds)


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


@pytest.mark.parametrize("function", [step, step_by_rule])
def test_p3_every_lane_is_a_reverse_of_its_own(function, unfreed):
    augmented, reverse = thunk_of(function)
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


@pytest.mark.parametrize("function", [step, step_by_rule])
def test_p1_p2_misuse_changes_no_shadow(function, unfreed):
    augmented, reverse = thunk_of(function)
    dx, dc = lanes()
    args = arguments(X.copy(), dx, dc)

    def misuse():
        tape, _, _ = augmented(*args)
        with pytest.raises(ar.BatchWidthMismatch, match="3 shadows"):
            reverse(*args, (1.0, 2.0), tape)
        with pytest.raises(ar.TapeError, match="another `x`"):
            reverse(*arguments(X.copy(), dx, dc), SEEDS, tape)
        shared = arguments(args[0].val, (dx[0], dx[0], dx[1]), dc)
        with pytest.raises(ar.ShadowMismatch, match="overlap"):
            augmented(*shared)
        if function is step_by_rule:  # else a tape belongs to shadows, too
            with pytest.raises(ar.ShadowMismatch, match="overlap"):
                reverse(*shared, SEEDS, tape)

    assert unfreed(misuse) == 0
    for found, expected in zip((dx, dc), lanes(), strict=True):
        np.testing.assert_array_equal(found, expected)
    thunk = ar.autodiff_thunk(ReverseSplitWithPrimal, kept, Duplicated, BatchDuplicated)
    with pytest.raises(ar.NotYetSupported, match="several shadows per argument"):
        thunk[0](BatchDuplicated(X, dx))


@njit
def solved(m, x):
    """Rules that promise to keep no shadow, of a result that is returned and of one that is not."""
    y = np.linalg.solve(m, m.T @ x)
    for i in range(x.size):
        y[i] *= x[i]
        m[i, 0] += y[i]
    return m @ y, np.linalg.inv(m)


def complex_steps(m, x, weights):
    """The derivatives of the results of `solved`, weighted, by m and x."""

    def slope(dm, dx):
        changed, at = m + 1e-30j * dm, x + 1e-30j * dx
        results = solved.py_func(changed, at)
        return sum(np.sum(w * y).imag for w, y in zip(weights, results, strict=True)) / 1e-30

    entries = np.eye(9).reshape(3, 3, 3, 3)
    by_m = [[slope(entries[i, j], 0.0) for j in range(3)] for i in range(3)]
    return np.array(by_m), np.array([slope(0.0, e) for e in np.eye(3)])


def test_a_shadow_in_every_lane_of_what_a_rule_returns(unfreed):
    first, second = ar.autodiff_thunk(
        ReverseSplitWithPrimal, solved, Duplicated, BatchDuplicated, BatchDuplicated
    )
    rng = np.random.default_rng(5)
    m, x = rng.normal(size=(3, 3)) + 3.0 * np.eye(3), rng.normal(size=3)
    weights = rng.normal(size=(2, 3)), rng.normal(size=(2, 3, 3))
    expected = [complex_steps(m, x, pair) for pair in zip(*weights, strict=True)]

    def run():
        dm, dx, given = np.zeros((2, 3, 3)), np.zeros((2, 3)), m.copy()
        args = BatchDuplicated(given, tuple(dm)), BatchDuplicated(x, tuple(dx))
        tape, _, shadows = first(*args)
        for lane, pair in enumerate(shadows):
            for shadow, weight in zip(pair, weights, strict=True):
                assert not shadow.any()
                shadow += weight[lane]
        given[:] = 1e6
        second(*args, tape)
        for lane, (by_m, by_x) in enumerate(expected):
            np.testing.assert_allclose(dm[lane], by_m, rtol=1e-11, atol=1e-13)
            np.testing.assert_allclose(dx[lane], by_x, rtol=1e-11)

    assert unfreed(run) == 0


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


@njit
def into(x, out, s):
    """Returns nothing."""
    y = kept(x)
    for i in range(x.size):
        out[i] = y[i] * s * x[i]
    x[0] = y[1] * s


@njit
def chosen(x, c, s):
    """The constant array has a scratch shadow, which the tape owns."""
    p = x if x[0] < 1.0 else c
    y = kept(p)
    p[0] = y[1] * s + x[1]
    return (y * x).sum() * s * p[0]


@pytest.mark.parametrize(
    ("function", "result", "constant"), [(into, ar.Const, False), (chosen, Active, True)]
)
def test_batches_with_a_sweep_per_lane(function, result, constant, unfreed):
    def run():
        dx, dc = lanes()
        x, c = X.copy(), C.copy()
        second = ar.Const(c) if constant else BatchDuplicated(c, dc)
        args = BatchDuplicated(x, dx), second, Active(0.7)
        *_, by_s = ar.autodiff(ar.Reverse, function, result, *args)
        for k, (one_dx, one_dc) in enumerate(zip(*lanes(), strict=True)):
            y, d = X.copy(), C.copy()
            second = ar.Const(d) if constant else Duplicated(d, one_dc)
            args = Duplicated(y, one_dx), second, Active(0.7)
            *_, expected = ar.autodiff(ar.Reverse, function, result, *args)
            np.testing.assert_allclose(dx[k], one_dx, rtol=1e-14)
            assert by_s[k] == pytest.approx(expected, rel=1e-14)
            if not constant:
                np.testing.assert_allclose(dc[k], one_dc, rtol=1e-14)
            np.testing.assert_array_equal([x, c], [y, d])

    assert unfreed(run) == 0

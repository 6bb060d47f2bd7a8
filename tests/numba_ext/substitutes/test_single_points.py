"""Functions with a branch for single points: Numba's values and errors, and the derivative of the
function at these points, to second order."""

import math
from itertools import product

import numpy as np
import pytest
from numba import njit

import activerules as ar

EXTREME = np.array([0.0, -0.0, 1.0, -1.5, 2.0, -2.0, 3.0, np.inf, -np.inf, np.nan, 1e-3, 5e-324])
X, Y = (np.array(list(axis)) for axis in zip(*product(EXTREME, EXTREME), strict=True))
KNOTS, SAMPLES = np.array([-1.0, 0.0, 1.0, 2.0, 3.0]), np.array([2.0, 0.0, 1.0, 5.0, 5.5])


@njit(error_model="numpy")
def scalars(x, y, out):
    """A row per function, so that none has to do with another."""
    for k in range(x.shape[1]):
        out[0, k] = np.logaddexp(x[0, k], y[0, k])
        out[1, k] = np.logaddexp2(x[1, k], y[1, k])
        out[2, k] = np.sign(x[2, k])
        out[3, k] = x[3, k] % y[3, k]
        out[4, k] = divmod(x[4, k], y[4, k])[1]
        out[5, k] = np.sinc(x[5, k])
        remainder = x[6, k]
        remainder %= y[6, k]
        out[6, k] = remainder


@njit
def interpolated(x, xp, fp, out):
    """Samples, complex samples, and one number at a time."""
    out[0] = np.interp(x[0], xp[0], fp[0])
    between = np.interp(x[1], xp[1], fp[1] * (1.0 + 2.0j))
    out[1], out[2] = between.real, between.imag
    for k in range(x.shape[1]):
        out[3, k] = np.interp(x[2, k], xp[2], fp[2])


def _rows(values, dtype=np.float64):
    return np.tile(values, (7, 1)).astype(dtype)


def _slopes(x, y):
    """Of each function with respect to its arguments."""
    out, *shadows = (_rows(np.zeros_like(x)) for _ in range(3))
    primals = [_rows(x), _rows(y)]
    annotated = [ar.Duplicated(p, s) for p, s in zip(primals, shadows, strict=True)]
    ar.autodiff(ar.Reverse, scalars, *annotated, ar.Duplicated(out, np.ones_like(out)))
    return shadows


def _same(found, expected):
    """To the bit, but for which NaN it is."""
    np.testing.assert_array_equal(found, expected)
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[known].real), np.signbit(expected[known].real))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_e1_values_at_numbers_are_those_of_numba(dtype):
    found, expected = (_rows(np.zeros_like(X), dtype) for _ in range(2))
    scalars(_rows(X, dtype), _rows(Y, dtype), expected)
    shadowed = [ar.Duplicated(_rows(v, dtype), _rows(np.ones_like(v), dtype)) for v in (X, Y)]
    ar.autodiff(ar.Reverse, scalars, *shadowed, ar.Duplicated(found, _rows(np.ones_like(X), dtype)))
    _same(found, expected)


def test_e2_slopes_at_equal_arguments_zeros_and_multiples():
    x = np.array([2.0, -3.0, 0.0, -0.0, 4.0])
    dx, dy = _slopes(x, x)
    np.testing.assert_array_equal(dx[:2], 0.5)
    np.testing.assert_array_equal(dy[:2], 0.5)
    np.testing.assert_array_equal(dx[2], 0.0)
    dx, dy = _slopes(np.array([4.0, -4.0, 0.0, -0.0, 6.0]), np.array([2.0, 2.0, 2.0, -2.0, -2.0]))
    for row in (3, 4, 6):
        np.testing.assert_array_equal(dx[row], 1.0)
        np.testing.assert_array_equal(dy[row], [-2.0, 2.0, 0.0, 0.0, 3.0])


def test_logaddexp_of_equal_infinities_shares_the_slope():
    dx, dy = _slopes(np.array([np.inf, -np.inf]), np.array([np.inf, -np.inf]))
    np.testing.assert_array_equal([dx[:2], dy[:2]], 0.5)


def test_e2_slopes_at_nan_are_nan():
    @njit
    def functions(x, y):
        return np.array([np.cbrt(x), np.logaddexp(x, y), np.logaddexp(y, x), np.logaddexp2(x, y)])

    by_x, by_y = ar.jacobian(functions, argnums=(0, 1))(math.nan, 1.5)
    assert np.isnan(by_x).all()
    assert np.isnan(by_y[1:]).all()
    assert np.isnan(ar.hessian(njit(lambda x: np.cbrt(x) + np.logaddexp(x, 1.0)))(math.nan))
    root = njit(lambda x: np.cbrt(x))
    assert ar.grad(root)(-8.0) == pytest.approx(1 / 12, rel=1e-14)
    assert ar.grad(ar.grad(root))(-8.0) == pytest.approx(2 / 9 / 32, rel=1e-14)


def test_e1_errors_of_remainders_are_those_of_numba():
    remainder = njit(lambda x, y, whole: divmod(x, y)[1] if whole else x % y)
    for one in (remainder, ar.grad(remainder)):
        for whole in (True, False):
            with pytest.raises(ZeroDivisionError):
                one(3.0, 0.0, whole)


def test_e2_second_derivatives_at_points_with_a_smooth_branch():
    @njit
    def both(x):
        return np.logaddexp(x[0], x[1]) + np.sinc(x[2]) + np.logaddexp2(x[0], x[1])

    at = ar.hessian(both)(np.array([1.5, 1.5, 0.0]))
    mixed = (1 + math.log(2)) / 4
    expected = [[mixed, -mixed, 0], [-mixed, mixed, 0], [0, 0, -(math.pi**2) / 3]]
    np.testing.assert_allclose(at, expected, rtol=1e-14, atol=0)


def test_e2_interpolation_at_knots_has_the_slope_of_the_right_hand_side():
    x = np.array([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 4.0, np.nan])
    primals = [np.tile(values, (3, 1)) for values in (x, KNOTS, SAMPLES)]
    shadows = [np.zeros_like(p) for p in primals]
    found, expected = np.empty((4, len(x))), np.empty((4, len(x)))
    bars = np.tile(~np.isnan(x), (4, 1)).astype(float)
    annotated = [ar.Duplicated(p, s) for p, s in zip(primals, shadows, strict=True)]
    ar.autodiff(ar.Reverse, interpolated, *annotated, ar.Duplicated(found, bars))
    interpolated(*primals, expected)
    _same(found, expected)
    _same(found[0], np.interp(x, KNOTS, SAMPLES))
    dx, dxp, dfp = shadows
    for row, times in enumerate((1, 3, 1)):  # complex samples: real part and twice as much
        np.testing.assert_array_equal(dx[row, :-1], times * np.array([0, -2, 1, 1, 4, 0, 0]))
        # a knot that moves takes the line along: at 0.5 both ends of the segment do, by half
        np.testing.assert_array_equal(dxp[row], times * np.array([2, -1.5, -4.5, 0, 0]))
        np.testing.assert_array_equal(dfp[row], times * np.array([2, 1.5, 1.5, 0, 2]))


@pytest.mark.parametrize("count", [0, 2])
def test_e1_errors_of_interpolation_are_those_of_numba(count):
    annotated = [ar.Duplicated(np.ones((3, n)), np.ones((3, n))) for n in (7, count, 5)]
    with pytest.raises(ValueError, match=r"sample points is empty|not of the same size"):
        ar.autodiff(
            ar.Reverse, interpolated, *annotated, ar.Duplicated(np.ones((4, 7)), np.ones((4, 7)))
        )


def test_unwrapped_phases_move_with_the_phases():
    weights = np.array([1.0, 2.0, 3.0, 4.0])

    @njit
    def weighted(p, period):
        return (np.unwrap(p, period=period) * weights).sum()

    p = np.array([0.0, 2.0, 4.0, 7.0])  # steps of half a period
    slope, by_period = ar.grad(weighted, argnums=(0, 1))(p, 4.0)
    np.testing.assert_array_equal(slope, weights)
    assert by_period == weights @ np.rint((np.unwrap(p, period=4.0) - p) / 4.0)


def test_the_inverse_hyperbolic_cosine_on_its_branch_cut():
    @njit
    def real_part(a, b):
        return np.arccosh(complex(a, b)).real

    slope = 2 / math.sqrt(3)  # |1 / sqrt(z² - 1)| at -1/2
    for side in (1.0, -1.0):
        value, found = ar.value_and_grad(real_part, argnums=(0, 1))(-0.5, side * 0.0)
        assert value == real_part(-0.5, side * 0.0)
        np.testing.assert_allclose(found, [0.0, side * slope], rtol=1e-14, atol=1e-14)


@njit
def weighted_roots(p):
    r = np.roots(p)
    return (r[0] + 2.0 * r[1] + 3.0 * r[2]).real


CUBIC, CHANGE = np.array([1.0, -3.0, 2.0, 0.0]), np.array([0.2, 0.7, -0.4, 0.3])


@pytest.mark.parametrize("unit", [1.0, np.exp(0.3j)])
def test_e2_slopes_of_roots_where_the_last_coefficient_is_zero(unit):
    """dr/dc = -rᵏ / p'(r), also for the roots that are not zero."""
    p, direction = unit * CUBIC, unit * CHANGE
    r = np.roots(p)
    expected = -(np.vander(r, 4) / np.polyval(np.polyder(p), r)[:, None]).T @ [1.0, 2.0, 3.0]
    value, found = ar.value_and_grad(weighted_roots)(p)
    assert value == weighted_roots(p)
    np.testing.assert_allclose(found, np.conj(expected), rtol=1e-12, atol=1e-12)
    _, found = ar.jvp(weighted_roots, (p,), (direction,))
    np.testing.assert_allclose(found, (expected @ direction).real, rtol=1e-12)


def test_e2_second_derivatives_of_roots_where_the_last_coefficient_is_zero():
    h = 1e-4
    around = [weighted_roots(CUBIC + k * h * CHANGE) for k in (-1, 0, 1)]
    second = (around[0] - 2.0 * around[1] + around[2]) / h**2
    found = ar.hvp(weighted_roots)(CUBIC, CHANGE) @ CHANGE
    np.testing.assert_allclose(found, second, rtol=1e-5)


def test_e2_roots_of_a_polynomial_of_zeros():
    assert ar.grad(njit(lambda p: np.roots(p).sum()))(np.zeros(3)).tolist() == [0.0] * 3

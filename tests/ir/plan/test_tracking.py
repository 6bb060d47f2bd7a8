"""Slopes of floats in arrays, where the program used them and where it did not."""

import numpy as np
import pytest
from numba import float64, int64, njit

import activerules as ar
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.reverse import derive
from activerules.testing import check_gradient


@njit
def chosen(x):
    logarithms = np.log(x)
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s += logarithms[i]
    return s


@njit
def weighted(x, w):
    return (np.sqrt(x) * w).sum()


@njit
def overflowed(x, w):
    """An array of exponentials that overflow; they are used where x is not zero."""
    exponentials = np.exp(2.0 / x)
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s += exponentials[i] * w
    return s


@njit
def passed_on(x, w):
    """The roots are in an array that a rule is given, too: its shadow is read there."""
    roots = np.sqrt(x)
    return np.dot(roots, w) + roots[0] * roots[1]


@njit
def scaled(x, c):
    """Python checks a divisor that is a number, and NumPy does not check those in an array."""
    scale = 1.0 / c
    y = np.empty_like(x)
    for i in range(len(x)):
        y[i] = x[i] * scale
    return y[0] * y[1]


scaled_by_numpy = njit(error_model="numpy")(scaled.py_func)


@pytest.mark.parametrize(("function", "is_tracked"), [(scaled, False), (scaled_by_numpy, True)])
def test_a_quotient_is_tracked_where_the_divisor_was_not_checked(function, is_tracked):
    check_gradient(function, (np.array([0.5, 1.5]), 2.0))
    spec = DerivativeSpec((float64[::1], float64), ("duplicated", "active"))
    assert bool(derive(function, spec).plan.slopes.tracked) is is_tracked


def test_k1_memory_passed_to_other_code_has_ordinary_cotangents():
    check_gradient(passed_on, (np.array([0.5, 1.5, 2.5]), np.array([1.0, -2.0, 0.3])))
    gradient = ar.grad(passed_on)(np.array([0.25, 1.0, 4.0]), np.zeros(3))
    np.testing.assert_allclose(gradient, [1.0, 0.25, 0.0], rtol=1e-14)


def test_k2_zero_says_whether_the_program_used_the_float():
    """Not used: no slope, though it is infinite. Multiplied with zero: 0 at a root, else NaN."""
    assert ar.grad(chosen)(np.array([0.0, 2.0])).tolist() == [0.0, 0.5]
    slope = ar.grad(weighted)(np.array([0.0, 4.0]), np.array([0.0, 0.0]))
    assert slope.tolist() == [0.0, 0.0]
    assert ar.grad(overflowed)(np.array([0.0, 4.0]), 1.0).tolist() == [0.0, -2 / 16 * np.exp(0.5)]
    assert np.isnan(ar.grad(overflowed)(np.array([1e-9, 4.0]), 0.0)[0])
    assert ar.grad(weighted)(np.array([4.0]), np.array([1.0]))[0] == pytest.approx(0.25)


@njit
def neighbours(x, w):
    """An array of exponentials that overflow; the last one is not used."""
    exponentials = np.exp(2.0 / x)
    s = 0.0
    for i in range(len(x) - 2):
        s += (exponentials[i + 1] - 0.5 * exponentials[i]) * w
    return s


def test_k2_also_where_cotangents_of_neighbours_are_added_up_first():
    spec = DerivativeSpec((float64[::1], float64), ("duplicated", "active"))
    plan = derive(neighbours, spec).plan
    assert plan.slopes.tracked & plan.sums.windows.keys()
    check_gradient(neighbours, (np.array([0.5, 1.5, 2.5, 2.0]), 0.3))
    gradient = ar.grad(neighbours)
    assert np.isfinite(gradient(np.array([1.0, 2.0, 4.0, 0.0]), 1.0)).all()
    assert gradient(np.array([1.0, 2.0, 4.0, 0.0]), 0.0).tolist() == [0.0] * 4
    for k in range(3):
        x = np.array([1.0, 2.0, 4.0, 0.0])
        x[k] = 1e-9
        assert np.isnan(gradient(x, 0.0)).tolist() == [j == k for j in range(4)]


@njit
def updated(x, w):
    """Logarithms are added to an array, and used where they are finite."""
    a = np.ones(len(x))
    for i in range(len(x)):
        a[i] += np.log(x[i]) * w[0]
    for i in range(len(x)):
        a[i] -= w[1] * np.sqrt(x[i])
    s = 0.0
    for i in range(len(x)):
        if x[i] > 0.0:
            s += a[i] * a[i]
    return s


@njit
def overwritten(x, places):
    """Between the load and the store of an update, another item is written, or the same one."""
    a = np.zeros(len(x))
    for i in range(len(x)):
        old = a[i]
        a[places[i]] = 3.0 * x[i]
        a[i] = old + np.log(x[i])
    return (a * a).sum()


def test_k2_updates_in_place_keep_whether_the_float_was_used():
    x, w, x_bar, w_bar = (
        np.array([0.5, 0.0, 2.0, 0.0]),
        np.array([0.3, 0.7]),
        np.ones(4),
        np.ones(2),
    )
    ar.autodiff(ar.Reverse, updated, ar.Active, ar.Duplicated(x, x_bar), ar.Duplicated(w, w_bar))
    used = np.array([0.5, 2.0])
    a = 1.0 + np.log(used) * w[0] - w[1] * np.sqrt(used)
    slopes = 2.0 * a * (w[0] / used - 0.5 * w[1] / np.sqrt(used))
    np.testing.assert_allclose(x_bar, [1.0 + slopes[0], 1.0, 1.0 + slopes[1], 1.0])
    np.testing.assert_allclose(w_bar - 1.0, [2.0 * a @ np.log(used), -2.0 * a @ np.sqrt(used)])
    plan = derive(updated, DerivativeSpec((float64[::1],) * 2, ("duplicated",) * 2)).plan
    assert len(plan.slopes.in_place) == 4


@pytest.mark.parametrize("places", [[0, 1, 2, 3], [1, 2, 3, 0], [0, 0, 3, 3], [3, 1, 1, 0]])
def test_k3_memory_that_is_written_between_load_and_store(places):
    check_gradient(overwritten, (np.array([0.5, 1.5, 2.0, 3.0]), np.array(places)))
    plan = derive(
        overwritten, DerivativeSpec((float64[::1], int64[::1]), ("duplicated", "const"))
    ).plan
    assert plan.slopes.tracked
    assert not plan.slopes.in_place


@njit
def chosen_by_mask(p, x, y):
    return np.sum(np.where(np.isnan(y), 0.0, (y - p * x) ** 2))


@njit
def chosen_if_finite(p, x, y):
    known = np.isfinite(y)
    r = (y - p * x) * p
    return np.sum(np.where(known, r * r, 0.0))


@njit
def nansum(p, x, y):
    return np.nansum((y - p * x) ** 2)


@njit
def nanmean(p, x, y):
    return np.nanmean((y - p * x) ** 2 * x)


@njit
def nanvar(p, x, y):
    return np.nanvar((y - p * x) ** 2)


@njit
def cleared(p, x, y):
    r = (y - p * x) ** 2
    r[np.isnan(r)] = 0.0
    return np.sum(r)


@njit
def left_out_by_data(p, x, y):
    r = (y - p * x) * p
    total = 0.0
    for i in range(len(r)):
        if not np.isnan(y[i]):
            total += r[i] ** 2
    return total


@njit
def left_out_by_itself(p, x, y):
    r = (y - p * x) * p
    total = 0.0
    for i in range(len(r)):
        if r[i] == r[i]:
            total += r[i] ** 2
    return total


@njit
def copied(p, x, y):
    r = (y - p * x) * p
    both = np.concatenate((r, x * p))
    return np.sum(np.nan_to_num(r.copy()) * x) + np.nansum(both * both)


@pytest.mark.parametrize(
    "function",
    [
        chosen_by_mask,
        chosen_if_finite,
        nansum,
        nanmean,
        nanvar,
        cleared,
        left_out_by_data,
        left_out_by_itself,
        copied,
    ],
)
def test_k2_missing_data_that_are_left_out_contribute_nothing(function):
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(2, 7))
    known = np.arange(7) % 3 != 1
    full = ar.grad(function, argnums=(0, 1, 2))(0.8, x[known], y[known])
    check_gradient(function, (0.8, x[known], y[known]))
    gappy = np.where(known, y, np.nan)
    p_bar, x_bar, y_bar = ar.grad(function, argnums=(0, 1, 2))(0.8, x, gappy)
    np.testing.assert_allclose(x_bar[known], full[1])
    np.testing.assert_allclose(y_bar[known], full[2])
    _, p_dot = ar.jvp(function, (0.8, x, gappy), (1.0, None, None))
    np.testing.assert_allclose(p_bar, p_dot)
    assert not y_bar[~known].any()


@njit
def asks(x, y):
    """Whether numbers are missing decides nothing else."""
    r = x * y
    return r.sum() + np.isnan(x[0])


def test_products_are_tracked_where_the_function_asks_for_nan():
    spec = DerivativeSpec((float64[::1],) * 2, ("duplicated",) * 2)
    assert derive(asks, spec).plan.slopes.tracked
    check_gradient(asks, (np.array([0.5, 1.5]), np.array([1.0, -2.0])))

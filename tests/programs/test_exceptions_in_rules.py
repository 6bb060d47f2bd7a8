"""Exceptions of rules: no more references are lost than by the primal, and a rule that raised in a
`try` is not reversed.
"""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from programs.raising import squares


@njit
def solves(x, which):
    matrix = np.zeros((4, 4))
    for i in range(4):
        matrix[i, i] = x[i] + which
    if which == 0:  # nothing active
        return (np.linalg.solve(np.zeros((4, 4)), np.ones(4)) * x).sum()
    return np.linalg.solve(matrix, x).sum()


@pytest.mark.parametrize("which", [0, 1])
def test_rule_that_raises_loses_no_more_than_the_primal(which, unfreed):
    """LAPACK finds a matrix singular, in a rule and in the function itself."""
    x = np.array([1.5, 0.5, -1.0, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(np.linalg.LinAlgError, match="singular"):
                f(*args)

        return unfreed(run)

    assert fails(ar.grad(solves), x, which) <= fails(solves, x, which)
    gradient = ar.grad(solves)(x * x, 1)
    for _ in range(20):
        np.testing.assert_array_equal(ar.grad(solves)(x * x, 1), gradient)


@njit
def handed_on(x):
    y = np.dot(np.outer(x, x), x)
    squares(x)
    return y


def test_rule_before_a_call_that_raises_loses_no_more_than_the_primal(unfreed):
    x = np.array([1.5, 0.5, -1.0])

    def fails(f, *args):
        with pytest.raises(ValueError, match="negative"):
            f(*args)

    lost = unfreed(lambda: fails(handed_on, x))
    assert unfreed(lambda: fails(ar.vjp, handed_on, x)) <= lost


@njit
def weighted(y, w):
    return (y * w).sum()


@ar.augmented_primal(weighted)
def _(config, ret: ar.Active, y: ar.Duplicated, w: ar.Active):
    if w.val < 0.0:
        raise ValueError("negative: " + str(int(w.val)))
    return ar.AugmentedReturn((y.val * w.val).sum(), None, y.val * 1.0)


@ar.reverse(weighted)
def _(config, dret: ar.Active, tape, y: ar.Duplicated, w: ar.Active):
    y.dval[:] += w.val * dret.val
    return None, (tape * dret.val).sum()


@njit
def weighted_or_raises(y, w):
    """`weighted`, if it raised where its rule does."""
    if w < 0.0:
        raise ValueError("negative: " + str(int(w)))
    return (y * w).sum()


@njit
def goes_on(x):
    s = 0.0
    for i in range(len(x)):
        y = x * s
        try:
            if x[i] < 9.0:
                s += weighted(y + 1.0, x[i])
            else:
                s += weighted(y, -1.0)
        except Exception:
            s += y[0] * x[i]
    return s


@njit
def goes_on_where_the_function_raises(x):
    s = 0.0
    for i in range(len(x)):
        y = x * s
        try:
            if x[i] < 9.0:
                s += weighted_or_raises(y + 1.0, x[i])
            else:
                s += weighted_or_raises(y, -1.0)
        except Exception:
            s += y[0] * x[i]
    return s


def goes_on_by_itself(x):
    s = 0.0
    for w in x:
        s += ((x * s + 1.0) * w).sum() if 0.0 <= w.real < 9.0 else x[0] * s * w
    return s


def test_rule_that_raised_in_a_try_is_not_undone(unfreed):
    """It has left no tape; and no more is lost than if the function had raised, with shadows."""
    x = np.array([0.5, -1.5, 0.3, 9.5, -0.7, 0.1])
    gradient = ar.grad(goes_on)
    slopes = [goes_on_by_itself(x + 1e-30j * e).imag / 1e-30 for e in np.eye(len(x))]
    np.testing.assert_allclose(gradient(x), slopes, rtol=1e-13)
    shadows = np.sum((x < 0.0) | (x >= 9.0))  # of y + 1.0, where it is lost
    lost = unfreed(lambda: goes_on_where_the_function_raises(x))
    assert unfreed(lambda: gradient(x)) <= lost + shadows

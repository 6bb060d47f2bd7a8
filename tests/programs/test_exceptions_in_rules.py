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


@njit
def sines(x, y):
    """y = sin(x), up to the first number that is too large."""
    for i in range(len(x)):
        if x[i] > 1.0:
            raise ValueError("too large")
        y[i] = np.sin(x[i])


@ar.augmented_primal(sines, saves="x")
def _(config, ret: ar.Const, x: ar.Duplicated, y: ar.Duplicated):
    sines(x.val, y.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(sines)
def _(config, dret: ar.Const, tape, x: ar.Duplicated, y: ar.Duplicated):
    ar.accumulate(x, np.cos(x.val) * y.dval)
    y.dval[:] = 0.0


@ar.forward(sines)
def _(config, ret: ar.Const, x: ar.Duplicated, y: ar.Duplicated):
    y.dval[:] = np.cos(x.val) * x.dval
    sines(x.val, y.val)


@njit
def sines_or_less(x):
    y = x[0] * np.ones(len(x))
    try:
        sines(x, y)
    except Exception:
        y *= 2.0
    return np.sum(y)


@njit
def from_the_last(x, y, k):
    """A function that is not inlined."""
    if k > 0:
        from_the_last(x, y, k - 1)
    else:
        sines(x, y)


@njit
def sines_or_less_in_a_function(x):
    y = x[0] * np.ones(len(x))
    try:
        from_the_last(x, y, 2)
    except Exception:
        y *= 2.0
    return np.sum(y)


@pytest.mark.parametrize("program", [sines_or_less, sines_or_less_in_a_function])
def test_what_a_function_wrote_before_it_raised_in_a_try_is_refused(program, unfreed):
    gradient, x = ar.grad(program), np.array([0.5, 1.5])
    with pytest.raises(ar.NotYetSupported, match="sines raised an exception that the program"):
        gradient(x)
    with pytest.raises(ar.NotYetSupported, match="have written into its argument y"):
        ar.jvp(program, (x,), (np.ones(2),))
    with pytest.raises(ar.NotYetSupported, match="have written into its argument y"):
        ar.hvp(program, x, np.ones(2))
    np.testing.assert_allclose(ar.hvp(program, x[:1], np.ones(1)), -np.sin(x[:1]), rtol=1e-14)
    np.testing.assert_allclose(gradient(x[:1]), np.cos(x[:1]), rtol=1e-14)
    np.testing.assert_allclose(gradient(x[1:]), 2.0, rtol=1e-14)
    assert unfreed(lambda: gradient(x[:1])) == 0


def test_an_exception_that_is_not_caught_is_that_of_the_function():
    @njit
    def total(x):
        y = np.zeros(len(x))
        sines(x, y)
        return np.sum(y)

    for derivative in (ar.grad(total), ar.hessian(total)):
        with pytest.raises(ValueError, match="too large"):
            derivative(np.array([0.5, 1.5]))

"""Exceptions of callees: a derivative loses no more references than its primal, which loses what it
holds where a callee raises; in lists, in tuples, in a `try`, and around nested derivatives.
"""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient
from programs.raising import squares


@njit
def passes_exceptions_on(x):
    """Arrays that are exchanged, chosen, in a tuple and made in a callee, where one raises."""
    last, u, chosen = x, x * 2.0, x
    if x[0] > 1.0:
        chosen = u + x
    for i in range(4):
        both = (u, last)
        last = both[0] * x[i] + both[1]
        last, u = u, last + squares(x[i:])[0] * chosen
    return u.sum() + last[0]


@njit
def slopes(x):
    g = ar.grad(passes_exceptions_on)(x)
    return np.sum(g * g)


@njit
def keeps_in_lists(x):
    """Arrays in a list, and what may be None and comes from a rule, where one raises."""
    best = None
    rows = [x * 2.0]
    matrix = np.zeros((len(x), len(x))) + x
    for i in range(len(x)):
        rows.append(x * x[i])
        for row in rows:
            squares(row)
        if i % 2 == 0:
            best = matrix @ rows.pop()
    if best is None:
        return rows[0][0]
    return best[0] + rows[1][0]


@njit
def rows_until_negative(x, first):
    if first > 2.0:
        return None
    rows = [x * first]
    for i in range(len(x)):
        rows.append(x * x[i])
        squares(x[i : i + 1])
    return rows


@njit
def catches(x):
    """Lists that may be None, and the exceptions of the callee that makes them."""
    rows, s = None, 0.0
    for i in range(len(x)):
        item = x * x[i]
        try:
            if rows is None:
                rows = rows_until_negative(x[: i + 2], x[i])
            else:
                s += rows[0][0] * item[1]
                rows = None
            more = rows_until_negative(x, 1.0)
            if more is not None:
                s += more[0][1]
        except Exception:
            s += item[0]
    return s


def test_caught_exception_loses_no_more_than_in_the_primal(unfreed):
    x = np.array([1.5, 0.5, -1.0, 1.0])
    lost = unfreed(lambda: catches(x))
    assert unfreed(lambda: ar.grad(catches)(x)) <= lost
    assert unfreed(lambda: ar.jvp(catches, (x,), (x,))) <= 2 * lost
    gradient = ar.grad(catches)(x)
    for _ in range(50):
        np.testing.assert_array_equal(ar.grad(catches)(x), gradient)
    for k, one in enumerate(np.eye(4)):
        assert ar.jvp(catches, (x,), (one,))[1] == pytest.approx(gradient[k])
    check_gradient(catches, (x,))


def test_callee_that_raises_loses_no_more_than_in_the_primal(unfreed):
    """Forward mode carries two values for each, with four lanes five. What is differentiated again
    is forward mode, too.
    """
    x = np.array([1.5, 0.5, -1.0, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(ValueError, match="negative"):
                f(*args)

        return unfreed(run)

    lost = fails(passes_exceptions_on, x)
    assert fails(ar.grad(passes_exceptions_on), x) <= lost
    assert fails(ar.jacfwd(passes_exceptions_on), x) <= 5 * lost
    assert fails(ar.hvp, passes_exceptions_on, x, x) <= 2 * lost
    lost = fails(slopes, x)
    assert fails(ar.grad(slopes), x) <= 2 * lost
    assert fails(ar.hvp, slopes, x, x) <= 4 * lost
    y = np.array([1.5, 0.5, 1.0, -1.0])
    assert fails(ar.grad(keeps_in_lists), y) <= fails(keeps_in_lists, y)
    assert unfreed(lambda: ar.grad(keeps_in_lists)(y * y)) == 0


@njit
def raises_with_arrays(x):
    y = x * 2.0
    for i in range(len(x)):
        z = y * x[i]
        if z[0] < 0.0:
            raise ValueError("negative")
    return z.sum()


@njit
def calls_it(x):
    """Returns an array, as the gradient does: up to 0.65 Numba counts no references in a function
    of arrays that returns none, and this one then loses nothing.
    """
    return x * raises_with_arrays(x)


@njit
def calls_its_gradient(x):
    return ar.grad(raises_with_arrays)(x)


def test_nested_derivative_that_raises_loses_no_more_than_the_primal(unfreed):
    """`hvp` is the gradient of code that calls forward mode, with two values for each."""
    x = np.array([1.5, -0.5, 1.0])

    def fails(f, *args):
        def run():
            with pytest.raises(ValueError, match="negative"):
                f(*args)

        return unfreed(run)

    assert fails(ar.grad(raises_with_arrays), x) <= fails(raises_with_arrays, x)
    lost = fails(calls_it, x)
    assert fails(calls_its_gradient, x) <= lost
    assert fails(ar.hvp, raises_with_arrays, x, x) <= 2 * lost


@njit
def raises_first(x):
    if x[0] < 0.0:
        raise ValueError("negative")
    return np.sum(x * x * x)


def test_product_with_the_hessian_loses_nothing_where_the_primal_loses_nothing(unfreed):
    x = np.array([-1.0, 2.0])

    def fails(f, *args):
        def run():
            with pytest.raises(ValueError, match="negative"):
                f(*args)

        return unfreed(run)

    assert fails(raises_first, x) == fails(ar.hvp(raises_first), x, np.ones(2)) == 0

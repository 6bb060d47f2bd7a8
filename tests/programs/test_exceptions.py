"""Exceptions: the primal's own one comes out, with its arguments; arrays and shadows are then as
the primal leaves them, no more references are lost than the primal loses, and the next call works.
"""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from programs.raising import checked_logarithm, failed_assertion


class CustomError(Exception):
    pass


@njit
def raises_before_the_loop(x, limit):
    if limit < 0.0:
        raise ValueError("limit must not be negative")
    s = 0.0
    for v in x:
        s += v * v
    return s


@njit
def raises_in_the_loop(x, limit):
    s = 0.0
    for i in range(len(x)):
        y = np.sin(x * i)
        s += y[0] * x[i]
        if i > limit + 4:
            raise CustomError("too far", 7)
    return s


@njit
def raises_after_the_loop(x, limit):
    y = x.copy()
    for i in range(1, len(y)):
        y[i] = y[i] * y[i - 1]
    if limit < 0.0:
        raise RuntimeError("after", limit)
    return y[len(y) - 1]


@njit
def raises_in_a_while(x, limit):
    k = 0
    while x[k] * x[k] < 1e9:
        z = np.zeros(3)
        z[0] = x[k]
        k += 1
        if k == len(x):
            raise IndexError("no entry is large enough")
    return x[k] * limit


@njit
def raises_in_a_callee(x, limit):
    s = 0.0
    for i in range(len(x)):
        s += checked_logarithm(x[i] * x[i] + i * limit)
    return s


@njit
def divides_by_zero(x, limit):
    s = 0.0
    for i in range(len(x)):
        s += x[i] / (i + limit + 2.0)
    return s


@njit(boundscheck=True)
def out_of_bounds(x, limit):
    s = 0.0
    for i in range(len(x) + 1):
        s += x[i] * limit
    return s


@njit
def raises_after_writing(x, limit):
    for i in range(len(x)):
        x[i] = x[i] * 2.0
        if i == 3:
            raise ValueError("stopped half-way")
    return x[0] * limit


@njit
def raises_in_nested_loops(x, limit):
    s = 0.0
    for i in range(len(x)):
        t = x[i]
        while t * t < 100.0:
            t = t * 1.5 + 1.0
            for k in range(3):
                if i == 4 and k == 2:
                    raise CustomError(i, k)
                s += t
    return s


PROGRAMS = [
    (raises_before_the_loop, ValueError),
    (raises_in_the_loop, CustomError),
    (raises_after_the_loop, RuntimeError),
    (raises_in_a_while, IndexError),
    (raises_in_a_callee, ValueError),
    (divides_by_zero, ZeroDivisionError),
    (out_of_bounds, IndexError),
    (failed_assertion, AssertionError),
    (raises_after_writing, ValueError),
    (raises_in_nested_loops, CustomError),
]


X = np.random.default_rng(0).uniform(0.5, 1.5, size=8)


SHADOW = np.linspace(1.0, 2.0, 8)


LIMIT = -2.0


def failing_primal(program, kind):
    """The array after the failed call, and its exception."""
    x = X.copy()
    with pytest.raises(kind) as caught:
        program(x, LIMIT)
    return x, caught.value


def failing_derivative(program, kind):
    """The array and the shadow after the failed call, and its exception."""
    x, shadow = X.copy(), SHADOW.copy()
    with pytest.raises(kind) as caught:
        ar.autodiff(ar.Reverse, program, ar.Active, ar.Duplicated(x, shadow), ar.Active(LIMIT))
    return x, shadow, caught.value


@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=lambda x: x.__name__)
def test_exception_is_that_of_the_primal(program, kind):
    x_of_primal, error_of_primal = failing_primal(program, kind)
    x, shadow, error = failing_derivative(program, kind)
    assert error.args == error_of_primal.args
    np.testing.assert_array_equal(shadow, SHADOW)
    np.testing.assert_array_equal(x, x_of_primal)


@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=lambda x: x.__name__)
def test_exception_loses_no_more_than_in_the_primal(program, kind, unfreed):
    lost = unfreed(lambda: failing_primal(program, kind))
    assert unfreed(lambda: failing_derivative(program, kind)) <= lost


def test_exception_leaves_the_next_call_as_it_was():
    x, shadow = np.array([1.0, 2.0]), np.zeros(2)
    with pytest.raises(ValueError, match="limit"):
        ar.autodiff(ar.Reverse, raises_before_the_loop, ar.Duplicated(x, shadow), ar.Const(-1.0))
    ar.autodiff(ar.Reverse, raises_before_the_loop, ar.Duplicated(x, shadow), ar.Const(1.0))
    np.testing.assert_array_equal(shadow, [2.0, 4.0])


@njit
def falls_back(x, y):
    try:
        if y < 0.0:
            raise ValueError("negative")
        r = x * y
    except Exception:
        r = x * x * x
    return r + x


def test_exception_caught_inside_is_a_branch():
    assert ar.autodiff(ar.Reverse, falls_back, ar.Active(2.0), ar.Active(3.0)) == (4.0, 2.0)
    assert ar.autodiff(ar.Reverse, falls_back, ar.Active(2.0), ar.Active(-3.0)) == (13.0, 0.0)


@njit
def tells_its_row(x, name):
    y = x * 2.0
    if y[1] < 0.0:
        if y[0] < 4.0:
            raise ValueError(name + " is negative", y[1])
        raise ValueError("negative", y, x, y)
    return y[0] * y[1]


@njit
def catches_what_it_tells(x, name):
    y = x * 3.0
    try:
        s = tells_its_row(x, name) * y[0]
    except Exception:
        s = y[1] * y[1]
    return s


def test_dynamic_raises_d1_d2_exception_arguments_are_those_of_the_primal(unfreed):
    x, y = np.array([1.5, -0.5]), np.array([2.5, -0.5])

    def tells(f, *args):
        with pytest.raises(ValueError, match="negative") as caught:
            f(*args)
        return caught.value.args

    lost = unfreed(lambda: [tells(tells_its_row, z, "x") for z in (x, y)])
    assert lost > 0
    for mode, carried in ((ar.grad, 1), (ar.jacfwd, 5)):  # a value, or one with four tangents
        run = mode(tells_its_row)
        assert tells(run, x, "x") == ("x is negative", -1.0)
        assert unfreed(lambda: [tells(run, z, "x") for z in (x, y)]) <= carried * lost
        told = [tells(run, y, "x") for _ in range(20)]
        assert all(row.tolist() == again.tolist() == [5.0, -1.0] for _, row, _, again in told)
    catches = ar.grad(catches_what_it_tells)
    lost = unfreed(lambda: catches_what_it_tells(x, "x"))
    assert unfreed(lambda: catches(x, "x")) <= lost
    np.testing.assert_allclose(catches(x, "x"), [0.0, -9.0])

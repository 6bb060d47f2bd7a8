"""What allows the primal inside a derivative to differ in its last digits."""

import types

import numpy as np
import pytest
from numba import guvectorize, njit, prange, vectorize

import activerules as ar
from activerules.errors import RuleCheckError
from activerules.testing import check_grads
from activerules.testing.gradient import Check
from activerules.testing.reordering import may_reorder

library = types.ModuleType("library")


@njit(fastmath=True)
def fast(x):
    return x.sum() / x[0]


@njit(parallel=True)
def parallel(x):
    total = 0.0
    for i in prange(x.size):
        total += x[i]
    return total


@vectorize(fastmath=True)
def each_fast(x):
    return x * x


@guvectorize("(n)->()", fastmath=True)
def dot_itself(x, y):
    y[0] = 0.0
    for value in x:
        y[0] += value * value


@guvectorize("(n)->()")
def sum_exactly(x, y):
    y[0] = x.sum()


library.fast = fast


@njit
def calls_itself(x, n):
    return x.sum() if n == 0 else calls_itself(x, n - 1) + fast(x)


@njit
def calls_a_member(x):
    return library.fast(x)


def that_calls_a_member(module):
    return njit(lambda x: module.fast(x))


def that_calls(function):
    return njit(lambda x: function(x) + 1.0)


@njit
def exact(x, n):
    return x[0] if n == 0 else exact(x, n - 1) * x[1]


@njit
def takes_a_gradient(x):
    return ar.grad(exact)(x, 2)[0]


@pytest.mark.parametrize(
    "f",
    [
        *(takes_a_gradient, that_calls(ar.grad(exact)), ar.grad(exact)),
        *(fast, parallel, each_fast, dot_itself, calls_itself, calls_a_member),
        *(that_calls(fast), that_calls(parallel), that_calls(each_fast), that_calls(dot_itself)),
        that_calls_a_member(library),
    ],
)
def test_what_is_called_may_reorder(f):
    assert may_reorder(f)


@pytest.mark.parametrize(
    "f", [exact, that_calls(exact), that_calls(np.sum), sum_exactly, np.sin, None]
)
def test_other_programs_may_not(f):
    assert not may_reorder(f)


def test_rounding_is_that_of_the_precision():
    x = np.array([3.4908743, 1.0], np.float32)
    nearly = x * np.float32(1.0 + 1e-6)
    assert not np.array_equal(x, nearly)
    check_of(calls_a_member, x).same("return value", nearly, x)
    with pytest.raises(RuleCheckError, match="return value"):
        check_of(that_calls(exact), x).same("return value", nearly, x)


def check_of(f, x):
    return Check(f, (x,), None, np.random.default_rng(0))


def test_a_generalised_ufunc_is_checked_as_compiled_code_sees_it():
    check_grads(sum_exactly, (np.array([[0.5, 2.0], [1.0, -1.0]]), np.zeros(2)), order=1)

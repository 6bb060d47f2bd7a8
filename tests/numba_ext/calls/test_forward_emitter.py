"""What a call of a forward derivative returns, and who owns it."""

import sys

import numpy as np
from numba import njit

import activerules as ar

X, X_DOT, Y = np.array([1.0, 2.0]), np.array([0.5, -1.0]), np.array([3.0, 4.0])


@njit
def itself(x, y):
    return x


@njit
def other(x, y):
    return y


@njit
def constant_row(x, y):
    return np.full(3, len(x)), y * x[0]


def test_w1_results_are_new_references(unfreed):
    """Of arrays that were given, and of arrays that were made."""
    before = sys.getrefcount(X), sys.getrefcount(X_DOT)
    value, tangent = ar.jvp(itself, (X, Y), (X_DOT, None))
    assert np.shares_memory(value, X)
    assert np.shares_memory(tangent, X_DOT)
    kept = value.copy(), tangent.copy()
    del value, tangent
    assert (sys.getrefcount(X), sys.getrefcount(X_DOT)) == before
    np.testing.assert_array_equal(kept, (X, X_DOT))
    for function in (itself, constant_row):
        assert unfreed(lambda f=function: [ar.jvp(f, (X, Y), (X_DOT, None)) for _ in range(9)]) == 0


def test_w2_the_tangent_of_what_is_constant_is_a_new_array_of_zeros():
    value, tangent = ar.jvp(other, (X, Y), (X_DOT, None))
    assert value.tolist() == Y.tolist()
    assert tangent.tolist() == [0.0, 0.0]
    assert not any(np.shares_memory(tangent, one) for one in (X, X_DOT, Y, value))
    tangent += 1.0
    assert ar.jvp(other, (X, Y), (X_DOT, None))[1].tolist() == [0.0, 0.0]

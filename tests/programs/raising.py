"""A program with an `assert`: in a test module pytest would rewrite it."""

from numba import njit


@njit
def failed_assertion(x, limit):
    s = x[0] * x[1]
    assert limit > 0.0, "limit must be positive"
    return s

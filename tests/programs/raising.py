"""Callees that raise, for several modules of tests. A program with an `assert` is here, too: in a
test module pytest would rewrite it.
"""

import math

from numba import njit


@njit
def checked_logarithm(v):
    if v < 0.0:
        raise ValueError("logarithm of a negative number")
    return math.log(1.0 + v)


@njit
def squares(a):
    for i in range(len(a)):
        if a[i] < 0.0:
            raise ValueError("negative", i, a[i])
    return a * a


@njit
def failed_assertion(x, limit):
    s = x[0] * x[1]
    assert limit > 0.0, "limit must be positive"
    return s

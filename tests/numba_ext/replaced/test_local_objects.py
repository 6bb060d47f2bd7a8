"""Copies of objects."""

import numpy as np
from numba import float64, njit
from numba.experimental import jitclass

from activerules.numba_ext.replaced.local_objects import copy_objects


@jitclass([("x", float64[:])])
class Inner:
    def __init__(self, x):
        self.x = x


@jitclass([("inner", Inner.class_type.instance_type), ("k", float64), ("x", float64[:])])
class Outer:
    def __init__(self, inner, k, x):
        self.inner = inner
        self.k = k
        self.x = x


@njit
def changed_copy(both):
    """Changes the fields of a copy; returns the arrays that it had, and `k` before and after."""
    copy = copy_objects(both)[1]
    had, k = (copy.inner.x, copy.x), copy.k
    copy.inner.x, copy.k = both[0], 2.0 * k
    return *had, k, copy.k


def test_c1_a_copy_has_the_arrays_and_copies_of_the_objects(unfreed):
    x, y = np.ones(2), np.zeros(3)
    outer = Outer(Inner(x), 3.0, y)
    first, second, k, doubled = changed_copy((np.zeros(1), outer))
    assert (first.ctypes.data, second.ctypes.data) == (x.ctypes.data, y.ctypes.data)
    assert (k, doubled) == (3.0, 6.0)
    assert (outer.k, outer.inner.x.ctypes.data) == (3.0, x.ctypes.data)
    assert unfreed(lambda: changed_copy((y, outer))) == 0

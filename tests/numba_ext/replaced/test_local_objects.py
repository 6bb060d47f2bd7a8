"""Copies of objects."""

import numpy as np
import pytest
from numba import float64, njit, types
from numba.experimental import jitclass, structref
from numba.typed import Dict

import activerules as ar
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


@jitclass([("a", Inner.class_type.instance_type), ("b", Inner.class_type.instance_type)])
class Two:
    def __init__(self, a, b):
        self.a = a
        self.b = b


@njit
def exchanged(two):
    two.a, two.b = two.b, two.a
    two.a.x = 2.0 * two.a.x
    return two.a.x[0]


def test_c2_objects_that_lose_their_last_reference_are_read_until_the_end(unfreed):
    def run():
        two, shadow = (Two(Inner(np.full(2, a)), Inner(np.full(2, 3.0))) for a in (5.0, 0.0))
        with pytest.raises(ar.NotYetSupported, match="replaced by another"):
            ar.autodiff(ar.Reverse, exchanged, ar.Duplicated(two, shadow))
        assert (two.a.x.tolist(), two.b.x.tolist()) == ([6.0, 6.0], [5.0, 5.0])

    assert unfreed(run) == 0


TABLE = types.DictType(types.int64, float64)


@jitclass([("table", TABLE), ("x", float64[:])])
class Tabulated:
    def __init__(self, table, x):
        self.table = table
        self.x = x


@njit
def tabulated_anew(t):
    table = Dict.empty(types.int64, float64)
    table[0] = t.x[0] * t.table[0]
    t.table = table
    t.x = 2.0 * t.x
    return t.table[0] * t.x[0]


def test_c2_so_is_a_dictionary(unfreed):
    def run():
        both = []
        for number in (3.0, 0.0):
            table = Dict.empty(types.int64, float64)
            table[0] = number
            both.append(Tabulated(table, np.full(1, number)))
        with pytest.raises(ar.NotYetSupported, match="replaced by another"):
            ar.autodiff(ar.Reverse, tabulated_anew, ar.Duplicated(*both))
        assert (both[0].table[0], both[0].x[0]) == (9.0, 6.0)

    assert unfreed(run) == 0


@structref.register
class _PointType(types.StructRef):
    """Its field is an array."""


class Point(structref.StructRefProxy):
    @property
    def x(self):
        return x_of(self)


@njit
def x_of(point):
    return point.x


structref.define_proxy(Point, _PointType, ["x"])


@njit
def pulled(p, q):
    p.x = p.x * q.x
    q.x = q.x + p.x
    return np.sum(q.x * q.x)


def test_two_struct_refs_whose_arrays_are_replaced():
    """The derivatives of (b + a b)² with respect to a and b."""
    a, b = 2.0, 3.0
    p, q, dp, dq = (Point(np.full(1, value)) for value in (a, b, 0.0, 0.0))
    ar.autodiff(ar.Reverse, pulled, ar.Duplicated(p, dp), ar.Duplicated(q, dq))
    assert (dp.x.tolist(), dq.x.tolist()) == ([2 * (b + a * b) * b], [2 * (b + a * b) * (1 + a)])
    with pytest.raises(ar.ShadowMismatch, match="reached by two paths"):
        ar.autodiff(ar.Reverse, pulled, ar.Duplicated(p, dp), ar.Duplicated(p, dp))

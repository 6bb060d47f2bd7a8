"""The classes and functions that random programs of containers use."""

from __future__ import annotations

import math
from collections import namedtuple

import numpy as np
from numba import float64, njit
from numba.experimental import jitclass

import activerules as ar

RECORD = np.dtype([("u", "f8"), ("v", "f8", (2,))])

Pair = namedtuple("Pair", "value data")


def _box(array):
    @jitclass([("value", float64), ("data", array)])
    class Box:
        def __init__(self, value, data):
            self.value = value
            self.data = data

        def total(self):
            return self.value * self.data[0] + self.data[2]

        def add(self, q):
            self.value += math.sin(q) * self.data[1]
            self.data[1] *= q

        @property
        def double(self):
            return 2.0 * self.value

    return Box


def _holder(box, array):
    @jitclass([("box", box.class_type.instance_type), ("data", array)])
    class Holder:
        def __init__(self, box, data):
            self.box = box
            self.data = data

        def reach(self):
            return self.box.data[0] * self.data[3] + self.box.value

    return Holder


Box, Strip = _box(float64[::1]), _box(float64[:])  # the array of a Strip may be a view
Holder, Roll = _holder(Box, float64[::1]), _holder(Strip, float64[:])


@njit
def table(first, second):
    return {0: first, 1: second}


@njit
def positive(q):
    if q < 0.0:
        raise ValueError("negative")
    return math.sqrt(1.0 + q)


@njit
def walk(v, p):
    for k in range(v.size):
        yield math.sin(v[k] * p)


@njit
def spoil(arrays, p):
    for w in arrays:
        w[0] = math.tanh(w[0] + p)


@njit
def renew(o, p):
    o.data = np.sin(o.data) * p


@njit
def exchange(first, second):
    first.data, second.data = second.data, first.data


@njit
def turned(t, p):
    a, b, c = t
    return b, c * p, a


@njit
def records_of(a, b):
    records = np.zeros(4, RECORD)
    for k in range(4):
        records[k].u = a[k]
        records[k].v[0] = b[k]
        records[k].v[1] = a[k] * b[k]
    return records


@njit
def weigh_record(r, p):
    return r.u * p + r.v[0] * r.v[1]


@njit
def stir_record(r, p):
    r.u *= p
    r.v[1] = math.sin(r.u)


# --- functions with rules: of lists, objects, tuples and records ---


@njit
def ruled_list(arrays, p):
    total = 0.0
    for w in arrays:
        total += math.sin(w[0] * p) + w[3]
    return total


@ar.augmented_primal(ruled_list)
def ruled_list_augmented(config, ret, arrays, p):
    kept = np.array([w[0] for w in arrays.val])
    return ar.AugmentedReturn(ruled_list(arrays.val, p.val), None, kept)


@ar.reverse(ruled_list)
def ruled_list_reverse(config, dret, tape, arrays, p):
    bar = 0.0
    for k in range(tape.size):
        slope = math.cos(tape[k] * p.val) * dret.val
        if ar.active(arrays):
            arrays.dval[k][0] += slope * p.val
            arrays.dval[k][3] += dret.val
        bar += slope * tape[k]
    return None, bar if ar.active(p) else None


@njit
def ruled_box(box, p):
    box.value = box.value * p
    box.data[1] = math.sin(p)
    return box.value + box.data[0]


@ar.augmented_primal(ruled_box)
def ruled_box_augmented(config, ret, box, p):
    old = box.val.value
    return ar.AugmentedReturn(ruled_box(box.val, p.val), None, old)


@ar.reverse(ruled_box)
def ruled_box_reverse(config, dret, tape, box, p):
    bar = 0.0
    if ar.active(box):
        after = box.dval.value + dret.val
        bar = after * tape + box.dval.data[1] * math.cos(p.val)
        box.dval.value = after * p.val
        box.dval.data[1] = 0.0
        box.dval.data[0] += dret.val
    else:
        bar = dret.val * tape
    return None, bar if ar.active(p) else None


@ar.forward(ruled_list)
def ruled_list_forward(config, ret, arrays, p):
    total = 0.0
    for k in range(len(arrays.val)):
        w = arrays.val[k]
        slope = math.cos(w[0] * p.val)
        if ar.active(arrays):
            total += slope * arrays.dval[k][0] * p.val + arrays.dval[k][3]
        if ar.active(p):
            total += slope * w[0] * p.dval
    return (ruled_list(arrays.val, p.val), total) if config.needs_primal else total


@ar.forward(ruled_box)
def ruled_box_forward(config, ret, box, p):
    slope = p.dval if ar.active(p) else 0.0
    old = box.val.value
    y = ruled_box(box.val, p.val)
    total = old * slope
    if ar.active(box):
        box.dval.value = box.dval.value * p.val + old * slope
        box.dval.data[1] = math.cos(p.val) * slope
        total = box.dval.value + box.dval.data[0]
    return (y, total) if config.needs_primal else total


@njit
def slope_of_walk(v, p):
    return ar.grad(spoilt_sum, 1)(v, p)


@njit
def spoilt_sum(v, p):
    box = Box(p, v * p)
    pair = [v, v * 2.0]
    box.add(p)
    return box.total() + pair[0][1] * pair[1][2] * p


@ar.checkpoint
@njit
def kept_box(box, p):
    box.add(p)
    return box.total()


@ar.checkpoint
@njit
def kept_list(arrays, p):
    total = p
    for w in arrays:
        total += math.sin(w[1] * total)
        w[2] *= p
    return total


@njit
def ruled_tuple(arrays, p):
    first, second, third = arrays
    first[0] = first[0] * p
    return first[0] + second[1] * third[2]


@ar.augmented_primal(ruled_tuple)
def ruled_tuple_augmented(config, ret, arrays, p):
    first, second, third = arrays.val
    kept = (first[0], second[1], third[2])
    y = ruled_tuple(arrays.val, p.val)
    return ar.AugmentedReturn(y, None, (kept, second[1], third[2]))


@ar.reverse(ruled_tuple)
def ruled_tuple_reverse(config, dret, tape, arrays, p):
    before, second, third = tape
    first_bar, second_bar, third_bar = arrays.dval
    second_bar[1] += dret.val * third
    third_bar[2] += dret.val * second
    bar = first_bar[0] + dret.val
    first_bar[0] = bar * p.val
    return None, bar * before[0] if ar.active(p) else None


@ar.forward(ruled_tuple)
def ruled_tuple_forward(config, ret, arrays, p):
    first, second, third = arrays.val
    first_dot, second_dot, third_dot = arrays.dval
    first_dot[0] = first_dot[0] * p.val + first[0] * (p.dval if ar.active(p) else 0.0)
    y = ruled_tuple(arrays.val, p.val)
    total = first_dot[0] + second_dot[1] * third[2] + second[1] * third_dot[2]
    return (y, total) if config.needs_primal else total


@njit
def ruled_records(r, p):
    total = 0.0
    for k in range(r.size):
        total += r[k].u * p
        r[k].v[0] = math.sin(r[k].u)
    return total


@ar.augmented_primal(ruled_records)
def ruled_records_augmented(config, ret, r, p):
    kept = r.val.u.copy()
    return ar.AugmentedReturn(ruled_records(r.val, p.val), None, kept)


@ar.reverse(ruled_records)
def ruled_records_reverse(config, dret, tape, r, p):
    bar = 0.0
    for k in range(tape.size):
        bar += dret.val * tape[k]
        if ar.active(r):
            r.dval[k].u += dret.val * p.val + r.dval[k].v[0] * math.cos(tape[k])
            r.dval[k].v[0] = 0.0
    return None, bar if ar.active(p) else None


@ar.forward(ruled_records)
def ruled_records_forward(config, ret, r, p):
    total = 0.0
    for k in range(r.val.size):
        if ar.active(r):
            total += r.dval[k].u * p.val
            r.dval[k].v[0] = math.cos(r.val[k].u) * r.dval[k].u
        if ar.active(p):
            total += r.val[k].u * p.dval
    y = ruled_records(r.val, p.val)
    return (y, total) if config.needs_primal else total

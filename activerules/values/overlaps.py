"""Whether arrays share memory, in compiled code.

Needs       arrays
Gives       `arrays_overlap`: whether two of them share memory; `span_of`: where the items of one
            are; `which_overlap`: which of many do, by their spans
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable


@register_jitable
def arrays_overlap(x, y):
    """Whether two arrays share memory."""
    return _spans_overlap(span_of(x), span_of(y))


@register_jitable
def which_overlap(spans):
    """For each row of a table of spans, whether that array shares memory with another one."""
    found = np.zeros(len(spans), np.bool_)
    for i in range(len(spans)):
        for j in range(i):
            if _spans_overlap(spans[i], spans[j]):
                found[i] = found[j] = True
    return found


@register_jitable
def span_of(x):
    """Where the items of an array are: the lowest address, the one behind the highest, that of the
    first item, the greatest common divisor of the strides, and the size of an item.
    """
    first = np.intp(x.ctypes.data)
    low, high, step = first, first + x.itemsize, 0
    for axis in range(x.ndim):
        reach = (x.shape[axis] - 1) * x.strides[axis]
        if reach < 0:
            low += reach
        else:
            high += reach
        if x.shape[axis] > 1:
            step = math.gcd(step, abs(x.strides[axis]))
    return (low, high if x.size > 0 else low, first, step, x.itemsize)


@register_jitable
def _spans_overlap(x, y):
    """Whether two arrays share memory. The items of two arrays may also alternate without overlap,
    as those of two columns of a matrix do, or the real and imaginary parts of complex numbers.
    """
    low, high, first, step, size = x
    other_low, other_high, other_first, other_step, other_size = y
    if low == high or other_low == other_high or low >= other_high or other_low >= high:
        return False
    step = math.gcd(step, other_step)
    if step == 0:
        return True
    ahead = (other_first - first) % step
    return ahead < size or step - ahead < other_size

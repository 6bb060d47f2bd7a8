"""Whether two arrays share memory, in compiled code."""

from __future__ import annotations

import math

from numba.extending import register_jitable


@register_jitable
def arrays_overlap(x, y):
    """Whether two arrays share memory."""
    if x.size == 0 or y.size == 0:
        return False
    low, high = _extent(x)
    other_low, other_high = _extent(y)
    if low >= other_high or other_low >= high:
        return False
    return not _interleave(x, y)


@register_jitable
def _interleave(x, y):
    """Whether the items of two arrays alternate in memory without overlap, as two columns of a
    matrix do, or the real and imaginary parts of complex numbers.
    """
    step = 0
    for axis in range(x.ndim):
        if x.shape[axis] > 1:
            step = math.gcd(step, abs(x.strides[axis]))
    for axis in range(y.ndim):
        if y.shape[axis] > 1:
            step = math.gcd(step, abs(y.strides[axis]))
    if step == 0:
        return False
    ahead = (y.ctypes.data - x.ctypes.data) % step
    return ahead >= x.itemsize and step - ahead >= y.itemsize


@register_jitable
def _extent(x):
    low = x.ctypes.data
    high = low + x.itemsize
    for axis in range(x.ndim):
        reach = (x.shape[axis] - 1) * x.strides[axis]
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high

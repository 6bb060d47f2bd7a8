"""Small compiled functions that wrappers of rules call: copies, zeros, checks of results.

All of them are compiled for the CPU, by the types of their arguments, and linked with the wrapper.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic, overload, register_jitable

from activerules.annotations.values import make_zero
from activerules.errors import RuleArgumentsOverlap, RuleReturnError
from activerules.numba_ext.codegen.protocols import Builder, Context
from activerules.values.contents import array_of_record
from activerules.values.overwriting import overwrite
from activerules.values.shadows import room_like


@intrinsic
def _array_of_record(typing_context, x):
    def codegen(context: Context, builder: Builder, typed: Any, args: Any) -> Any:
        return array_of_record(context, builder, x, args[0])[1]

    return types.Array(x, 1, "C", aligned=x.aligned)(x), codegen


def in_array(x: Any) -> Any:
    """A record as the only element of an array that borrows it; anything else as it is."""
    raise NotImplementedError("there in compiled rules only")


@overload(in_array)
def _in_array(x):
    if isinstance(x, types.Record):
        return lambda x: _array_of_record(x)  # pyright: ignore[reportCallIssue]
    return lambda x: x


def make_zero_of(x: Any) -> Any:
    """Make a shadow of zeros for an argument of a rule that has none; a record in an array."""
    return make_zero(in_array(x))


def copied(x: Any) -> Any:
    """A copy of an array of the same layout, C for an array of layout A; of an object, see
    `objects`.
    """
    raise NotImplementedError("there in compiled rules only")


@overload(copied)
def _copied(x):
    if not isinstance(x, types.Array):
        return None
    if x.layout == "F":
        return lambda x: x.T.copy().T  # Numba's own copy of it has layout C
    return lambda x: x.copy()


def copy_of(x: Any) -> Any:
    """A copy of what an argument holds, which belongs to nobody else; of a record in an array."""
    return copied(in_array(x))


def laid_as(kept: Any, x: Any) -> Any:
    """What was kept of `x`, with the strides of `x`, which are those of its shadow: what a reverse
    calls has one address computation for both.
    """
    return copy_in_place(kept, x) if _differ(x, kept) else kept


@register_jitable
def copy_in_place(kept, x):
    """What was kept, in new memory that is laid out as that of `x`."""
    result = room_like(x)  # pyright: ignore[reportCallIssue]
    overwrite(result, kept)
    return result


def copy_of_leaf(x: Any) -> Any:
    """A copy of a leaf of a tape: an array, or a list of numbers or arrays, with its items."""
    raise NotImplementedError("there in compiled rules only")


@overload(copy_of_leaf)
def _copy_of_leaf(x):
    if isinstance(x, types.Array):
        return lambda x: copied(x)
    if not isinstance(x.dtype, types.Array):
        return lambda x: x.copy()

    def copy_items(x):
        result = x.copy()
        for i in range(len(result)):
            result[i] = copied(result[i])
        return result

    return copy_items


def own_leaf(x: Any, shadows: Any) -> Any:
    """What a reverse may write into: a copy, but of a shadow itself."""
    if _is_of(x, shadows):
        return x
    return copy_of_leaf(x)


def _is_of(x: Any, shadows: Any) -> Any:
    """Whether a leaf of a tape is an array that shares memory with one of these."""
    raise NotImplementedError("there in compiled rules only")


@overload(_is_of)
def _is_of_form(x, shadows):
    if not isinstance(x, types.Array) or len(shadows) == 0:
        return lambda x, shadows: False
    return lambda x, shadows: overlap(x, shadows[0]) or _is_of(x, shadows[1:])


def restore(x: Any, saved: Any) -> None:
    """Write back into an array what `copy_of` kept of it."""
    overwrite(x, saved)


def owned(found: Any) -> types.Array:
    """The type of a copy of an array."""
    layout = "C" if found.layout == "A" else found.layout
    return found.copy(layout=layout, readonly=False)


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


def overlap(x: Any, y: Any) -> Any:
    """Whether two arrays share memory; of objects, see `objects`."""
    raise NotImplementedError("there in compiled rules only")


@overload(overlap)
def _overlap(x, y):
    if not (isinstance(x, types.Array) and isinstance(y, types.Array)):
        return None
    return lambda x, y: arrays_overlap(x, y)


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
    """Whether the items of two arrays lie beside each other in every step both can make, as two
    columns of a matrix do, or the real and imaginary parts of complex numbers.
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


@cache
def apart(message: str, error: type[Exception] = RuleReturnError) -> Callable[[Any, Any], None]:
    """The function that raises `error(message)` if an array shares memory with another, or with an
    object.

    The engine takes an array that a rule returns for new memory: a result that is an argument, or a
    part of one, would carry the cotangents of both.
    """

    def check(result, other):
        if overlap(result, other):
            raise error(message)

    return check


def none_of(x: Any) -> Any:
    """An array of the same type without items."""
    raise NotImplementedError("there in compiled rules only")


@overload(none_of)
def _none_of_form(x):
    return (lambda x: x.T[:0].T) if x.layout == "F" else (lambda x: x[:0])


def kept_if_shared(x: Any, y: Any) -> Any:
    """What `x` holds, if it shares memory with `y`; else an array without items."""
    return copied(x) if overlap(x, y) else copied(none_of(x))


@cache
def unwritten(message: str) -> Callable[[Any, Any], None]:
    """The function that raises `RuleArgumentsOverlap(message)` if `x` is no more what was kept of
    it.

    A rule takes its arguments for separate memory: with one array in two places, what it reads
    through one has been overwritten through the other, and what it zeroes was still to be read.
    """

    def check(x, kept):
        if kept.size == 0:
            return
        for place in np.ndindex(x.shape):
            now, then = x[place], kept[place]
            if now != then and (now == now or then == then):
                raise RuleArgumentsOverlap(message)

    return check


@cache
def alike(message: str) -> Callable[[Any, Any], None]:
    """The function that raises `RuleReturnError(message)` if an array and its shadow differ in
    shape or strides: one address computation serves both.
    """

    def check(result, shadow):
        if result.shape != shadow.shape:
            raise RuleReturnError(message)
        if _differ(result, shadow):
            raise RuleReturnError(message)

    return check


@register_jitable
def _differ(x, y):
    """Whether arrays of one shape differ in strides that are used."""
    for axis in range(x.ndim):
        if x.shape[axis] > 1 and x.strides[axis] != y.strides[axis]:
            return True
    return False


@register_jitable
def detached(x: Any, other: Any) -> Any:
    """An array of a tape, or its copy where the program may write to it through another array."""
    return copied(x) if overlap(x, other) else x


def detached_items(x: Any, other: Any) -> Any:
    """A list of a tape with such arrays in it."""
    result = x.copy()
    for i in range(len(result)):
        result[i] = detached(result[i], other)
    return result


def copy_of_list(x: Any, other: Any) -> Any:
    """A list of numbers of a tape, which may be the list `other`."""
    return x.copy()

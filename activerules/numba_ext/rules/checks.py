"""Small compiled functions that wrappers of rules call: copies, zeros, checks of results.

Each is compiled for the CPU and given argument types, and linked with the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import intrinsic, register_jitable

from activerules.annotations.activity import Duplicated
from activerules.annotations.values import ignore_derivatives, make_zero
from activerules.errors import NotYetSupported, RuleArgumentsOverlap, RuleReturnError
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.protocols import emitting
from activerules.rules.written import definition, function_from, tuple_of
from activerules.values.contents import array_of_record
from activerules.values.overlaps import arrays_overlap
from activerules.values.overwriting import overwrite
from activerules.values.shadows import uninitialised_like


@intrinsic
def _array_of_record(typing_context, x):
    emit = emitting(lambda em, args: array_of_record(em, x, args[0])[1])
    return types.Array(x, 1, "C", aligned=x.aligned)(x), emit


@chosen_by_types
def in_array(x):
    """A record as the only element of an array that borrows it; anything else unchanged."""
    if isinstance(x, types.Record):
        return lambda x: _array_of_record(x)  # pyright: ignore[reportCallIssue]
    return lambda x: x


def make_zero_of(x: Any) -> Any:
    """A shadow of zeros for an argument of a rule that has none; of a record, in an array."""
    return make_zero(in_array(x))


@chosen_by_types
def copied(x):
    """A copy of an array in the same layout (C if it has layout A), or of an object (see
    `objects`).
    """
    if not isinstance(x, types.Array):
        return None
    if x.layout != "F":
        return lambda x: x.copy()
    # Numba's own copy has layout C, and so has its transpose if it is a vector.
    return (lambda x: x.T.copy().T) if x.ndim > 1 else (lambda x: copy_in_place(x, x))


def copy_of(x: Any) -> Any:
    """A copy of an argument that shares no memory with it; of a record, in an array."""
    return copied(in_array(x))


def constant_of(x: Any) -> Any:
    """The value of an argument without its derivatives; of an array, a copy."""
    return ignore_derivatives(x)


def write_constant(x: Any, copy: Any) -> None:
    """Write the contents of `copy` into the array `x`, without their derivatives."""
    overwrite(x, ignore_derivatives(copy))


def copy_alone(copy: Any, x: Any) -> Any:
    """A further copy of `copy`, a copy of `x`."""
    return copied(in_array(copy))


@register_jitable
def in_layout_of(copy: Any, x: Any) -> Any:
    """`copy`, a copy of `x`, with the strides of `x` and so of its shadow.

    Functions that a reverse calls compute one address for both.
    """
    return copy_in_place(copy, x) if _differ(x, copy) else copy


@register_jitable
def copy_in_place(copy, x):
    """The contents of `copy` in new memory with the layout of `x`."""
    result = uninitialised_like(x)  # pyright: ignore[reportCallIssue]
    overwrite(result, copy)
    return result


@chosen_by_types
def copy_of_leaf(x):
    """A deep copy of a leaf of a tape: an array, or a list of numbers or arrays."""
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
    """A leaf of a tape that a reverse may write into: a copy, or `x` itself if it is a shadow."""
    if _is_of(x, shadows):
        return x
    return copy_of_leaf(x)


@chosen_by_types
def _is_of(x, shadows):
    """Whether a leaf of a tape is an array that shares memory with one of `shadows`."""
    if not isinstance(x, types.Array) or len(shadows) == 0:
        return lambda x, shadows: False
    return lambda x, shadows: overlap(x, shadows[0]) or _is_of(x, shadows[1:])


def restore(x: Any, saved: Any) -> None:
    """Restore the contents of an array from a copy made by `copy_of`."""
    overwrite(x, saved)


def owned(ty: Any) -> types.Array:
    """The type of a copy of an array."""
    layout = "C" if ty.layout == "A" else ty.layout
    return ty.copy(layout=layout, readonly=False)


@chosen_by_types
def overlap(x, y):
    """Whether two arrays share memory; for objects see `objects`."""
    if not (isinstance(x, types.Array) and isinstance(y, types.Array)):
        return None
    if not (x.is_contig and y.is_contig):
        return lambda x, y: arrays_overlap(x, y)

    def of_contiguous(x, y):
        if x.size == 0 or y.size == 0:
            return False
        x_start, y_start = np.intp(x.ctypes.data), np.intp(y.ctypes.data)
        return x_start < y_start + y.nbytes and y_start < x_start + x.nbytes

    return of_contiguous


@cache
def apart(message: str, error: type[Exception] = RuleReturnError) -> Callable[[Any, Any], None]:
    """A function that raises `error(message)` if an array shares memory with another, or with an
    object.

    The engine assumes that an array returned by a rule is new memory. The shadow of a result that
    is (part of) an argument would accumulate the cotangents of both.
    """

    def check(result, other):
        if overlap(result, other):
            raise error(message)

    return check


@chosen_by_types
def none_of(x):
    """An empty array of the same type."""
    return (lambda x: x.T[:0].T) if x.layout == "F" else (lambda x: x[:0])


def kept_if_shared(x: Any, y: Any) -> Any:
    """A copy of `x` if it shares memory with `y`, else an empty array."""
    return copied(x) if overlap(x, y) else copied(none_of(x))


@cache
def unwritten(message: str) -> Callable[[Any, Any], None]:
    """A function that raises `RuleArgumentsOverlap(message)` if `x` differs from the copy `copy`.

    A rule assumes that its arguments are separate memory. If one array is passed twice, it may
    overwrite through one argument, or zero, what it still has to read through the other.
    """

    def check(x, copy):
        if copy.size > 0 and _is_changed(x, copy):
            raise RuleArgumentsOverlap(message)

    return check


@register_jitable
def _is_changed(x, copy):
    """Whether an entry of `x` differs from that of `copy`, which has the same shape."""
    for index in np.ndindex(x.shape):
        now, then = x[index], copy[index]
        if now != then and (now == now or then == then):
            return True
    return False


@cache
def unchanged(message: str) -> Callable[[Any, Any], None]:
    """A function that raises `NotYetSupported(message)` if `x` differs from the copy `copy`."""

    def check(x, copy):
        if _is_changed(x, copy):
            raise NotYetSupported(message)

    return check


@cache
def failed(message: str) -> Callable[[], None]:
    """A function that raises `NotYetSupported(message)`."""

    def fail():
        raise NotYetSupported(message)

    return fail


def written_apart(names: Sequence[str]) -> tuple[Any, Any]:
    """Functions for a rule that runs its function again, on copies of these arguments. They refuse
    arrays that share memory if the function changed one of them through another; the copies do not
    share it. Arrays that both have derivatives are left to the caller of the rule.

    before(config, arguments)         a tuple of copies, empty where no memory is shared
    after(config, arguments, copies)  raises `RuleArgumentsOverlap`
    """

    @chosen_by_types
    def before(config, arguments):
        copies = (
            f"_kept(arguments[{j}].val, arguments[{i}].val)" for i, j in _apart(config, arguments)
        )
        source = f"def f(config, arguments): return {tuple_of(copies)}"
        kept = register_jitable(kept_if_shared)
        return function_from(source, "f", {"_kept": kept}, module=__name__)

    @chosen_by_types
    def after(config, arguments, copies):
        scope, lines = {}, ["pass"]
        for n, (i, j) in enumerate(_apart(config, arguments)):
            message = (
                f"`{names[j]}` and `{names[i]}` share memory that the function writes; its "
                "derivative runs it again, on copies, which share none"
            )
            scope[f"_check{n}"] = register_jitable(unwritten(message))
            lines.append(f"_check{n}(arguments[{j}].val, copies[{n}])")
        source = definition("f", ("config", "arguments", "copies"), lines)
        return function_from(source, "f", scope, module=__name__)

    return before, after


def _apart(config: Any, arguments: Any) -> list[tuple[int, int]]:
    """Pairs of arrays: one that may be written, and one that must be other memory."""
    arrays = [k for k, ty in enumerate(arguments) if isinstance(ty.val, types.Array)]
    arrays = [k for k in arrays if arguments[k].val.ndim > 0]
    simple = types.Number | types.Boolean
    return [
        (i, j)
        for i in arrays
        if i < len(config.value.written) and config.value.written[i]
        for j in arrays
        if i != j and isinstance(arguments[j].val.dtype, simple)
        if not (arguments[i].kind is Duplicated and arguments[j].kind is Duplicated)
    ]


@cache
def alike(message: str) -> Callable[[Any, Any], None]:
    """A function that raises `RuleReturnError(message)` if an array and its shadow differ in shape
    or strides, since one address computation serves both.
    """

    def check(result, shadow):
        if result.shape != shadow.shape or _differ(result, shadow):
            raise RuleReturnError(message)

    return check


@chosen_by_types
def _differ(x, y):
    """Whether arrays of one shape differ in a stride along an axis longer than one."""
    if x.is_contig and x.layout == y.layout:
        return lambda x, y: False

    def in_any_axis(x, y):
        for axis in range(x.ndim):
            if x.shape[axis] > 1 and x.strides[axis] != y.strides[axis]:
                return True
        return False

    return in_any_axis


@register_jitable
def detached(x: Any, other: Any) -> Any:
    """An array of a tape; a copy if it shares memory with `other`, which the program may write."""
    return copied(x) if overlap(x, other) else x


def detached_items(x: Any, other: Any) -> Any:
    """A copy of a list of a tape, its arrays `detached` from `other`."""
    result = x.copy()
    for i in range(len(result)):
        result[i] = detached(result[i], other)
    return result


def copy_beside(x: Any, other: Any) -> Any:
    """A copy of an array, or list of arrays, of a tape: `other`, memory without derivatives, may
    lead to it.
    """
    return copy_of_leaf(x)


def copy_of_list(x: Any, other: Any) -> Any:
    """A copy of a list of numbers of a tape, which may be the list `other`."""
    return x.copy()

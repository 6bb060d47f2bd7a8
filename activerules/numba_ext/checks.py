"""What a call of `autodiff` must fulfil: refused while it is typed, or before anything has run.

Needs       the Numba types of a call; later the arrays themselves, in the IR of the caller
Gives       `read_arguments` and `read_arity`: the call in the engine's terms, or an error
            `check_memory`: code that raises ShadowMismatch, and tells whether arguments overlap
Invariants  K1  a shadow has the shape of its primal, and its strides wherever they are used
            K2  a shadow overlaps no primal
            K3  two arguments of which one is written overlap only if their shadows overlap likewise
            K4  two shadows overlap only if their primals are displaced by exactly as much

An overlap that K3 and K4 admit is the aliasing of the program itself: the conservative version of
the derivative is right for it.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types

from activerules.annotations.activity import Active, Const, Duplicated, DuplicatedNoNeed
from activerules.errors import (
    ActivityError,
    ArityError,
    NotAFloatReturn,
    NotYetSupported,
    ShadowMismatch,
)
from activerules.numba_ext.gradient import ActivityName, Gradient
from activerules.numba_ext.types import AnnotationType
from activerules.rules.pattern import type_name


@dataclass(frozen=True)
class Argument:
    """One argument of a differentiated function: its name, Numba type and activity."""

    name: str
    numba_type: Any
    activity: ActivityName

    def __str__(self) -> str:
        """Return `x: Duplicated[float64[::1]]`."""
        return f"{self.name}: {self.activity.capitalize()}[{type_name(self.numba_type)}]"


# --- while the call is typed ---


def read_arity(function: Any, count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters of a dispatcher; `ArityError` if they do not
    fit.
    """
    signature = inspect.signature(function.py_func)
    name = function.py_func.__name__
    try:
        bound = signature.bind(*range(count))
    except TypeError as error:
        raise ArityError(
            f"{name} cannot be called with {count} argument{'s' * (count != 1)}: {error}",
            why=f"its signature is {name}{signature}",
            instead=["one annotation or value per argument, after the activity of the return"],
        ) from error
    if len(bound.arguments) != count:
        raise NotYetSupported(f"{name} takes a variable number of arguments")
    return tuple(bound.arguments)


def read_arguments(names: Sequence[str], found: Sequence[Any]) -> tuple[Argument, ...]:
    """Return a call's arguments; a bare value is Const. Raises `ActivityError`,
    `ShadowMismatch`.
    """
    return tuple(_read_argument(name, ty) for name, ty in zip(names, found, strict=True))


def _read_argument(name: str, found: Any) -> Argument:
    if not isinstance(found, AnnotationType):
        return Argument(name, types.unliteral(found), "const")
    if found.kind is Const:
        return Argument(name, found.val, "const")
    if found.kind is Active:
        _require_active(name, found.val)
        return Argument(name, found.val, "active")
    if found.kind in (Duplicated, DuplicatedNoNeed):
        _require_duplicated(name, found.val)
        _require_shadow(name, found.val, found.dval)
        return Argument(name, found.val, "duplicated")
    raise NotYetSupported(f"`{name}` is marked {found.kind.__name__}, which is not yet supported")


def items_of(tuple_type: Any) -> tuple[Any, ...]:
    """Return the types of the items of a tuple type."""
    return tuple(tuple_type)


def _require_active(name: str, found: Any) -> None:
    if isinstance(found, types.BaseTuple):
        for i, item in enumerate(items_of(found)):
            if not isinstance(item, types.Integer | types.Boolean):
                _require_active(f"{name}[{i}]", item)
        return
    if isinstance(found, types.Complex):
        raise NotYetSupported(f"`{name}` is complex, which is not yet supported")
    if isinstance(found, types.Float):
        return
    is_array = isinstance(found, types.Buffer)
    raise ActivityError(
        f"`{name}` is marked Active and is {type_name(found)}",
        why="the derivative of an Active argument is returned, so it must be a float",
        instead=[f"Duplicated({name}, make_zero({name}))" if is_array else f"Const({name})"],
    )


def _require_duplicated(name: str, found: Any) -> None:
    if isinstance(found, types.Array) and isinstance(found.dtype, types.Float):
        return
    if isinstance(found, types.Array) and not isinstance(
        found.dtype, types.Integer | types.Boolean
    ):
        raise NotYetSupported(f"`{name}` is an array of {found.dtype}, which is not yet supported")
    is_float = isinstance(found, types.Float)
    raise ActivityError(
        f"`{name}` is marked Duplicated and is {type_name(found)}",
        why="in reverse, the derivative of a Duplicated argument is added to memory of floats",
        instead=[f"Active({name})" if is_float else f"Const({name})"],
    )


def _require_shadow(name: str, primal: Any, shadow: Any) -> None:
    if not isinstance(shadow, types.Array) or (shadow.dtype, shadow.ndim) != (
        primal.dtype,
        primal.ndim,
    ):
        problem = f"is {type_name(shadow)}, and `{name}` is {type_name(primal)}"
    elif not shadow.mutable:
        problem = "is read-only, and the derivative is added to it"
    else:
        return
    raise ShadowMismatch(f"the shadow of `{name}` {problem}", instead=[f"make_zero({name})"])


def require_float_return(function: Any, result: Any) -> None:
    """Raise `NotAFloatReturn` unless `result` can be an Active return."""
    if isinstance(result, types.Float):
        return
    raise NotAFloatReturn(
        f"{function.py_func.__name__} returns {type_name(result)}, not a float",
        why="a gradient is the derivative of one number",
        instead=[
            "return one float: a sum, a loss",
            "jacobian, or autodiff_thunk and vjp, for functions that return arrays",
            "the activity Const for a function that writes its result into an argument",
        ],
    )


# --- before the derivative runs ---


@dataclass(frozen=True)
class _Extent:
    """The bytes from `low` up to, not including, `high` that an array may touch."""

    data: Any
    low: Any
    high: Any
    filled: Any

    def overlaps(self, other: _Extent, builder: Any) -> Any:
        conditions = (
            builder.icmp_unsigned("<", self.low, other.high),
            builder.icmp_unsigned("<", other.low, self.high),
            self.filled,
            other.filled,
        )
        return _all(builder, conditions)


@dataclass(frozen=True)
class _Memory:
    """An array argument with the extents of its primal and, if Duplicated, of its shadow."""

    argument: Argument
    written: bool
    primal: _Extent
    shadow: _Extent | None


def check_memory(
    context: Any,
    builder: Any,
    arguments: Sequence[Argument],
    values: Sequence[tuple[Any, Any]],
    gradient: Gradient,
) -> Any:
    """Emit the checks K1 to K4 for (primal, shadow) pairs of LLVM values.

    The emitted code raises `ShadowMismatch`; the value returned is true where arguments overlap.
    """
    checker = _Checker(context, builder)
    memories = []
    for argument, (primal, shadow), is_written in zip(
        arguments, values, gradient.written, strict=True
    ):
        if isinstance(argument.numba_type, types.Array):
            memories.append(checker.memory(argument, primal, shadow, is_written))
    for memory in memories:
        checker.keep_shadow_apart(memory, memories)
    overlap = cgutils.false_bit
    for i, second in enumerate(memories):
        for first in memories[:i]:
            overlap = builder.or_(overlap, checker.compare(first, second))
    if gradient.conservative_symbol is None:
        checker.refuse_if(overlap, "arguments overlap, and one of them is written")
        return cgutils.false_bit
    return overlap


class _Checker:
    """Emits one check after another at the end of the current block."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context = context
        self.builder = builder

    def memory(self, argument: Argument, primal: Any, shadow: Any, written: bool) -> _Memory:
        """Return the extents of an array argument; checks K1."""
        make = self.context.make_array(argument.numba_type)
        array = make(self.context, self.builder, primal)
        extent = self._extent(argument.numba_type, array)
        if shadow is None:
            return _Memory(argument, written, extent, None)
        shadow_array = make(self.context, self.builder, shadow)
        self._same_layout(argument, array, shadow_array)
        return _Memory(argument, written, extent, self._extent(argument.numba_type, shadow_array))

    def keep_shadow_apart(self, memory: _Memory, others: Sequence[_Memory]) -> None:
        """Check K2 for the shadow of one argument."""
        if memory.shadow is None:
            return
        for other in others:
            overlap = memory.shadow.overlaps(other.primal, self.builder)
            name, target = memory.argument.name, other.argument.name
            whose = "its primal" if other is memory else f"`{target}`"
            self.refuse_if(overlap, f"the shadow of `{name}` overlaps {whose}")

    def compare(self, first: _Memory, second: _Memory) -> Any:
        """Check K3 and K4 for two arguments; true if they overlap in a way that is right."""
        builder = self.builder
        names = f"`{first.argument.name}` and `{second.argument.name}`"
        overlap = cgutils.false_bit
        if first.written or second.written:
            overlap = first.primal.overlaps(second.primal, builder)
        if first.shadow is None or second.shadow is None:
            self.refuse_if(overlap, f"{names} overlap, one is written, and not both have a shadow")
            return cgutils.false_bit
        shadows_overlap = first.shadow.overlaps(second.shadow, builder)
        displaced_alike = builder.icmp_unsigned(
            "==",
            builder.sub(second.primal.data, first.primal.data),
            builder.sub(second.shadow.data, first.shadow.data),
        )
        different = builder.not_(displaced_alike)
        self.refuse_if(
            builder.and_(overlap, different), f"{names} overlap, but their shadows do not likewise"
        )
        self.refuse_if(
            builder.and_(shadows_overlap, different),
            f"the shadows of {names} overlap, but the arguments do not likewise",
        )
        return builder.or_(overlap, shadows_overlap)

    def _same_layout(self, argument: Argument, primal: Any, shadow: Any) -> None:
        builder = self.builder
        shapes = self._axes(argument, primal.shape, shadow.shape)
        for length, other in shapes:
            differs = builder.icmp_unsigned("!=", length, other)
            self.refuse_if(differs, f"the shadow of `{argument.name}` has another shape")
        strides = self._axes(argument, primal.strides, shadow.strides)
        for (length, _), (stride, other) in zip(shapes, strides, strict=True):
            # The stride of an axis of length one is never used, and NumPy gives it any value.
            used = builder.icmp_signed(">", length, length.type(1))
            differs = builder.and_(used, builder.icmp_unsigned("!=", stride, other))
            self.refuse_if(differs, f"the shadow of `{argument.name}` has other strides")

    def _axes(self, argument: Argument, primal: Any, shadow: Any) -> list[tuple[Any, Any]]:
        count = argument.numba_type.ndim
        both = (cgutils.unpack_tuple(self.builder, axes, count) for axes in (primal, shadow))
        return list(zip(*both, strict=True))

    def _extent(self, array_type: Any, array: Any) -> _Extent:
        builder = self.builder
        data = builder.ptrtoint(array.data, cgutils.intp_t)
        zero, one = data.type(0), data.type(1)
        low, high = data, builder.add(data, array.itemsize)
        filled = cgutils.true_bit
        shape = cgutils.unpack_tuple(builder, array.shape, array_type.ndim)
        strides = cgutils.unpack_tuple(builder, array.strides, array_type.ndim)
        for length, stride in zip(shape, strides, strict=True):
            reach = builder.mul(builder.sub(length, one), stride)
            backwards = builder.icmp_signed("<", reach, zero)
            low = builder.add(low, builder.select(backwards, reach, zero))
            high = builder.add(high, builder.select(backwards, zero, reach))
            filled = builder.and_(filled, builder.icmp_signed(">", length, zero))
        return _Extent(data, low, high, filled)

    def refuse_if(self, condition: Any, message: str) -> None:
        """Raise `ShadowMismatch` where `condition` holds."""
        with cgutils.if_unlikely(self.builder, condition):
            self.context.call_conv.return_user_exc(self.builder, ShadowMismatch, (message,))


def _all(builder: Any, conditions: Sequence[Any]) -> Any:
    result = cgutils.true_bit
    for condition in conditions:
        result = builder.and_(result, condition)
    return result

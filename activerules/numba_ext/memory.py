"""Shadow memory, in the IR of the caller: the checks before a derivative runs, and new zero
shadows.

Needs       the arguments of a call, and the LLVM values of their primals and shadows
Gives       `check_memory`: code that raises ShadowMismatch, and tells whether arguments overlap
            `zero_shadow`: a new array of zeros with the shape and strides of another
Invariants  K1  a shadow has the shape of its primal, and its strides wherever they are used
            K2  a shadow overlaps no primal
            K3  two arguments of which one is written overlap only if their shadows overlap likewise
            K4  two shadows overlap only if their primals are displaced by exactly as much

An overlap that K3 and K4 admit is the aliasing of the program itself: the conservative version of
the derivative is right for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.errors import ShadowMismatch
from activerules.numba_ext.checks import Argument
from activerules.numba_ext.gradient import Gradient
from activerules.numba_ext.kinds import is_number, is_number_array, items_of, shadow_type


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
    release: Callable[[], None],
) -> Any:
    """Emit the checks K1 to K4 for (primal, shadow) pairs of LLVM values.

    The emitted code raises `ShadowMismatch`, after what `release` emits; the value returned is true
    where arguments overlap.
    """
    checker = _Checker(context, builder, gradient, release)
    memories = []
    for argument, (primal, shadow), is_written in zip(
        arguments, values, gradient.written, strict=True
    ):
        for part in _arrays_of(builder, argument, primal, shadow):
            memories.append(checker.memory(*part, is_written))
    for memory in memories:
        checker.keep_shadow_apart(memory, memories)
    overlap = cgutils.false_bit
    for i, second in enumerate(memories):
        for first in memories[:i]:
            overlap = builder.or_(overlap, checker.compare(first, second))
    if gradient.conservative_symbol == gradient.symbol:
        return cgutils.false_bit
    if gradient.conservative_symbol is None:
        checker.refuse_if(
            overlap, "one array is the shadow of two arguments", _MIXED_UP, _OWN_SHADOW
        )
        return cgutils.false_bit
    return overlap


def _arrays_of(
    builder: Any, argument: Argument, primal: Any, shadow: Any
) -> Iterator[tuple[Argument, Any, Any]]:
    """The arrays in an argument, each with its shadow if it has one."""
    found = argument.numba_type
    if isinstance(found, types.BaseTuple):
        values = (primal,) if shadow is None else (primal, shadow)
        for i, (item, parts) in enumerate(parts_of(builder, found, *values)):
            part = Argument(f"{argument.name}[{i}]", item, argument.activity)
            yield from _arrays_of(builder, part, parts[0], parts[1] if shadow is not None else None)
    elif isinstance(found, types.Array):
        yield argument, primal, shadow if is_number_array(found) else None


@dataclass(frozen=True)
class LaneArray:
    """An array argument of a forward derivative: its primal, and its shadow in each lane."""

    argument: Argument
    written: bool
    primal: Any
    lanes: tuple[Any, ...]


def check_lanes(
    context: Any,
    builder: Any,
    arrays: Sequence[LaneArray],
    gradient: Gradient,
    width: int,
    release: Callable[[], None],
) -> None:
    """Emit the checks of a forward derivative, which writes a shadow only where it writes a primal.

    K1 in every lane; K2 to K4 in every lane where one of two arrays is written: the tangent of an
    array may be the array itself; and the shadows of a written array overlap no shadow of another
    lane.
    """
    checker = _Checker(context, builder, gradient, release)
    lanes = [
        [
            checker.memory(a.argument, a.primal, a.lanes[k] if a.lanes else None, a.written)
            for a in arrays
        ]
        for k in range(width)
    ]
    for memories in lanes:
        for i, second in enumerate(memories):
            touched = [m for m in memories if m.written or second.written]
            checker.keep_shadow_apart(second, touched)
            for first in memories[:i]:
                if first in touched:
                    checker.compare(first, second)
    for k, memories in enumerate(lanes):
        for other in lanes[:k]:
            checker.keep_lanes_apart(memories, other)


class _Checker:
    """Emits one check after another at the end of the current block."""

    def __init__(
        self, context: Any, builder: Any, gradient: Gradient, release: Callable[[], None]
    ) -> None:
        self.context = context
        self.builder = builder
        self.where = (gradient.asked,) if gradient.asked else ()
        self.release = release

    def memory(self, argument: Argument, primal: Any, shadow: Any, written: bool) -> _Memory:
        """Return the extents of an array argument; checks K1."""
        make = self.context.make_array(argument.numba_type)
        array = make(self.context, self.builder, primal)
        extent = _extent(self.builder, argument.numba_type, array)
        if shadow is None:
            return _Memory(argument, written, extent, None)
        shadow_array = make(self.context, self.builder, shadow)
        self._same_layout(argument, array, shadow_array)
        shadow_extent = _extent(self.builder, argument.numba_type, shadow_array)
        return _Memory(argument, written, extent, shadow_extent)

    def keep_shadow_apart(self, memory: _Memory, others: Sequence[_Memory]) -> None:
        """Check K2 for the shadow of one argument."""
        if memory.shadow is None:
            return
        for other in others:
            overlap = memory.shadow.overlaps(other.primal, self.builder)
            name, target = memory.argument.name, other.argument.name
            whose = "its primal" if other is memory else f"`{target}`"
            self.refuse_if(
                overlap, f"the shadow of `{name}` overlaps {whose}", _MIXED_UP, _own_shadow(name)
            )

    def compare(self, first: _Memory, second: _Memory) -> Any:
        """Check K3 and K4 for two arguments; true if they overlap in a way that is right."""
        builder = self.builder
        names = f"`{first.argument.name}` and `{second.argument.name}`"
        overlap = cgutils.false_bit
        if first.written or second.written:
            overlap = first.primal.overlaps(second.primal, builder)
        if first.shadow is None or second.shadow is None:
            what = f"{names} overlap, one is written, and not both have a shadow"
            self.refuse_if(overlap, what, _SAME_MEMORY, _APART)
            return cgutils.false_bit
        shadows_overlap = first.shadow.overlaps(second.shadow, builder)
        displaced_alike = builder.icmp_unsigned(
            "==",
            builder.sub(second.primal.data, first.primal.data),
            builder.sub(second.shadow.data, first.shadow.data),
        )
        different = builder.not_(displaced_alike)
        what = f"{names} overlap, but their shadows do not likewise"
        self.refuse_if(builder.and_(overlap, different), what, _SAME_MEMORY, _ALIKE)
        what = f"the shadows of {names} overlap, but the arguments do not likewise"
        self.refuse_if(builder.and_(shadows_overlap, different), what, _MIXED_UP, _OWN_SHADOW)
        return builder.or_(overlap, shadows_overlap)

    def keep_lanes_apart(self, memories: Sequence[_Memory], others: Sequence[_Memory]) -> None:
        """Check that what one lane writes is no shadow of the other."""
        for one in memories:
            for other in others:
                if one.shadow is None or other.shadow is None:
                    continue
                if one.written or other.written:
                    overlap = one.shadow.overlaps(other.shadow, self.builder)
                    names = f"`{one.argument.name}` and `{other.argument.name}`"
                    what = f"shadows of {names} for different tangents overlap"
                    self.refuse_if(overlap, what, _MIXED_UP, _OWN_SHADOW)

    def _same_layout(self, argument: Argument, primal: Any, shadow: Any) -> None:
        builder = self.builder
        shapes = self._axes(argument, primal.shape, shadow.shape)
        for length, other in shapes:
            differs = builder.icmp_unsigned("!=", length, other)
            what = f"the shadow of `{argument.name}` has another shape"
            self.refuse_if(differs, what, _ITEM_BY_ITEM, _own_shadow(argument.name))
        strides = self._axes(argument, primal.strides, shadow.strides)
        for (length, _), (stride, other) in zip(shapes, strides, strict=True):
            # The stride of an axis of length one is never used, and NumPy gives it any value.
            used = builder.icmp_signed(">", length, length.type(1))
            differs = builder.and_(used, builder.icmp_unsigned("!=", stride, other))
            what = f"the shadow of `{argument.name}` has other strides"
            self.refuse_if(differs, what, _ITEM_BY_ITEM, _own_shadow(argument.name))

    def _axes(self, argument: Argument, primal: Any, shadow: Any) -> list[tuple[Any, Any]]:
        count = argument.numba_type.ndim
        both = (cgutils.unpack_tuple(self.builder, axes, count) for axes in (primal, shadow))
        return list(zip(*both, strict=True))

    def refuse_if(self, condition: Any, what: str, why: str, instead: Sequence[str]) -> None:
        """Raise `ShadowMismatch` where `condition` holds."""
        with cgutils.if_unlikely(self.builder, condition):
            self.release()
            fields = (what, self.where, why, tuple(instead))
            self.context.call_conv.return_user_exc(self.builder, ShadowMismatch, fields)


_ITEM_BY_ITEM = "each item of the shadow is found where its item of the primal is"
_MIXED_UP = "what is added for one would be taken for the other"
_SAME_MEMORY = "they are the same memory, and so must be the derivatives that belong to it"
_APART = ("pass a copy of one of them", "mark both Duplicated, with shadows that overlap likewise")
_ALIKE = ("shadows that are views of one array, as the arguments are",)
_OWN_SHADOW = ("a shadow of its own for each",)


def _own_shadow(name: str) -> Sequence[str]:
    return (f"make_zero({name})",)


def _all(builder: Any, conditions: Sequence[Any]) -> Any:
    result = cgutils.true_bit
    for condition in conditions:
        result = builder.and_(result, condition)
    return result


def _extent(builder: Any, array_type: Any, array: Any) -> _Extent:
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


RELEASE_DEFINITION = """
declare void @NRT_decref(ptr)
define void @activerules.release(ptr %meminfo) {
  call void @NRT_decref(ptr %meminfo)
  ret void
}
"""


def release(context: Any, builder: Any, found: Any, shadow: Any) -> None:
    """Emit the release of a shadow, or of all arrays in one, on a path that raises.

    By a function of our own: next to an `NRT_decref`, Numba does not prune what it holds itself,
    and an exception would leak that.
    """
    if isinstance(found, types.BaseTuple):
        for item, (part,) in parts_of(builder, found, shadow):
            release(context, builder, item, part)
    elif is_number_array(found):
        release_counted(builder, context.make_array(found)(context, builder, shadow).meminfo)


def release_counted(builder: Any, meminfo: Any) -> None:
    """As `release`, of any counted memory."""
    function_type = ir.FunctionType(ir.VoidType(), [meminfo.type])
    function = cgutils.get_or_insert_function(builder.module, function_type, "activerules.release")
    builder.call(function, [meminfo])


def parts_of(builder: Any, found: Any, *values: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The items of values of one tuple type, with the type of each."""
    items = items_of(found)
    unpacked = [cgutils.unpack_tuple(builder, value, len(items)) for value in values]
    return zip(items, zip(*unpacked, strict=True), strict=True)


def zero_shadow(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    """Emit a new shadow of zeros, arrays with the shape and strides of `primal`; the caller owns
    them. What is constant is that of `primal`, borrowed.
    """
    if isinstance(found, types.BaseTuple):
        parts = parts_of(builder, found, primal)
        items = [zero_shadow(context, builder, item, part) for item, (part,) in parts]
        return context.make_tuple(builder, shadow_type(found), items)
    if is_number_array(found):
        return _zero_array(context, builder, found, primal)
    return context.get_constant_null(found) if is_number(found) else primal


def _zero_array(context: Any, builder: Any, array_type: Any, primal: Any) -> Any:
    array = context.make_array(array_type)(context, builder, primal)
    extent = _extent(builder, array_type, array)
    nothing = extent.low.type(0)
    size = builder.select(extent.filled, builder.sub(extent.high, extent.low), nothing)
    alignment = context.get_preferred_array_alignment(array_type.dtype)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, size, cgutils.int32_t(alignment))
    base = context.nrt.meminfo_data(builder, meminfo)
    cgutils.memset(builder, base, size, 0)
    below = builder.select(extent.filled, builder.sub(extent.data, extent.low), nothing)
    shadow = context.make_array(shadow_type(array_type))(context, builder, primal)
    data = cgutils.pointer_add(builder, base, below)
    shadow.data = builder.bitcast(data, array.data.type)
    shadow.meminfo = meminfo
    shadow.parent = cgutils.get_null_value(array.parent.type)
    return shadow._getvalue()

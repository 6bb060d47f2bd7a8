"""Shadow memory, in the IR of the caller: the checks before a derivative runs, and new zero
shadows.

Needs       the arguments of a call, and the LLVM values of their primals and shadows
Gives       `check_memory`: code that raises ShadowMismatch, and tells whether arguments overlap
            `zero_shadow`: a new array of zeros with the shape and strides of another
Invariants  K1  a shadow has the shape of its primal, and its strides wherever they are used
            K2  a shadow overlaps no primal
            K3  two arguments of which one is written overlap only if their shadows overlap likewise
            K4  two shadows overlap only if their primals are displaced by exactly as much
            K5  the shadows of one lane overlap none of another

An overlap that K3 and K4 admit is the aliasing of the program itself: the conservative version of
the derivative is right for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.experimental.jitclass.base import imp_dtor

from activerules.numba_ext.checks import Argument
from activerules.numba_ext.extents import Refusal, Tests, extent_of
from activerules.numba_ext.fields import (
    fields_of,
    is_dict,
    is_instance,
    is_list,
    is_record_array,
    struct_type,
)
from activerules.numba_ext.gradient import Gradient
from activerules.numba_ext.kinds import (
    has_shadow,
    has_shadows,
    is_number,
    is_shadowed_array,
    shadow_type,
)
from activerules.numba_ext.pieces import (
    data_of_piece,
    extent_of_piece,
    field_values,
    parts_of,
    pieces_of,
    struct_of,
)


@dataclass(frozen=True)
class _Memory:
    """A piece of argument memory with the numbers of the extents of its primal and, if it has one,
    of its shadow.
    """

    argument: Argument
    written: bool
    primal: int
    shadow: int | None


def check_memory(
    context: Any,
    builder: Any,
    arguments: Sequence[Argument],
    values: Sequence[tuple[Any, Sequence[Any]]],
    gradient: Gradient,
    release: Callable[[], None],
) -> Any:
    """Emit the checks K1 to K5 of a reverse derivative, which writes every shadow. `values` are the
    primals, each with its shadow in each lane, or with none.

    The emitted code raises `ShadowMismatch`, after what `release` emits; the value returned is true
    where arguments overlap.
    """
    checker = _Checker(context, builder, gradient, release)
    arrays = _pieces(context, builder, arguments, values, gradient)
    lanes = checker.lanes(arrays, gradient.width)
    for memories in lanes:
        for memory in memories:
            checker.keep_shadow_apart(memory, memories)
        for i, second in enumerate(memories):
            for first in memories[:i]:
                checker.compare(first, second)
    for k, memories in enumerate(lanes):
        for other in lanes[:k]:
            checker.keep_lanes_apart(memories, other, written_only=False)
    overlap = checker.tests.emit()
    if gradient.conservative_symbol == gradient.symbol:
        return cgutils.false_bit
    if gradient.conservative_symbol is None:
        other = Tests(context, builder, checker.tests.where, release)
        what = "one array is the shadow of two arguments"
        other.refuse_if(overlap, Refusal(what, _MIXED_UP, _OWN_SHADOW))
        other.emit()
        return cgutils.false_bit
    return overlap


@dataclass(frozen=True)
class _Piece:
    """A piece of argument memory as LLVM values: its primal, and its shadow in each lane."""

    argument: Argument
    written: bool
    primal: Any
    lanes: tuple[Any, ...]


def _pieces(
    context: Any,
    builder: Any,
    arguments: Sequence[Argument],
    values: Sequence[tuple[Any, Sequence[Any]]],
    gradient: Gradient,
) -> list[_Piece]:
    return [
        _Piece(piece, written, primal, tuple(own))
        for argument, written, (whole, lanes) in zip(
            arguments, gradient.written, values, strict=True
        )
        for piece, (primal, *own) in pieces_of(context, builder, argument, (whole, *lanes))
    ]


def check_lanes(
    context: Any,
    builder: Any,
    arguments: Sequence[Argument],
    values: Sequence[tuple[Any, Sequence[Any]]],
    gradient: Gradient,
    width: int,
    release: Callable[[], None],
) -> None:
    """Emit the checks of a derivative that writes a shadow only where it writes a primal, as one in
    forward mode. `values` as of `check_memory`.

    K1 in every lane; K2 to K4 in every lane where one of two arrays is written: the tangent of an
    array may be the array itself; and the shadows of a written array overlap no shadow of another
    lane.
    """
    checker = _Checker(context, builder, gradient, release)
    arrays = _pieces(context, builder, arguments, values, gradient)
    lanes = checker.lanes(arrays, width)
    for memories in lanes:
        for i, second in enumerate(memories):
            touched = [m for m in memories if m.written or second.written]
            checker.keep_shadow_apart(second, touched)
            for first in memories[:i]:
                if first in touched:
                    checker.compare(first, second)
    for k, memories in enumerate(lanes):
        for other in lanes[:k]:
            checker.keep_lanes_apart(memories, other, written_only=True)
    checker.tests.emit()


class _Checker:
    """Collects the tests of one call."""

    def __init__(
        self, context: Any, builder: Any, gradient: Gradient, release: Callable[[], None]
    ) -> None:
        self.context = context
        self.builder = builder
        self.tests = Tests(context, builder, (gradient.asked,) if gradient.asked else (), release)

    def memory(self, argument: Argument, primal: Any, shadow: Any, written: bool) -> _Memory:
        """Return a piece of argument memory by its extents; checks K1."""
        found, builder = argument.numba_type, self.builder
        extent = extent_of_piece(self.context, builder, found, primal)
        number = self.tests.add(extent)
        if shadow is None:
            return _Memory(argument, written, number, None)
        data = data_of_piece(self.context, builder, found, shadow)
        if isinstance(found, types.Array):
            make = self.context.make_array(found)
            arrays = (make(self.context, builder, value) for value in (primal, shadow))
            self._same_layout(argument, *arrays)
        else:
            missing = builder.icmp_unsigned("!=", extent.low, extent.high)
            missing = builder.and_(missing, cgutils.is_null(builder, data))
            what = f"the shadow of `{argument.name}` is not set"
            refusal = Refusal(what, _ITEM_BY_ITEM, _own_shadow(argument.name))
            self.tests.refuse_if(missing, refusal)
        behind = self.tests.add(extent.moved(data, builder))  # by K1
        return _Memory(argument, written, number, behind)

    def lanes(self, pieces: Sequence[_Piece], width: int) -> list[list[_Memory]]:
        """What there is in each lane."""
        return [
            [
                self.memory(p.argument, p.primal, p.lanes[lane] if p.lanes else None, p.written)
                for p in pieces
            ]
            for lane in range(width)
        ]

    def keep_shadow_apart(self, memory: _Memory, others: Sequence[_Memory]) -> None:
        """Check K2 for the shadow of one argument."""
        if memory.shadow is None:
            return
        for other in others:
            name, target = memory.argument.name, other.argument.name
            whose = "its primal" if other is memory else f"`{target}`"
            what = f"the shadow of `{name}` overlaps {whose}"
            refusal = Refusal(what, _MIXED_UP, _own_shadow(name))
            self.tests.keep_apart(memory.shadow, other.primal, refusal)

    def compare(self, first: _Memory, second: _Memory) -> None:
        """Check K3 and K4 for two arguments."""
        names = f"`{first.argument.name}` and `{second.argument.name}`"
        written = first.written or second.written
        if first.shadow is None and second.shadow is None:
            if written:
                self.tests.tell(first.primal, second.primal)
            return
        if first.shadow is None or second.shadow is None:
            what = f"{names} overlap, one is written, and not both have a shadow"
            if written:
                refusal = Refusal(what, _SAME_MEMORY, _APART)
                self.tests.keep_apart(first.primal, second.primal, refusal)
            return
        what = f"{names} overlap, but their shadows do not likewise"
        unlike = Refusal(what, _SAME_MEMORY, _ALIKE)
        what = f"the shadows of {names} overlap, but the arguments do not likewise"
        mixed = Refusal(what, _MIXED_UP, _OWN_SHADOW)
        self.tests.keep_alike(
            first.primal, second.primal, (unlike, mixed), shadows_only=not written
        )

    def keep_lanes_apart(
        self, memories: Sequence[_Memory], others: Sequence[_Memory], *, written_only: bool
    ) -> None:
        """Check K5 for two lanes; or only for the shadows of what is written."""
        for one in memories:
            for other in others:
                if one.shadow is None or other.shadow is None:
                    continue
                if one.written or other.written or not written_only:
                    names = f"`{one.argument.name}` and `{other.argument.name}`"
                    what = f"shadows of {names} in different lanes overlap"
                    refusal = Refusal(what, _MIXED_UP, _OWN_SHADOW)
                    self.tests.keep_apart(one.shadow, other.shadow, refusal)

    def _same_layout(self, argument: Argument, primal: Any, shadow: Any) -> None:
        builder, name = self.builder, argument.name
        shapes = self._axes(argument, primal.shape, shadow.shape)
        strides = self._axes(argument, primal.strides, shadow.strides)
        if is_record_array(argument.numba_type):
            self._whole_records(argument, primal)
        other_shape, other_strides = cgutils.false_bit, cgutils.false_bit
        for (length, other_length), (stride, other) in zip(shapes, strides, strict=True):
            differs = builder.icmp_unsigned("!=", length, other_length)
            other_shape = builder.or_(other_shape, differs)
            # The stride of an axis of length one is never used, and NumPy gives it any value.
            used = builder.icmp_signed(">", length, length.type(1))
            differs = builder.and_(used, builder.icmp_unsigned("!=", stride, other))
            other_strides = builder.or_(other_strides, differs)
        for condition, what in ((other_shape, "another shape"), (other_strides, "other strides")):
            what = f"the shadow of `{name}` has {what}"
            refusal = Refusal(what, _ITEM_BY_ITEM, _own_shadow(name))
            self.tests.refuse_if(condition, refusal)

    def _whole_records(self, argument: Argument, array: Any) -> None:
        """Check that strides are those of whole records: the engine counts on it."""
        builder, count = self.builder, argument.numba_type.ndim
        for stride in cgutils.unpack_tuple(builder, array.strides, count):
            rest = builder.srem(stride, stride.type(argument.numba_type.dtype.size))
            differs = builder.icmp_signed("!=", rest, rest.type(0))
            what = f"the strides of `{argument.name}` are not those of whole records"
            refusal = Refusal(what, "records that overlap share floats", ("a copy of the array",))
            self.tests.refuse_if(differs, refusal)

    def _axes(self, argument: Argument, primal: Any, shadow: Any) -> list[tuple[Any, Any]]:
        count = argument.numba_type.ndim
        both = (cgutils.unpack_tuple(self.builder, axes, count) for axes in (primal, shadow))
        return list(zip(*both, strict=True))


_ITEM_BY_ITEM = "each item of the shadow is found where its item of the primal is"
_MIXED_UP = "what is added for one would be taken for the other"
_SAME_MEMORY = "they are the same memory, and so must be the derivatives that belong to it"
_APART = ("pass a copy of one of them", "mark both Duplicated, with shadows that overlap likewise")
_ALIKE = ("shadows that are views of one array, as the arguments are",)
_OWN_SHADOW = ("a shadow of its own for each",)


def _own_shadow(name: str) -> tuple[str, ...]:
    return (f"make_zero({name})",)


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
    elif has_shadow(found) and not isinstance(found, types.Record):
        release_counted(builder, context.make_helper(builder, found, value=shadow).meminfo)


def release_counted(builder: Any, meminfo: Any) -> None:
    """As `release`, of any counted memory."""
    function_type = ir.FunctionType(ir.VoidType(), [meminfo.type])
    function = cgutils.get_or_insert_function(builder.module, function_type, "activerules.release")
    builder.call(function, [meminfo])


def owned_shadows(gradient: Gradient, arguments: Sequence[Argument]) -> tuple[bool, ...]:
    """Per argument: whether the call of a derivative makes its shadow, or holds a reference to it:
    scratch, and, with the option runtime_activity, every shadow of memory.
    """
    scratch = gradient.scratch or (False,) * len(arguments)
    if "runtime_activity" not in gradient.options:
        return scratch
    return tuple(
        own or (a.activity != "const" and has_shadows(a.numba_type))
        for own, a in zip(scratch, arguments, strict=True)
    )


def constant_where_same(context: Any, builder: Any, found: Any, primal: Any, shadow: Any) -> Any:
    """The shadow with zeros in place of memory that is the primal's own: this is constant.

    What holds at run time decides; a reference to all counted memory in the result is the caller's.
    A record cannot be told: it is returned as it is.
    """
    if isinstance(found, types.BaseTuple):
        parts = parts_of(builder, found, primal, shadow)
        items = [constant_where_same(context, builder, item, *pair) for item, pair in parts]
        return context.make_tuple(builder, shadow_type(found), items)
    if not has_shadow(found) or isinstance(found, types.Record):
        return shadow
    own, other = (data_of_piece(context, builder, found, value) for value in (primal, shadow))
    result = cgutils.alloca_once_value(builder, shadow)
    with builder.if_else(builder.icmp_unsigned("==", own, other), likely=False) as (same, apart):
        with same:
            builder.store(zero_shadow(context, builder, found, primal), result)
        with apart:
            context.nrt.incref(builder, found, shadow)
    return builder.load(result)


def zero_shadow(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    """Emit a new shadow of zeros, arrays with the shape and strides of `primal`; the caller owns
    them. What is constant is that of `primal`, borrowed; an instance owns what is in it.
    """
    if isinstance(found, types.BaseTuple):
        parts = parts_of(builder, found, primal)
        items = [zero_shadow(context, builder, item, part) for item, (part,) in parts]
        return context.make_tuple(builder, shadow_type(found), items)
    if is_shadowed_array(found):
        return _zero_array(context, builder, found, primal)
    if is_instance(found) and has_shadow(found):
        return _zero_instance(context, builder, found, primal)
    if is_list(found):
        return context.compile_internal(builder, _zero_list, signature(found, found), [primal])
    if is_dict(found):
        return context.compile_internal(builder, _zero_dict, signature(found, found), [primal])
    return context.get_constant_null(found) if is_number(found) else primal


def own_constants(context: Any, builder: Any, found: Any, shadow: Any) -> None:
    """Make what is constant in a new shadow, and borrowed, belong to it as the rest does."""
    if isinstance(found, types.BaseTuple):
        for item, (part,) in parts_of(builder, found, shadow):
            own_constants(context, builder, item, part)
    elif not has_shadow(found):
        context.nrt.incref(builder, found, shadow)


def _zero_list(x):
    zero = x.copy()
    for k in range(len(x)):
        zero[k] = 0.0
    return zero


def _zero_dict(x):
    zero = x.copy()
    for key in x:
        zero[key] = 0.0
    return zero


def _zero_instance(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    memory_type = struct_type(found)
    size = context.get_constant(types.uintp, context.get_abi_sizeof(memory_type))
    destructor = imp_dtor(context, builder.module, found)
    meminfo = context.nrt.meminfo_alloc_dtor(builder, size, destructor)
    data = context.nrt.meminfo_data(builder, meminfo)
    data = builder.bitcast(data, memory_type.as_pointer())
    builder.store(cgutils.get_null_value(memory_type), data)
    reference = context.make_helper(builder, found)
    reference.meminfo = meminfo
    if not isinstance(found, types.StructRef):
        reference.data = data
    result = reference._getvalue()
    struct = struct_of(context, builder, found, result)
    values = field_values(context, builder, found, primal)
    for k, (field, value) in enumerate(zip(fields_of(found), values, strict=True)):
        struct[k] = _owned_zero(context, builder, field.numba_type, value)
    return result


def _owned_zero(context: Any, builder: Any, found: Any, primal: Any) -> Any:
    """As `zero_shadow`, with a reference to what is constant, too."""
    zero = zero_shadow(context, builder, found, primal)
    own_constants(context, builder, found, zero)
    return zero


def _zero_array(context: Any, builder: Any, array_type: Any, primal: Any) -> Any:
    array = context.make_array(array_type)(context, builder, primal)
    extent = extent_of(builder, array_type, array)
    size = builder.sub(extent.high, extent.low)
    alignment = context.get_preferred_array_alignment(array_type.dtype)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, size, cgutils.int32_t(alignment))
    base = context.nrt.meminfo_data(builder, meminfo)
    cgutils.memset(builder, base, size, 0)
    below = builder.sub(extent.data, extent.low)
    shadow = context.make_array(shadow_type(array_type))(context, builder, primal)
    data = cgutils.pointer_add(builder, base, below)
    shadow.data = builder.bitcast(data, array.data.type)
    shadow.meminfo = meminfo
    shadow.parent = cgutils.get_null_value(array.parent.type)
    return shadow._getvalue()

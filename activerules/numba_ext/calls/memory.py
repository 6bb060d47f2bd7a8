"""Checks of shadow memory that the caller of a derivative runs before it.

Needs       the arguments of a call, and the LLVM values of their primals and shadows
Gives       `check_memory`: code that raises ShadowMismatch, and computes whether arguments overlap
Invariants  K1  a shadow has the shape of its primal, and its strides wherever they are used
            K2  a shadow overlaps no primal
            K3  two arguments of which one is written overlap only if their shadows overlap likewise
            K4  two shadows overlap only if their primals are the same distance apart
            K5  the shadows of one lane overlap none of another
            K6  no two items of one shadow share memory

An overlap that K3 and K4 admit is aliasing in the program itself, which the conservative version of
the derivative handles correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Builder, Emit, Value, call_named
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.values.argument import ArgumentSpec
from activerules.values.contents import Entries, entries_of
from activerules.values.extent_tables import ExtentTable
from activerules.values.extents import Extent, Refusal, Tests, share_items
from activerules.values.kinds import is_collection, is_instance, is_record_array
from activerules.values.layout import EACH, Node, Struct, layout_of
from activerules.values.memory_layout import has_inner
from activerules.values.regions import (
    data_of_region,
    extent_of_region,
    has_regions,
    is_region,
    regions_of,
)
from activerules.values.walk import Depth, walk


@dataclass(frozen=True)
class _Memory:
    """A region of argument memory.

    primal   the number of the extent of its primal
    shadow   the number of the extent of its shadow, if it has one
    overlap  whether the two share a byte, if their extents do not decide it
    """

    argument: ArgumentSpec
    written: bool
    primal: int
    shadow: int | None
    overlap: Any = None


def check_memory(
    em: Emit,
    arguments: Sequence[ArgumentSpec],
    values: Sequence[tuple[Any, Sequence[Any]]],
    gradient: CompiledDerivative,
    release: Callable[[], None],
) -> Any:
    """Emit the checks K1 to K6 of a reverse derivative, which writes every shadow.

    `values` are the primals, each with its shadows, one per lane or none. The emitted code raises
    `ShadowMismatch` after running the code that `release` emits. The returned value is true at run
    time if arguments overlap.
    """
    checker = _Checker(em, gradient, release)
    checker.check(arguments, values, gradient.width, written_only=False)
    overlap = checker.tests.emit()
    if gradient.versions.conservative == gradient.symbol:
        return cgutils.false_bit
    if gradient.versions.conservative is None:
        tests = Tests(em, checker.tests.where, release)
        what = "one array is the shadow of two arguments"
        tests.refuse_if(overlap, Refusal(what, _MIXED_UP, _OWN_SHADOW))
        tests.emit()
        return cgutils.false_bit
    return overlap


def check_lanes(
    em: Emit,
    arguments: Sequence[ArgumentSpec],
    values: Sequence[tuple[Any, Sequence[Any]]],
    gradient: CompiledDerivative,
    width: int,
    release: Callable[[], None],
) -> None:
    """Emit the checks of a derivative that writes a shadow only if it writes the primal, as in
    forward mode. `values` are as for `check_memory`.

    In every lane it checks K1 and K6, and K2 to K4 for pairs of arrays of which one is written: the
    tangent of an array that is only read may be the array itself. Shadows of a written array
    overlap no shadow of another lane.
    """
    checker = _Checker(em, gradient, release)
    checker.check(arguments, values, width, written_only=True)
    checker.tests.emit()


class _Checker:
    """Collects the tests of one call."""

    def __init__(self, em: Emit, gradient: CompiledDerivative, release: Callable[[], None]) -> None:
        self.em, self.builder = em, em.builder
        self._written = gradient.written
        self._scratch = gradient.scratch
        self._flags: dict[Refusal, Any] = {}
        self._in_loop = False
        self._writes_shadowed = False
        self.tests = Tests(em, (gradient.requested,) if gradient.requested else (), release)

    def check(
        self,
        arguments: Sequence[ArgumentSpec],
        values: Sequence[tuple[Any, Sequence[Any]]],
        width: int,
        *,
        written_only: bool,
    ) -> None:
        """Check everything, or K2 to K5 only for memory that is written and what it may meet."""
        lanes = self.lanes(arguments, values, width)
        for k, memories in enumerate(lanes):
            for i, memory in enumerate(memories):
                met = [m for m in memories if m.written or memory.written or not written_only]
                self.keep_shadow_apart(memory, met)
                for earlier in memories[:i]:
                    if earlier in met:
                        self.compare(earlier, memory)
            for earlier_lane in lanes[:k]:
                self.keep_lanes_apart(memories, earlier_lane, written_only=written_only)

    def memories(
        self, argument: ArgumentSpec, primal: Value, shadow: Value | None, written: bool
    ) -> Iterator[_Memory]:
        """The regions of an argument, among them those in lists; checks K1."""
        if shadow is None:
            yield from self._without_shadow(argument, primal, written)
        elif is_collection(argument.numba_type) and has_inner(argument.numba_type):
            yield from self._collection(argument, primal, shadow, written)
        else:
            pair = primal, shadow
            if is_collection(argument.numba_type):
                ty = argument.numba_type
                entries = entries_of(self.em, ty, pair)
                argument, pair = self._items(argument, entries)
            extent, behind = self._extents(argument, *pair)
            number = self.tests.add(extent)
            overlap = self._overlap(argument.numba_type, pair[0], extent, behind)
            yield _Memory(argument, written, number, self.tests.add(behind), overlap)

    def _without_shadow(
        self, argument: ArgumentSpec, primal: Value, written: bool
    ) -> Iterator[_Memory]:
        """A region without a shadow and, if it or memory with a shadow is written, the memory that
        an instance, list or dictionary leads to: active memory must not be reached through it.
        What the items of a list lead to may be much; it counts only if the list is written.
        """
        em, ty = self.em, argument.numba_type
        if not is_collection(ty):
            extent = extent_of_region(em, ty, primal)
            yield _Memory(argument, written, self.tests.add(extent), None)
        if not (written or self._writes_shadowed) or not (is_instance(ty) or is_collection(ty)):
            return
        table = None
        if written and not compiles_for_derivative():  # tables are not compared there
            table = ExtentTable(self.builder)
        depth = Depth.FIELDS if table is None else Depth.ITEMS
        for visit in walk(em, layout_of(ty), (primal,), depth=depth, where=_is_followed):
            if not visit.node.has_shadow or (is_instance(ty) and not visit.path):
                continue
            part, value = argument.part(visit.path, visit.node), visit.slots[0].value
            if visit.entries is not None:
                part = replace(part, numba_type=visit.entries.array_type)
                (value,) = visit.entries.arrays
            extent = extent_of_region(em, part.numba_type, value)
            if table is not None and EACH in visit.path:
                table.push(extent.data, extent.low, extent.high)
            else:
                yield _Memory(part, written, self.tests.add(extent), None)
        if table is not None:
            self.tests.refuse_if(table.failed, _NO_MEMORY)
            yield _Memory(argument, written, self.tests.add(table), None)

    def _overlap(self, ty: Any, primal: Value, extent: Extent, behind: Extent) -> Any:
        """Whether an array that need not be contiguous shares bytes with its shadow; else None."""
        if not (isinstance(ty, types.Array) and ty.layout == "A"):
            return None
        builder = self.builder
        array = self.em.array(ty, primal)
        distance = builder.sub(behind.data, extent.data)
        shared = share_items(builder, ty, array, distance)
        return builder.and_(extent.meets(behind, builder), shared)

    def _collection(
        self, argument: ArgumentSpec, primal: Value, shadow: Value, written: bool
    ) -> Iterator[_Memory]:
        """The regions in a list or dictionary: those with shadows, and those without."""
        own, behind, plain = (ExtentTable(self.builder) for _ in range(3))
        self._in_loop = True
        self._collect(argument, (primal, shadow), (own, behind, plain))
        self._in_loop = False
        for refusal, flag in self._flags.items():
            self.tests.refuse_if(self.builder.load(flag), refusal)
            self.builder.store(cgutils.false_bit, flag)
        self._flags.clear()
        for table in (own, behind, plain):
            self.tests.refuse_if(table.failed, _NO_MEMORY)
        number = self.tests.add(own)
        memory = _Memory(argument, written, number, self.tests.add(behind))
        self.compare(memory, memory)
        yield memory
        yield _Memory(argument, written, self.tests.add(plain), None)

    def _collect(
        self,
        argument: ArgumentSpec,
        pair: tuple[Any, Any],
        tables: tuple[ExtentTable, ExtentTable, ExtentTable],
    ) -> None:
        """Add the extents of items or entries to the tables: `own` of primals with a shadow,
        `behind` of these shadows, `plain` of primals without one.
        """
        own, behind, plain = tables
        node = layout_of(argument.numba_type)
        for visit in walk(self.em, node, pair, depth=Depth.ITEMS, where=_is_followed):
            part = argument.part(visit.path, visit.node)
            if visit.entries is not None:
                self._push(*self._items(part, visit.entries), own, behind)
            elif visit.node.has_shadow:
                self._push(part, visit.values, own, behind)
            elif is_region(visit.node):
                extent = extent_of_region(self.em, part.numba_type, visit.slots[0].value)
                plain.push(extent.data, extent.low, extent.high)

    def _items(
        self, argument: ArgumentSpec, entries: Entries
    ) -> tuple[ArgumentSpec, tuple[Any, ...]]:
        """The items or entries of a list or dictionary and its shadow, as arrays."""
        name = argument.name
        if isinstance(argument.numba_type, types.DictType):
            what = f"the shadow of `{name}` has different keys"
            unlike = self.builder.not_(entries.alike)
            self._refuse_if(unlike, Refusal(what, _KEY_BY_KEY, _own_shadow(name)))
        return replace(argument, numba_type=entries.array_type), entries.arrays

    def _push(
        self, argument: ArgumentSpec, values: Sequence[Value], own: ExtentTable, behind: ExtentTable
    ) -> None:
        extent, shadow_extent = self._extents(argument, *values)
        own.push(extent.data, extent.low, extent.high)
        behind.push(shadow_extent.data, shadow_extent.low, shadow_extent.high)

    def _refuse_if(self, condition: Value, refusal: Refusal) -> None:
        """Refuse if a condition holds; in a loop, if it holds in any iteration."""
        if not self._in_loop:
            self.tests.refuse_if(condition, refusal)
            return
        builder = self.builder
        if refusal not in self._flags:
            # set to false at the start of the function: `zfill` would clear it in every iteration
            self._flags[refusal] = cgutils.alloca_once(builder, cgutils.bool_t)
        flag = self._flags[refusal]
        builder.store(builder.or_(builder.load(flag), condition), flag)

    def _extents(
        self, argument: ArgumentSpec, primal: Value, shadow: Value
    ) -> tuple[Extent, Extent]:
        """The bytes of a region and of its shadow; checks K1."""
        ty, builder = argument.numba_type, self.builder
        extent = extent_of_region(self.em, ty, primal)
        data = data_of_region(self.em, ty, shadow)
        if isinstance(ty, types.Array):
            self._same_layout(argument, *(self.em.array(ty, value) for value in (primal, shadow)))
        else:
            missing = builder.icmp_unsigned("!=", extent.low, extent.high)
            missing = builder.and_(missing, cgutils.is_null(builder, data))
            what = f"the shadow of `{argument.name}` is not set"
            refusal = Refusal(what, _ITEM_BY_ITEM, _own_shadow(argument.name))
            self._refuse_if(missing, refusal)
        return extent, extent.moved(data, builder)  # by K1

    def lanes(
        self,
        arguments: Sequence[ArgumentSpec],
        values: Sequence[tuple[Any, Sequence[Any]]],
        width: int,
    ) -> list[list[_Memory]]:
        """The memory of each lane. If nothing is written, scratch shadows need no checks: they are
        new, with the layout of their primals. The checks of dictionaries also order their keys.
        """
        per_argument = zip(self._written, values, strict=True)
        self._writes_shadowed = any(written and shadows for written, (_, shadows) in per_argument)
        regions: list[tuple[ArgumentSpec, bool, Value, list[Value]]] = []
        per_argument = zip(arguments, self._written, self._scratch, values, strict=True)
        for argument, written, scratch, (whole, shadows) in per_argument:
            checked = any(self._written) or layout_of(argument.numba_type).has_keys
            given = () if scratch and not checked else shadows
            regions += (
                (region, written, primal, own)
                for region, (primal, *own) in regions_of(self.em, argument, (whole, *given))
            )
        return [
            [
                memory
                for region, written, primal, own in regions
                for memory in self.memories(region, primal, own[lane] if own else None, written)
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
            meets = "may overlap" if _has_gaps(memory, other) else "overlaps"
            what = f"the shadow of `{name}` {meets} {whose}"
            refusal = Refusal(what, _MIXED_UP, (*_own_shadow(name), _COPY))
            if other is memory and memory.overlap is not None:
                self.tests.refuse_if(memory.overlap, refusal)
                continue
            self.tests.keep_apart(memory.shadow, other.primal, refusal)

    def compare(self, first: _Memory, second: _Memory) -> None:
        """Check K3 and K4 for two arguments."""
        names = f"`{first.argument.name}` and `{second.argument.name}`"
        if first is second:
            names = f"items of `{first.argument.name}`"
        overlap = "may overlap" if _has_gaps(first, second) else "overlap"
        written = first.written or second.written
        if first.shadow is None and second.shadow is None:
            if written:
                self.tests.tell(first.primal, second.primal)
            return
        if first.shadow is None or second.shadow is None:
            what = f"{names} {overlap}, one is written, and not both have a shadow"
            if written:
                refusal = Refusal(what, _SAME_MEMORY, _APART)
                self.tests.keep_apart(first.primal, second.primal, refusal)
            return
        what = f"{names} {overlap}, but their shadows do not likewise"
        unlike = Refusal(what, _SAME_MEMORY, _ALIKE)
        what = f"the shadows of {names} {overlap}, but the arguments do not likewise"
        mixed = Refusal(what, _MIXED_UP, (*_OWN_SHADOW, _NOT_TWICE))
        self.tests.keep_alike(
            first.primal, second.primal, (unlike, mixed), shadows_only=not written
        )

    def keep_lanes_apart(
        self, lane: Sequence[_Memory], other_lane: Sequence[_Memory], *, written_only: bool
    ) -> None:
        """Check K5 for two lanes, or only for the shadows of written memory."""
        for left in lane:
            for right in other_lane:
                if left.shadow is None or right.shadow is None:
                    continue
                if left.written or right.written or not written_only:
                    names = f"`{left.argument.name}` and `{right.argument.name}`"
                    what = f"shadows of {names} in different lanes overlap"
                    refusal = Refusal(what, _MIXED_UP, _OWN_SHADOW)
                    self.tests.keep_apart(left.shadow, right.shadow, refusal)

    def _same_layout(self, argument: ArgumentSpec, primal: Any, shadow: Any) -> None:
        builder, name = self.builder, argument.name
        shapes = self._axes(argument, primal.shape, shadow.shape)
        strides = self._axes(argument, primal.strides, shadow.strides)
        if is_record_array(argument.numba_type):
            self._whole_records(argument, primal)
        if argument.numba_type.layout == "A" and argument.activity != "const":
            self._items_apart(argument, primal)
        other_shape, other_strides = cgutils.false_bit, cgutils.false_bit
        has_items = builder.icmp_signed("!=", primal.nitems, primal.nitems.type(0))
        for (length, other_length), (stride, other_stride) in zip(shapes, strides, strict=True):
            differs = builder.icmp_unsigned("!=", length, other_length)
            other_shape = builder.or_(other_shape, differs)
            # If an axis has length one, or the array is empty, its stride is unused and arbitrary.
            used = builder.and_(has_items, builder.icmp_signed(">", length, length.type(1)))
            differs = builder.and_(used, builder.icmp_unsigned("!=", stride, other_stride))
            other_strides = builder.or_(other_strides, differs)
        for condition, what in (
            (other_shape, "a different shape"),
            (other_strides, "different strides"),
        ):
            what = f"the shadow of `{name}` has {what}"
            filled = f"for a tangent: shadow = make_zero({name}), then shadow[...] = values"
            refusal = Refusal(what, _ITEM_BY_ITEM, (*_own_shadow(name), filled))
            self._refuse_if(condition, refusal)

    def _whole_records(self, argument: ArgumentSpec, array: Any) -> None:
        """Check that strides are multiples of the record size, as the engine assumes."""
        builder, count = self.builder, argument.numba_type.ndim
        for stride in cgutils.unpack_tuple(builder, array.strides, count):
            remainder = builder.srem(stride, stride.type(argument.numba_type.dtype.size))
            differs = builder.icmp_signed("!=", remainder, remainder.type(0))
            what = f"the strides of `{argument.name}` are not those of whole records"
            refusal = Refusal(what, "records that overlap share floats", ("a copy of the array",))
            self._refuse_if(differs, refusal)

    def _items_apart(self, argument: ArgumentSpec, array: Any) -> None:
        """Check that no two items share memory, as items of `np.broadcast_to` and sliding windows
        do: each would receive the derivatives of all of them. A step along each axis has to pass
        over all that steps along shorter strides lead to.
        """
        builder, count = self.builder, argument.numba_type.ndim
        axes = (cgutils.unpack_tuple(builder, axes, count) for axes in (array.shape, array.strides))
        used: list[tuple[Any, Any, Any]] = []
        for length, stride in zip(*axes, strict=True):
            several = builder.icmp_signed(">", length, length.type(1))
            back = builder.icmp_signed("<", stride, stride.type(0))
            step = builder.select(back, builder.neg(stride), stride)
            reach = builder.mul(step, builder.sub(length, length.type(1)))
            used.append((several, step, builder.select(several, reach, reach.type(0))))
        shared = cgutils.false_bit
        for axis in used:
            several, step, _ = axis
            inside = array.itemsize
            for other in used:
                if other is not axis:
                    _, other_step, reach = other
                    shorter = builder.icmp_unsigned("<=", other_step, step)
                    inside = builder.add(inside, builder.select(shorter, reach, reach.type(0)))
            within = builder.icmp_unsigned("<", step, inside)
            shared = builder.or_(shared, builder.and_(several, within))
        what = f"items of `{argument.name}` share memory, or lie between one another"
        self._refuse_if(shared, Refusal(what, _ADDED_UP, (f"{argument.name}.copy()",)))

    def _axes(self, argument: ArgumentSpec, primal: Value, shadow: Value) -> list[tuple[Any, Any]]:
        count = argument.numba_type.ndim
        unpacked = (cgutils.unpack_tuple(self.builder, axes, count) for axes in (primal, shadow))
        return list(zip(*unpacked, strict=True))


def _is_followed(node: Node) -> bool:
    """Whether an item of a list or dictionary is, or refers to, a region of its own; a record does
    not count, as it lies in the memory of the items.
    """
    return has_regions(node) and not (isinstance(node, Struct) and node.kind == "record")


def _has_gaps(*memories: _Memory) -> bool:
    """Whether any of them is an array that need not be contiguous, known by its extent only."""
    types_of = [m.argument.numba_type for m in memories]
    return any(isinstance(ty, types.Array) and ty.layout == "A" for ty in types_of)


_NO_MEMORY = Refusal("there is no memory to compare what is in lists", "", ())
_ITEM_BY_ITEM = "each item of the shadow is found where its item of the primal is"
_KEY_BY_KEY = "each value of the shadow is found by the key of its value of the primal"
_ADDED_UP = "items that share memory would each get the sum of all their derivatives"
_MIXED_UP = "what is added for one would be taken for the other"
_SAME_MEMORY = "they are the same memory, and so must be the derivatives that belong to it"
_APART = ("pass a copy of one of them", "mark both Duplicated, with shadows that overlap likewise")
_ALIKE = (
    "a copy of one of the arguments, if what is written need not be seen in both",
    "autodiff, with shadows that are views of one array, as the arguments are",
)
_COPY = "for a tangent: a copy of it"
_OWN_SHADOW = ("a shadow of its own for each",)
_NOT_TWICE = "for a checkpointed function, which runs on copies: a copy of what a list holds twice"


def _own_shadow(name: str) -> tuple[str, ...]:
    return (f"make_zero({name})",)


RELEASE_DEFINITION = """
declare void @NRT_decref(ptr)
define void @activerules.release(ptr %meminfo) {
  call void @NRT_decref(ptr %meminfo)
  ret void
}
"""


def release_shadow(em: Emit, ty: Any, shadow: Value) -> None:
    """Emit the release of a shadow, or of all arrays in one, on an error path.

    It calls a function of our own: if Numba sees an `NRT_decref`, it does not prune its own
    references, which the exception would leak.
    """
    for visit in walk(em, layout_of(ty), (shadow,), depth=Depth.TUPLES):
        numba_type = visit.node.numba_type
        if visit.node.has_shadow and not isinstance(numba_type, types.Record):
            helper = em.context.make_helper(em.builder, numba_type, value=visit.values[0])
            release_counted(em.builder, helper.meminfo)


def release_counted(builder: Builder, meminfo: Value) -> None:
    """Like `release_shadow`, for any reference-counted memory."""
    call_named(builder, "activerules.release", ir.VoidType(), [meminfo])


def owned_shadows(
    gradient: CompiledDerivative, arguments: Sequence[ArgumentSpec]
) -> tuple[bool, ...]:
    """Per argument: whether the call of a derivative owns its shadow, or a reference to it.

    It owns scratch shadows, and with the option runtime_activity every shadow of memory.
    """
    if "runtime_activity" not in gradient.options:
        return gradient.scratch
    return tuple(
        own or (a.activity != "const" and layout_of(a.numba_type).carried.by_reference)
        for own, a in zip(gradient.scratch, arguments, strict=True)
    )

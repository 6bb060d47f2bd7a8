"""Walks over values in the IR of a caller: along the tree of their type, with each part's address.

Needs       trees (`layout`), and LLVM values of these types
Gives       `walk`: visits every part, of one value or of several in step
            `rebuild`: tuples with other leaves; `fresh`: new objects, too
Invariants  W1  a node is visited before its parts; code that a visitor emits at a `Visit` is in the
                loops and branches that lead to it
            W2  the first value leads: it determines lengths of lists and shapes of arrays. A list
                of another length, or a dictionary with other keys, is visited without items
            W3  a walk only reads. A part in memory is loaded when it is asked for, not before
            W4  a field without an object is visited as memory of zeros
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, cached_property, partial
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.experimental.jitclass.base import imp_dtor
from numba.extending import intrinsic

from activerules.numba_ext.codegen.protocols import Emit, emitting
from activerules.values.contents import Entries, each_address, entries_of, struct_of
from activerules.values.layout import (
    EACH,
    Array,
    Items,
    Node,
    Number,
    Optional,
    Path,
    Step,
    Struct,
    layout_of,
    map_type,
)
from activerules.values.memory_layout import struct_type


class Depth(IntEnum):
    """How deep a walk descends."""

    TUPLES = 0
    """Items of tuples."""
    VALUE = 1
    """Optionals that are not None, too: all that is passed by value."""
    FIELDS = 2
    """Fields of instances, too: memory whose parts are known at compile time."""
    ITEMS = 3
    """Items of lists and values of dictionaries, too: in a loop."""
    NUMBERS = 4
    """Elements of arrays and fields of records, too: every number in memory."""


@dataclass
class WalkedValue:
    """One value in a walk: an LLVM value (`in_register`), or in memory at `address`.

    align     the alignment of numbers in unaligned records: 1
    as_value  in the memory of a StructRef, which holds Numba's value representation (i1 for a
              boolean); all other memory holds the data representation (i8)
    """

    em: Emit
    node: Node
    in_register: Any = None
    address: Any = None
    align: int | None = None
    as_value: bool = False

    @property
    def value(self) -> Any:
        """The value, loaded at this point of the code; borrowed."""
        if self.in_register is not None:
            return self.in_register
        context, builder, ty = self.em.context, self.em.builder, self.node.numba_type
        if self.as_value:
            return builder.load(self.address)
        return context.unpack_value(builder, ty, self.address, self.align)

    def store(self, value: Any) -> None:
        """Store a number at the address."""
        em = self.em
        em.context.pack_value(em.builder, self.node.numba_type, value, self.address, self.align)

    def at(self, node: Node, address: Any) -> WalkedValue:
        """A part of this value, in memory at `address`."""
        return WalkedValue(self.em, node, None, address, self.align, self.as_value)


@dataclass(frozen=True)
class Visit:
    """A part of the values of a walk."""

    path: Path
    node: Node
    slots: tuple[WalkedValue, ...]

    @property
    def values(self) -> tuple[Any, ...]:
        """The part that each of the values has here."""
        return tuple(slot.value for slot in self.slots)

    @property
    def is_number_in_memory(self) -> bool:
        """Whether it is a float or complex number that can be overwritten."""
        return isinstance(self.node, Number) and self.slots[0].address is not None

    @cached_property
    def entries(self) -> Entries | None:
        """The items of a list, or the entries of a dictionary, in each of the values; None for any
        other part, and if the layout of the items is unknown. Ask for them before the visitor
        opens a branch of its own, since the walk goes on to use them.
        """
        if not isinstance(self.node, Items) or self.node.unknown_path is not None:
            return None
        em = self.slots[0].em
        return entries_of(em, self.node.numba_type, self.values)

    @property
    def has_other_keys(self) -> Any:
        """For a dictionary, the condition that another value does not have the keys of the first;
        None for any other part.
        """
        if not isinstance(self.node, Items) or self.node.key is None or self.entries is None:
            return None
        return self.slots[0].em.builder.not_(self.entries.alike)


_Parts = Iterator[tuple[Step, Sequence[WalkedValue]]]


def _always(node: Node) -> bool:
    return True


@dataclass(frozen=True)
class _Options:
    depth: Depth
    where: Callable[[Node], bool]
    inside_first: bool


def walk(
    em: Emit,
    nodes: Node | Sequence[Node],
    values: Sequence[Any],
    *,
    depth: Depth = Depth.NUMBERS,
    where: Callable[[Node], bool] = _always,
    inside_first: bool = False,
) -> Iterator[Visit]:
    """Visit every part of the values, in step.

    nodes   the tree of all values, or one tree per value, of the same structure, as those of a
            result and its cotangent. The walk does not descend where another value has no such
            part (None for an optional, an array or a tuple)
    where   parts for which this is false are skipped
    inside_first    a part is visited after its contents, as releasing both requires

    The iterator closes loops and branches as it goes: exhaust it, and never interleave two.
    """
    own = (nodes,) * len(values) if isinstance(nodes, Node) else tuple(nodes)
    slots = tuple(WalkedValue(em, node, value) for node, value in zip(own, values, strict=True))
    yield from _walk(em, Visit((), own[0], slots), _Options(depth, where, inside_first))


def _walk(em: Emit, visit: Visit, options: _Options) -> Iterator[Visit]:
    if not options.where(visit.node):
        return
    if not options.inside_first:
        yield visit
    enter = _ENTER.get(type(visit.node), _nothing)
    if any(slot.node.numba_type == types.none for slot in visit.slots):
        enter = _nothing
    for step, slots in enter(em, visit, options):
        part = Visit((*visit.path, step), slots[0].node, tuple(slots))
        yield from _walk(em, part, options)
    if options.inside_first:
        yield visit


def _nothing(em: Emit, visit: Visit, options: _Options) -> _Parts:
    return iter(())


def _struct(em: Emit, visit: Visit, options: _Options) -> _Parts:
    assert isinstance(visit.node, Struct)
    depth, open_ = {
        "tuple": (Depth.TUPLES, _items_of_tuple),
        "record": (Depth.NUMBERS, _fields_of_record),
    }.get(visit.node.kind, (Depth.FIELDS, _fields_of_instance))
    if options.depth < depth or not any(options.where(child) for _, child in visit.node.fields):
        return
    columns = [open_(em, slot) for slot in visit.slots]
    for k, slots in enumerate(zip(*columns, strict=True)):
        yield visit.node.fields[k][0], slots


def _items_of_tuple(em: Emit, slot: WalkedValue) -> list[WalkedValue]:
    nodes = [child for _, child in slot.node.children]
    if slot.address is not None:
        items = (cgutils.gep_inbounds(em.builder, slot.address, 0, k) for k in range(len(nodes)))
        return [slot.at(*pair) for pair in zip(nodes, items, strict=True)]
    values = cgutils.unpack_tuple(em.builder, slot.value, len(nodes))
    return [WalkedValue(em, *pair) for pair in zip(nodes, values, strict=True)]


def _fields_of_record(em: Emit, slot: WalkedValue) -> list[WalkedValue]:
    ty, base = slot.node.numba_type, slot.value
    align = slot.align if ty.aligned else 1
    fields: list[WalkedValue] = []
    for name, child in slot.node.children:
        address = _moved(em, base, ty.offset(name), child.numba_type)
        fields.append(WalkedValue(em, child, address=address, align=align))
    return fields


def _fields_of_instance(em: Emit, slot: WalkedValue) -> list[WalkedValue]:
    node = slot.node
    struct = struct_of(em, node.numba_type, slot.value)
    as_value = isinstance(node.numba_type, types.StructRef)
    return [
        WalkedValue(em, child, address=struct._get_ptr_by_index(k), as_value=as_value)
        for k, (_, child) in enumerate(node.children)
    ]


def _moved(em: Emit, base: Any, offset: Any, ty: Any) -> Any:
    pointer_type = em.context.get_data_type(ty).as_pointer()
    offset = offset if hasattr(offset, "type") else cgutils.intp_t(offset)
    return cgutils.pointer_add(em.builder, base, offset, pointer_type)


def _array(em: Emit, visit: Visit, options: _Options) -> _Parts:
    assert isinstance(visit.node, Array)
    if options.depth < Depth.NUMBERS or not options.where(visit.node.element):
        return
    if isinstance(visit.node.numba_type, types.NestedArray):
        yield from _elements_in_place(em, visit)
    elif {slot.node.numba_type.layout for slot in visit.slots} in ({"C"}, {"F"}):
        yield from _elements_in_order(em, visit)
    else:
        yield from _elements_by_index(em, visit)


def _elements_in_place(em: Emit, visit: Visit) -> _Parts:
    """The elements of an array field of a record, one after the other."""
    ty, element = visit.node.numba_type, visit.node.children[0][1]
    size = em.context.get_abi_sizeof(em.context.get_data_type(ty.dtype))
    with cgutils.for_range(em.builder, cgutils.intp_t(ty.nitems)) as loop:
        offset = em.builder.mul(loop.index, cgutils.intp_t(size))
        addresses = [_moved(em, slot.address, offset, ty.dtype) for slot in visit.slots]
        yield EACH, [s.at(element, a) for s, a in zip(visit.slots, addresses, strict=True)]


def _elements_in_order(em: Emit, visit: Visit) -> _Parts:
    """The elements of contiguous arrays of one layout, in memory order."""
    arrays = [em.array(slot.node.numba_type, slot.value) for slot in visit.slots]
    with cgutils.for_range(em.builder, arrays[0].nitems) as loop:
        yield (
            EACH,
            [
                _element(em, slot, em.builder.gep(array.data, [loop.index]))
                for slot, array in zip(visit.slots, arrays, strict=True)
            ],
        )


def _elements_by_index(em: Emit, visit: Visit) -> _Parts:
    arrays = [em.array(slot.node.numba_type, slot.value) for slot in visit.slots]
    shape = cgutils.unpack_tuple(em.builder, arrays[0].shape, visit.node.numba_type.ndim)
    address = partial(cgutils.get_item_pointer, em.context, em.builder)
    with cgutils.loop_nest(em.builder, shape, cgutils.intp_t) as index:
        yield (
            EACH,
            [
                _element(em, slot, address(slot.node.numba_type, array, index))
                for slot, array in zip(visit.slots, arrays, strict=True)
            ],
        )


def _element(em: Emit, slot: WalkedValue, address: Any) -> WalkedValue:
    align = None if slot.node.numba_type.aligned else 1
    return WalkedValue(em, slot.node.children[0][1], address=address, align=align)


def _collection(em: Emit, visit: Visit, options: _Options) -> _Parts:
    node = visit.node
    assert isinstance(node, Items)
    if options.depth < Depth.ITEMS or not options.where(node.item) or visit.entries is None:
        return
    with each_address(em, node.numba_type, visit.entries) as addresses:
        yield (
            EACH,
            [slot.at(node.item, at) for slot, at in zip(visit.slots, addresses, strict=True)],
        )


def _present(em: Emit, visit: Visit, options: _Options) -> _Parts:
    """The contents of an optional, unless it is None in one of the values."""
    if options.depth < Depth.VALUE:
        return
    there, slots = cgutils.true_bit, list[WalkedValue]()
    for slot in visit.slots:
        if isinstance(slot.node, Optional):
            optional = em.context.make_helper(em.builder, slot.node.numba_type, slot.value)
            valid = cgutils.as_bool_bit(em.builder, optional.valid)
            there = em.builder.and_(there, valid)
            slot = WalkedValue(em, slot.node.item, optional.data)
        slots.append(slot)
    with em.builder.if_then(there):
        yield "?", slots


_ENTER: dict[type, Callable[[Emit, Visit, _Options], _Parts]] = {
    Struct: _struct, Array: _array, Items: _collection, Optional: _present,
}  # fmt: skip


# --- new values ---


def rebuild(
    em: Emit,
    node: Node | tuple[Node, ...],
    values: Sequence[Any],
    leaf: Callable[..., Any],
    leaf_type: Callable[[Node], Any] = lambda leaf: leaf.numba_type,
) -> Any:
    """A value with the structure of `node`, whose leaves are `leaf(em, node, *values)`; its type is
    that of `map_type` with `leaf_type`. A value that is None, as a missing derivative, has None for
    every leaf.

    node    the tree of all values, or a tuple with one tree per value, the first of which leads;
            `leaf` is passed a node or a tuple accordingly
    """
    trees = (node,) if isinstance(node, Node) else node
    if not trees[0].is_tuple:
        return leaf(em, node, *values)
    count = len(trees[0].children)
    columns = [
        [None] * count if value is None else cgutils.unpack_tuple(em.builder, value, count)
        for value in values
    ]
    items: list[Any] = []
    for k in range(count):
        parts = tuple(tree.children[k][1] for tree in trees)
        part = parts[0] if isinstance(node, Node) else parts
        items.append(rebuild(em, part, [column[k] for column in columns], leaf, leaf_type))
    return em.context.make_tuple(em.builder, map_type(trees[0], leaf_type), items)


@dataclass(frozen=True)
class Making:
    """How `fresh` makes a new value; module-level functions, since compiled code is cached by them.

    leaf    the new leaf; the new value owns the reference
    opened  whether an object, list or dictionary is made again
    kept    whether items are right as they are in a copy of a list or dictionary
    """

    leaf: Callable[[Emit, Node, Any], Any]
    opened: Callable[[Node], bool]
    kept: Callable[[Node], bool]


def fresh(em: Emit, node: Node, value: Any, making: Making) -> Any:
    """A new value with the structure of another, owned by the caller."""
    if node.is_tuple:
        return rebuild(em, node, (value,), lambda em, leaf, part: fresh(em, leaf, part, making))
    if not making.opened(node):
        return making.leaf(em, node, value)
    make = _fresh_items if isinstance(node, Items) else _fresh_instance
    return make(em, node, value, making)


def _fresh_instance(em: Emit, node: Node, value: Any, making: Making) -> Any:
    result = new_object(em, node.numba_type)
    source, target = (struct_of(em, node.numba_type, struct) for struct in (value, result))
    for k, (_, child) in enumerate(node.children):
        target[k] = fresh(em, child, source[k], making)
    return result


def new_object(em: Emit, ty: Any) -> Any:
    """A reference to a new object of a class, all zero, with the destructor of the class."""
    context, builder = em.context, em.builder
    memory_type = struct_type(ty)
    size = context.get_constant(types.uintp, context.get_abi_sizeof(memory_type))
    destructor = imp_dtor(context, builder.module, ty)
    meminfo = context.nrt.meminfo_alloc_dtor(builder, size, destructor)
    data = builder.bitcast(context.nrt.meminfo_data(builder, meminfo), memory_type.as_pointer())
    builder.store(cgutils.get_null_value(memory_type), data)
    reference = context.make_helper(builder, ty)
    reference.meminfo = meminfo
    if not isinstance(ty, types.StructRef):
        reference.data = data
    return reference._getvalue()


def _fresh_items(em: Emit, node: Node, value: Any, making: Making) -> Any:
    context, builder, ty = em.context, em.builder, node.numba_type
    assert isinstance(node, Items)
    result = cgutils.alloca_once_value(builder, context.get_constant_null(ty))
    data = context.make_helper(builder, ty, value=value).data
    with cgutils.if_likely(builder, cgutils.is_not_null(builder, data)):  # a field that is set
        is_kept = making.kept(node.item)
        copy = _array_copy if is_kept else _filled(making, by_key=node.key is not None)
        copied = context.compile_internal(builder, copy, signature(ty, ty), [value])
        builder.store(copied, result)
    return builder.load(result)


def _array_copy(x):
    return x.copy()


@cache
def _filled(making: Making, *, by_key: bool) -> Any:
    """A function that copies a list or dictionary with new items."""

    @intrinsic
    def item(typing_context, x):
        return x(x), emitting(lambda em, args: fresh(em, layout_of(x), args[0], making))

    # `item` is a cell, not a global: Numba caches this function by its code and cells
    def items(x):
        result = x.copy()
        for k in range(len(x)):
            result[k] = item(x[k])  # pyright: ignore[reportCallIssue]
        return result

    def values(x):
        result = x.copy()
        for key, value in x.items():
            result[key] = item(value)  # pyright: ignore[reportCallIssue]
        return result

    return values if by_key else items

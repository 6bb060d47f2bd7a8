"""Memory layouts of records, jitclass instances, StructRefs, typed lists and typed dictionaries.

Needs       a Numba type
Gives       `fields_of`: the fields of an instance; `declared_of`: where the floats are in the
            memory of a leaf; `declared_result`: in that of a result; `inner_of`: the memory behind
            the pointers in it; `items_array`: the type of an array over the items of a list
Invariants  E1  offsets are those of Numba's own data models
            E2  a part that is not known to hold no floats is refused (`Node.unknown_path`)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.registry import cpu_target
from numba.np import numpy_support

from activerules.ir.analysis.memory.declared import Declared, PointerKind
from activerules.ir.llvm.types import I8, I16, I32, I64, Type, align_up, size_of
from activerules.values.abi import float_offsets, member_offset
from activerules.values.kinds import (
    FLOAT_OF,
    is_instance,
    is_known_dict,
    is_known_list,
    is_typed_number_list,
    leaves_of,
)
from activerules.values.layout import Array, Items, Node, Struct, layout_of

Pointers = tuple[tuple[int, PointerKind], ...]
NO_FLOATS = Declared((), 1)
LIST_SIZE, LIST_ITEMS = 0, 48
"""The offsets of the length and of the pointer to the items in the struct of a list (NB_List)."""
_LIST_INTEGERS = frozenset({LIST_SIZE, 8, 16})
_DICT_INTEGERS = frozenset({0})
DICT_KEYS = 8
"""The offset of the pointer to keys and values in the struct of a dictionary (NB_Dict)."""
_INTEGER_OF_SIZE: dict[int, Type] = {1: I8, 2: I16, 4: I32, 8: I64}
# the pointers in the struct of an array: meminfo, parent and data
_ARRAY_POINTERS: Pointers = (
    (0, "somewhere"),
    (1, "somewhere"),
    (4, "start"),
)
# number of items, and bytes of one; lengths, and strides behind them
_ARRAY_SIZES, _ARRAY_SHAPE = (2, 3), 5
_I64 = ir.IntType(64)
# in a reference to an instance: meminfo and data; a StructRef has the first alone
_INSTANCE_POINTERS: Pointers = ((0, "counted"), (1, "start"))
# in a reference to a list or dictionary: meminfo, whose data is a pointer to it, and the pointer
_LIST_POINTERS: Pointers = ((0, "somewhere"), (1, "start"))


@dataclass(frozen=True)
class InstanceField:
    """A field of an instance: its Numba type, and its offset in the instance's memory."""

    name: str
    numba_type: Any
    offset: int


@dataclass(frozen=True)
class Inner:
    """Memory that pointers in other memory refer to.

    path      the names and indices that lead to it
    pointers  the offsets of the pointers to it, in one period of the other memory, and the kind of
              each
    """

    path: tuple[str | int, ...]
    numba_type: Any
    pointers: Pointers


@dataclass(frozen=True)
class ItemMemory:
    """The memory of the items of a typed list, or of the values of a typed dictionary, each behind
    a hash and a key; used in place of a Numba type.

    The values are at one offset in a period (K2 of `dict_runtime`).
    """

    item_type: Any
    key_type: Any = None

    def __str__(self) -> str:
        """Return a unique name of this layout."""
        behind = "" if self.key_type is None else f" by {self.key_type}"
        return f"items of {self.item_type}{behind}"

    @property
    def offset(self) -> int:
        """The offset of the item in a period."""
        return 0 if self.key_type is None else value_offset(_size_of_element(self.key_type))

    @property
    def period(self) -> int:
        """The distance in bytes from one item to the next."""
        if self.key_type is None:
            return _size_of_element(self.item_type)
        return entry_sizes(_context(), self.key_type, self.item_type)[2]


def items_in(ty: Any) -> ItemMemory:
    """The items of a typed list, or the values of a typed dictionary."""
    if isinstance(ty, types.DictType):
        return ItemMemory(ty.value_type, ty.key_type)
    return ItemMemory(ty.item_type)


def has_inner(ty: Any) -> bool:
    """Whether there are pointers in the items of a list, or in the values of a dictionary: arrays,
    lists, objects.
    """
    return any(True for _ in inner_of(items_in(ty)))


def items_array(ty: Any) -> types.Array:
    """The type of an array over the items of a list, or over the keys and values of a dictionary.

    Items that are not numbers become records of the floats in them, or plain bytes if there are
    none.
    """
    if is_typed_number_list(ty):
        return types.Array(ty.item_type, 1, "C")
    return _records_over(items_in(ty))


def _records_over(items: ItemMemory) -> types.Array:
    declared = declared_of(items)
    assert declared is not None
    if not declared.floats:
        return types.Array(types.CharSeq(declared.period), 1, "C")
    layout: Any = {
        "names": [f"at{offset}" for offset, _ in declared.floats],
        "formats": [f"f{size_of(t, {})}" for _, t in declared.floats],
        "offsets": [offset for offset, _ in declared.floats],
        "itemsize": declared.period,
    }
    return types.Array(numpy_support.from_dtype(np.dtype(layout)), 1, "C")


def entry_sizes(context: Any, key_type: Any, value_type: Any) -> tuple[int, int, int]:
    """The sizes in bytes of a key, a value and an entry of a dictionary."""
    key, value = (context.get_abi_sizeof(context.get_data_type(t)) for t in (key_type, value_type))
    return key, value, value_offset(key) + align_up(value, 8)


def value_offset(key_size: int) -> int:
    """The offset of the value in an entry, which begins with the hash and the key."""
    return 8 + align_up(key_size, 8)


def struct_type(ty: Any) -> ir.Type:
    """The LLVM type of the memory an instance refers to."""
    context = _context()
    if isinstance(ty, types.StructRef):
        return context.data_model_manager[ty.get_data_type()].get_value_type()
    return context.get_data_type(ty.get_data_type())


def fields_of(ty: Any) -> tuple[InstanceField, ...]:
    """The fields of an instance, in order."""
    is_structref = isinstance(ty, types.StructRef)
    named = dict(ty.field_dict if is_structref else ty.class_type.struct)
    struct = struct_type(ty)
    return tuple(
        InstanceField(name, field, member_offset(struct, k))
        for k, (name, field) in enumerate(named.items())
    )


@dataclass(frozen=True)
class _Part:
    """A part of memory that is neither a tuple nor a record.

    llvm    its LLVM type; None in records and arrays, which hold floats and no pointers
    """

    path: tuple[str | int, ...]
    node: Node
    llvm: ir.Type | None
    offset: int

    @property
    def floats(self) -> Iterator[tuple[int, Type]]:
        """The offsets and types of its floats."""
        ty = self.node.numba_type
        if ty in FLOAT_OF:
            for k in range(2 if isinstance(ty, types.Complex) else 1):
                yield self.offset + k * size_of(FLOAT_OF[ty], {}), FLOAT_OF[ty]

    @property
    def integers(self) -> Iterator[int]:
        """The offsets of its integers of eight bytes: in an array, of lengths and strides."""
        if isinstance(self.node, Array):
            start = self._of_element(_ARRAY_SHAPE)
            yield from map(self._of_element, _ARRAY_SIZES)
            yield from range(start, start + 2 * self.node.numba_type.ndim * 8, 8)
        elif self.llvm == _I64:
            yield self.offset

    @property
    def inner(self) -> Inner | None:
        """The memory it refers to; None if it is not a reference."""
        pointers: Pointers
        if isinstance(self.node, Array):
            pointers = _ARRAY_POINTERS
        elif isinstance(self.node, Struct):
            pointers = _INSTANCE_POINTERS[: len(getattr(self.llvm, "elements", ()))]
        elif isinstance(self.node, Items) and self.node.is_typed:
            pointers = _LIST_POINTERS
        else:
            return None
        in_period: list[tuple[int, PointerKind]] = [
            (self._of_element(k), kind) for k, kind in pointers
        ]
        return Inner(self.path, self.node.numba_type, tuple(in_period))

    def _of_element(self, k: int) -> int:
        return self.offset + member_offset(self.llvm, k)


def _parts_of(ty: Any) -> Iterator[_Part]:
    """The parts of one period of a leaf's memory; for a list or dictionary, of its struct only."""
    if isinstance(ty, ItemMemory):
        llvm = _context().get_data_type(ty.item_type)
        yield from _parts(("each",), layout_of(ty.item_type), llvm, ty.offset)
    elif isinstance(ty, types.Array):
        yield from _parts((), layout_of(ty.dtype), None, 0)
    elif isinstance(ty, types.Record):
        yield from _parts((), layout_of(ty), None, 0)
    elif is_instance(ty):
        struct = struct_type(ty)
        for k, field in enumerate(fields_of(ty)):
            node, llvm = layout_of(field.numba_type), _element(struct, k)
            yield from _parts((field.name,), node, llvm, field.offset)


def _parts(
    path: tuple[str | int, ...], node: Node, llvm: ir.Type | None, offset: int
) -> Iterator[_Part]:
    ty = node.numba_type
    if node.is_tuple:
        for k, (_, item) in enumerate(node.children):
            inside = offset + member_offset(llvm, k)
            yield from _parts((*path, k), item, _element(llvm, k), inside)
    elif isinstance(ty, types.Record):
        for name, field in ty.fields.items():
            inside = offset + field.offset
            yield from _parts((*path, name), layout_of(field.type), None, inside)
    elif isinstance(ty, types.NestedArray):
        step = _size_of_element(ty.dtype)
        for k in range(ty.nitems):
            yield from _parts(path, layout_of(ty.dtype), None, offset + k * step)
    else:
        yield _Part(path, node, llvm, offset)


def declared_of(ty: Any) -> Declared | None:
    """The floats in the memory of a leaf: an array, record, instance, the struct of a list or
    dictionary, or the items of one; None for any other type, and if a part is unknown.
    """
    if is_known_list(ty):
        return Declared(integers=_LIST_INTEGERS, pointers=True)
    if is_known_dict(ty):
        return Declared(integers=_DICT_INTEGERS, pointers=True)
    is_items, is_array = isinstance(ty, ItemMemory), isinstance(ty, types.Array)
    if not is_items and not (_has_memory(ty) and layout_of(ty).unknown_path is None):
        return None
    if is_array and ty.dtype in FLOAT_OF:
        return Declared.array_of(FLOAT_OF[ty.dtype])
    parts = tuple(_parts_of(ty))
    floats = tuple(field for part in parts for field in part.floats)
    if is_array:
        if not floats:
            return NO_FLOATS
        return Declared(floats, _size_of_element(ty.dtype), tables=frozenset(_tables(ty.dtype)))
    integers = frozenset(field for part in parts for field in part.integers)
    numbers = types.Number | types.Boolean
    pointers = not all(isinstance(part.node.numba_type, numbers) for part in parts)
    item, start = (ty.item_type, ty.offset) if is_items else (ty, 0)
    tables = frozenset(_tables(item, start))
    return Declared(floats, ty.period if is_items else 0, integers, pointers, tables)


def _tables(ty: Any, start: int = 0) -> Iterator[tuple[int, Type]]:
    """The arrays of integers among the fields of a record, of records in it, too."""
    for field in ty.fields.values() if isinstance(ty, types.Record) else ():
        offset = start + field.offset
        if isinstance(field.type, types.NestedArray) and field.type.dtype not in FLOAT_OF:
            size = _size_of_element(field.type.dtype)
            if size in _INTEGER_OF_SIZE:
                yield offset, _INTEGER_OF_SIZE[size]
        else:
            yield from _tables(field.type, offset)


def declared_result(ty: types.Type) -> Declared | None:
    """The floats in the struct in which a function returns numbers and arrays, in tuples or not;
    None for any other type.
    """
    known = (types.Integer, types.Boolean, types.Array)
    if not all(leaf in FLOAT_OF or isinstance(leaf, known) for leaf in leaves_of(ty)):
        return None
    return Declared(float_offsets(ty))


def _has_memory(ty: Any) -> bool:
    return isinstance(ty, types.Array | types.Record) or is_instance(ty)


def inner_of(ty: Any) -> Iterator[Inner]:
    """The memory that pointers in an instance, list or dictionary point to directly."""
    if is_known_dict(ty):
        yield Inner(("items",), items_in(ty), ((DICT_KEYS, "start"),))
    elif is_known_list(ty):
        yield Inner(("items",), items_in(ty), ((LIST_ITEMS, "start"),))
    else:
        yield from (part.inner for part in _parts_of(ty) if part.inner is not None)


# --- sizes, as Numba has them ---


def _context() -> Any:
    return cpu_target.target_context


def _size_of_element(ty: Any) -> int:
    if isinstance(ty, types.Record):
        return ty.size
    context = _context()
    return context.get_abi_sizeof(context.get_data_type(ty))


def _element(llvm: Any, k: int) -> ir.Type:
    return llvm.element if isinstance(llvm, ir.ArrayType) else llvm.elements[k]

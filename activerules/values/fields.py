"""Values made of fields in one piece of memory: records, jitclass instances, StructRefs, typed
lists, and typed dictionaries.

Needs       a Numba type
Gives       `fields_of`: the fields of an instance; `declared_of`: where the floats are in the
            memory of a leaf; `inner_of`: the memory behind pointers in it
Invariants  E1  offsets are those of Numba's own data models
            E2  what is not known to hold no floats is refused (`unknown_field`)
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
from activerules.ir.llvm.types import DOUBLE, FLOAT, Type, size_of
from activerules.values.layout import layout_of, show

_FLOATS: dict[types.Type, tuple[Type, ...]] = {
    types.float64: (DOUBLE,),
    types.float32: (FLOAT,),
    types.complex128: (DOUBLE, DOUBLE),
    types.complex64: (FLOAT, FLOAT),
}
_NUMPY: dict[Type, Any] = {DOUBLE: np.float64, FLOAT: np.float32}
NO_FLOATS = Declared((), 1)
LIST_SIZE, LIST_ITEMS = 0, 48
_LIST_INTEGERS = frozenset({LIST_SIZE, 8, 16})
_DICT_INTEGERS = frozenset({0})
"""Where the length and the pointer to the items are in the struct of a list (NB_List)."""
DICT_KEYS = 8
"""Where the pointer to keys and values is in the struct of a dictionary (NB_Dict)."""
# where the pointers are in the struct of an array: meminfo, parent and data
_ARRAY_POINTERS: tuple[tuple[int, PointerKind], ...] = (
    (0, "somewhere"),
    (1, "somewhere"),
    (4, "start"),
)
# number of items, and bytes of one; lengths, and strides behind them
_ARRAY_SIZES, _ARRAY_SHAPE = (2, 3), 5
_I64 = ir.IntType(64)
# of a reference to an instance: meminfo and data, of a StructRef the first alone
_INSTANCE_POINTERS: tuple[tuple[int, PointerKind], ...] = ((0, "counted"), (1, "start"))
# of a reference to a list or dictionary: meminfo, behind which there is a pointer to it, and it
_LIST_POINTERS: tuple[tuple[int, PointerKind], ...] = ((0, "somewhere"), (1, "start"))


@dataclass(frozen=True)
class InstanceField:
    """A field of an instance: its Numba type, and where it is in the instance's memory."""

    name: str
    numba_type: Any
    offset: int


@dataclass(frozen=True)
class Inner:
    """Memory behind pointers in other memory.

    path      the names and indices that lead to it
    pointers  where in the memory it is reached from, and how each leads there; in every period of
              that
    """

    path: tuple[str | int, ...]
    numba_type: Any
    pointers: tuple[tuple[int, PointerKind], ...]


@dataclass(frozen=True)
class ItemMemory:
    """The memory of the items of a typed list, one after the other, or of the values of a typed
    dictionary, each behind a hash and a key: what stands for its type.

    The values lie at one offset in a period (K2 of `dict_runtime`).
    """

    item_type: Any
    key_type: Any = None

    def __str__(self) -> str:
        """Return a name that no other memory has."""
        behind = "" if self.key_type is None else f" by {self.key_type}"
        return f"items of {self.item_type}{behind}"

    @property
    def offset(self) -> int:
        """Where in a period the item is."""
        return 0 if self.key_type is None else value_offset(_size_of_element(self.key_type))

    @property
    def period(self) -> int:
        """The bytes from one item to the next."""
        if self.key_type is None:
            return _size_of_element(self.item_type)
        return entry_sizes(_context(), self.key_type, self.item_type)[2]


def items_in(found: Any) -> ItemMemory:
    """The items of a typed list, or the values of a typed dictionary."""
    if isinstance(found, types.DictType):
        return ItemMemory(found.value_type, found.key_type)
    return ItemMemory(found.item_type)


def items_of(tuple_type: Any) -> tuple[types.Type, ...]:
    """The types of the items of a tuple type of any of Numba's kinds."""
    return tuple(tuple_type)


def is_instance(found: Any) -> bool:
    """Whether a value is a reference to counted memory with named fields of several types."""
    return isinstance(found, types.ClassInstanceType | types.StructRef)


def is_record_array(found: Any) -> bool:
    """Whether a value is an array of records."""
    return isinstance(found, types.Array) and isinstance(found.dtype, types.Record)


def is_list(found: Any) -> bool:
    """Whether a value is a typed list with floats in its items or behind them, where all is known
    that may hold some.
    """
    return is_known_list(found) and holds_floats(found)


def is_known_list(found: Any) -> bool:
    """Whether a value is a typed list of whose items all is known that may hold floats."""
    return isinstance(found, types.ListType) and unknown_field(found) is None


def is_list_of_numbers(found: Any) -> bool:
    """Whether a value is a typed list of floats or complex numbers."""
    return isinstance(found, types.ListType) and found.item_type in _FLOATS


def is_dict(found: Any) -> bool:
    """Whether a value is a typed dictionary with floats in its values or behind them, where all is
    known that may hold some.
    """
    return is_known_dict(found) and holds_floats(found)


def is_known_dict(found: Any) -> bool:
    """Whether a value is a typed dictionary of whose values all is known that may hold floats, by
    keys that hold none.
    """
    return isinstance(found, types.DictType) and unknown_field(found) is None


def is_collection(found: Any) -> bool:
    """Whether a value is a typed list or dictionary with numbers."""
    return is_list(found) or is_dict(found)


def has_inner(found: Any) -> bool:
    """Whether there are pointers in the items of a list, or in the values of a dictionary: arrays,
    lists, objects.
    """
    return any(True for _ in inner_of(items_in(found)))


def has_no_floats(key_type: Any) -> bool:
    """Whether there can be no float in a key of this type."""
    return layout_of(key_type).is_plain


def items_array(found: Any) -> types.Array:
    """The type of an array over the items of a list, or over the keys and values of a dictionary.

    Of items that are no numbers it is one of records with the floats in them, or of so many bytes
    where there are none.
    """
    if is_list_of_numbers(found):
        return types.Array(found.item_type, 1, "C")
    return _records_over(items_in(found))


def _records_over(items: ItemMemory) -> types.Array:
    declared = declared_of(items)
    assert declared is not None
    if not declared.floats:
        return types.Array(types.CharSeq(declared.period), 1, "C")
    layout: Any = {
        "names": [f"at{offset}" for offset, _ in declared.floats],
        "formats": [_NUMPY[t] for _, t in declared.floats],
        "offsets": [offset for offset, _ in declared.floats],
        "itemsize": declared.period,
    }
    return types.Array(numpy_support.from_dtype(np.dtype(layout)), 1, "C")


def entry_sizes(context: Any, key_type: Any, value_type: Any) -> tuple[int, int, int]:
    """The bytes of a key, of a value and of an entry of a dictionary."""
    key, value = (context.get_abi_sizeof(context.get_data_type(t)) for t in (key_type, value_type))
    return key, value, value_offset(key) + _aligned(value)


def value_offset(key_size: int) -> int:
    """Where the value is in an entry: behind the hash and the key."""
    return 8 + _aligned(key_size)


def _aligned(size: int) -> int:
    return -(-size // 8) * 8


def struct_type(found: Any) -> ir.Type:
    """The LLVM type of the memory an instance refers to."""
    context = _context()
    if isinstance(found, types.StructRef):
        return context.data_model_manager[found.get_data_type()].get_value_type()
    return context.get_data_type(found.get_data_type())


def fields_of(found: Any) -> tuple[InstanceField, ...]:
    """The fields of an instance, in order."""
    if isinstance(found, types.StructRef):
        named = dict(found.field_dict)
    else:
        named = dict(found.class_type.struct)
    struct = struct_type(found)
    return tuple(
        InstanceField(name, ty, _element_offset(struct, k))
        for k, (name, ty) in enumerate(named.items())
    )


def holds_floats(found: Any) -> bool:
    """Whether there are floats in a value, or in memory it leads to."""
    return layout_of(found).holds_floats


def unknown_field(found: Any) -> str | None:
    """The first field, of those that may hold floats, of a type nothing is known of; as `.a.b`."""
    path = layout_of(found).unknown_path
    return None if path is None else show(path)


def declared_of(found: Any) -> Declared | None:
    """Where the floats are in the memory of a leaf: array, record, instance, the struct of a list
    or dictionary, or the items in one; None for what is none of these, or holds what is not known.
    """
    if isinstance(found, ItemMemory):
        llvm = _data_type(found)
        floats = tuple(_floats_in_struct(found.item_type, llvm, found.offset))
        integers = frozenset(_integers_in_struct(found.item_type, llvm, found.offset))
        return Declared(floats, found.period, integers)
    if unknown_field(found) is not None:
        return None
    if isinstance(found, types.Array):
        if found.dtype in _FLOATS:
            return Declared.array_of(_FLOATS[found.dtype][0])
        floats = tuple(_floats_of_element(found.dtype, 0))
        return Declared(floats, _size_of_element(found.dtype)) if floats else NO_FLOATS
    if isinstance(found, types.Record):
        return Declared(tuple(_floats_of_element(found, 0)))
    if is_known_list(found):
        return Declared(integers=_LIST_INTEGERS)
    if is_known_dict(found):
        return Declared(integers=_DICT_INTEGERS)
    if is_instance(found):
        struct = struct_type(found)
        places = [
            (field.numba_type, _element(struct, k), field.offset)
            for k, field in enumerate(fields_of(found))
        ]
        return Declared(
            tuple(one for place in places for one in _floats_in_struct(*place)),
            integers=frozenset(one for place in places for one in _integers_in_struct(*place)),
        )
    return None


def inner_of(found: Any) -> Iterator[Inner]:
    """What the pointers in the memory of an instance, list or dictionary lead to, one step."""
    if isinstance(found, ItemMemory):
        yield from _inner(found.item_type, _data_type(found), found.offset, ("each",))
    elif is_known_dict(found):
        yield Inner(("items",), items_in(found), ((DICT_KEYS, "start"),))
    elif is_known_list(found):
        yield Inner(("items",), items_in(found), ((LIST_ITEMS, "start"),))
    elif is_instance(found):
        struct = struct_type(found)
        for k, field in enumerate(fields_of(found)):
            llvm = _element(struct, k)
            yield from _inner(field.numba_type, llvm, field.offset, (field.name,))


def _inner(found: Any, llvm: ir.Type, offset: int, path: tuple[str | int, ...]) -> Iterator[Inner]:
    if isinstance(found, types.Array):
        yield Inner(path, found, _placed(offset, llvm, _ARRAY_POINTERS))
    elif is_instance(found):
        count = len(getattr(llvm, "elements", ()))
        yield Inner(path, found, _placed(offset, llvm, _INSTANCE_POINTERS[:count]))
    elif isinstance(found, types.ListType | types.DictType):
        yield Inner(path, found, _placed(offset, llvm, _LIST_POINTERS))
    elif isinstance(found, types.BaseTuple):
        for k, item in enumerate(items_of(found)):
            yield from _inner(
                item, _element(llvm, k), offset + _element_offset(llvm, k), (*path, k)
            )


def _placed(
    offset: int, llvm: ir.Type, pointers: tuple[tuple[int, PointerKind], ...]
) -> tuple[tuple[int, PointerKind], ...]:
    return tuple((offset + _element_offset(llvm, k), way) for k, way in pointers)


# --- floats ---


def _floats_of_element(found: Any, offset: int) -> Iterator[tuple[int, Type]]:
    """Of an item of an array: a number, or a record with its own offsets."""
    if isinstance(found, types.Record):
        for field in found.fields.values():
            yield from _floats_of_element(field.type, offset + field.offset)
    elif isinstance(found, types.NestedArray):
        step = _size_of_element(found.dtype)
        for k in range(found.nitems):
            yield from _floats_of_element(found.dtype, offset + k * step)
    else:
        yield from _numbers(found, offset)


def _floats_in_struct(found: Any, llvm: ir.Type, offset: int) -> Iterator[tuple[int, Type]]:
    """Of a field of an instance, or an item of a list: a number, a record, or a tuple of such."""
    if isinstance(found, types.BaseTuple):
        for k, item in enumerate(items_of(found)):
            inside = offset + _element_offset(llvm, k)
            yield from _floats_in_struct(item, _element(llvm, k), inside)
    elif isinstance(found, types.Record):
        yield from _floats_of_element(found, offset)
    else:
        yield from _numbers(found, offset)


def _integers_in_struct(found: Any, llvm: ir.Type, offset: int) -> Iterator[int]:
    """The integers of eight bytes in an item of a list."""
    if isinstance(found, types.BaseTuple):
        for k, item in enumerate(items_of(found)):
            inside = offset + _element_offset(llvm, k)
            yield from _integers_in_struct(item, _element(llvm, k), inside)
    elif isinstance(found, types.Array):
        start = offset + _element_offset(llvm, _ARRAY_SHAPE)
        lengths = range(start, start + 2 * found.ndim * 8, 8)
        yield from (*(offset + _element_offset(llvm, k) for k in _ARRAY_SIZES), *lengths)
    elif llvm == _I64:
        yield offset


def _numbers(found: Any, offset: int) -> Iterator[tuple[int, Type]]:
    for t in _FLOATS.get(found, ()):
        yield offset, t
        offset += size_of(t, {})


# --- sizes, as Numba has them ---


def _context() -> Any:
    return cpu_target.target_context


def _size_of_element(found: Any) -> int:
    if isinstance(found, types.Record):
        return found.size
    context = _context()
    return context.get_abi_sizeof(context.get_data_type(found))


def _data_type(items: ItemMemory) -> ir.Type:
    """The LLVM type of an item of a list, or of a value of a dictionary."""
    return _context().get_data_type(items.item_type)


def _element(llvm: Any, k: int) -> ir.Type:
    return llvm.element if isinstance(llvm, ir.ArrayType) else llvm.elements[k]


def _element_offset(llvm: Any, k: int) -> int:
    data = _context().target_data
    if isinstance(llvm, ir.ArrayType):
        return k * llvm.element.get_abi_size(data)
    return llvm.get_element_offset(data, k)

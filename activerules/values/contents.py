"""The contents of objects, in the IR of the caller: fields of instances, items of lists and
dictionaries.

Needs       the Numba type of a value, and the value
Gives       `struct_of`: the memory of an instance; `parts_of`: the items of tuples
            `entries_of`: the items of lists, the entries of dictionaries; `each_address`: a loop
            over their addresses; `array_of_record`: a record as the only element of an array
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Builder, Emit
from activerules.values import dict_runtime
from activerules.values.kinds import items_of
from activerules.values.memory_layout import (
    DICT_KEYS,
    LIST_ITEMS,
    LIST_SIZE,
    items_array,
    items_in,
    struct_type,
)


def parts_of(builder: Builder, ty: Any, *values: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The items of values of one tuple type, with the type of each."""
    items = items_of(ty)
    unpacked = [cgutils.unpack_tuple(builder, value, len(items)) for value in values]
    return zip(items, zip(*unpacked, strict=True), strict=True)


def struct_of(em: Emit, ty: Any, value: Any) -> Any:
    """The memory of an instance, as a struct whose fields can be read by index; all zero if the
    reference is null, as in a field that is not set.
    """
    context, builder = em.context, em.builder
    pointer = memory_of(em, ty, value)
    nothing = cgutils.alloca_once(builder, pointer.type.pointee, zfill=True)
    pointer = builder.select(cgutils.is_null(builder, pointer), nothing, pointer)
    if isinstance(ty, types.StructRef):
        payload = ty.get_data_type()
        return cgutils.create_struct_proxy(payload)(context, builder, ref=pointer)
    data_type = ty.get_data_type()
    return context.make_data_helper(builder, data_type, ref=pointer)


def memory_of(em: Emit, ty: Any, value: Any) -> Any:
    """The pointer to the memory of an instance; null for a field that is not set."""
    context, builder = em.context, em.builder
    reference = context.make_helper(builder, ty, value=value)
    if isinstance(ty, types.StructRef):
        pointer_type = struct_type(ty).as_pointer()
        result = cgutils.alloca_once_value(builder, pointer_type(None))
        with cgutils.if_likely(builder, cgutils.is_not_null(builder, reference.meminfo)):
            data = context.nrt.meminfo_data(builder, reference.meminfo)
            builder.store(builder.bitcast(data, pointer_type), result)
        return builder.load(result)
    return reference.data


@dataclass(frozen=True)
class Entries:
    """The items of typed lists, or the entries of typed dictionaries: hash, key and value.

    array_type  the type of an array over them
    arrays      one such array per list or dictionary, borrowing its memory; empty for a field that
                is not set, and for a dictionary whose keys differ from those of the first
    alike       whether all have the keys of the first
    """

    array_type: Any
    arrays: tuple[Any, ...]
    alike: Any


def entries_of(em: Emit, ty: Any, values: Sequence[Any]) -> Entries:
    """The items or entries of lists or dictionaries of one type. Dictionaries with the keys of the
    first are reordered, so that each key has the same index as in the first.
    """
    array_type, builder = items_array(ty), em.builder
    data = [em.context.make_helper(builder, ty, value=value).data for value in values]
    array = partial(_array_at, em, array_type)
    if not isinstance(ty, types.DictType):
        arrays = tuple(_items_of_list(builder, array, items) for items in data)
        return Entries(array_type, arrays, cgutils.true_bit)
    call = partial(dict_runtime.call, em)
    primal, *shadows = data
    matches = [call("match", cgutils.bool_t, primal, shadow) for shadow in shadows]
    length = call("entries", cgutils.intp_t, primal)
    lengths = [length, *(builder.select(match, length, length.type(0)) for match in matches)]
    arrays = tuple(
        array(_set(builder, entries), DICT_KEYS, length, call("origin", cgutils.intp_t, entries))
        for entries, length in zip(data, lengths, strict=True)
    )
    return Entries(array_type, arrays, reduce(builder.and_, matches, cgutils.true_bit))


def _items_of_list(builder: Builder, array: Callable[..., Any], lp: Any) -> Any:
    lp = _set(builder, lp)
    address = cgutils.pointer_add(builder, lp, cgutils.intp_t(LIST_SIZE))
    length = builder.load(builder.bitcast(address, cgutils.intp_t.as_pointer()))
    return array(lp, LIST_ITEMS, length, cgutils.intp_t(0))


def _set(builder: Builder, struct: Any) -> Any:
    """The struct of a list or dictionary; all zeros for a field that is not set."""
    nothing = cgutils.alloca_once(builder, cgutils.intp_t, size=LIST_ITEMS // 8 + 1, zfill=True)
    nothing = builder.bitcast(nothing, struct.type)
    return builder.select(cgutils.is_null(builder, struct), nothing, struct)


def _array_at(
    em: Emit,
    array_type: Any,
    struct: Any,
    offset: int,
    length: Any,
    origin: Any,
) -> Any:
    """An array that borrows the memory behind a pointer in a struct, from item `origin` on."""
    context, builder = em.context, em.builder
    address = cgutils.pointer_add(builder, struct, cgutils.intp_t(offset))
    array = em.array(array_type)
    itemsize = cgutils.intp_t(context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
    start = builder.load(builder.bitcast(address, array.data.type.as_pointer()))
    data = builder.gep(start, [origin])
    _borrow(builder, array, data, length, itemsize)
    return array._getvalue()


def _borrow(builder: Builder, array: Any, data: Any, length: Any, itemsize: Any) -> None:
    """Make an array of `length` items that begin at `data`, without a reference to their memory."""
    from numba.np.arrayobj import populate_array  # late: it imports Numba's strings, slowly

    populate_array(
        array,
        data=data,
        shape=cgutils.pack_array(builder, [length]),
        strides=cgutils.pack_array(builder, [itemsize]),
        itemsize=itemsize,
        meminfo=None,
    )


def array_of_record(em: Emit, ty: Any, record: Any) -> tuple[Any, Any]:
    """An array whose only element is a borrowed record, preceded by its type."""
    array_type = types.Array(ty, 1, "C", aligned=ty.aligned)
    array = em.array(array_type)
    itemsize = cgutils.intp_t(ty.size)
    data = em.builder.bitcast(record, array.data.type)
    _borrow(em.builder, array, data, cgutils.intp_t(1), itemsize)
    return array_type, array._getvalue()


@contextmanager
def each_address(em: Emit, ty: Any, entries: Entries) -> Generator[tuple[Any, ...]]:
    """A loop over the addresses of corresponding items, in lists of one type by index, in
    dictionaries by key. It covers all items of the first, or none if the lengths differ.
    """
    builder = em.builder
    arrays = [em.array(entries.array_type, array) for array in entries.arrays]
    lengths = [cgutils.unpack_tuple(builder, array.shape, 1)[0] for array in arrays]
    count = lengths[0]
    for length in lengths[1:]:
        alike = builder.icmp_unsigned("==", length, lengths[0])
        count = builder.select(alike, count, count.type(0))
    items = items_in(ty)
    pointer_type = em.context.get_data_type(items.item_type).as_pointer()
    with ExitStack() as inside:
        loop = inside.enter_context(cgutils.for_range(builder, count))
        addresses = [builder.gep(array.data, [loop.index]) for array in arrays]
        if isinstance(ty, types.DictType):
            # the hash of an entry that was removed is -1
            hash_ = builder.load(builder.bitcast(addresses[0], cgutils.intp_t.as_pointer()))
            is_used = builder.icmp_signed("!=", hash_, hash_.type(-1))
            inside.enter_context(builder.if_then(is_used))
        offset = cgutils.intp_t(items.offset)
        yield tuple(
            [cgutils.pointer_add(builder, address, offset, pointer_type) for address in addresses]
        )

"""The pieces of memory in a value, in the IR of the caller: arrays, records and instances, those in
tuples and in fields of instances too.

Needs       the Numba type of an argument, and LLVM values of it (the primal, its shadows)
Gives       `pieces_of`: the same piece of each of the values; `extent_of_piece`: its bytes
            `field_values`: the fields of an instance; `parts_of`: the items of tuples
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from numba.core import cgutils, types
from numba.np.arrayobj import populate_array

from activerules.numba_ext import dict_runtime
from activerules.numba_ext.checks import Argument
from activerules.numba_ext.extents import Extent, extent_of
from activerules.numba_ext.fields import (
    DICT_KEYS,
    LIST_ITEMS,
    LIST_SIZE,
    fields_of,
    has_inner,
    is_dict,
    is_instance,
    is_list,
    items_array,
    struct_type,
)
from activerules.numba_ext.kinds import has_shadow, items_of


def pieces_of(
    context: Any, builder: Any, argument: Argument, values: Sequence[Any]
) -> Iterator[tuple[Argument, tuple[Any, ...]]]:
    """The pieces of memory in an argument, with what each of `values` has there.

    The first value is the primal; a piece without floats is given of that alone. Of a Const
    instance the fields are no pieces: they count as memory that may be anywhere. A list with
    pointers in it is one piece: what is in it is known at run time (`each_item`).
    """
    found = argument.numba_type
    own = tuple(values) if has_shadow(found) else tuple(values[:1])
    if isinstance(found, types.BaseTuple):
        for i, (item, parts) in enumerate(parts_of(builder, found, *values)):
            part = Argument(f"{argument.name}[{i}]", item, argument.activity)
            yield from pieces_of(context, builder, part, parts)
    elif isinstance(found, types.Array | types.Record):
        yield argument, own
    elif is_list(found) and len(values) > 1 and has_inner(found):
        yield argument, own
    elif is_list(found) and len(values) > 1:
        items = Argument(argument.name, items_array(found), argument.activity)
        yield items, tuple(items_of_list(context, builder, found, value)[1] for value in values)
    elif is_dict(found) and len(values) > 1:
        items = Argument(argument.name, items_array(found), argument.activity)
        yield items, tuple(_items_of_dicts(context, builder, found, values))
    elif is_instance(found):
        yield argument, own
        if len(values) == 1:
            return
        unpacked = [field_values(context, builder, found, value) for value in own]
        for field, parts in zip(fields_of(found), zip(*unpacked, strict=True), strict=True):
            part = Argument(f"{argument.name}.{field.name}", field.numba_type, argument.activity)
            yield from pieces_of(context, builder, part, parts)


def parts_of(builder: Any, found: Any, *values: Any) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The items of values of one tuple type, with the type of each."""
    items = items_of(found)
    unpacked = [cgutils.unpack_tuple(builder, value, len(items)) for value in values]
    return zip(items, zip(*unpacked, strict=True), strict=True)


def field_values(context: Any, builder: Any, found: Any, value: Any) -> list[Any]:
    """What an instance holds in each of its fields, borrowed."""
    struct = struct_of(context, builder, found, value)
    return [struct[k] for k in range(len(fields_of(found)))]


def struct_of(context: Any, builder: Any, found: Any, value: Any) -> Any:
    """The memory of an instance, as a struct whose items can be read by number; all zero for a
    field that is not set.
    """
    pointer = memory_of(context, builder, found, value)
    nothing = cgutils.alloca_once(builder, pointer.type.pointee, zfill=True)
    pointer = builder.select(cgutils.is_null(builder, pointer), nothing, pointer)
    if isinstance(found, types.StructRef):
        payload = found.get_data_type()
        return cgutils.create_struct_proxy(payload)(context, builder, ref=pointer)
    data_type = found.get_data_type()
    return context.make_data_helper(builder, data_type, ref=pointer)


def memory_of(context: Any, builder: Any, found: Any, value: Any) -> Any:
    """The pointer to the memory of an instance; null for a field that is not set."""
    reference = context.make_helper(builder, found, value=value)
    if isinstance(found, types.StructRef):
        pointer_type = struct_type(found).as_pointer()
        result = cgutils.alloca_once_value(builder, pointer_type(None))
        with cgutils.if_likely(builder, cgutils.is_not_null(builder, reference.meminfo)):
            data = context.nrt.meminfo_data(builder, reference.meminfo)
            builder.store(builder.bitcast(data, pointer_type), result)
        return builder.load(result)
    return reference.data


def _items_of_dicts(context: Any, builder: Any, found: Any, values: Sequence[Any]) -> Iterator[Any]:
    """The memory of keys and values of dictionaries, as arrays that borrow it; an empty one for
    each that has not the keys of the first.
    """
    primal, *_ = data = [context.make_helper(builder, found, value=value).data for value in values]
    call = partial(dict_runtime.call, context, builder)
    alike = [call("match", cgutils.bool_t, primal, other) for other in data[1:]]
    slots = call("slots", cgutils.intp_t, primal)
    nothing = slots.type(0)
    lengths = [slots, *(builder.select(one, slots, nothing) for one in alike)]
    for one, length in zip(data, lengths, strict=True):
        yield _array_at(context, builder, items_array(found), one, DICT_KEYS, length)


def entries_of_dicts(
    context: Any, builder: Any, found: Any, values: Sequence[Any]
) -> tuple[Any, list[Any]]:
    """The entries of dictionaries, as arrays of records that borrow them, and the type of those;
    keys lie in each where they do in the first. Raises `MemoryError` where that cannot be.
    """
    array_type = items_array(found)
    make = partial(context.make_array(array_type), context, builder)
    wholes = [make(one) for one in _items_of_dicts(context, builder, found, values)]
    first, *others = wholes
    for other in others:
        differs = builder.icmp_signed("!=", other.nitems, first.nitems)
        with cgutils.if_unlikely(builder, differs):
            message = "no memory for the keys of a dictionary"
            context.call_conv.return_user_exc(builder, MemoryError, (message,))
    keys = builder.bitcast(first.data, cgutils.voidptr_t)
    begin = dict_runtime.call(context, builder, "slot", cgutils.intp_t, keys, cgutils.intp_t(0))
    entries = []
    for whole in wholes:
        array = make()
        populate_array(
            array,
            data=builder.gep(whole.data, [begin]),
            shape=cgutils.pack_array(builder, [builder.sub(whole.nitems, begin)]),
            strides=whole.strides,
            itemsize=whole.itemsize,
            meminfo=None,
        )
        entries.append(array._getvalue())
    return array_type, entries


@contextmanager
def each_item(context: Any, builder: Any, found: Any, *arrays: Any) -> Generator[tuple[Any, ...]]:
    """A loop over what is at the same index of lists of one type, borrowed: as many items as the
    first has, none if another has more or fewer. `arrays` are the lists as of `items_of_list`.
    """
    made = [context.make_array(items_array(found))(context, builder, array) for array in arrays]
    lengths = [cgutils.unpack_tuple(builder, array.shape, 1)[0] for array in made]
    count = lengths[0]
    for length in lengths[1:]:
        alike = builder.icmp_unsigned("==", length, lengths[0])
        count = builder.select(alike, count, count.type(0))
    item = context.data_model_manager[found.item_type]
    pointer_type = item.get_data_type().as_pointer()
    with cgutils.for_range(builder, count) as loop:
        places = (builder.bitcast(array.data, pointer_type) for array in made)
        yield tuple(
            item.load_from_data_pointer(builder, builder.gep(place, [loop.index]))
            for place in places
        )


def items_of_list(context: Any, builder: Any, found: Any, value: Any) -> tuple[Any, Any]:
    """The items of a list, as an array that borrows them: its type and its value."""
    lp = context.make_helper(builder, found, value=value).data
    nothing = cgutils.alloca_once(builder, cgutils.intp_t, size=LIST_ITEMS // 8 + 1, zfill=True)
    nothing = builder.bitcast(nothing, lp.type)
    lp = builder.select(cgutils.is_null(builder, lp), nothing, lp)  # a field that is not set
    place = cgutils.pointer_add(builder, lp, cgutils.intp_t(LIST_SIZE))
    length = builder.load(builder.bitcast(place, cgutils.intp_t.as_pointer()))
    array_type = items_array(found)
    return array_type, _array_at(context, builder, array_type, lp, LIST_ITEMS, length)


def _array_at(
    context: Any, builder: Any, array_type: Any, struct: Any, offset: int, length: Any
) -> Any:
    """An array that borrows the memory a pointer in a struct leads to."""
    place = cgutils.pointer_add(builder, struct, cgutils.intp_t(offset))
    array = context.make_array(array_type)(context, builder)
    itemsize = cgutils.intp_t(context.get_abi_sizeof(context.get_data_type(array_type.dtype)))
    populate_array(
        array,
        data=builder.load(builder.bitcast(place, array.data.type.as_pointer())),
        shape=cgutils.pack_array(builder, [length]),
        strides=cgutils.pack_array(builder, [itemsize]),
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()


def extent_of_piece(context: Any, builder: Any, found: Any, value: Any) -> Extent:
    """The bytes of a piece of memory."""
    if isinstance(found, types.Array):
        return extent_of(builder, found, context.make_array(found)(context, builder, value))
    pointer = data_of_piece(context, builder, found, value)
    data = builder.ptrtoint(pointer, cgutils.intp_t)
    is_record = isinstance(found, types.Record)
    size = found.size if is_record else context.get_abi_sizeof(struct_type(found))
    is_set = cgutils.is_not_null(builder, pointer)
    size = builder.select(is_set, data.type(size), data.type(0))
    return Extent(data, data, builder.add(data, size))


def data_of_piece(context: Any, builder: Any, found: Any, value: Any) -> Any:
    """The pointer a piece of memory begins at; null for a field that is not set."""
    if isinstance(found, types.Array):
        return context.make_array(found)(context, builder, value).data
    return value if isinstance(found, types.Record) else memory_of(context, builder, found, value)

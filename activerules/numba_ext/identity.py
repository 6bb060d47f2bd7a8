"""What tells that the arguments of a reverse are those its tape was made from.

Needs       an argument of a call, and LLVM values of its primal and its shadows
Gives       `identity_of`: numbers that are the same as long as it is; `identity_of_memory`: one of
            all memory that a value leads to
Invariants  I1  of a primal, where its memory is: what is in it may be written between the sweeps,
                also pointers to other arrays, as the tape holds what the reverse needs
            I2  of a shadow, where all memory is that the reverse adds to, as the tape holds
                addresses in it: an array of a shadow that was replaced, a list that has grown or a
                dictionary with other keys is another shadow
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext import abi, dict_runtime
from activerules.numba_ext.fields import (
    fields_of,
    has_inner,
    is_collection,
    is_dict,
    is_instance,
    items_in,
)
from activerules.numba_ext.kinds import has_shadow
from activerules.numba_ext.pieces import (
    Entries,
    each_item,
    entries_of,
    field_values,
    memory_of,
    parts_of,
)
from activerules.numba_ext.tape_handle import bits_of
from activerules.values.argument import Argument

_SPREAD = 1099511628211  # the prime of the hash of Fowler, Noll and Vo
_COMPARED = frozenset({"float", "int", "data", "size", "itemsize", "shape", "stride"})


def identity_of(
    context: Any, builder: Any, argument: Argument, primal: Any, shadows: Sequence[Any]
) -> Iterator[tuple[str, Any]]:
    """Bits of an argument and of its shadows, with the names of the parts they are of."""
    for leaf, value in _leaves(builder, argument, primal):
        yield from _place(context, builder, leaf, value)
    for shadow in shadows:
        for leaf, value in _leaves(builder, argument, shadow):
            yield from _memory(context, builder, leaf, value)


def identity_of_memory(context: Any, builder: Any, found: Any, value: Any) -> Any:
    """One number for all memory that a value leads to."""
    place = cgutils.alloca_once_value(builder, cgutils.intp_t(0))
    for leaf, part in _leaves(builder, Argument("", found, "duplicated"), value):
        for _, word in _memory(context, builder, leaf, part):
            _mix(builder, place, word)
    return builder.load(place)


def _mix(builder: Any, place: Any, word: Any) -> None:
    mixed = builder.xor(builder.load(place), word)
    builder.store(builder.mul(mixed, word.type(_SPREAD)), place)


def _leaves(builder: Any, argument: Argument, value: Any) -> Iterator[tuple[Argument, Any]]:
    found = argument.numba_type
    if not isinstance(found, types.BaseTuple):
        yield argument, value
        return
    for i, (item, (part,)) in enumerate(parts_of(builder, found, value)):
        one = Argument(f"{argument.name}[{i}]", item, argument.activity)
        yield from _leaves(builder, one, part)


def _place(context: Any, builder: Any, leaf: Argument, value: Any) -> Iterator[tuple[str, Any]]:
    """Where a leaf is (I1), or the bits of a number; nothing of what has no identity, as texts."""
    found = leaf.numba_type
    if isinstance(found, types.Array | types.Number | types.Boolean):
        slots = context.get_arg_packer([found]).as_arguments(builder, [value])
        for slot, bits in zip(abi.flatten(found), slots, strict=True):
            if slot.role in _COMPARED:
                yield leaf.name, bits_of(builder, bits)
    elif isinstance(found, types.Record):
        yield leaf.name, bits_of(builder, value)
    elif is_instance(found):
        yield leaf.name, bits_of(builder, memory_of(context, builder, found, value))
    elif is_collection(found):
        data = context.make_helper(builder, found, value=value).data
        yield leaf.name, bits_of(builder, data)


def _memory(context: Any, builder: Any, leaf: Argument, value: Any) -> Iterator[tuple[str, Any]]:
    """Where all memory of a shadow is (I2)."""
    found = leaf.numba_type
    if not has_shadow(found):
        return
    yield from _place(context, builder, leaf, value)
    if is_instance(found):
        values = field_values(context, builder, found, value)
        for field, part in zip(fields_of(found), values, strict=True):
            inner = Argument(f"{leaf.name}.{field.name}", field.numba_type, leaf.activity)
            for one, item in _leaves(builder, inner, part):
                yield from _memory(context, builder, one, item)
    elif is_collection(found):
        entries = entries_of(context, builder, found, (value,))
        if is_dict(found):
            data = context.make_helper(builder, found, value=value).data
            fingerprint = dict_runtime.call(context, builder, "fingerprint", cgutils.intp_t, data)
            yield leaf.name, fingerprint
        else:
            array = context.make_array(entries.array_type)(context, builder, entries.arrays[0])
            yield leaf.name, bits_of(builder, array.data)
            yield leaf.name, array.nitems
        if has_inner(found):
            yield leaf.name, _behind_items(context, builder, leaf, entries)


def _behind_items(context: Any, builder: Any, leaf: Argument, entries: Entries) -> Any:
    """A number that changes when the memory behind the items of a list or dictionary does."""
    found = leaf.numba_type
    place = cgutils.alloca_once(builder, cgutils.intp_t)
    builder.store(place.type.pointee(0), place)
    item = Argument(leaf.name, items_in(found).item_type, leaf.activity)
    with each_item(context, builder, found, entries) as (value,):
        for one, part in _leaves(builder, item, value):
            for _, word in _memory(context, builder, one, part):
                _mix(builder, place, word)
    return builder.load(place)

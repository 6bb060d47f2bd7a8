"""Cleared memory: whether a `memset` acts on part of a float.

Needs       MemoryFacts and ValueTypes of a function
Gives       `cuts_floats(memset)`: whether it is known to begin or end inside a float;
            `clears_all(access, object)`: whether a store of zero bits clears all of new memory
Invariants  C1  a `memset` of the whole of new memory cuts nothing, nor does a store of zero bits,
                as which LLVM writes one of few bytes
"""

from __future__ import annotations

from math import prod

from activerules.ir.analysis.memory.objects import MemoryObject, made_by
from activerules.ir.analysis.types.copies import float_places, moves_other_values, objects_of
from activerules.ir.analysis.types.record_copies import record_fields
from activerules.ir.analysis.types.value_types import TypedAccess, ValueTypes, clears
from activerules.ir.llvm.constant_parts import CannotSplit, leaves_of
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import NamedTypes, size_of


def cuts_floats(clear: Instruction, types: ValueTypes) -> bool:
    """Whether a `memset` is known to begin or end inside a float."""
    direct, objects = objects_of(clear, types)
    pointer, length = clear.operands[0], integer_of(clear.operands[2])
    named = types.memory.named_types
    ends = _ends_inside(pointer, length, direct, types)
    layout = record_fields(clear, objects, types)
    if layout is not None:
        places = [(at, layout[0], t) for at, t in layout[1]]
    else:
        places = float_places(pointer, direct, types)
        kinds = {t for o in objects for t in types.float_types(o)}
        if len(kinds) == 1 and not any(moves_other_values(clear, o, types) for o in direct):
            size = size_of(next(iter(kinds)), named)
            # in packed records, the distance of two floats need not be a multiple of their size
            is_packed = any(stride % size for _, stride, _ in places)
            if (
                length is not None
                and length % size
                and ends
                and not is_packed
                and not all(_lies_between_scalars(pointer, length, o, types) for o in direct)
            ):
                return True
    return any(
        0 < ((end - at) % stride if stride else end - at) < size_of(t, named)
        for at, stride, t in places
        for end in ends
    )


def clears_all(access: TypedAccess, o: MemoryObject, named: NamedTypes) -> bool:
    """Whether an access is a store of zero bits to the whole of an object that is allocated."""
    address = access.address
    return (
        clears(access.instruction)
        and address is not None
        and (address.offset, address.stride) == (0, 0)
        and _bytes_of(o) == size_of(access.type, named)
    )


def _ends_inside(
    pointer: Value, length: int | None, direct: frozenset[MemoryObject], types: ValueTypes
) -> list[int]:
    """Those ends of the cleared bytes, counted from their start, at which an object may go on: no
    float is cut where new memory begins or ends.
    """
    start = types.memory.address(pointer)
    if start.stride or not all(o.is_local and types.memory.starts(start, o) for o in direct):
        return [0] if length is None else [0, length]
    ends = [0] if start.offset else []
    if length is not None and any(_bytes_of(o) != start.offset + length for o in direct):
        ends.append(length)
    return ends


def _bytes_of(o: MemoryObject) -> int | None:
    """The number of bytes that are allocated as an object; None if it is not known."""
    made = made_by(o)
    if made is None or made.header or not isinstance(o.key, Instruction):
        return None
    sizes = [integer_of(o.key.operands[k]) for k in made.size]
    return prod(n for n in sizes if n is not None) if None not in sizes else None


def _lies_between_scalars(pointer: Value, length: int, o: MemoryObject, types: ValueTypes) -> bool:
    """Whether bytes of a local value, whose type has floats, begin and end inside no scalar."""
    address, named, site = types.memory.address(pointer), types.memory.named_types, o.key
    if not isinstance(site, Instruction) or site.opcode != "alloca" or site.operands:
        return False
    if address.stride or not types.memory.starts(address, o):
        return False
    try:
        leaves = leaves_of(site.attributes["allocated"], named)
    except CannotSplit:
        return False
    ends = address.offset, address.offset + length
    cut = any(0 < end - x.offset < size_of(x.type, named) for x in leaves for end in ends)
    return not cut and any(x.type.is_float for x in leaves)

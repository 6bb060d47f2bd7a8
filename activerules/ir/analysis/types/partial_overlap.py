"""Partial overlap: two accesses of one object that may share some bytes of a float, but not all.

Needs       ValueTypes of a function
Gives       `partly_overlapping(object, types)`: pairs of loads, stores and calls that may do so
Invariants  O1  what is known of offsets and alignment is used, and nothing is assumed about
                variables in them: `f[k]` and `p[i]`, a float and a double in one array, are a pair
            O2  pointers that were loaded or merged elsewhere point to memory of one layout: two
                accesses are compared if their addresses have one base, or count from the start of
                the object; or if their bases are two parameters that lead into it
            O3  memory that the caller declares holds floats where the caller says
            O4  an integer that is stored shares no byte with a float where the module has none
            O5  a store that clears the whole of new memory cuts no float

For constant offsets, `ValueTypes.cuts_floats` gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from math import gcd

from activerules.ir.analysis.memory.addresses import Address, before_loops
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject, has_header
from activerules.ir.analysis.types.clears import clears_all
from activerules.ir.analysis.types.value_types import TypedAccess, ValueTypes
from activerules.ir.llvm.model import Argument, Instruction, Value
from activerules.ir.llvm.types import Type, size_of


@dataclass(frozen=True)
class _FloatAccess:
    """An access of a float, or a store of an integer, with its address as far as that is known;
    `base` None: the address counts from the start of the object.
    """

    instruction: Instruction
    type: Type
    base: Value | None
    address: Address | None
    size: int
    aligned: bool


def partly_overlapping(
    o: MemoryObject, types: ValueTypes
) -> Iterator[tuple[Instruction, Instruction]]:
    """Pairs of accesses in an object, at varying offsets, that may share part of a float."""
    spots = dict.fromkeys(
        _spot(a, o, types.memory)
        for a in types.accesses.get(o, ())
        if a.type.is_float or _may_write_floats(a, o, types)
    )
    declared = types.declared[o].float_types if o in types.declared else set[Type]()
    for a, b in combinations(spots, 2):
        known = a.type in declared and b.type in declared
        if known or not (a.type.is_float or b.type.is_float) or not _meet(a, b, o):
            continue
        integers = [x.instruction for x in (a, b) if not x.type.is_float]
        if not any(map(types.is_free_of_floats, integers)):
            yield a.instruction, b.instruction


def _may_write_floats(a: TypedAccess, o: MemoryObject, types: ValueTypes) -> bool:
    """Whether this stores an integer where there may be floats, as far as the caller declares."""
    if not a.type.is_int or a.instruction.opcode != "store":
        return False
    if clears_all(a, o, types.memory.named_types):
        return False
    if a.address is None or o not in types.as_declared:
        return True
    return types.declared[o].meets_float(a.type, a.address, types.memory.named_types)


def _meet(a: _FloatAccess, b: _FloatAccess, o: MemoryObject) -> bool:
    """Whether one access may contain some, but not all, bytes of a float of the other."""
    if a.address is None or b.address is None:
        return o.kind != "loaded" and a.type.is_float and b.type.is_float and a.size != b.size
    step = gcd(a.address.stride, b.address.stride)
    if a.base is not b.base and isinstance(a.base, Argument) and isinstance(b.base, Argument):
        # how far apart two parameters of a function that is called point is not known
        return not (a.size == b.size and a.aligned and b.aligned)
    if a.base is not b.base or not step:
        return False
    if not a.address.may_overlap(a.size, b.address, b.size, header=has_header(o)):
        return False
    if a.type.is_float and b.type.is_float and a.size != b.size:
        return True
    if has_header(o) or (a.aligned and b.aligned and a.size == b.size):
        return False
    ahead = (b.address.offset - a.address.offset) % step
    return any(
        (a.type.is_float and _cuts(-d, b.size, a.size))
        or (b.type.is_float and _cuts(d, a.size, b.size))
        for d in (ahead + step * k for k in range(-a.size - b.size, a.size + b.size))
    )


def _cuts(ahead: int, size: int, other_size: int) -> bool:
    """Whether `size` bytes contain some, but not all, of `other_size` bytes that begin `ahead`
    bytes after the first of them.
    """
    return -other_size < ahead < size and not 0 <= ahead <= size - other_size


def _spot(access: TypedAccess, o: MemoryObject, memory: MemoryFacts) -> _FloatAccess:
    i, size = access.instruction, size_of(access.type, memory.named_types)
    if i.opcode not in {"load", "store"}:
        return _FloatAccess(i, access.type, None, access.address, size, access.aligned)
    address = before_loops(memory.address(i.operands[-1]), memory.address)
    base = None if memory.starts(address, o) else address.base
    return _FloatAccess(i, access.type, base, address, size, access.aligned)

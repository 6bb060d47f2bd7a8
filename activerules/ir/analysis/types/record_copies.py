"""Copies of records: in the copies, too, floats are where the caller declared them.

Needs       MemoryFacts and ValueTypes of a function
Gives       `record_fields(copy, group, types)`: the period, and the floats in it with their offsets
            from the start of the copy; None if they are not known
            `declared_at_both_ends(pointers, length, types)`: the floats of a copy between memory of
            two layouts that are declared
Invariants  R1  memory has the layout of declared memory if only copies join the two, and each is
                known to move every byte of a record to the same offset in a record
            R2  no access of that memory contradicts the layout: a load at an unknown address does
                not, since bytes beside the floats hold no bits of floats
Source      docs/decisions/0013: declared memory holds floats where the caller says
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import TypeAlias

from activerules.ir.analysis.memory.addresses import Address
from activerules.ir.analysis.memory.declared import Declared
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.types.value_types import TypedAccess, ValueTypes, clears, reads_any
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import Type, size_of
from activerules.ir.normal.effects import COPY_RESIZED, memory_intrinsic

Fields = tuple[int, list[tuple[int, Type]]]
_Place: TypeAlias = tuple[MemoryObject, int, int]
"""An offset in an object, and its stride."""
_DEEPEST = 4
"""Merged pointers that are followed through others."""


def record_fields(
    copy: Instruction, group: Collection[MemoryObject], types: ValueTypes
) -> Fields | None:
    """`group`: the memory that the copy (or `memset`) acts on, and all that copies join to it."""
    layouts = {types.declared[o] for o in group if o in types.declared}
    if len(layouts) != 1 or not all(o.is_local or o in types.declared for o in group):
        return None
    (layout,) = layouts
    copies = _copies_among(group, types.memory)
    if copies is None or not layout.period:
        return None
    begins = _beginnings(copies, layout.period, types)
    if begins is None or not begins.keys() >= set(group):
        return None
    if not all(_agrees(o, begins[o], layout, types) for o in group):
        return None
    found_ends = _ends_of(copy, types.memory)
    if found_ends is None or any(stride % layout.period for stride in found_ends.strides):
        return None
    phases = {(at - begins[o]) % layout.period for o, at in found_ends.ends}
    if len(phases) != 1:
        return None
    (phase,) = phases
    return layout.period, [((at - phase) % layout.period, t) for at, t in layout.floats]


def declared_at_both_ends(
    pointers: Iterable[Value], length: int, types: ValueTypes
) -> list[tuple[int, Type]] | None:
    """The floats in a copy of `length` bytes whose two ends are declared, as an array in a record
    and an argument of a rule; None if the declarations do not agree.
    """
    found = {
        _declared_from(types.memory.address(pointer), o, length, types)
        for pointer in pointers
        for o in types.memory.objects(pointer)
    }
    agreed = found.pop() if len(found) == 1 else None
    return None if agreed is None else list(agreed)


def _declared_from(
    start: Address, o: MemoryObject, length: int, types: ValueTypes
) -> tuple[tuple[int, Type], ...] | None:
    """The declared floats in `length` bytes; None if one is cut, or there may be others."""
    layout = types.declared.get(o)
    if layout is None or layout.pointers or not layout.period:
        return None
    if not types.memory.starts(start, o) or start.stride % layout.period:
        return None
    phase = start.offset % layout.period
    ends = [
        (at - phase + turn, at - phase + turn + size_of(t, types.memory.named_types), t)
        for turn in range(0, length + layout.period, layout.period)
        for at, t in layout.floats
    ]
    inside = [(at, end, t) for at, end, t in ends if at < length and end > 0]
    if any(at < 0 or end > length for at, end, _ in inside):
        return None
    return tuple(sorted(((at, t) for at, _, t in inside), key=lambda field: field[0]))


@dataclass(frozen=True)
class _CopyEnds:
    """The offsets at which a copy begins in the objects it may act on, and their strides."""

    ends: tuple[tuple[MemoryObject, int], ...]
    strides: tuple[int, ...]


def _copies_among(group: Collection[MemoryObject], memory: MemoryFacts) -> list[_CopyEnds] | None:
    """All copies of this memory; None if one begins at an unknown offset."""
    copies: list[_CopyEnds] = []
    edges: set[tuple[MemoryObject, MemoryObject]] = set()
    for i in _all_copies(memory):
        target, source = (memory.objects(o) for o in i.operands[:2])
        if (target | source).isdisjoint(group):
            continue
        both_ends = _ends_of(i, memory)
        if both_ends is None:
            return None
        copies.append(both_ends)
        edges |= {(t, s) for t in target for s in source}
    # a callee may copy, too
    seen = all((o, source) in edges for o in group for source in memory.copy_sources.get(o, ()))
    return copies if seen else None


def _all_copies(memory: MemoryFacts) -> Iterator[Instruction]:
    for block in memory.flow.order:
        for i in block.instructions:
            if memory_intrinsic(i) in {"memcpy", "memmove"}:
                yield i


def _ends_of(copy: Instruction, memory: MemoryFacts) -> _CopyEnds | None:
    if copy.callee_name == COPY_RESIZED:
        return None
    places: list[_Place] = []
    for pointer in (o for o in copy.operands[:2] if o.type.is_pointer):
        found = _places_of(pointer, memory, frozenset())
        if found is None:
            return None
        places += found
    return _CopyEnds(tuple((o, at) for o, at, _ in places), tuple(stride for *_, stride in places))


def _places_of(
    pointer: Value, memory: MemoryFacts, merged: frozenset[Value]
) -> list[_Place] | None:
    """Where a pointer may point; None if that is not known. A slice is merged with the copy that
    is made of it if it overlaps what it is assigned to.
    """
    address, objects = memory.address(pointer), memory.objects(pointer)
    if all(memory.starts(address, o) for o in objects):
        return [(o, address.offset, address.stride) for o in objects]
    base = address.base
    if not (isinstance(base, Instruction) and base.opcode in {"phi", "select"}):
        return None
    if address.through or base in merged or len(merged) == _DEEPEST:
        return None
    places: list[_Place] = []
    for operand in (o for o in base.operands if o.type.is_pointer):
        found = _places_of(operand, memory, merged | {base})
        if found is None:
            return None
        places += [(o, at + address.offset, gcd(stride, address.stride)) for o, at, stride in found]
    return places


def _beginnings(
    copies: Iterable[_CopyEnds], period: int, types: ValueTypes
) -> dict[MemoryObject, int] | None:
    """The offset at which a record begins in each object (R1); None if copies disagree."""
    begins: dict[MemoryObject, int] = {}
    work = list(copies)
    if any(stride % period for copy in work for stride in copy.strides):
        return None
    for o in {o for copy in work for o, _ in copy.ends if o in types.declared}:
        begins[o] = 0
    while work:
        reached = [copy for copy in work if any(o in begins for o, _ in copy.ends)]
        if not reached:
            return begins
        for copy in reached:
            work.remove(copy)
            phases = {(at - begins[o]) % period for o, at in copy.ends if o in begins}
            if len(phases) > 1:
                return None
            (phase,) = phases
            begins.update({o: (at - phase) % period for o, at in copy.ends if o not in begins})
    return begins


def _agrees(o: MemoryObject, begin: int, layout: Declared, types: ValueTypes) -> bool:
    """R2. For integers in declared memory, the declaration is trusted."""
    return all(
        _fits(
            replace(a, address=replace(a.address, offset=a.address.offset - begin)), layout, types
        )
        if a.address is not None
        else o in types.as_declared or (o.is_local and reads_any(a, layout))
        for a in types.accesses.get(o, ())
        if not (a.type.is_int and (o in types.declared or clears(a.instruction)))
    )


def _fits(access: TypedAccess, layout: Declared, types: ValueTypes) -> bool:
    if access.type.is_float:
        return layout.admits(access.type, access.address)
    named = types.memory.named_types
    return access.type.is_int and not layout.meets_float(access.type, access.address, named)

"""Copies of memory: which bytes that a `memcpy` or `memmove` moves are floats.

Needs       MemoryFacts and ValueTypes of a function
Gives       `kind_of(copy)`: the one float type all of it has, None if there are no floats in it;
            `scalars_of(copy)`: where its floats and pointers are, if it mixes types;
            `periodic_copy(copy)`: where its floats are, if its length is known at run time alone;
            `may_end_inside(copy)`: the floats it may end inside of, `memset` as well;
            `cuts_floats(memset)`: whether it begins or ends inside of one for sure;
            `may_begin_inside(copy)`: the type of the floats it may begin inside of
Invariants  C1  what is known of a piece of memory holds for memory its bytes are copied to or from
            C2  a byte that may hold a float of a derivative is in a float piece, or the program is
                refused (`MixedCopy`)
            C3  a copy that may begin or end inside of a float is refused, or told at run time
                (`may_end_inside`, `may_begin_inside`)
            C4  of memory that is only copied nothing is known but the copies: floats are where they
                begin
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import gcd

from activerules.errors import ActiverulesError
from activerules.ir.analysis.memory.addresses import Address, divisor
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.types.record_copies import record_fields
from activerules.ir.analysis.types.same_layout import is_same_layout
from activerules.ir.analysis.types.value_types import TypedAccess, ValueTypes, is_zero
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import DOUBLE, FLOAT, Type, size_of
from activerules.ir.normal.effects import COPY_RESIZED


class MixedCopy(Exception):
    """Which bytes of a copy hold floats is not known."""


@dataclass(frozen=True)
class CopiedScalar:
    """A float or pointer among the copied bytes: `offset` bytes behind their start."""

    offset: int
    type: Type


def kind_of(copy: Instruction, types: ValueTypes) -> Type | None:
    """The float type of everything copied; None if no floats are copied.

    Raises `MixedCopy` if neither is known.
    """
    behind, objects = _objects_of(copy, types)
    kinds = {t for o in objects for t in types.float_types(o)}
    if not kinds:
        if not all(_is_seen_through(o, types) for o in objects):
            raise MixedCopy
        return None
    if len(kinds) > 1 or any(_others(copy, o, types) for o in behind):
        raise MixedCopy
    (kind,) = kinds
    if kind not in {DOUBLE, FLOAT} or _cuts_one(copy, kind, behind, types):
        raise MixedCopy
    return kind


def _objects_of(
    copy: Instruction, types: ValueTypes
) -> tuple[frozenset[MemoryObject], frozenset[MemoryObject]]:
    """What a copy acts on; and all memory whose bytes are copied from or to there, too."""
    memory = types.memory
    behind = frozenset(o for p in _pointers(copy) for o in memory.objects(p))
    return behind, behind.union(*map(memory.copied_with, behind))


def _pointers(copy: Instruction) -> list[Value]:
    """The memory it acts on: of `memset`, the second operand is a byte."""
    return [o for o in copy.operands[:2] if o.type.is_pointer]


def may_mix_types(copy: Instruction, types: ValueTypes) -> bool:
    """Whether floats may be copied, and be accessed as something else before or after that.

    Where nothing is done with the bytes but copying, the shadow of the copy is a copy of the
    shadow, whatever they are.
    """
    try:
        copied_scalars(copy, types)
    except MixedCopy:
        _, objects = _objects_of(copy, types)
        return any(types.holds_float(o) or _is_filled_with_integers(o, types) for o in objects)
    return False


def _is_filled_with_integers(o: MemoryObject, types: ValueTypes) -> bool:
    return o.is_local and any(
        a.type.is_int and a.instruction.opcode == "store" and not _clears(a.instruction)
        for a in types.accesses.get(o, ())
    )


def mixed_copy(copy: Instruction) -> ActiverulesError:
    """The error to raise for a copy that raised `MixedCopy`."""
    return refusal(
        copy,
        "a copy of memory that mixes types carries a derivative",
        "which bytes hold floats is not known",
        ["copy the parts one by one"],
    )


def _is_seen_through(o: MemoryObject, types: ValueTypes) -> bool:
    """Whether an object without known floats has none: it is made here, declared, or every byte of
    it is accessed as something else, as those of an array are.
    """
    if o.is_local or o in types.declared:
        return True
    places = [
        (a.address, size_of(a.type, types.memory.named_types))
        for a in types.accesses.get(o, ())
        if a.address is not None and a.address.stride
    ]
    period = gcd(*(address.stride for address, _ in places))
    covered = {(address.offset + k) % period for address, size in places for k in range(size)}
    return bool(places) and len(covered) == period


def _cuts_one(
    copy: Instruction, kind: Type, behind: frozenset[MemoryObject], types: ValueTypes
) -> bool:
    """Whether a copy among floats for sure begins or ends inside of one."""
    size, length = size_of(kind, types.memory.named_types), integer_of(copy.operands[2])
    if length is not None and length % size and copy.callee_name != COPY_RESIZED:
        return True
    return any(_phases(copy, kind, behind, types))


def _phases(
    copy: Instruction, kind: Type, behind: frozenset[MemoryObject], types: ValueTypes
) -> set[int]:
    """How many bytes behind a multiple of their size floats are, counted from where it begins."""
    size, memory = size_of(kind, types.memory.named_types), types.memory
    found: set[int] = set()
    for pointer in _pointers(copy):
        start = memory.address(pointer)
        for o in behind & memory.objects(pointer):
            for access in types.accesses.get(o, ()):
                if access.type == kind and access.address is not None and memory.starts(start, o):
                    period = gcd(start.stride, access.address.stride)
                    if period % size == 0:
                        found.add((access.address.offset - start.offset) % size)
    return found


def _others(copy: Instruction, o: MemoryObject, types: ValueTypes) -> bool:
    """Whether something that is no float may be among the bytes copied from or to an object."""
    return any(
        not a.type.is_float
        and not _clears(a.instruction)
        and any(types.may_be_copied(a, o, p) for p in _pointers(copy))
        for a in types.accesses.get(o, ())
    )


def _clears(i: Instruction) -> bool:
    return i.opcode == "store" and is_zero(i.operands[0])


@dataclass(frozen=True)
class PeriodicCopy:
    """What is copied in a length known at run time: floats at these offsets, every `period` bytes;
    once, if that is 0.
    """

    period: int
    floats: tuple[CopiedScalar, ...]


def periodic_copy(copy: Instruction, types: ValueTypes) -> PeriodicCopy:
    """The floats of a copy of structs, of whatever length.

    Raises `MixedCopy` if they are not known, or pointers or other floats are beside them.
    """
    memory = types.memory
    behind, group = _objects_of(copy, types)
    if copy.callee_name == COPY_RESIZED:
        raise MixedCopy
    if any(o in types.declared for o in group):
        return _record_rows(copy, group, types)
    spots = [_spots(p, types) for p in _pointers(copy)]
    period = gcd(*(stride for one in spots for _, stride, _ in one))
    found: set[tuple[int, Type]] = set()
    for offset, _, t in (spot for one in spots for spot in one):
        size = size_of(t, memory.named_types)
        start = offset % period if period else offset
        if (period and start + size > period) or (start < 0 < start + size):
            raise MixedCopy
        if start >= 0:
            found.add((start, t))
    pieces = sorted((CopiedScalar(*one) for one in found), key=lambda piece: piece.offset)
    # floats that are only accessed where copies of these bytes are must be among them, too
    copied_on = any(not a.type.is_int for o in group - behind for a in types.accesses.get(o, ()))
    local = all(o.is_local for o in group) and not copied_on
    floats = tuple(p for p in pieces if p.type in {DOUBLE, FLOAT})
    others = any(not p.type.is_int for p in pieces if p not in floats)
    if others or (not period and (len(behind) < 2 or not local)):
        raise MixedCopy
    _check(pieces, period, memory, local)
    return PeriodicCopy(period, floats)


def _record_rows(
    copy: Instruction, group: frozenset[MemoryObject], types: ValueTypes
) -> PeriodicCopy:
    """The floats of a copy of records, or of a part of one, of a layout that is declared."""
    found = record_fields(copy, group, types)
    if found is None:
        raise MixedCopy
    period, fields = found
    if any(at + size_of(t, types.memory.named_types) > period for at, t in fields):
        raise MixedCopy
    return PeriodicCopy(
        period, tuple(CopiedScalar(at, t) for at, t in sorted(fields, key=lambda one: one[0]))
    )


def _spots(pointer: Value, types: ValueTypes) -> list[tuple[int, int, Type]]:
    """Offsets from where a copy begins, their stride and type, of what its memory is known for."""
    start = types.memory.address(pointer)
    spots: list[tuple[int, int, Type]] = []
    for o in types.memory.objects(pointer):
        for access in types.accesses.get(o, ()):
            if access.address is None or not types.memory.starts(start, o):
                raise MixedCopy
            if not _clears(access.instruction):
                offset = access.address.offset - start.offset
                spots.append((offset, gcd(access.address.stride, start.stride), access.type))
    return spots


def scalars_of(copy: Instruction, types: ValueTypes) -> list[CopiedScalar]:
    """The floats and pointers of a copy of known length, in order.

    Raises `MixedCopy` if not all are known.
    """
    length = integer_of(copy.operands[2]) if copy.callee_name != COPY_RESIZED else None
    memory = types.memory
    behind, group = _objects_of(copy, types)
    elsewhere = group - behind
    if length is None:
        raise MixedCopy
    if any(o in types.declared for o in group):
        return _record_pieces(length, _record_rows(copy, group, types), memory)
    found: set[tuple[int, Type]] = set()
    if any(not a.type.is_int for o in elsewhere for a in types.accesses.get(o, ())):
        if not is_same_layout(group, memory):
            raise MixedCopy  # it is not known where in this copy that is
        start = memory.address(copy.operands[0])
        for o in elsewhere:
            for access in types.accesses.get(o, ()):
                if not _clears(access.instruction):
                    pieces_there = _placed(access, start, length, memory)
                    found.update((piece.offset, piece.type) for piece in pieces_there)
    found |= {
        (piece.offset, piece.type)
        for pointer in _pointers(copy)
        for o in memory.objects(pointer)
        for access in types.accesses.get(o, ())
        if not _clears(access.instruction)
        for piece in _placed_in(access, memory.address(pointer), o, length, memory)
    }
    pieces = sorted((CopiedScalar(*one) for one in found), key=lambda piece: piece.offset)
    _check(pieces, length, memory, all(o.is_local for o in group))
    return [piece for piece in pieces if not piece.type.is_int]


def _record_pieces(length: int, rows: PeriodicCopy, memory: MemoryFacts) -> list[CopiedScalar]:
    """The floats among `length` bytes of records; `MixedCopy` if one is cut."""
    found = [
        CopiedScalar(start + piece.offset, piece.type)
        for start in range(0, length, rows.period)
        for piece in rows.floats
        if start + piece.offset < length
    ]
    if any(p.offset + size_of(p.type, memory.named_types) > length for p in found):
        raise MixedCopy
    return found


def _placed_in(
    access: TypedAccess, start: Address, o: MemoryObject, length: int, memory: MemoryFacts
) -> Iterable[CopiedScalar]:
    """Where among `length` bytes from `start` on, in an object, an access to that is."""
    if not memory.starts(start, o):
        raise MixedCopy
    return _placed(access, start, length, memory)


def _placed(
    access: TypedAccess, start: Address, length: int, memory: MemoryFacts
) -> Iterable[CopiedScalar]:
    """Where among `length` bytes from `start` on an access is, if both count from one place."""
    if access.address is None:
        raise MixedCopy
    size = size_of(access.type, memory.named_types)
    period = gcd(access.address.stride, start.stride)
    offset = access.address.offset - start.offset
    if period:
        offset %= period
        if offset + size > period:
            raise MixedCopy
    while offset < length:
        if offset >= 0 and offset + size <= length:
            yield CopiedScalar(offset, access.type)
        elif offset + size > 0:
            raise MixedCopy
        if not period:
            break
        offset += period


def _check(pieces: list[CopiedScalar], length: int, memory: MemoryFacts, local: bool) -> None:
    """Pieces must not overlap, but for integers; bytes of the caller's memory must all be known."""
    end = 0
    for k, piece in enumerate(pieces):
        size = size_of(piece.type, memory.named_types)
        if not local and piece.offset > end:
            raise MixedCopy
        before = pieces[k - 1]
        if piece.offset < end and not (piece.type.is_int and before.type.is_int):
            raise MixedCopy
        end = max(end, piece.offset + size)
    if not local and end < length:
        raise MixedCopy


def copied_scalars(
    copy: Instruction, types: ValueTypes
) -> Type | list[CopiedScalar] | PeriodicCopy | None:
    """What floats and pointers a copy moves: the answer of `kind_of`; where that is not known, of
    `scalars_of`, or of `periodic_copy` if the length is not a literal.

    Raises `MixedCopy` if none of them knows.
    """
    try:
        return kind_of(copy, types)
    except MixedCopy:
        if integer_of(copy.operands[2]) is None:
            return periodic_copy(copy, types)
        return scalars_of(copy, types)


def may_end_inside(copy: Instruction, types: ValueTypes) -> PeriodicCopy | None:
    """The floats of a copy, or of what `memset` clears, if it may end inside of one."""
    if copy.callee_name == COPY_RESIZED:
        return None  # of memory that is allocated as a whole
    try:
        rows = copied_scalars(copy, types)
    except MixedCopy:
        return None
    if isinstance(rows, Type):
        rows = PeriodicCopy(size_of(rows, types.memory.named_types), (CopiedScalar(0, rows),))
    if not isinstance(rows, PeriodicCopy) or not rows.floats:
        return None
    factor = divisor(copy.operands[2], types.memory.multiples)
    return None if rows.period and factor % rows.period == 0 else rows


def cuts_floats(clear: Instruction, types: ValueTypes) -> bool:
    """Whether a `memset` for sure begins or ends inside of a float."""
    behind, objects = _objects_of(clear, types)
    kinds = {t for o in objects for t in types.float_types(o)}
    if len(kinds) == 1 and not any(_others(clear, o, types) for o in behind):
        (kind,) = kinds
        # In packed records floats are not at multiples of their size, counted from one of them.
        if len(_phases(clear, kind, behind, types)) < 2:
            return _cuts_one(clear, kind, behind, types)
    start, length = types.memory.address(clear.operands[0]), integer_of(clear.operands[2])
    ends = [start.offset, *([start.offset + length] if length is not None else [])]
    return any(
        access.type.is_float
        and access.address is not None
        and types.memory.starts(start, o)
        and _is_inside(access, end, start.stride, types)
        for o in behind
        for access in types.accesses.get(o, ())
        for end in ends
    )


def _is_inside(access: TypedAccess, end: int, stride: int, types: ValueTypes) -> bool:
    """Whether offsets `end + stride * integers` are behind the first byte of what is accessed, and
    not behind the last.
    """
    assert access.address is not None
    period, ahead = gcd(stride, access.address.stride), end - access.address.offset
    return (
        0 < (ahead % period if period else ahead) < size_of(access.type, types.memory.named_types)
    )


def may_begin_inside(copy: Instruction, types: ValueTypes) -> Type | None:
    """The type of the floats among which a copy or `memset` acts, if nothing tells that it begins
    at one of them, and each is known to be at an address that its size divides.
    """
    try:
        kind = copied_scalars(copy, types)
    except MixedCopy:
        return None
    if copy.callee_name == COPY_RESIZED or not isinstance(kind, Type):
        return None
    size, memory = size_of(kind, types.memory.named_types), types.memory
    for pointer in _pointers(copy):
        start = memory.address(pointer)
        if start.offset % size == 0 and start.stride % size == 0:
            continue
        for o in memory.objects(pointer):
            floats = [a for a in types.accesses.get(o, ()) if a.type == kind]
            if any(a.aligned for a in floats) and not any(
                a.address is not None
                and memory.starts(start, o)
                and gcd(start.stride, a.address.stride) % size == 0
                for a in floats
            ):
                return kind
    return None


def has_pointers(pointer: Value, types: ValueTypes) -> bool:
    """Whether memory is known to hold pointers: stored there, or copied and loaded."""
    memory = types.memory
    return any(
        memory.contents.get(o)
        or (o in memory.copy_sources and any(a.type.is_pointer for a in types.accesses.get(o, ())))
        for o in memory.objects(pointer)
    )


def beside_floats(clear: Instruction, types: ValueTypes) -> list[CopiedScalar]:
    """The pointers and integers that a program has where a memset of known length clears, as far as
    it is known where they are; nothing where it has no pointers.
    """
    memory, pointer = types.memory, clear.operands[0]
    start, length = memory.address(pointer), integer_of(clear.operands[2])
    if length is None or start.stride or not has_pointers(pointer, types):
        return []
    found: set[tuple[int, Type]] = set()
    for o in memory.objects(pointer):
        for a in types.accesses.get(o, ()):
            address = a.address
            if a.type.is_float or address is None or address.stride:
                continue
            if address.base is not start.base and not (
                memory.starts(address, o) and memory.starts(start, o)
            ):
                continue
            offset = address.offset - start.offset
            within = 0 <= offset <= length - size_of(a.type, memory.named_types)
            if within and not types.touches_floats(a.instruction):
                found.add((offset, a.type))
    return [
        CopiedScalar(offset, t)
        for offset, t in sorted(found, key=lambda one: (one[0], str(one[1])))
    ]

"""Copies of memory: which of the bytes that a `memcpy` or `memmove` moves are floats.

Needs       MemoryFacts and ValueTypes of a function
Gives       `kind_of(copy)`: the float type, if all bytes are floats of one type; None if there are
            no floats among them
            `scalars_of(copy)`: where the floats and pointers are, if the copy mixes types
            `periodic_copy(copy)`: where the floats are, if the length is known only at run time
            `may_end_inside(copy)`: the floats inside which it, or a `memset`, may end
            `may_begin_inside(copy)`: the type of the floats inside which it may begin
Invariants  C1  what is known of memory also holds for memory that its bytes are copied to or from
            C2  a byte that may belong to a float with a derivative is in a `CopiedScalar` of float
                type, or the program is refused (`MixedCopy`)
            C3  a copy that may begin or end inside a float is refused, or leaves NaN in the shadow
                when it does so at run time (`may_end_inside`, `may_begin_inside`)
            C4  memory that is only copied is known by the copies alone: floats are where copies
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
from activerules.ir.analysis.types.record_copies import declared_at_both_ends, record_fields
from activerules.ir.analysis.types.same_layout import is_same_layout
from activerules.ir.analysis.types.value_types import TypedAccess, ValueTypes, clears
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import DOUBLE, FLOAT, Type, size_of
from activerules.ir.normal.effects import COPY_RESIZED


class MixedCopy(Exception):
    """It is not known which bytes of a copy hold floats."""


@dataclass(frozen=True)
class CopiedScalar:
    """A float or pointer among the copied bytes, `offset` bytes from their start."""

    offset: int
    type: Type


def kind_of(copy: Instruction, types: ValueTypes) -> Type | None:
    """The float type of all that is copied; None if no floats are copied.

    Raises `MixedCopy` if neither is known.
    """
    direct, objects = objects_of(copy, types)
    kinds = {t for o in objects for t in types.float_types(o)}
    if not kinds:
        if not all(_is_seen_through(o, types) for o in objects):
            raise MixedCopy
        return None
    if len(kinds) > 1 or any(moves_other_values(copy, o, types) for o in direct):
        raise MixedCopy
    (kind,) = kinds
    is_uneven = any(_is_uneven(o, kind, copy, types) for o in objects)
    if kind not in {DOUBLE, FLOAT} or is_uneven or _cuts_a_float(copy, kind, direct, types):
        raise MixedCopy
    return kind


def objects_of(
    copy: Instruction, types: ValueTypes
) -> tuple[frozenset[MemoryObject], frozenset[MemoryObject]]:
    """The objects a copy acts on; and these with all objects that copies join to them."""
    memory = types.memory
    direct = frozenset(o for p in _pointers(copy) for o in memory.objects(p))
    return direct, direct.union(*map(memory.copied_with, direct))


def _pointers(copy: Instruction) -> list[Value]:
    """The pointers among the first two operands: the second operand of `memset` is a byte."""
    return [o for o in copy.operands[:2] if o.type.is_pointer]


def may_mix_types(copy: Instruction, types: ValueTypes) -> bool:
    """Whether floats may be copied that are also accessed as something else before or after.

    Where the bytes are only copied, the shadow of the copy is a copy of the shadow, whatever they
    are.
    """
    try:
        copied_scalars(copy, types)
    except MixedCopy:
        _, objects = objects_of(copy, types)
        return any(types.holds_float(o) or _is_filled_with_integers(o, types) for o in objects)
    return False


def _is_filled_with_integers(o: MemoryObject, types: ValueTypes) -> bool:
    return o.is_local and any(
        a.type.is_int and a.instruction.opcode == "store" and not clears(a.instruction)
        for a in types.accesses.get(o, ())
    )


def mixed_copy(copy: Instruction) -> ActiverulesError:
    """The error to raise for a copy that raised `MixedCopy`."""
    return refusal(
        copy,
        "a copy of memory that mixes types carries a derivative",
        "which bytes hold floats is not known",
        [
            "copy the fields one by one, r[i].x = s[i].x",
            "for a list of arrays that a recursive function takes: one array with an axis more",
        ],
    )


def _is_seen_through(o: MemoryObject, types: ValueTypes) -> bool:
    """Whether an object without known floats has none: it is allocated here, it is declared, or
    every byte of it is accessed as something else, as in an array of integers.
    """
    if o.is_local or o in types.declared:
        return True
    accesses = [
        (a.address, size_of(a.type, types.memory.named_types))
        for a in types.accesses.get(o, ())
        if a.address is not None and a.address.stride
    ]
    period = gcd(*(address.stride for address, _ in accesses))
    covered = {(address.offset + k) % period for address, size in accesses for k in range(size)}
    return bool(accesses) and len(covered) == period


def _cuts_a_float(
    copy: Instruction, kind: Type, direct: frozenset[MemoryObject], types: ValueTypes
) -> bool:
    """Whether a copy among floats is known to begin or end inside one."""
    size, length = size_of(kind, types.memory.named_types), integer_of(copy.operands[2])
    if length is not None and length % size and copy.callee_name != COPY_RESIZED:
        return True
    return any(_phases(copy, kind, direct, types))


def _phases(
    copy: Instruction, kind: Type, direct: frozenset[MemoryObject], types: ValueTypes
) -> set[int]:
    """The offsets of floats from the start of a copy, modulo the size of a float."""
    size, memory = size_of(kind, types.memory.named_types), types.memory
    phases: set[int] = set()
    for pointer in _pointers(copy):
        start = memory.address(pointer)
        for o in direct & memory.objects(pointer):
            if not memory.starts(start, o):
                continue
            for offset, stride in _float_offsets(o, kind, types):
                period, ahead = gcd(start.stride, stride), offset - start.offset
                if period % size == 0:
                    phases.add(ahead % size)
                elif period > size:  # in a packed record; a smaller one is that of unknown strides
                    phases |= _phases_in_packed(ahead, period, size, integer_of(copy.operands[2]))
    return phases


def _float_offsets(o: MemoryObject, kind: Type, types: ValueTypes) -> Iterable[tuple[int, int]]:
    """The offsets of floats in an object, where they are accessed or declared, with strides."""
    if o in types.declared:
        yield from (
            (at, types.declared[o].period) for at, t in types.declared[o].floats if t == kind
        )
    if o in types.as_declared:
        return
    for access in types.accesses.get(o, ()):
        if access.type == kind and access.address is not None:
            yield access.address.offset, access.address.stride


def _phases_in_packed(ahead: int, period: int, size: int, length: int | None) -> set[int]:
    """The phases of floats at `ahead + period * integers`, of which `length` bytes are copied."""
    first, end = ahead % period - period, period * size
    end = end if length is None else min(end, length)
    return {at % size for at in range(first, end, period) if at > -size}


def _is_uneven(o: MemoryObject, kind: Type, copy: Instruction, types: ValueTypes) -> bool:
    """Whether an object holds packed records, or floats that are declared at other offsets than
    multiples of their size, and it is not known where in the object the copy begins, if it acts on
    it at all.
    """
    memory, size = types.memory, size_of(kind, types.memory.named_types)
    pointers = [p for p in _pointers(copy) if o in memory.objects(p)]
    if pointers and all(memory.starts(memory.address(p), o) for p in pointers):
        return False
    declared = types.declared[o].floats if o in types.declared else ()
    return any(at % size for at, _ in declared) or any(
        stride > size and stride % size for _, stride in _float_offsets(o, kind, types)
    )


def moves_other_values(copy: Instruction, o: MemoryObject, types: ValueTypes) -> bool:
    """Whether a value that is not a float may be among the bytes copied from or to an object."""
    return any(
        not a.type.is_float
        and not clears(a.instruction)
        and any(types.may_be_copied(a, o, p) for p in _pointers(copy))
        for a in types.accesses.get(o, ())
    )


@dataclass(frozen=True)
class PeriodicCopy:
    """The floats among bytes whose number is known only at run time: at these offsets in every
    `period` bytes; once, if that is 0.
    """

    period: int
    floats: tuple[CopiedScalar, ...]


def periodic_copy(copy: Instruction, types: ValueTypes) -> PeriodicCopy:
    """The floats of a copy of an array of structs, of any length.

    Raises `MixedCopy` if they are not known, or there are pointers or other float types among them.
    """
    memory = types.memory
    direct, objects = objects_of(copy, types)
    if copy.callee_name == COPY_RESIZED:
        raise MixedCopy
    if any(o in types.declared for o in objects):
        return _record_period(copy, objects, types)
    spots = [spot for p in _pointers(copy) for spot in _accesses_from(p, types)]
    period = gcd(*(stride for _, stride, _ in spots))
    fields: set[tuple[int, Type]] = set()
    for offset, _, t in spots:
        size = size_of(t, memory.named_types)
        start = offset % period if period else offset
        if (period and start + size > period) or (start < 0 < start + size):
            raise MixedCopy
        if start >= 0:
            fields.add((start, t))
    scalars = sorted((CopiedScalar(*field) for field in fields), key=lambda scalar: scalar.offset)
    # floats that are accessed only in copies of these bytes must be among them, too
    beyond = any(not a.type.is_int for o in objects - direct for a in types.accesses.get(o, ()))
    local = all(o.is_local for o in objects) and not beyond
    floats = tuple(p for p in scalars if p.type in {DOUBLE, FLOAT})
    has_others = any(not p.type.is_int for p in scalars if p not in floats)
    if has_others or (not period and (len(direct) < 2 or not local)):
        raise MixedCopy
    _require_disjoint(scalars, period, memory, local)
    return PeriodicCopy(period, floats)


def _record_period(
    copy: Instruction, objects: frozenset[MemoryObject], types: ValueTypes
) -> PeriodicCopy:
    """The floats of a copy of records, or of part of one, whose layout is declared."""
    layout = record_fields(copy, objects, types)
    if layout is None:
        raise MixedCopy
    period, fields = layout
    if any(at + size_of(t, types.memory.named_types) > period for at, t in fields):
        raise MixedCopy
    return PeriodicCopy(
        period, tuple(CopiedScalar(at, t) for at, t in sorted(fields, key=lambda field: field[0]))
    )


def _accesses_from(pointer: Value, types: ValueTypes) -> list[tuple[int, int, Type]]:
    """The accesses of the memory of a copy: offset from the start of the copy, stride, type."""
    start = types.memory.address(pointer)
    spots: list[tuple[int, int, Type]] = []
    for o in types.memory.objects(pointer):
        for access in types.accesses.get(o, ()):
            if access.address is None or not types.memory.starts(start, o):
                raise MixedCopy
            if not clears(access.instruction):
                offset = access.address.offset - start.offset
                spots.append((offset, gcd(access.address.stride, start.stride), access.type))
    return spots


def scalars_of(copy: Instruction, types: ValueTypes) -> list[CopiedScalar]:
    """The floats and pointers of a copy of known length, in order.

    Raises `MixedCopy` if not all are known.
    """
    length = integer_of(copy.operands[2]) if copy.callee_name != COPY_RESIZED else None
    memory = types.memory
    direct, objects = objects_of(copy, types)
    copied_on = objects - direct
    if length is None:
        raise MixedCopy
    if any(o in types.declared for o in objects):
        agreed = declared_at_both_ends(_pointers(copy), length, types)
        if agreed is not None:
            return [CopiedScalar(at, t) for at, t in agreed]
        return _record_scalars(length, _record_period(copy, objects, types), memory)
    fields: set[tuple[int, Type]] = set()
    if any(not a.type.is_int for o in copied_on for a in types.accesses.get(o, ())):
        if not is_same_layout(objects, memory):
            raise MixedCopy  # the offsets in this copy are not known
        start = memory.address(copy.operands[0])
        for o in copied_on:
            for access in types.accesses.get(o, ()):
                if not clears(access.instruction):
                    occurrences = _occurrences(access, start, length, memory)
                    fields.update((scalar.offset, scalar.type) for scalar in occurrences)
    fields |= {
        (scalar.offset, scalar.type)
        for pointer in _pointers(copy)
        for o in memory.objects(pointer)
        for access in types.accesses.get(o, ())
        if not clears(access.instruction)
        for scalar in _occurrences_in(access, memory.address(pointer), o, length, memory)
    }
    scalars = sorted((CopiedScalar(*field) for field in fields), key=lambda scalar: scalar.offset)
    _require_disjoint(scalars, length, memory, all(o.is_local for o in objects))
    return [scalar for scalar in scalars if not scalar.type.is_int]


def _record_scalars(length: int, periodic: PeriodicCopy, memory: MemoryFacts) -> list[CopiedScalar]:
    """The floats among `length` bytes of records; `MixedCopy` if one is cut."""
    scalars = [
        CopiedScalar(start + scalar.offset, scalar.type)
        for start in range(0, length, periodic.period)
        for scalar in periodic.floats
        if start + scalar.offset < length
    ]
    if any(p.offset + size_of(p.type, memory.named_types) > length for p in scalars):
        raise MixedCopy
    return scalars


def _occurrences_in(
    access: TypedAccess, start: Address, o: MemoryObject, length: int, memory: MemoryFacts
) -> Iterable[CopiedScalar]:
    """The scalars that an access to an object reads or writes among `length` bytes at `start`."""
    if not memory.starts(start, o):
        raise MixedCopy
    return _occurrences(access, start, length, memory)


def _occurrences(
    access: TypedAccess, start: Address, length: int, memory: MemoryFacts
) -> Iterable[CopiedScalar]:
    """The same for an access whose address has the same base as `start`."""
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


def _require_disjoint(
    scalars: list[CopiedScalar], length: int, memory: MemoryFacts, local: bool
) -> None:
    """Scalars, other than integers, must not overlap, and cover all bytes of a caller's memory."""
    end = 0
    for k, scalar in enumerate(scalars):
        size = size_of(scalar.type, memory.named_types)
        if not local and scalar.offset > end:
            raise MixedCopy
        before = scalars[k - 1]
        if scalar.offset < end and not (scalar.type.is_int and before.type.is_int):
            raise MixedCopy
        end = max(end, scalar.offset + size)
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
    """The floats of a copy, or of the memory that `memset` clears, if it may end inside one."""
    if copy.callee_name == COPY_RESIZED:
        return None  # memory is resized as a whole
    try:
        periodic = copied_scalars(copy, types)
    except MixedCopy:
        return None
    if isinstance(periodic, Type):
        periodic = PeriodicCopy(
            size_of(periodic, types.memory.named_types), (CopiedScalar(0, periodic),)
        )
    if not isinstance(periodic, PeriodicCopy) or not periodic.floats:
        return None
    factor = divisor(copy.operands[2], types.memory.caller.multiples)
    return None if periodic.period and factor % periodic.period == 0 else periodic


def float_places(
    pointer: Value, direct: frozenset[MemoryObject], types: ValueTypes
) -> list[tuple[int, int, Type]]:
    """Offsets of floats from a pointer, with strides, as far as they are accessed or declared at
    known ones.
    """
    start = types.memory.address(pointer)
    return [
        (offset - start.offset, gcd(stride, start.stride), kind)
        for o in direct
        if types.memory.starts(start, o)
        for kind in types.float_types(o)
        for offset, stride in _float_offsets(o, kind, types)
    ]


def may_begin_inside(copy: Instruction, types: ValueTypes) -> Type | None:
    """The type of the floats that a copy or `memset` acts on, if it is not known to begin at one of
    them, and each is known to be at a multiple of its size.
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
            if (
                any(a.aligned for a in floats)
                and not _is_packed(o, kind, types)
                and not any(
                    a.address is not None
                    and memory.starts(start, o)
                    and gcd(start.stride, a.address.stride) % size == 0
                    for a in floats
                )
            ):
                return kind
    return None


def _is_packed(o: MemoryObject, kind: Type, types: ValueTypes) -> bool:
    """Whether floats are at distances that are no multiples of their size, as in packed records.
    Numba declares that accesses to arrays in these are aligned, though they are not.
    """
    size = size_of(kind, types.memory.named_types)
    layout = types.declared.get(o)
    if layout is not None and any(
        n % size for n in (layout.period, *(at for at, _ in layout.floats))
    ):
        return True
    addresses = [a.address for a in types.accesses.get(o, ()) if a.type == kind]
    return any(
        (a.stride if a.rows is None else a.rows.stride) % size for a in addresses if a is not None
    )


def cut_floats(copy: Instruction, types: ValueTypes) -> Type | PeriodicCopy | None:
    """The floats inside which a copy or `memset` may begin or end at run time: the type of
    `may_begin_inside`, or else the floats of `may_end_inside`.
    """
    return may_begin_inside(copy, types) or may_end_inside(copy, types)


def has_pointers(pointer: Value, types: ValueTypes) -> bool:
    """Whether memory is known to hold pointers: stored there, or copied there and loaded."""
    memory = types.memory
    return any(
        memory.contents.get(o)
        or (o in memory.copy_sources and any(a.type.is_pointer for a in types.accesses.get(o, ())))
        for o in memory.objects(pointer)
    )


def beside_floats(clear: Instruction, types: ValueTypes) -> list[CopiedScalar]:
    """The pointers and integers in memory that a memset of known length clears, as far as their
    offsets are known; none if the memory holds no pointers.
    """
    memory, pointer = types.memory, clear.operands[0]
    start, length = memory.address(pointer), integer_of(clear.operands[2])
    if length is None or start.stride or not has_pointers(pointer, types):
        return []
    fields: set[tuple[int, Type]] = set()
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
                fields.add((offset, a.type))
    return [
        CopiedScalar(offset, t)
        for offset, t in sorted(fields, key=lambda field: (field[0], str(field[1])))
    ]

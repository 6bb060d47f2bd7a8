"""Addresses: where in an object a pointer points, as far as its address arithmetic shows.

Needs       pointers of a function in normal form
Gives       `address_of(pointer)`: a base, and the set of possible offsets from it
            `before_loops(address)`: the same from the start of a pointer that loops advance
Invariants  O1  every offset the pointer may have from its base is in `offset + stride * integers`
            O2  with `through`, the base is a reference-counted object and offsets count from the
                start of its data, wherever that is at the moment
            O3  in memory that begins with a header (`CallEffect.header`), subscripts only move
                forwards: offsets are not below `low`, the offset before the first subscript. Nor
                is an item in the header, even where LLVM has merged the header into the subscript
            O4  with `rows`, every offset also is in one of the rows: what a loop with constant
                limits steps through, as over an array inside a record
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import gcd, lcm

from activerules.ir.analysis.memory.bounds import bounds_of, most_repeats
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import (
    I64,
    ArrayType,
    NamedType,
    NamedTypes,
    StructType,
    Type,
    body_of,
    field_offset,
    size_of,
)
from activerules.ir.normal.effects import HEADER_BYTES, effect_of

Multiples = Mapping[Value, int]
"""For integers that the caller passes, a number that is known to divide each."""
_NO_MULTIPLES: Multiples = {}
_MOST_PLACES = 256
"""Pairs of offsets in rows that are compared one by one."""
_DEEPEST_LOOP = 4
"""Loops in one another through which pointers that are advanced are followed."""


@dataclass(frozen=True)
class Rows:
    """Offsets from `start` to `start + extent`, by multiples of `step`, and the same moved by
    multiples of `stride`; `start` counts from the `offset` of an address.
    """

    start: int
    stride: int
    extent: int = 0
    step: int = 0

    def within(self, other: Rows) -> Rows:
        """The sums of offsets of both."""
        return Rows(
            self.start + other.start,
            gcd(self.stride, other.stride),
            self.extent + other.extent,
            gcd(self.step, other.step),
        )

    @property
    def count(self) -> int:
        """The number of offsets of one row."""
        return self.extent // (self.step or 1) + 1

    @property
    def places(self) -> range:
        """The offsets of one row."""
        return range(self.start, self.start + self.extent + 1, self.step or 1)


@dataclass(frozen=True)
class Address:
    """Offsets `offset + stride * integers` from a base; exactly `offset` where `stride` is 0."""

    base: Value
    offset: int
    stride: int = 0
    low: int | None = None
    through: bool = False
    rows: Rows | None = None

    @property
    def first_item(self) -> int | None:
        """The lowest possible offset, in memory that begins with a header (O3)."""
        return None if self.low is None else max(self.low, HEADER_BYTES)

    def may_overlap(
        self, size: int, other: Address, other_size: int, *, header: bool = False
    ) -> bool:
        """Whether `size` bytes here may share a byte with `other_size` bytes at `other`.

        Both must have the same base. `header`: the memory begins with a header (O3).
        """
        if header and (self.lies_after(other, other_size) or other.lies_after(self, size)):
            return False
        ahead = other.offset - self.offset
        if not _may_share(ahead, gcd(self.stride, other.stride), size, other_size):
            return False
        a, b = self.rows or Rows(0, self.stride), other.rows or Rows(0, other.stride)
        apart = gcd(a.stride, b.stride)
        from_row = ahead + b.start - a.start
        if not _may_share(from_row, apart, size + a.extent, other_size + b.extent):
            return False
        if a.count * b.count > _MOST_PLACES:
            return True
        return any(
            _may_share(ahead + to - at, apart, size, other_size)
            for at in a.places
            for to in b.places
        )

    def cuts(self, size: int, other: Address, other_size: int) -> bool:
        """Whether `size` bytes here contain some, but not all, of `other_size` bytes at `other`.

        Both must have the same base. False where either offset is not exact.
        """
        ahead = other.offset - self.offset
        covered = ahead >= 0 and ahead + other_size <= size
        return not self.stride and not other.stride and -other_size < ahead < size and not covered

    def lies_after(self, other: Address, size: int) -> bool:
        """Whether every offset here is past `size` bytes at `other`, an exact offset, in memory
        that begins with a header (O3).
        """
        first = self.first_item
        return other.stride == 0 and first is not None and other.offset + size <= first


def _may_share(ahead: int, step: int, size: int, other_size: int) -> bool:
    """Whether `size` bytes may share a byte with `other_size` bytes that begin `ahead` bytes, and
    any multiple of `step`, after them.
    """
    if step == 0:
        return -other_size < ahead < size
    return ahead % step < size or step - ahead % step < other_size


_NO_ADDRESSES: Mapping[Value, Address] = {}


def address_of(
    pointer: Value,
    named: NamedTypes,
    multiples: Multiples = _NO_MULTIPLES,
    known: Mapping[Value, Address] = _NO_ADDRESSES,
) -> Address:
    """Follow a pointer back to where its address arithmetic begins, or to an address in `known`."""
    steps: list[tuple[int, int, Rows]] = []
    start: Address | None = None
    while start is None:
        start = known.get(pointer)
        if start is None and isinstance(pointer, Instruction):
            if pointer.opcode == "getelementptr":
                steps.append(_step_in_rows(pointer, named, multiples))
                pointer = pointer.operands[0]
                continue
            if is_renamed(pointer):
                pointer = pointer.operands[0]
                continue
            if _gives_data(pointer):
                start = Address(pointer.operands[0], 0, through=True)
        start = start or Address(pointer, 0)
    offset, stride, low = start.offset, start.stride, start.low
    rows = start.rows or Rows(0, stride)
    for constant, variable, row in reversed(steps):
        if variable and low is None:
            low = offset
        offset += constant
        stride = gcd(stride, variable)
        rows = rows.within(row)
    known_rows = None if rows == Rows(0, stride) else rows
    return Address(start.base, offset, stride, low, start.through, known_rows)


def before_loops(address: Address, address_at: Callable[[Value], Address]) -> Address:
    """The same address as counted from where a pointer started that loops advance by steps."""
    for _ in range(_DEEPEST_LOOP):
        phi = address.base
        if address.through or not isinstance(phi, Instruction) or phi.opcode != "phi":
            break
        incoming = [address_at(o) for o in phi.operands]
        steps = [a for a in incoming if a.base is phi and not a.through]
        starts = [a for a in incoming if a.base is not phi]
        if len(starts) != 1:
            break
        (start,) = starts
        old, new = address.rows or Rows(0, address.stride), start.rows or Rows(0, start.stride)
        varying = [n for step in steps for n in (step.offset, step.stride)]
        repeats = most_repeats(phi) if len(steps) == 1 and not steps[0].stride else None
        span = steps[0].offset * repeats if repeats is not None else 0
        address = replace(
            address,
            base=start.base,
            offset=address.offset + start.offset,
            stride=gcd(address.stride, start.stride, *varying),
            low=None,
            through=start.through,
            rows=old.within(new).within(
                Rows(
                    min(span, 0),
                    gcd(*(varying if repeats is None else ())),
                    abs(span),
                    abs(steps[0].offset) if span else 0,
                )
            ),
        )
    return address


def is_renamed(i: Instruction) -> bool:
    """Whether an instruction only renames its operand: a phi after a loop with one exit."""
    return i.opcode == "phi" and len(i.operands) == 1


def _gives_data(i: Instruction) -> bool:
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.gives_data


def divisor(
    value: Value, multiples: Multiples, depth: int = 4, assumed: Multiples = _NO_MULTIPLES
) -> int:
    """A number that divides a signed integer whatever its value at run time; 0: it is zero.

    `assumed`: what is assumed to divide the phis that are being computed.
    """
    number = integer_of(value)
    if number is not None:
        return abs(number)
    if value in assumed:
        return assumed[value]
    if not isinstance(value, Instruction) or not depth:
        return multiples.get(value, 1)
    if value.opcode == "phi":
        return _divisor_of_phi(value, multiples, depth, assumed)

    def below(o: Value) -> int:
        return divisor(o, multiples, depth - 1, assumed)

    match value.opcode:
        case "mul":
            number = below(value.operands[0]) * below(value.operands[1])
        case "shl":
            amount = integer_of(value.operands[1])
            number = below(value.operands[0]) << amount if amount is not None else 1
        case _:
            number = _combined(value, below)
    return _lowest_bit(number) if _may_wrap(value) else number


def _divisor_of_phi(phi: Instruction, multiples: Multiples, depth: int, assumed: Multiples) -> int:
    """What divides a phi, by induction over the iterations of its loop: it divides the start, and
    the next value if it divides the one before.
    """
    number = 0  # which every number divides
    while True:
        known = {**assumed, phi: number}
        found = gcd(number, *(divisor(o, multiples, depth - 1, known) for o in phi.operands))
        if found == number:
            return number
        number = found


def _may_wrap(value: Instruction) -> bool:
    """Whether a result may be reduced modulo a power of two, or a negative one made positive; sums
    and products of 64 bits are taken to be subscripts, which do not wrap around.
    """
    if value.opcode == "zext":
        return "nneg" not in value.flags
    is_sum = value.opcode in {"add", "sub", "mul", "shl"} and value.type != I64
    return is_sum and "nsw" not in value.flags


def _combined(value: Instruction, below: Callable[[Value], int]) -> int:
    """What divides a sum, a select or a bitwise operation; `below` gives divisors of operands."""
    match value.opcode:
        case "sub" if (period := _rest_of(value.operands[1], value.operands[0])) is not None:
            return period
        case "add" | "sub" | "zext" | "sext" | "freeze":
            return gcd(*map(below, value.operands))
        case "select":
            return gcd(*map(below, value.operands[1:]))
        case "and":
            return lcm(*(_lowest_bit(below(o)) for o in value.operands))
        case "or":
            return gcd(*(_lowest_bit(below(o)) for o in value.operands))
        case _:
            return 1


def _lowest_bit(number: int) -> int:
    """The largest power of two that divides a number; 0 for zero."""
    return number & -number


def _rest_of(rest: Value, whole: Value) -> int | None:
    """The modulus `n` if `rest` is `whole % n`; None otherwise."""
    if not isinstance(rest, Instruction) or rest.opcode not in {"urem", "srem"}:
        return None
    return integer_of(rest.operands[1]) if rest.operands[0] is whole else None


def steps_of(gep: Instruction, named: NamedTypes) -> list[tuple[int, int]]:
    """What a getelementptr may add: a constant, and a divisor of the part that varies. LLVM merges
    accesses to two fields into one, with a select or phi of their offsets: each is a step.
    """
    if len(gep.operands) == 2:
        numbers = _chosen(gep.operands[1])
        size = size_of(gep.attributes["source"], named)
        if numbers:
            return [(n * size, 0) for n in numbers]
    constant, variable, _ = _step_in_rows(gep, named, _NO_MULTIPLES)
    return [(constant, variable)]


def _chosen(index: Value) -> set[int]:
    """The constants among which a select or phi chooses; empty if it has other operands."""
    if not isinstance(index, Instruction) or index.opcode not in {"select", "phi"}:
        return set()
    numbers = [integer_of(o) for o in index.operands[index.opcode == "select" :]]
    known = {n for n in numbers if n is not None}
    return known if None not in numbers else set()


def _step_in_rows(
    gep: Instruction, named: NamedTypes, multiples: Multiples
) -> tuple[int, int, Rows]:
    """What a getelementptr adds: a constant, a divisor of what varies, and what varies as rows."""
    constant, variable, rows = 0, 0, Rows(0, 0)
    t: Type = gep.attributes["source"]
    for k, index in enumerate(gep.operands[1:]):
        number = integer_of(index)
        if k == 0:
            size = size_of(t, named)
        else:
            while isinstance(t, NamedType):
                t = body_of(t, named)
            if isinstance(t, StructType) and number is not None:
                constant += field_offset(t, number, named)
                t = t.elements[number]
                continue
            if not isinstance(t, ArrayType):
                return constant, 1, Rows(0, 1)
            t = t.element
            size = size_of(t, named)
        if number is not None:
            constant += number * size
            continue
        varies = size * divisor(index, multiples)
        variable = gcd(variable, varies)
        bounds = bounds_of(index)
        if bounds is None:
            rows = rows.within(Rows(0, varies))
        else:
            first, last = (size * bound for bound in bounds)
            step = varies if varies and first % varies == 0 else size
            rows = rows.within(Rows(first, 0, last - first, step))
    return constant, variable, rows


def is_aligned(access: Instruction, size: int) -> bool:
    """Whether a load or store of `size` bytes is known to be at a multiple of its size.

    One without `align` has the natural alignment of its type.
    """
    return access.attributes.get("align", size) >= size

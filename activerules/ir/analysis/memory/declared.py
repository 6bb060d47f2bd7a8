"""Declared memory: what the caller states about memory that a parameter points to, and the IR does
not show.

Gives       Declared, frozen: where floats are, and where pointers to other declared memory are
            Target: what a pointer in declared memory points to
            FromCaller: all that is known of the caller of one function
            `mark_of(layout)`: the name of a function by a call of which a front end declares the
            layout of memory that it has just allocated; `layout_in(name)`: the layout in that name
Invariants  D1  bytes in which no float is declared never hold (parts of) the bits of a float
            D2  declared pointers do not change while the function runs: for a function that may
                change one, no targets are declared
            D3  a subscript of an array of integers in a struct does not lead out of that array
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import TYPE_CHECKING, Literal, TypeAlias

from activerules.ir.llvm.names import RECORDS
from activerules.ir.llvm.types import (
    DOUBLE,
    FLOAT,
    I8,
    I16,
    I32,
    I64,
    PTR,
    NamedTypes,
    Type,
    size_of,
)

if TYPE_CHECKING:  # front ends declare memory without the analyses
    from activerules.ir.analysis.memory.addresses import Address, Multiples
    from activerules.ir.analysis.memory.objects import MemoryObject
    from activerules.ir.llvm.model import Argument


@dataclass(frozen=True)
class Declared:
    """The layout of a region of memory.

    floats     the offset and type of every float in one period
    period     the number of bytes after which the layout repeats; 0: the memory is one struct
    integers   the offsets, in one period, of integers of eight bytes that are not pointers
    pointers   whether there may be pointers in it
    tables     the offset and type of the first item of each array of integers in one period
    """

    floats: tuple[tuple[int, Type], ...] = ()
    period: int = 0
    integers: frozenset[int] = frozenset()
    pointers: bool = False
    tables: frozenset[tuple[int, Type]] = frozenset()

    @classmethod
    def array_of(cls, element: Type) -> Declared:
        """Floats of one type, and nothing else."""
        return cls(((0, element),), size_of(element, {}))

    @property
    def is_plain(self) -> bool:
        """Whether it is an array of elements without floats."""
        return bool(self.period) and not self.floats

    @property
    def float_types(self) -> set[Type]:
        """The types of the floats in it."""
        return {t for _, t in self.floats}

    def meets_float(self, t: Type, address: Address | None, named: NamedTypes) -> bool:
        """Whether an access of type `t` may share a byte with a float; `address` counts from the
        start of the memory, None: it may be anywhere.
        """
        if address is None:
            return bool(self.floats)
        if self._is_in_table(t, address):
            return False
        size = size_of(t, named)
        return any(
            address.may_overlap(size, _at(offset, self.period, address), size_of(kind, named))
            for offset, kind in self.floats
        )

    def _is_in_table(self, t: Type, address: Address) -> bool:
        """Whether an access is one of `r.table[k]`, whatever `k` is (D3)."""
        varies = address.stride % self.period if self.period else address.stride
        at = address.offset % self.period if self.period else address.offset
        return bool(varies) and (at, t) in self.tables

    def admits(self, t: Type, address: Address | None) -> bool:
        """Whether an access of type `t` can be to declared floats alone.

        One whose stride is less than the period, or that may be anywhere, must be able to meet
        several of them: it is a loop over an array inside a record.
        """
        at, stride = (0, 1) if address is None else (address.offset, address.stride)
        step = gcd(stride, self.period)
        met = [
            offset
            for offset, kind in self.floats
            if kind == t and ((offset - at) % step == 0 if step else offset == at)
        ]
        return len(met) > (1 if step != self.period else 0)


_LETTERS: dict[Type, str] = {DOUBLE: "d", FLOAT: "f"}
_TABLE_LETTERS: dict[Type, str] = {I8: "b", I16: "h", I32: "i", I64: "q"}


def mark_of(layout: Declared) -> str:
    """The name of the function, `void (ptr)`, that declares this layout of new memory."""
    floats = (f"{offset}{_LETTERS[kind]}" for offset, kind in layout.floats)
    tables = sorted(f"{offset}{_TABLE_LETTERS[kind]}" for offset, kind in layout.tables)
    return RECORDS + ".".join([str(layout.period), *floats, *tables])


def layout_in(name: str) -> Declared:
    """The layout that a function of this name declares."""
    period, *parts = name.removeprefix(RECORDS).split(".")

    def of_kinds(letters: dict[Type, str]) -> tuple[tuple[int, Type], ...]:
        kinds = {letter: kind for kind, letter in letters.items()}
        return tuple((int(part[:-1]), kinds[part[-1]]) for part in parts if part[-1] in kinds)

    tables = frozenset(of_kinds(_TABLE_LETTERS))
    return Declared(of_kinds(_LETTERS), int(period), tables=tables)


def _at(offset: int, period: int, address: Address) -> Address:
    """The addresses of a declared part, with the base of `address`."""
    return type(address)(address.base, offset, period)


PointerKind = Literal["start", "each", "counted", "somewhere"]


@dataclass(frozen=True)
class Target:
    """What a pointer in declared memory points to.

    kind    "start": the start of the memory; "each": that of one of the blocks it consists of;
            "counted": the MemInfo whose data the memory is; "somewhere": the owner of the memory,
            or anything else no address is computed from
    period  of the layout of the memory, which is the same from the start of each block
    """

    memory: MemoryObject
    kind: PointerKind
    period: int = 0

    def is_start(self, address: Address, memory: MemoryObject) -> bool:
        """Whether an address with this pointer as its base counts from the start of `memory`."""
        counted = self.kind == "counted"
        starts = self.kind in {"start", "counted"}
        return starts and self.memory == memory and counted == address.through

    def from_start(self, address: Address, memory: MemoryObject) -> Address | None:
        """The address, whose base is this pointer, as counted from the start of any block; None
        where that is not known.
        """
        if self.kind != "each" or not self.period or self.memory != memory or address.through:
            return None
        return replace(address, stride=gcd(address.stride, self.period), low=None, rows=None)


@dataclass(frozen=True)
class Pointers:
    """The declared pointers in a region of memory.

    at                 what each points to, by its offset in one period
    period, integers   as those of `Declared`
    """

    at: Mapping[int, Target]
    period: int
    integers: frozenset[int]

    def offset_of(self, address: Address) -> int | None:
        """The offset in one period of an address from the start; None where it varies."""
        if self.period == 0:
            return address.offset if address.stride == 0 else None
        return address.offset % self.period if address.stride % self.period == 0 else None

    def meets(self, address: Address, size: int) -> bool:
        """Whether `size` bytes at an address from the start may overlap a declared pointer."""
        return any(
            address.may_overlap(size, _at(offset, self.period, address), size_of(PTR, {}))
            for offset in self.at
        )


Targets: TypeAlias = "Mapping[MemoryObject, Pointers]"
"""Per memory object, the declared pointers in it."""


@dataclass(frozen=True, kw_only=True)
class FromCaller:
    """What is known of the memory that a function gets from its caller.

    group_of    the argument of the program that a pointer parameter belongs to; parameters of one
                group share an object
    private     whether nothing else in the call reaches the parameter's memory (`noalias`); a name:
                nothing else but memory of that name does
    disjoint    whether the memory of different groups is known not to overlap (checked by the
                caller at run time)
    split       whether the caller may write what it can reach before the reverse sweep runs
    clobbered   whether an argument's memory, or a global, may change after the return, so that
                everything read from it counts as overwritten
    targets     what pointers in argument memory point to, as far as the caller declares it
    multiples   numbers that divide integer parameters
    """

    group_of: Callable[[Argument], object]
    private: Callable[[Argument], bool | str] = lambda argument: False
    disjoint: bool = False
    split: bool = False
    clobbered: Callable[[MemoryObject], bool] = lambda memory: False
    targets: Targets = field(default_factory=lambda: {})
    multiples: Multiples = field(default_factory=lambda: {})

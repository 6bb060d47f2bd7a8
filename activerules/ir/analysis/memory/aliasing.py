"""Aliasing: whether two pointers may hold addresses in the same memory.

Needs       `Pointees` of a function in normal form; what its caller declares
Gives       `Aliasing`, frozen: may_alias(p, q), address(pointer), starts(address, object)
Invariants  M2 of `facts`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import gcd

from activerules.ir.analysis.memory.addresses import Address, address_of, before_loops
from activerules.ir.analysis.memory.declared import FromCaller, Target
from activerules.ir.analysis.memory.interior import Interior, interior_pointers
from activerules.ir.analysis.memory.objects import (
    MemoryObject,
    begin_alike,
    has_header,
    is_counted,
    overlap,
)
from activerules.ir.analysis.memory.pointees import Pointees
from activerules.ir.analysis.memory.points_to import HANDED_ON
from activerules.ir.llvm.model import Argument, Instruction, Value
from activerules.ir.llvm.types import NamedTypes
from activerules.ir.normal.effects import memory_intrinsic


@dataclass(frozen=True, eq=False, kw_only=True)
class Aliasing(Pointees):
    """What pointers point to, and where in it.

    starts_of   loads of pointers that the caller declared (`ir/analysis/memory/declared.py`)
    """

    caller: FromCaller
    named_types: NamedTypes
    starts_of: Mapping[Instruction, Target]
    _addresses: dict[Value, Address] = field(default_factory=lambda: {})

    def may_overlap(self, a: MemoryObject, b: MemoryObject) -> bool:
        """Whether two objects may share an address."""
        return overlap(a, b, self.caller.disjoint)

    def may_alias(self, p: Value, p_size: int | None, q: Value, q_size: int | None) -> bool:
        """Whether `p_size` bytes at `p` may overlap `q_size` bytes at `q` (None: unknown size)."""
        if not any(self.may_overlap(a, b) for a in self.objects(p) for b in self.objects(q)):
            return False
        if p_size is None or q_size is None:
            return True
        a, b = self.address(p), self.address(q)
        if (a.base is b.base and a.through == b.through and self._is_one_address(a.base)) or (
            all(self.starts(a, o) and self.starts(b, o) for o in self.objects(p) | self.objects(q))
        ):
            header = all(map(has_header, self.objects(p) | self.objects(q)))
            return a.may_overlap(p_size, b, q_size, header=header)
        return True

    def address(self, pointer: Value) -> Address:
        """The address of a pointer: its base, and its offsets from there."""
        address = self._addresses.get(pointer)
        if address is None:
            address = address_of(pointer, self.named_types, self.caller.multiples, self._addresses)
            self._addresses[pointer] = address
        return address

    def starts(self, address: Address, o: MemoryObject) -> bool:
        """Whether the offsets of an address count from the start of `o` (its data, if counted)."""
        match o.kind:
            case "argument":
                return self._starts_argument(address, o)
            case "allocation" if is_counted(o):
                return address.through or self._leads_to_start(address.base, o)
            case "allocation" | "alloca" if address.base is not o.key:
                return not address.through and self._leads_to_start(address.base, o)
            case _:
                return address.base is o.key and not address.through and self.is_always_new(o)

    def from_start(self, address: Address, o: MemoryObject) -> Address | None:
        """An address as counted from the start of `o`, or from that of any of the blocks with one
        layout that `o` consists of; None where neither is known.
        """
        if self.starts(address, o):
            return address
        advanced = before_loops(address, self.address)
        if advanced is not address and self.starts(advanced, o):
            return advanced
        if not isinstance(address.base, Instruction):
            return None
        target = self.starts_of.get(address.base)
        if target is None:
            return self._chosen(address, address.base, o)
        return target.from_start(address, o)

    def _chosen(self, address: Address, choice: Instruction, o: MemoryObject) -> Address | None:
        """An address that counts from a phi or select of addresses, each known from the start."""
        if choice.opcode not in {"phi", "select"} or address.through:
            return None
        candidates = choice.operands[1:] if choice.opcode == "select" else choice.operands
        incoming = [self.address(p) for p in candidates if o in self.objects(p)]
        if not incoming or not all(self.starts(a, o) for a in incoming):
            return None
        first = incoming[0]
        strides = (n for a in incoming for n in (a.stride, a.offset - first.offset))
        return replace(
            first,
            offset=first.offset + address.offset,
            stride=gcd(address.stride, *strides),
            low=None,
            rows=None,
        )

    def _starts_argument(self, address: Address, o: MemoryObject) -> bool:
        """Whether the base is a parameter that points to the object, or a declared pointer (D2).

        Two objects with the same private name start at the same address, or do not overlap.
        """
        (memory, *others) = self.objects(address.base) or (None,)
        if memory is None or others or (memory != o and not begin_alike(memory, o)):
            return False
        if isinstance(address.base, Instruction):
            target = self.starts_of.get(address.base)
            return target is not None and target.is_start(address, memory)
        return (
            isinstance(address.base, Argument)
            and (not address.through or memory in self.caller.targets)
            and memory not in self._entered_by_several
        )

    @cached_property
    def _entered_by_several(self) -> frozenset[MemoryObject]:
        """Argument memory that is accessed by several parameters. In a function that is called,
        such parameters may point anywhere in it, as a slice of an array and the array do.
        """
        bases: dict[MemoryObject, set[Value]] = {}
        for i in (i for block in self.flow.order for i in block.instructions):
            for pointer in self._accessed_by(i):
                base = self.address(pointer).base
                for o in self.objects(base) if isinstance(base, Argument) else ():
                    bases.setdefault(o, set()).add(base)
        return frozenset(o for o, entries in bases.items() if len(entries) > 1)

    def _accessed_by(self, i: Instruction) -> Iterable[Value]:
        """The pointers from which offsets are counted where an instruction accesses memory."""
        if i.opcode in {"load", "store"}:
            return i.operands[-1:]
        if memory_intrinsic(i) is not None:
            return (o for o in i.operands[:2] if o.type.is_pointer)
        accesses = self.called[i].summary.accesses if i in self.called else ()
        return (i.operands[a.parameter] for a in accesses if a.parameter is not None)

    def _leads_to_start(self, base: Value, o: MemoryObject) -> bool:
        """Whether a pointer that was loaded or merged points to the start of the data of `o`."""
        handed_on = isinstance(base, Instruction) and base.opcode in HANDED_ON
        return handed_on and not self._interior.may_be(base, o)

    @cached_property
    def _interior(self) -> Interior:
        instructions = (i for block in self.flow.order for i in block.instructions)
        return interior_pointers(instructions, self.objects, self.address, self.stored_into)

    def _is_one_address(self, base: Value) -> bool:
        """Whether offsets from `base` distinguish addresses in one object.

        They do not if `base` is a different address in each iteration, unless it is always that of
        new memory.
        """
        if not isinstance(base, Instruction) or self.flow.loop_of(base.owner) is None:
            return True
        return all(o.key is base and self.is_always_new(o) for o in self.objects(base))

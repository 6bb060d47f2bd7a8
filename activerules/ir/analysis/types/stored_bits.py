"""Integers that may hold bits of a float which passed through memory that no float access reveals.

Needs       a Function; its ValueTypes
Gives       `all_float_bits`: a superset of `ValueTypes.float_bits`
Invariants  K1  no other integer is computed from the bits of a float that were stored as integers,
                here or by a function called here

`float_bits` follows integers through arithmetic, and finds those that are loaded from memory with
floats. Bits that went through arithmetic before they were stored are in memory that only integer
accesses reach.
"""

from __future__ import annotations

from collections import defaultdict

from activerules.ir.analysis.memory.objects import MemoryObject, has_header
from activerules.ir.analysis.types.value_types import (
    TypedAccess,
    ValueTypes,
    accesses_of_callee,
    takes_bits,
)
from activerules.ir.llvm.model import Instruction, Value


def all_float_bits(types: ValueTypes) -> frozenset[Value]:
    """The integers that may hold bits of a float: those of `types`, and those read from memory."""
    body = [i for block in types.memory.flow.order for i in block.instructions]
    makers = [call for call, called in types.memory.called.items() if called.summary.makes_bits]
    if not types.float_bits and not makers:
        return types.float_bits
    return _Carried(types, body).result()


class _Carried:
    """The closure: the values that may hold bits, and the accesses that store them."""

    def __init__(self, types: ValueTypes, body: list[Instruction]) -> None:
        self._types, self._memory, self._body = types, types.memory, body
        self._values = set(types.float_bits)
        self._stored: dict[MemoryObject, set[TypedAccess]] = defaultdict(set)

    def result(self) -> frozenset[Value]:
        before = -1
        while before != self._size():
            before = self._size()
            for i in self._body:
                self._visit(i)
            self._copy()
        return frozenset(self._values)

    def _size(self) -> int:
        return len(self._values) + sum(map(len, self._stored.values()))

    def _visit(self, i: Instruction) -> None:
        if i.opcode == "store":
            if i.operands[0] in self._values:
                self._put(i, i.operands[0])
        elif i in self._memory.called:
            self._call(i)
        elif i.type.is_int and i not in self._values and self._holds_bits(i):
            self._values.add(i)

    def _holds_bits(self, i: Instruction) -> bool:
        return takes_bits(i, self._values, self._types) or self._is_read(i)

    def _put(self, store: Instruction, value: Value) -> None:
        for o in self._memory.objects(store.operands[1]):
            address = self._memory.address(store.operands[1])
            known = self._memory.from_start(address, o)
            self._stored[o].add(TypedAccess(store, value.type, known, aligned=False))

    def _is_read(self, load: Instruction) -> bool:
        if load.opcode != "load":
            return False
        address, named = self._memory.address(load.operands[0]), self._memory.named_types
        for o in self._memory.objects(load.operands[0]):
            known = self._memory.from_start(address, o)
            mine = TypedAccess(load, load.type, known, aligned=False)
            if any(p.overlaps(mine, named, header=has_header(o)) for p in self._stored.get(o, ())):
                return True
        return False

    def _call(self, i: Instruction) -> None:
        called = self._memory.called[i]
        objects = {o for o in self._memory.changed_by(i) if called.summary.makes_bits}
        for k, access in called.summary.keeps_bits:
            if i.operands[k] in self._values:
                objects |= {o for o, _ in accesses_of_callee(i, access, self._memory)}
        reads = not self._memory.read_by(i).isdisjoint(self._stored)
        if reads:
            objects |= self._memory.changed_by(i)
        for o in objects:
            self._stored[o].add(TypedAccess(i, i.type, None, aligned=False))
        if i.type.is_int and (reads or any(o in self._values for o in i.operands)):
            self._values.add(i)

    def _copy(self) -> None:
        for target, sources in self._memory.copy_sources.items():
            stored = {
                TypedAccess(p.instruction, p.type, None, aligned=False)
                for source in sources
                for p in self._stored.get(source, ())
            }
            if stored:
                self._stored[target] |= stored

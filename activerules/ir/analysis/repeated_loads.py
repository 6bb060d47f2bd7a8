"""Repeated loads: loads of values that were loaded or stored earlier.

Needs       the ControlFlow, MemoryFacts and Dependence of a Function in normal form
Gives       `repeated_loads`: the value of each such load; `is_plain_load`
Invariants  R1  the load reads that value: nothing writes there between the two accesses, on any
                path from one to the other
            R2  a volatile or atomic load is not among them, nor is its result such a value

The earlier access is in the same block, or, for pointers in memory that the function allocated, in
one that dominates it. LLVM loads such a pointer anew after each call that counts references; which
field of an object in an object is accessed is known only if it is the pointer that was stored.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Block, Instruction, Value, accessed_type
from activerules.ir.llvm.types import size_of

_Known: TypeAlias = dict[tuple[Value, str], tuple[Instruction, Value]]
"""Per address and type: an access, and the value that it found or left there."""


def repeated_loads(
    flow: ControlFlow, memory: MemoryFacts, dependence: Dependence, live: Collection[Block]
) -> dict[Value, Value]:
    """The values of loads that read what was loaded or stored earlier."""
    values: dict[Value, Value] = {}
    search = _Search(flow, memory, dependence)
    for block in flow.order:
        if block in live:
            search.note(block, values)
    return values


class _Search:
    def __init__(self, flow: ControlFlow, memory: MemoryFacts, dependence: Dependence) -> None:
        self.flow, self.memory, self.dependence = flow, memory, dependence
        self.loops = {loop.header: loop for loop in flow.loops}
        self.at_end: dict[Block, _Known] = {}

    def note(self, block: Block, values: dict[Value, Value]) -> None:
        """Note the values of loads that repeat earlier loads and stores of the same pointer."""
        known = self._at_start(block)
        for i in block.instructions:
            if is_plain_load(i):
                key = (i.operands[0], str(i.type))
                if key in known:
                    values[i] = known[key][1]
                else:
                    known[key] = (i, i)
            else:
                self._forget(i, known)
                if i.opcode == "store":
                    value, pointer = i.operands
                    known[pointer, str(value.type)] = (i, value)
        self.at_end[block] = {key: found for key, found in known.items() if self._is_carried(*key)}

    def _is_carried(self, address: Value, kind: str) -> bool:
        """Whether other blocks may know the value at an address: a pointer in local memory."""
        return kind == "ptr" and all(o.is_local for o in self.memory.objects(address))

    def _at_start(self, block: Block) -> _Known:
        """What is known on all paths to a block; at the start of a loop, if none of its blocks
        changes it.
        """
        loop = self.loops.get(block)
        before = [p for p in self.flow.predecessors[block] if loop is None or p not in loop.blocks]
        first, *others = [self.at_end.get(p, {}) for p in before] or [{}]
        known = {
            key: found
            for key, found in first.items()
            if self._is_defined_around(block, found[1])
            and all(key in other and other[key][1] is found[1] for other in others)
        }
        for inside in loop.blocks if loop is not None and known else ():
            for i in inside.instructions:
                self._forget(i, known)
        return known

    def _is_defined_around(self, block: Block, value: Value) -> bool:
        """Whether a value is not one of a loop that ends before the block: such leave by a phi."""
        loop = self.flow.loop_of(value.owner) if isinstance(value, Instruction) else None
        return loop is None or block in loop.blocks

    def _forget(self, i: Instruction, known: _Known) -> None:
        """Remove what an instruction may overwrite."""
        for write in self.memory.changes.writes_of(i):
            for key, (access, _) in list(known.items()):
                size = size_of(accessed_type(access), self.memory.named_types)
                if self.memory.changes.hits(write, key[0], size) and (
                    i.opcode != "store"
                    or access.owner is not i.owner
                    or self.dependence.met_at_once(access, i)
                ):
                    del known[key]


def is_plain_load(i: Instruction) -> bool:
    """Whether an instruction is a load that may be moved, or left out."""
    return i.opcode == "load" and i.is_ordinary

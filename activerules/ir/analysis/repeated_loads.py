"""Repeated loads: loads of values that were loaded or stored earlier in the same block.

Needs       the ControlFlow, MemoryFacts and Dependence of a Function in normal form
Gives       `repeated_loads`: the value of each such load; `is_plain_load`
Invariants  R1  the load reads that value: nothing writes there between the two accesses
            R2  a volatile or atomic load is not among them, nor is its result such a value
"""

from __future__ import annotations

from collections.abc import Collection

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Block, Instruction, Value, accessed_type
from activerules.ir.llvm.types import size_of


def repeated_loads(
    flow: ControlFlow, memory: MemoryFacts, dependence: Dependence, live: Collection[Block]
) -> dict[Value, Value]:
    """The values of loads that read what was loaded or stored earlier in the same block."""
    values: dict[Value, Value] = {}
    search = _Search(memory, dependence)
    for block in flow.order:
        if block in live:
            search.note(block, values)
    return values


class _Search:
    def __init__(self, memory: MemoryFacts, dependence: Dependence) -> None:
        self.memory, self.dependence = memory, dependence

    def note(self, block: Block, values: dict[Value, Value]) -> None:
        """Note the values of loads that repeat earlier loads and stores of the same pointer."""
        known: dict[tuple[Value, str], tuple[Instruction, Value]] = {}
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

    def _forget(
        self, i: Instruction, known: dict[tuple[Value, str], tuple[Instruction, Value]]
    ) -> None:
        """Remove what an instruction may overwrite."""
        for write in self.memory.writes_of(i):
            for key, (access, _) in list(known.items()):
                size = size_of(accessed_type(access), self.memory.named_types)
                if self.memory.hits(write, key[0], size) and (
                    i.opcode != "store" or self.dependence.met_at_once(access, i)
                ):
                    del known[key]


def is_plain_load(i: Instruction) -> bool:
    """Whether an instruction is a load that may be moved, or left out."""
    return i.opcode == "load" and i.is_ordinary

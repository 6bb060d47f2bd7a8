"""Memory that is copied as a whole: all objects hold the same values at the same offsets.

Needs       MemoryFacts of a function
Gives       `is_same_layout`: whether what is known of one of some objects holds for all of them
Invariants  L1  if so, every copy between the objects keeps the offsets of bytes from their starts
"""

from __future__ import annotations

from collections.abc import Set

from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.model import Instruction
from activerules.ir.normal.effects import COPY_RESIZED, memory_intrinsic


def is_same_layout(group: Set[MemoryObject], memory: MemoryFacts) -> bool:
    """See the module docstring; `group` is closed: copies join no other memory to it."""
    body = [i for block in memory.flow.order for i in block.instructions]
    copies = [i for i in body if memory_intrinsic(i) in {"memcpy", "memmove"}]
    return not _copied_by_callees(group, memory) and all(
        _keeps_offsets(i, memory)
        for i in copies
        if not group.isdisjoint(memory.objects(i.operands[0]) | memory.objects(i.operands[1]))
    )


def _copied_by_callees(group: Set[MemoryObject], memory: MemoryFacts) -> bool:
    """Whether a callee copies any of it: its summary does not say to which offsets."""
    return any(
        not group.isdisjoint(called.at(end))
        for called in memory.called.values()
        for ends in called.summary.copies
        for end in ends
    )


def _keeps_offsets(copy: Instruction, memory: MemoryFacts) -> bool:
    target, source = (memory.address(p) for p in copy.operands[:2])
    return (
        copy.callee_name != COPY_RESIZED
        and target.stride == source.stride == 0
        and target.offset == source.offset
        and all(memory.starts(target, o) for o in memory.objects(copy.operands[0]))
        and all(memory.starts(source, o) for o in memory.objects(copy.operands[1]))
    )

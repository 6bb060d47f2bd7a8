"""Rows: addresses that a loop changes and the innermost loop in it does not.

Needs       ControlFlow and MemoryFacts of the function; its instructions to be reversed
Gives       `rows_of`: rows that may be in one array, where an innermost loop accesses several of
            them
Invariants  T1  an innermost loop accesses such a row, and another of the same memory; the loop
                around it computes the row

In `b[i, j] = a[i - 1, j] + a[i + 1, j]`, a loop over `j` reads two rows of `a`, and its reverse
adds to two rows of the shadow. LLVM vectorises that with a check of their addresses, which it moves
out of the loop over `i` where it can express the addresses of all iterations. For all `i` together
the rows do overlap: the check fails, and the scalar loop runs. The sweep keeps the check inside by
hiding how a row depends on `i`. Which rows these are is a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Collection

from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Instruction, Value


def rows_of(
    flow: ControlFlow, memory: MemoryFacts, reversed_: Collection[Instruction]
) -> frozenset[Instruction]:
    """The rows of all innermost loops that are in another loop."""
    rows: set[Instruction] = set()
    for loop in flow.loops:
        if loop.children or loop.parent is None:
            continue
        accessed: dict[Value, frozenset[MemoryObject]] = {}
        for i in (i for block in loop.blocks for i in block.instructions):
            if i in reversed_ and i.opcode in {"load", "store"}:
                pointer = i.operands[-1]
                row = _invariant_part(pointer, loop)
                accessed[row] = accessed.get(row, frozenset()) | memory.objects(pointer)
        for row, objects in accessed.items():
            if (
                isinstance(row, Instruction)
                and row.opcode == "getelementptr"
                and row.parent in loop.parent.blocks
                and any(objects & o for other, o in accessed.items() if other is not row)
            ):
                rows.add(row)
    return frozenset(rows)


def _invariant_part(pointer: Value, loop: Loop) -> Value:
    """What a pointer is computed from, by address arithmetic alone, in front of a loop."""
    while (
        isinstance(pointer, Instruction)
        and pointer.opcode == "getelementptr"
        and pointer.parent in loop.blocks
    ):
        pointer = pointer.operands[0]
    return pointer

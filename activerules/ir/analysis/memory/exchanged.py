"""Exchanged pointers: two that never lead to the same memory at one time.

Needs       `Aliasing` of a function in normal form
Gives       `apart_at_once(p, q, memory)`
Invariants  X1  if it is True, then whenever both pointers have been computed, what they hold, as
                most recently computed, leads to memory that does not overlap

Loops over time steps read one array and write another, and exchange the two after each step
(`u, w = w, u`): at different times, each pointer points to either array.

X1 is proved by induction over the steps of a run, for pairs of phis of one block, which are
computed together: it holds after a step if, on each edge to the block, it held before for the two
values that they take there.
"""

from __future__ import annotations

from typing import TypeGuard

from activerules.ir.analysis.memory.aliasing import Aliasing
from activerules.ir.analysis.memory.objects import SAME_OBJECT
from activerules.ir.llvm.model import Instruction, Value


def apart_at_once(p: Value, q: Value, memory: Aliasing) -> bool:
    """Whether two pointers never lead to the same memory at one time (X1)."""
    assumed: set[frozenset[Value]] = set()
    work = [(p, q)]
    while work:
        a, b = map(start_of, work.pop())
        pair = frozenset((a, b))
        if pair in assumed or not _may_meet(a, b, memory):
            continue
        if not (_is_phi(a) and _is_phi(b) and a is not b and a.parent is b.parent):
            return False
        assumed.add(pair)
        others = dict(zip(b.blocks, b.operands, strict=True))
        work += [(x, others[source]) for source, x in zip(a.blocks, a.operands, strict=True)]
    return True


def start_of(pointer: Value) -> Value:
    """The pointer from which one is computed by address arithmetic."""
    while isinstance(pointer, Instruction) and pointer.opcode in SAME_OBJECT:
        pointer = pointer.operands[0]
    return pointer


def _may_meet(a: Value, b: Value, memory: Aliasing) -> bool:
    """Whether the two may lead to the same memory, at the same time or not."""
    return any(memory.may_overlap(x, y) for x in memory.objects(a) for y in memory.objects(b))


def _is_phi(value: Value) -> TypeGuard[Instruction]:
    return isinstance(value, Instruction) and value.opcode == "phi"

"""Writes: what an instruction may write."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.memory.points_to import Solver
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import size_of
from activerules.ir.normal.effects import effect_of
from activerules.ir.normal.promises import touches_memory

# Not interpreted, and seen only in functions that no active data flows into: others are refused.
_WRITES_ANYWHERE = frozenset({"atomicrmw", "cmpxchg", "va_arg", "callbr"})


@dataclass(frozen=True)
class Write:
    """An instruction that may write memory: through `pointers`, in `objects`, or anywhere
    (`everything`). Without `replaces_pointers`, pointers stored in `objects` stay as they are.
    """

    instruction: Instruction
    pointers: tuple[Value, ...]
    size: int | None
    everything: bool = False
    objects: frozenset[MemoryObject] = frozenset()
    replaces_pointers: bool = True


def writes_of(i: Instruction, solved: Solver) -> Iterator[Write]:
    """What an instruction may write."""
    calls = solved.calls
    if i.opcode == "store":
        yield Write(i, (i.operands[1],), size_of(i.operands[0].type, solved.named_types))
    if i.opcode in _WRITES_ANYWHERE:
        yield Write(i, (), None, everything=True)
    if i.opcode != "call":
        return
    if i in solved.called:
        called = solved.called[i]
        yield Write(i, (), None, called.summary.everything, called.writes)
        return
    effect = calls.marked_effect(i) or effect_of(i.callee_name)
    if effect is not None:
        if effect.writes:
            pointers = tuple(i.operands[k] for k in effect.writes)
            followed = solved.followed.get(i, frozenset())
            yield Write(
                i,
                pointers,
                _constant_length(i),
                objects=followed,
                replaces_pointers=effect.replaces_pointers,
            )
    elif not calls.is_arithmetic(i) and touches_memory(i):
        # without pointer arguments it may still write globals and memory it was given earlier
        yield Write(i, (), None, everything=True)


def _constant_length(call: Instruction) -> int | None:
    """Bytes a memory intrinsic writes, if its length is a literal."""
    is_intrinsic = (call.callee_name or "").startswith("llvm.mem") and len(call.operands) > 2
    return integer_of(call.operands[2]) if is_intrinsic else None

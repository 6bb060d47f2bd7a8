"""Pointers that are only counted: chosen between, and passed to calls that add or drop a reference.

Needs       a Module in normal form
Gives       `only_counted`: the instructions that move such a pointer
Invariants  C1  no memory is read or written through any of them, and none is stored or returned

LLVM merges the releases at the ends of several branches into one, of a `phi` of all that is
released there. What such a `phi` may point to says nothing about the data of those objects.
"""

from __future__ import annotations

from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Instruction, Module
from activerules.ir.normal.effects import effect_of

_CHOOSES = frozenset({"phi", "select", "freeze"})


def only_counted(module: Module) -> frozenset[Instruction]:
    """The choices between pointers of which nothing is used but the count of references."""
    body = [i for f in module.defined() for i in f.instructions()]
    choices = {i for i in body if i.opcode in _CHOOSES and i.type.is_pointer}
    used = {o for i in body if i not in choices and not _counts(i) for o in i.operands}
    return frozenset(choices - closure(choices & used, lambda i: choices.intersection(i.operands)))


def _counts(i: Instruction) -> bool:
    """Whether an instruction counts a reference, or compares pointers."""
    if i.opcode == "icmp":
        return True
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect is not None and effect.counts

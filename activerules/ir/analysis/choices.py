"""Choices: loops whose results may be passed over, as those of candidates for a minimum are.

Needs       ControlFlow; the live instructions to be reversed; which may run speculatively
Gives       `passed_over`: per loop that may be left out of the reverse sweep, the values whose
            cotangents decide it
Invariants  H1  if those cotangents are zero when the sweep reaches the loop, all terms that its
                reverse would add are products with zero
            H2  outside the loop, the only instructions with a reverse that use them are choices
"""

from __future__ import annotations

from collections.abc import Collection

from activerules.ir.analysis.repeated_loads import is_plain_load
from activerules.ir.derivatives.table import chooses, row_for
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Instruction


def passed_over(
    flow: ControlFlow, reversed_: Collection[Instruction], speculated: Collection[Instruction]
) -> dict[Loop, tuple[Instruction, ...]]:
    """The loops that the sweep may pass over, each with the values that are used after it."""
    found: dict[Loop, tuple[Instruction, ...]] = {}
    for loop in flow.loops:
        inside = [i for b in flow.order if b in loop.blocks for i in b.instructions]
        active = [i for i in inside if i in reversed_]
        if any(i in speculated or not _is_linear(i) for i in active):
            continue
        ends = tuple(i for i in active if any(u.owner not in loop.blocks for u in flow.users[i]))
        if ends and all(_is_chosen(i, loop, flow, reversed_) for i in ends):
            found[loop] = ends
    return found


def _is_linear(i: Instruction) -> bool:
    """Whether the reverse of an instruction only adds products with the cotangent of its result."""
    if i.opcode in {"phi", "freeze"}:
        return True
    return is_plain_load(i) if i.opcode == "load" else row_for(i) is not None


def _is_chosen(
    value: Instruction, loop: Loop, flow: ControlFlow, reversed_: Collection[Instruction]
) -> bool:
    """Whether what is used of a value outside of a loop may be passed over (H2)."""
    work = [u for u in flow.users[value] if u.owner not in loop.blocks and u in reversed_]
    while work:
        user = work.pop()
        around = flow.loop_of(user.owner)
        if user.opcode == "phi":
            if around is not None and around.header is user.owner:
                return False
            if len(set(user.operands)) == 1:
                work += [u for u in flow.users[user] if u in reversed_]
        elif not chooses(user):
            return False
    return True

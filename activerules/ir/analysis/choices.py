"""Choices: code that the reverse sweep may skip because its result was not chosen, such as all but
one of the candidates for a minimum.

Needs       ControlFlow; the live instructions to be reversed; which may run speculatively
Gives       `passed_over`: per loop that may be left out of the reverse sweep, the values whose
            cotangents decide it
            `added_if_chosen`: loads whose cotangents are better compared with zero than added
Invariants  H1  if those cotangents are zero when the sweep reaches the loop, all terms that its
                reverse would add are products with zero
            H2  outside the loop, the only instructions with a reverse that use them are choices
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.repeated_loads import is_plain_load
from activerules.ir.analysis.variation import changes_in
from activerules.ir.derivatives.table import chooses, row_for
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Instruction


def passed_over(
    flow: ControlFlow, reversed_: Collection[Instruction], speculated: Collection[Instruction]
) -> dict[Loop, tuple[Instruction, ...]]:
    """The loops that the sweep may pass over, each with the values that are used after it."""
    skipped: dict[Loop, tuple[Instruction, ...]] = {}
    for loop in flow.loops:
        inside = [i for b in flow.order if b in loop.blocks for i in b.instructions]
        active = [i for i in inside if i in reversed_]
        if any(i in speculated or not _is_linear(i) for i in active):
            continue
        after = {i: [u for u in flow.users[i] if u.owner not in loop.blocks] for i in active}
        ends = tuple(i for i in active if after[i])
        if ends and all(_is_chosen(after[i], flow, reversed_) for i in ends):
            skipped[loop] = ends
    return skipped


def added_if_chosen(
    flow: ControlFlow,
    memory: MemoryFacts,
    dependence: Dependence,
    reversed_: Collection[Instruction],
) -> frozenset[Instruction]:
    """Loads in innermost loops whose values are not chosen in most iterations, where an iteration
    of the sweep may have to wait for a shadow entry that the previous one stored.

    In `a[i, j] = min(a[i, j], a[i, k] + a[k, j])`, the shadow of `a[i, k]` is loaded and stored
    once per `j`, since one of the others may be the same entry. Without it, LLVM vectorises.
    """
    added: set[Instruction] = set()
    for loop in flow.loops:
        if loop.children:
            continue
        inside = [i for b in flow.order if b in loop.blocks for i in b.instructions]
        replaced = {i.operands[1] for i in inside if i.opcode == "store"}
        chosen = [
            i
            for i in inside
            if i in reversed_
            and is_plain_load(i)
            and i.operands[0] not in replaced
            and not _is_skipped(i, loop, flow)
            and _is_chosen(flow.users[i], flow, reversed_, loop)
        ]
        if any(
            is_invariant(i.operands[0], loop) and changes_in(i, loop, memory, dependence)
            for i in chosen
        ):
            added.update(chosen)
    return frozenset(added)


def _is_linear(i: Instruction) -> bool:
    """Whether the reverse of an instruction only adds products with the cotangent of its result."""
    if i.opcode in {"phi", "freeze"}:
        return True
    return is_plain_load(i) if i.opcode == "load" else row_for(i) is not None


def _is_chosen(
    users: Iterable[Instruction],
    flow: ControlFlow,
    reversed_: Collection[Instruction],
    inner: Loop | None = None,
) -> bool:
    """Whether the instructions with a reverse among `users` are choices.

    In the loop `inner`, these may also be arithmetic whose results only choices use, and what
    does not run in every iteration.
    """
    work, seen = list(users), set[Instruction]()
    while work:
        user = work.pop()
        if user not in reversed_ or user in seen:
            continue
        seen.add(user)
        around = flow.loop_of(user.owner)
        if user.opcode == "phi":
            if around is not None and around.header is user.owner:
                return False
            if len(set(user.operands)) == 1:
                work += flow.users[user]
        elif chooses(user) or (inner is not None and _is_skipped(user, inner, flow)):
            continue
        elif inner is not None and row_for(user) is not None:
            work += flow.users[user]
        else:
            return False
    return True


def _is_skipped(i: Instruction, loop: Loop, flow: ControlFlow) -> bool:
    """Whether an instruction of a loop does not run in every iteration."""
    assert loop.latch is not None
    return i.owner in loop.blocks and not flow.dominates(i.owner, loop.latch)

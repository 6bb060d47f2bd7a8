"""Loads are hoisted out of loops that do not write what they read, and a load that repeats an
earlier load or store is replaced by that value.

Needs       a Function in normal form, its ControlFlow, MemoryFacts and Dependence
Gives       the function, changed in place
Invariants  H1  every remaining value has the bits it had
            H2  a load is moved only to where it runs exactly if it would have run

LLVM has done this as far as it can distinguish addresses; here subscripts are compared. The gain: a
value read in the innermost loop is kept, or read again, once per iteration of the enclosing loop,
and its cotangent is summed in a register.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.repeated_loads import is_plain_load, repeated_loads
from activerules.ir.analysis.variation import changes_in
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Block, Function, Instruction


@dataclass(frozen=True)
class Forwarded:
    """What was changed: `anything` at all; loads of `pointers`, replaced by what was stored."""

    anything: bool
    pointers: bool


def forward_loads(
    function: Function,
    flow: ControlFlow,
    memory: MemoryFacts,
    dependence: Dependence,
    live: Collection[Block],
) -> Forwarded:
    """Rewrite.

    live    the blocks whose writes are in `memory`
    """
    mover = _Mover(flow, memory, dependence)
    for loop in sorted(flow.loops, key=lambda loop: -loop.depth):
        if loop.header in live:
            mover.hoist(loop)
    instead = repeated_loads(flow, memory, dependence, live)
    if instead:
        function.replace(instead)
    return Forwarded(
        anything=mover.changed or bool(instead),
        pointers=any(load.type.is_pointer for load in instead),
    )


class _Mover:
    def __init__(self, flow: ControlFlow, memory: MemoryFacts, dependence: Dependence) -> None:
        self.flow, self.memory, self.dependence = flow, memory, dependence
        self.changed = False

    def hoist(self, loop: Loop) -> None:
        """Move loads to the preheader."""
        if loop.preheader is None or loop.latch is None:
            return
        ends = {inside for inside, _ in loop.exit_edges()} | {loop.latch}
        for block in sorted(loop.blocks, key=lambda b: self.flow.position[b]):
            if self.flow.loop_of(block) is not loop:
                continue
            if not all(self.flow.dominates(block, end) for end in ends):
                continue
            for i in [i for i in block.instructions if self._may_leave(i, loop)]:
                block.instructions.remove(i)
                loop.preheader.insert(-1, i)
                self.changed = True

    def _may_leave(self, i: Instruction, loop: Loop) -> bool:
        if not is_plain_load(i) or not is_invariant(i.operands[0], loop):
            return False
        return not changes_in(i, loop, self.memory, self.dependence)

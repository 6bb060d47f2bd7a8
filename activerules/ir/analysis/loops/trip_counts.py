"""Trip counts: induction variables, and how often a loop runs, if that is known on entry.

Needs       ControlFlow and Returns of a Function in normal form
Gives       for every loop: its affine induction variables, and a TripCount or None
Invariants  T1  an `Induction` has, in iteration k (counted from 0), the value start + k * step,
                modulo its width
            T2  a TripCount says in which iteration k the loop is left, through its one live exit
            T3  start, step and bound are defined outside the loop
Source      the affine case of scalar evolution: Bachmann, Wang, Zima (1994), chains of recurrences
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.analysis.returns import Returns
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Argument, Block, Constant, GlobalRef, Instruction, Value
from activerules.ir.llvm.types import IntType

NEGATED = {
    "eq": "ne", "ne": "eq", "slt": "sge", "sge": "slt", "sgt": "sle", "sle": "sgt",
    "ult": "uge", "uge": "ult", "ugt": "ule", "ule": "ugt",
}  # fmt: skip
_SWAPPED = {"eq": "eq", "ne": "ne", "slt": "sgt", "sgt": "slt", "sle": "sge", "sge": "sle",
            "ult": "ugt", "ugt": "ult", "ule": "uge", "uge": "ule"}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Induction:
    """A header phi with the value `start + k * step` in iteration k, or a pointer that is stepped.

    A pointer is advanced by `step` elements of the source type of `next`, a getelementptr.
    `negative`: the step is subtracted.
    """

    phi: Instruction
    start: Value
    step: Value
    next: Instruction
    negative: bool = False

    @property
    def constant_step(self) -> int | None:
        """The step with its sign, if it is a literal."""
        step = integer_of(self.step)
        return -step if step is not None and self.negative else step


@dataclass(frozen=True, eq=False)
class TripCount:
    """The loop goes on while `first + k * step <predicate> bound`.

    `first` is start, or start + step if the loop compares after stepping (`after`).
    """

    start: Value
    bound: Value
    step: int
    predicate: str
    after: bool


@dataclass(frozen=True, eq=False)
class LoopFacts:
    """What is known of one loop."""

    inductions: dict[Instruction, Induction]
    trip_count: TripCount | None


def analyse_loops(flow: ControlFlow, returns: Returns) -> dict[Loop, LoopFacts]:
    """Facts for every loop of the function."""
    return {loop: _facts(loop, flow, returns) for loop in flow.loops}


def _facts(loop: Loop, flow: ControlFlow, returns: Returns) -> LoopFacts:
    inductions = inductions_of(loop)
    exits = returns.exits_of(loop)
    count = None
    if len(exits) == 1 and loop.latch is not None and flow.dominates(exits[0][0], loop.latch):
        count = _trip_count(exits[0][0], loop, inductions)
    return LoopFacts(inductions, count)


def inductions_of(loop: Loop) -> dict[Instruction, Induction]:
    """The header phis of a loop whose step is invariant in it."""
    inductions = {phi: _induction(phi, loop) for phi in loop.header.phis}
    return {phi: induction for phi, induction in inductions.items() if induction is not None}


def _induction(phi: Instruction, loop: Loop) -> Induction | None:
    if len(phi.operands) != 2:
        return None
    incoming = dict(zip(phi.blocks, phi.operands, strict=True))
    if loop.latch not in incoming or loop.preheader not in incoming:
        return None
    start, after = incoming[loop.preheader], incoming[loop.latch]
    if not isinstance(after, Instruction) or after.parent not in loop.blocks:
        return None
    if isinstance(phi.type, IntType) and phi.type.bits <= 64 and after.opcode in {"add", "sub"}:
        x, y = after.operands
        if after.opcode == "add" and y is phi:
            x, y = y, x
        if x is phi and is_invariant(y, loop):
            return Induction(phi, start, y, after, negative=after.opcode == "sub")
    if phi.type.is_pointer and after.opcode == "getelementptr" and len(after.operands) == 2:
        base, step = after.operands
        if base is phi and is_invariant(step, loop):
            return Induction(phi, start, step, after)
    return None


def is_invariant(value: Value, loop: Loop) -> bool:
    """Whether a value is defined outside the loop."""
    if isinstance(value, Constant | Argument | GlobalRef):
        return True
    return isinstance(value, Instruction) and value.parent not in loop.blocks


def _trip_count(
    exiting: Block, loop: Loop, inductions: dict[Instruction, Induction]
) -> TripCount | None:
    branch = exiting.terminator
    if branch.opcode != "br" or len(branch.blocks) != 2:
        return None
    condition = branch.operands[0]
    if not isinstance(condition, Instruction) or condition.opcode != "icmp":
        return None
    predicate = condition.attributes["predicate"]
    if branch.blocks[0] not in loop.blocks:
        predicate = NEGATED[predicate]
    x, y = condition.operands
    if is_invariant(x, loop):
        x, y, predicate = y, x, _SWAPPED[predicate]
    if not is_invariant(y, loop):
        return None
    by_value: dict[Value, tuple[Induction, bool]] = {
        **{i.phi: (i, False) for i in inductions.values()},
        **{i.next: (i, True) for i in inductions.values()},
    }
    if x not in by_value:
        return None
    induction, after = by_value[x]
    step = induction.constant_step
    if (
        step is None
        or not induction.phi.type.is_int
        or not _counts(predicate, step, induction.next)
    ):
        return None
    return TripCount(induction.start, y, step, predicate, after)


def _counts(predicate: str, step: int, increment: Instruction) -> bool:
    """Whether stepping ends at the bound without wrapping around first."""
    if predicate in {"ne", "eq"}:
        return abs(step) == 1 or (predicate == "eq" and step != 0)
    towards = step > 0 if predicate[1:] in {"lt", "le"} else step < 0
    flag = "nsw" if predicate[0] == "s" else "nuw"
    return towards and (abs(step) == 1 or (flag in increment.flags and flag == "nsw"))

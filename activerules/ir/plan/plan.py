"""The plan: every decision about a derivative, in one frozen object, before any code is made.

Needs       a Request
Gives       Plan: the facts of all analyses, what is undone where, what the tape keeps, which rules
            serve which calls
Invariants  L1  nothing behind this module asks the rule compiler or runs an analysis
            L2  every node the generators materialise is needed by the plan, or at hand, kept or
                computed (cache plan, K1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from activerules.ir.analysis.cache import CachePlan
from activerules.ir.analysis.loops.dependence import Assumption
from activerules.ir.analysis.loops.trip_counts import LoopFacts
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import (
    CalleeFrame,
    LeavingIteration,
    Link,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.derivatives.rulecall import CallInfo, RuleCode, RuleRequest
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.reversal import Reversal


@dataclass(frozen=True, eq=False)
class RuleUse:
    """A marked call that a rule serves; `caught`: if it fails, what calls it may go on; `site`:
    where it is, see `failing`.
    """

    call: Instruction
    info: CallInfo
    request: RuleRequest
    code: RuleCode
    tape: RuleTape | None
    result: SavedStruct | None
    result_shadow: SavedStruct | None
    caught: bool
    site: str | None

    def shadow_operands(self) -> list[int]:
        """Operand indices of all Duplicated arguments, in order."""
        return [
            k
            for argument, activity in zip(self.info.arguments, self.request.activities, strict=True)
            if activity == "duplicated"
            for k in argument.operands
        ]

    def active_operands(self) -> list[Value]:
        """The operands whose derivative the reverse returns, in order."""
        pairs = zip(self.info.arguments, self.request.activities, strict=True)
        return [x for a, how in pairs if how == "active" for x in a.floats(self.call)]


@dataclass(frozen=True, eq=False)
class Plan(Facts):
    """Everything the generators need; see the module docstring.

    overwriters   per load, an instruction that may later write the memory it reads
    assumptions   about the arguments, without which the plan is wrong
    copies        per load, the value of an earlier load or store that it reads again
    escaped       memory made here to which the caller or a called function may keep a reference
    in_rows       the arrays that are allocated in rows of the tape
    tracked       those whose shadows tell which of their floats the program used
    """

    loops: dict[Loop, LoopFacts]
    reversal: Reversal
    cache: CachePlan
    rules: dict[Instruction, RuleUse]
    retained: frozenset[MemoryObject]
    needs: dict[Instruction, frozenset[Node]] = field(default_factory=lambda: {})
    derived: dict[Instruction, CalleeUse] = field(default_factory=dict[Instruction, CalleeUse])
    pairs: tuple[Plan, ...] = ()
    speculated: frozenset[Instruction] = frozenset()
    overwriters: dict[Instruction, Instruction] = field(default_factory=lambda: {})
    assumptions: tuple[Assumption, ...] = ()
    copies: Mapping[Value, Value] = field(default_factory=dict[Value, Value])
    escaped: frozenset[MemoryObject] = frozenset()
    in_rows: frozenset[MemoryObject] = frozenset()
    tracked: frozenset[MemoryObject] = frozenset()

    def home(self, node: Node) -> Loop | None:
        """The innermost loop in whose rows a node is kept; None: in the frame."""
        return home_of(node, self.flow)

    def wanted(self, instruction: Instruction) -> tuple[bool, ...]:
        """Per operand, whether its cotangent is asked for."""
        return tuple(self.activity.is_active(o) for o in instruction.operands)


def home_of(node: Node, flow: ControlFlow) -> Loop | None:
    """Where a node lives: in an iteration of this loop."""
    match node:
        case Primal(value) | Shadow(value):
            return flow.loop_of(value.owner) if isinstance(value, Instruction) else None
        case LeavingIteration(loop) | Link(loop):
            return loop.parent
        case Taken(block):
            return flow.loop_of(block)
        case RuleTape(call) | SavedStruct(call) | CalleeFrame(call):
            return flow.loop_of(call.owner)

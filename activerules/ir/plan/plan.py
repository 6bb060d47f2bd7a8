"""The plan: every decision about a derivative, in one frozen object, before any code is made.

Needs       a Request
Gives       Plan: the facts of all analyses, which instructions are reversed and in what order, what
            the tape keeps, which rules serve which calls
Invariants  L1  no later stage asks the rule compiler or runs an analysis
            L2  every node the generators materialise is needed by the plan, or at hand, kept or
                computed (cache plan, K1)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from activerules.ir.analysis.cache import CachePlan
from activerules.ir.analysis.loops.dependence import Assumption
from activerules.ir.analysis.loops.trip_counts import LoopFacts
from activerules.ir.analysis.nodes import (
    CalleeFrame,
    Entries,
    LeavingIteration,
    Link,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.analysis.read_ranges import ReadRange
from activerules.ir.analysis.types.copies import CopiedScalar
from activerules.ir.analysis.variation import Keeping, Table
from activerules.ir.analysis.windows import Window
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.ownership import Ownership
from activerules.ir.plan.reversal import Reversal
from activerules.ir.plan.shadow_copies import UndoneCopy


@dataclass(frozen=True)
class Slopes:
    """Where an adjoint is not simply the cotangent times the slope.

    speculated    float instructions that may not be part of the derivative
    guarded       (instruction, operand): of those, where the slope may be infinite or NaN
    absorbing     (instruction, operand): the term for that operand is zero where the cotangent of
                  the result is zero, whatever the slope
    tracked       loads and stores of arrays whose shadows tell which floats the program used
    in_place      those of them that add to a float, and leave its shadow as it is
    """

    speculated: frozenset[Instruction]
    guarded: frozenset[tuple[Instruction, int]]
    absorbing: frozenset[tuple[Instruction, int]]
    tracked: frozenset[Instruction]
    in_place: frozenset[Instruction]


@dataclass(frozen=True)
class Sums:
    """How cotangents are added up, in registers and in shadows.

    across_blocks values whose cotangents are summed in several blocks
    windows       loads whose cotangents are added up in registers
    hidden_rows   rows of arrays: LLVM is not to see how outer loops change these addresses
    passed_over   loops that the sweep passes over where the cotangents of these values are zero
    added_if_chosen  loads whose cotangents are added to shadows only where they are not zero
    """

    across_blocks: frozenset[Value]
    windows: Mapping[Instruction, Window]
    hidden_rows: frozenset[Instruction]
    passed_over: Mapping[Loop, tuple[Instruction, ...]]
    added_if_chosen: frozenset[Instruction]


@dataclass(frozen=True, eq=False)
class Plan(Facts):
    """Everything the generators need; see the module docstring.

    needs         per instruction that is reversed, the nodes that its reverse reads
    keeping       where values of the primal are kept, if that may be outside of their own loop
    ranges        what kept Entries are copies of
    copies        per load, the value of an earlier load or store that it reads again
    overwriters   per load that cannot be repeated, an instruction that may later write the memory
    fixed_data    values that are addresses of the data of counted memory, which never moves
    assumptions   about the arguments, without which the plan is wrong
    mirrored      the stores and copies that are repeated on shadow memory (`plan.shadow_copies`)
    undone        how each copy is reversed
    pairs         the plans of the derived pairs; empty in the plan of a pair
    """

    loops: Mapping[Loop, LoopFacts]
    reversal: Reversal
    needs: Mapping[Instruction, frozenset[Node]]
    cache: CachePlan
    keeping: Mapping[Node, Keeping]
    ranges: Mapping[Entries, ReadRange]
    copies: Mapping[Value, Value]
    overwriters: Mapping[Instruction, Instruction]
    fixed_data: frozenset[Value]
    ownership: Ownership
    rules: Mapping[Instruction, RuleUse]
    derived: Mapping[Instruction, CalleeUse]
    mirrored: Mapping[Instruction, tuple[CopiedScalar, ...] | None]
    undone: Mapping[Instruction, UndoneCopy]
    slopes: Slopes
    sums: Sums
    assumptions: tuple[Assumption, ...]
    pairs: tuple[Plan, ...]

    def home(self, node: Node) -> Loop | None:
        """The innermost loop in whose rows a node, or its table, is kept; None: in the frame."""
        return self.keeping[node].home if node in self.keeping else home_of(node, self.flow)

    def entries_of(self, load: Instruction) -> Entries | None:
        """The copy from which the reverse sweep reads what a load has read, if it does."""
        first, *_ = self.cache.computed.get(Primal(load)) or (None,)
        return first if isinstance(first, Entries) else None

    def per_entry(self, node: Node) -> Table | ReadRange | None:
        """The entries of which a node has one value each, if it is not a single value."""
        return self.ranges[node] if isinstance(node, Entries) else self.table(node)

    def table(self, node: Node) -> Table | None:
        """The table in which a node is kept by address; the node's home holds its start."""
        return self.keeping[node].table if node in self.keeping else None


def home_of(node: Node, flow: ControlFlow) -> Loop | None:
    """The innermost loop in whose iterations a node has a value of its own; None: outside loops."""
    match node:
        case Primal(value) | Shadow(value):
            return flow.loop_of(value.owner) if isinstance(value, Instruction) else None
        case LeavingIteration(loop) | Link(loop) | Entries(loop):
            return loop.parent
        case Taken(block):
            return flow.loop_of(block)
        case RuleTape(call) | SavedStruct(call) | CalleeFrame(call):
            return flow.loop_of(call.owner)

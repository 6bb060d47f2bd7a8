"""How each node that the reverse sweep needs can be obtained, and what it costs to keep it.

Needs       the Facts of a function
Gives       `Recipes`: the recipe, the size and the depth of a node; where it is kept, and which
            loads read memory that is overwritten later
"""

from __future__ import annotations

from activerules.ir.analysis.cache import LOOP_WEIGHT, RELOAD_COST
from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.trip_counts import Induction, analyse_loops
from activerules.ir.analysis.memory.objects import has_header, is_counted
from activerules.ir.analysis.nodes import (
    AT_HAND,
    MUST_KEEP,
    Entries,
    LeavingIteration,
    Node,
    Primal,
    Recipe,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.analysis.read_ranges import ReadRange, ReadRanges
from activerules.ir.analysis.repeated_loads import repeated_loads
from activerules.ir.analysis.variation import Keeping, Variation
from activerules.ir.derivatives.table import cost, is_pure_call
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import size_of
from activerules.ir.normal.effects import effect_of
from activerules.ir.plan.facts import Facts
from activerules.ir.plan.plan import home_of
from activerules.ir.plan.reversal import Decision, Reversal

# in bytes of tape that it is worth spending to avoid the recomputation (nodes.Recipe)
INDUCTION_COST = 0.05
# of the size of what a loop reads, which is copied first
COPIED = 1.25
# per byte that an array is kept alive for, instead of one that is kept on the tape
KEPT_ALIVE = 0.75
NEVER_KEPT = 1 << 40


class Recipes:
    """The answers for one function; those about memory are memoised.

    overwriters   per load that was asked about, an instruction that may later write the memory it
                  reads, or None
    copies        per load, the value of an earlier load or store that it reads again
    ranges        what Entries that were asked about are copies of
    """

    def __init__(self, facts: Facts) -> None:
        self.facts, self.flow, self.memory = facts, facts.flow, facts.memory
        self.loops = analyse_loops(facts.flow, facts.returns)
        self.dependence = Dependence(facts.integers, may_assume=facts.request.caller.checked)
        self.overwriters: dict[Instruction, Instruction | None] = {}
        self.variation = Variation(
            facts.integers, self.loops, facts.memory, self.dependence, self.overwriters
        )
        self.read_ranges = ReadRanges(self.variation, facts.returns)
        self.ranges: dict[Entries, ReadRange] = {}
        self.copies = repeated_loads(facts.flow, facts.memory, self.dependence, facts.returns.live)

    def recipe(self, node: Node, reversal: Reversal | None = None) -> Recipe:
        """How the reverse sweep obtains a node. Only with `reversal` are there recipes of `Taken`
        nodes.
        """
        match node:
            case Primal(value):
                return self._of_primal(value)
            case Shadow(value):
                return self._of_shadow(value)
            case LeavingIteration(loop):
                count = self.loops[loop].trip_count
                if count is None:
                    return MUST_KEEP
                return self._from(count.start, count.bound, cost=0.1)
            case Taken(block):
                decision = reversal.steps[block].decision if reversal else None
                if isinstance(decision, Decision):
                    return Recipe(tuple(Primal(c) for c in decision.conditions()), 0.05)
                return MUST_KEEP
            case _:
                return MUST_KEEP

    def _from(self, *values: Value, cost: float = 0.0) -> Recipe:
        return Recipe(tuple(Primal(v) for v in values), cost)

    def _of_primal(self, value: Value) -> Recipe:
        if not isinstance(value, Instruction):
            return AT_HAND
        match value.opcode:
            case "alloca":
                return AT_HAND
            case "phi":
                return self._of_phi(value)
            case "load":
                if value in self.copies:
                    return self._from(self.copies[value])
                if self._is_overwritten(value):
                    return self._from_entries(value)
                return self._from(value.operands[0], cost=self._cost_of_reading(value))
            case "call":
                return self._of_call(value)
            case "inttoptr" | "va_arg":
                return MUST_KEEP
            case _:
                price = cost(value)
                return MUST_KEEP if price is None else self._from(*value.operands, cost=price)

    def _is_overwritten(self, load: Instruction) -> bool:
        """Whether memory that a load reads may be written later; if it is volatile, by others."""
        if load not in self.overwriters:
            pointer, size = load.operands[0], size_of(load.type, self.memory.named_types)
            writes = [w.instruction for w in self.memory.changes.overwriting(load, pointer, size)]
            self.overwriters[load] = self.dependence.met_later(load, writes)
        return (
            self.overwriters[load] is not None
            or not load.is_ordinary
            or self.memory.changes.written_by_callers(load.operands[0])
        )

    def _from_entries(self, load: Instruction) -> Recipe:
        """How to obtain what was read from memory that is overwritten: from a copy, if one has what
        several loads read.
        """
        found = self.read_ranges.of(load) if self.facts.request.caller.copies_entries else None
        pointer = load.operands[0]
        if found is None or self.moves(pointer):
            return MUST_KEEP
        entries = Entries(found.loop, found.first_load)
        self.ranges[entries] = found
        box = found.box
        needed = [
            Primal(a) for a in (box.skipped[load].atoms if box else ()) if isinstance(a, Value)
        ]
        return Recipe((entries, Primal(pointer), *needed), RELOAD_COST)

    def _cost_of_reading(self, load: Instruction) -> float:
        """The cost of reading memory again. An array that was handed on from an earlier iteration
        must then be kept alive, which takes as much memory as to keep its values, but less time.
        """
        objects = self.memory.objects(load.operands[0])
        if not any(self.memory.changes.is_older(load, o) for o in objects):
            return RELOAD_COST
        node = Primal(load)
        share = LOOP_WEIGHT ** (self.depth_kept(node) - self.depth(node))
        return RELOAD_COST + KEPT_ALIVE * self.size(node) * share

    def _of_phi(self, phi: Instruction) -> Recipe:
        induction = self._induction(phi)
        if induction is None:
            return MUST_KEEP
        return self._from(induction.start, induction.step, cost=INDUCTION_COST)

    def _induction(self, phi: Instruction) -> Induction | None:
        loop = self.flow.loop_of(phi.owner)
        return self.loops[loop].inductions.get(phi) if loop is not None else None

    def _of_call(self, call: Instruction) -> Recipe:
        name, effect = call.callee_name or "", effect_of(call.callee_name)
        if name.startswith("activerules.ignore."):
            return self._from(*call.operands)
        if effect is not None and effect.pure:
            return self._from(*call.operands, cost=RELOAD_COST)
        price = cost(call) if is_pure_call(name) else None
        return MUST_KEEP if price is None else self._from(*call.operands, cost=price)

    def _of_shadow(self, value: Value) -> Recipe:
        if not isinstance(value, Instruction):
            return AT_HAND
        match value.opcode:
            case "alloca":
                return AT_HAND
            case "getelementptr":
                base, *indices = value.operands
                return Recipe((Shadow(base), *map(Primal, indices)))
            case "freeze" | "bitcast" | "addrspacecast":
                return Recipe((Shadow(value.operands[0]),))
            case "select":
                condition, x, y = value.operands
                return Recipe((Primal(condition), Shadow(x), Shadow(y)))
            case "load":
                # a reverse sweep clears shadow memory, and in split mode it may run several times
                if self.facts.request.caller.split or self._is_overwritten(value):
                    return MUST_KEEP
                return Recipe((Shadow(value.operands[0]),), RELOAD_COST)
            case "phi" if (induction := self._induction(value)) is not None:
                return Recipe((Shadow(induction.start), Primal(induction.step)), INDUCTION_COST)
            case "call" if (source := self._base_of_result(value)) is not None:
                return Recipe((Shadow(source),), RELOAD_COST)
            case _:
                return MUST_KEEP

    def _base_of_result(self, call: Instruction) -> Value | None:
        """The operand into whose memory the result points, if the call may be repeated."""
        effect = effect_of(call.callee_name)
        if effect is None or effect.returns is None or not effect.pure:
            return None
        return call.operands[effect.returns]

    def moves(self, value: Value) -> bool:
        """Whether a value is an address in memory that resizing may move."""
        if isinstance(value, Instruction) and value.opcode == "ptrtoint":
            value = value.operands[0]
        address = self.memory.address(value)
        return address.through and not all(
            is_counted(o) and not has_header(o) for o in self.memory.objects(address.base)
        )

    def size(self, node: Node) -> int:
        """The bytes that a node takes on the tape."""
        match node:
            case Primal(value) | Shadow(value) if self.moves(value):
                return NEVER_KEPT
            case Primal(value):
                return max(1, size_of(value.type, self.memory.named_types))
            case Taken():
                return 1
            case RuleTape(_, size, _) | SavedStruct(_, _, size):
                return size
            case Entries():
                return round(COPIED * self.ranges[node].size)
            case _:
                return 8

    def depth(self, node: Node) -> int:
        """The number of loops around the place where a node is computed."""
        home = home_of(node, self.flow)
        return home.depth if home else 0

    def depth_kept(self, node: Node) -> float:
        """The number of loops around the place where a node is kept."""
        if isinstance(node, Entries):
            return self.ranges[node].depth
        keeping = self.keeping(node)
        return self.depth(node) if keeping is None else keeping.depth

    def keeping(self, node: Node) -> Keeping | None:
        """Where a node is kept, if that may be outside the loop in which it is computed."""
        value = node.value if isinstance(node, Primal) else None
        return self.variation.keeping(value) if isinstance(value, Instruction) else None

    def is_fixed_data(self, i: Value) -> bool:
        """Whether a value is the address of the data of counted memory, which never moves."""
        if not isinstance(i, Instruction):
            return False
        effect = effect_of(i.callee_name)
        if effect is None or not effect.gives_data or effect.resizes is not None:
            return False
        objects = self.memory.objects(i.operands[0])
        return bool(objects) and all(is_counted(o) and not has_header(o) for o in objects)

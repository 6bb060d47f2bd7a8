"""Planning: from a request to the plan of its derivative.

Needs       a Request
Gives       `make_plan`: the facts of all analyses, and on top of them which instructions are
            reversed and in what order, what the tape keeps, and which rules serve which calls
Invariants  L1 and L2 of `plan`
"""

from __future__ import annotations

from collections.abc import Callable, Set
from functools import partial

from activerules.ir.analysis.cache import CachePlan, plan_cache
from activerules.ir.analysis.choices import added_if_chosen, passed_over
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import (
    AT_HAND,
    Entries,
    LeavingIteration,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.analysis.rows import rows_of
from activerules.ir.analysis.speculation import speculated
from activerules.ir.analysis.windows import windows_of
from activerules.ir.derivatives.rulecall import CallInfo, RuleRequest
from activerules.ir.derivatives.slopes import absorbing, is_finite
from activerules.ir.derivatives.table import chooses, require_row
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.normal.effects import effect_of, memory_intrinsic
from activerules.ir.plan.analyses import Analyses, prepared, summaries_of
from activerules.ir.plan.callees import CalleeUse, Family, plan_callees, use_callee
from activerules.ir.plan.facts import Facts, analyse
from activerules.ir.plan.marked import (
    RuleUse,
    activities_of,
    choosing_for,
    may_leave_traces,
    refuse_without_keys,
    ruled,
)
from activerules.ir.plan.ownership import plan_ownership, refuse_leaving, retained_memory
from activerules.ir.plan.plan import Plan, Slopes, Sums
from activerules.ir.plan.recipes import Recipes
from activerules.ir.plan.request import Request
from activerules.ir.plan.reversal import Reversal, plan_reversal, used_across_blocks
from activerules.ir.plan.shadow_copies import mirrored, undone_copies
from activerules.ir.plan.tape_arrays import escaped, reused_shadows
from activerules.ir.plan.tracking import tracked_accesses, updates_in_place


def make_plan(request: Request, rewritten: Facts | None = None) -> Plan:
    """Rewrite, analyse and decide, for the function and for its callees that are not inlined.

    rewritten   facts of the same function from another request: it is not rewritten again

    Raises what the analyses raise: programs that the engine does not differentiate end here.
    """
    family = Family(request)
    summaries = summaries_of(request)
    if rewritten is None:
        analyses = prepared(request, summaries)
    else:
        analyses = Analyses(request, summaries, rewritten.flow, rewritten.returns)
    with_pairs = _Planner(analyse(analyses), family).decide()

    def plan_callee(callee: Request) -> Plan:
        return _Planner(analyse(prepared(callee, summaries)), family).decide()(pairs=())

    return with_pairs(pairs=plan_callees(family, plan_callee))


class _Planner:
    """Makes the decisions, from the results of the analyses."""

    def __init__(self, facts: Facts, family: Family) -> None:
        self.facts, self.family = facts, family
        self.flow, self.memory, self.activity = facts.flow, facts.memory, facts.activity
        self.recipes = Recipes(facts)
        self.rules: dict[Instruction, RuleUse] = {}
        self.derived: dict[Instruction, CalleeUse] = {}
        self.retaining: set[Instruction] = set()
        self.reused: dict[Instruction, int] = {}

    def decide(self) -> Callable[..., Plan]:
        """Decide everything; return a constructor that takes the plans of the callees (`pairs`)."""
        escaped_memory = escaped(self.facts)
        repeated = mirrored(self.facts)
        self.reused = reused_shadows(self.facts, escaped_memory, repeated)
        while True:
            needs, reversal, cache = self._plan_cache()
            retained = retained_memory(self.facts, cache, self.rules.values(), self.derived)
            more = self._calls_to_augment(retained)
            if not more:
                break
            self.retaining |= more
        recipes, slopes = self.recipes, self._slopes(escaped_memory)
        return partial(
            Plan,
            **vars(self.facts),
            loops=recipes.loops,
            reversal=reversal,
            needs=needs,
            cache=cache,
            keeping={n: k for n in cache.kept if (k := recipes.keeping(n)) is not None},
            ranges={n: recipes.ranges[n] for n in cache.kept if isinstance(n, Entries)},
            copies=recipes.copies,
            overwriters={load: by for load, by in recipes.overwriters.items() if by is not None},
            fixed_data=frozenset(
                node.value
                for node in cache.computed
                if isinstance(node, Primal | Shadow) and recipes.is_fixed_data(node.value)
            ),
            ownership=plan_ownership(
                self.facts, retained, escaped_memory, self.reused, self.rules.values()
            ),
            rules=self.rules,
            derived=self.derived,
            mirrored=repeated,
            undone=undone_copies(self.facts, needs),
            slopes=slopes,
            sums=self._sums(needs.keys(), slopes),
            assumptions=tuple(recipes.dependence.assumptions),
        )

    def _slopes(self, escaped_memory: frozenset[MemoryObject]) -> Slopes:
        request = self.facts.request
        tracked = tracked_accesses(self.facts, escaped_memory)
        may_be_unused = speculated(self.facts.returns, chooses, tracked.__contains__)
        return Slopes(
            speculated=may_be_unused,
            guarded=frozenset(
                (i, k) for i in may_be_unused for k in range(len(i.operands)) if not is_finite(i, k)
            ),
            absorbing=absorbing(
                request.function.instructions(), self.facts.wanted, request.options.strong_zero
            ),
            tracked=tracked,
            in_place=updates_in_place(tracked, self.facts),
        )

    def _sums(self, reversed_: Set[Instruction], slopes: Slopes) -> Sums:
        facts, dependence = self.facts, self.recipes.dependence
        plain = reversed_ - slopes.tracked
        # the sum of a window is one of floats that the program certainly used
        used = reversed_ - (slopes.tracked & slopes.speculated) - slopes.in_place
        return Sums(
            across_blocks=used_across_blocks(facts.request.function),
            windows=windows_of(facts.integers, self.memory, dependence, used),
            hidden_rows=rows_of(self.flow, self.memory, reversed_),
            passed_over=passed_over(self.flow, reversed_, slopes.speculated | slopes.tracked),
            added_if_chosen=added_if_chosen(self.flow, self.memory, dependence, plain),
        )

    def _plan_cache(self) -> tuple[dict[Instruction, frozenset[Node]], Reversal, CachePlan]:
        """The nodes each instruction needs, the reversed control flow, and the cache plan."""
        needs: dict[Instruction, frozenset[Node]] = {}
        work: set[Block] = set()
        joins: set[Block] = set()
        for block in self.flow.order:
            if block not in self.facts.returns.live:
                continue
            for i in block.instructions:
                self._refuse_moving(i)
                refuse_leaving(i, self.facts)
                needed = self._needs(i)
                if needed is not None:
                    needs[i] = frozenset(n for n in needed if self.recipes.recipe(n) is not AT_HAND)
                    work.add(block)
                    if i.opcode == "phi":
                        joins.add(block)
        reversal = plan_reversal(self.flow, self.facts.returns, work, joins)
        needed = {n for nodes in needs.values() for n in nodes} | self._control(reversal)
        return needs, reversal, self._choose_kept(needed, reversal)

    def _choose_kept(self, needed: set[Node], reversal: Reversal) -> CachePlan:
        """The cache plan, which also provides the addresses that select entries of tables."""
        while True:
            cache = plan_cache(
                needed,
                lambda n: self.recipes.recipe(n, reversal),
                self.recipes.size,
                self.recipes.depth,
                self.recipes.depth_kept,
            )
            tables = [k.table for n in cache.kept if (k := self.recipes.keeping(n)) and k.table]
            found_by = {v for t in tables for v in (t.pointer, *t.skipped.atoms)}
            more = {Primal(v) for v in found_by if isinstance(v, Value)} - needed
            if not more:
                return cache
            needed |= more

    # --- what the reverse of an instruction needs ---

    def _needs(self, i: Instruction) -> set[Node] | None:
        """The nodes that the reverse of `i` reads; None if there is nothing to reverse."""
        activity = self.activity
        match i.opcode:
            case "phi":
                return set() if i.type.is_float and activity.is_active(i) else None
            case "freeze":
                return set() if activity.is_active(i) else None
            case "load":
                return (
                    {Shadow(i.operands[0])} if activity.is_active(i) and i.type.is_float else None
                )
            case "store":
                return self._needs_of_store(i)
            case "call":
                return self._needs_of_call(i)
            case _:
                return self._needs_of_arithmetic(i)

    def _needs_of_store(self, i: Instruction) -> set[Node] | None:
        value, pointer = i.operands
        if not self.activity.has_shadow(pointer):
            return None
        if value.type.is_pointer:
            self._refuse_union(i)
        return {Shadow(pointer)} if value.type.is_float or self.facts.zeroes_floats(i) else None

    def _refuse_union(self, store: Instruction) -> None:
        """Refuse to store a pointer over a float of the caller: the shadow of the pointer would
        overwrite the cotangent with which the sweep begins.
        """
        objects = self.memory.objects(store.operands[1])
        if not all(o.is_local for o in objects) and self.facts.types.touches_floats(store):
            raise refusal(
                store,
                "memory of the caller holds a float, and a pointer in the same place",
                "its shadow holds a cotangent or the shadow of a pointer, not both",
                ["give each a field of its own"],
            )

    def _needs_of_call(self, i: Instruction) -> set[Node] | None:
        if i in self.memory.called:
            return self._needs_of_callee(i)
        if i in self.reused:
            return {Shadow(i)}
        info = self.facts.calls.marked(i)
        if info is not None:
            return self._needs_of_marked(i, info)
        kind = memory_intrinsic(i)
        if kind is None:
            return self._needs_of_arithmetic(i) if effect_of(i.callee_name) is None else None
        if not self.activity.has_shadow(i.operands[0]):
            return None
        needed: set[Node] = {Shadow(i.operands[0]), Primal(i.operands[2])}
        if kind != "memset" and self.activity.has_shadow(i.operands[1]):
            needed.add(Shadow(i.operands[1]))
        return needed

    def _needs_of_callee(self, call: Instruction) -> set[Node] | None:
        use = use_callee(call, self.facts, self.family, retains=call in self.retaining)
        if use is None:
            return None
        self.derived[call] = use
        pointers = (o for o in use.duplicated() if o.type.is_pointer)
        return {use.frame, *map(Primal, call.operands), *map(Shadow, pointers)}

    def _needs_of_arithmetic(self, i: Instruction) -> set[Node] | None:
        if not i.type.is_float or not self.activity.is_active(i):
            return None
        wanted = self.facts.wanted(i)
        if not any(wanted):
            return None
        by_letter = {**dict(zip("xyzw", i.operands, strict=False)), "r": i}
        return {Primal(by_letter[letter]) for letter in require_row(i).needs_of(wanted)}

    def _needs_of_marked(self, call: Instruction, info: CallInfo) -> set[Node] | None:
        use = self._choose(call, info)
        if use is None:
            return None
        self.rules[call] = use
        needed: set[Node] = {Primal(o) for o in call.operands[2:]}
        needed |= {Shadow(o) for o in use.duplicated() if o.type.is_pointer}
        if self.activity.has_shadow(call.operands[0]):
            needed.add(Shadow(call.operands[0]))
        needed |= {n for n in (use.tape, use.result, use.result_shadow) if n is not None}
        if use.caught:
            needed.add(Primal(call))
        return needed

    def _choose(self, call: Instruction, info: CallInfo) -> RuleUse | None:
        """The rule for a marked call; None if it passes and returns nothing active."""
        how = activities_of(call, info, self.facts)
        if how is None:
            return None
        refuse_without_keys(call, info, how, self.facts)
        request = RuleRequest(
            activities=how.arguments,
            result=how.result,
            overwritten=tuple(
                any(self._may_change(call, call.operands[p], a.container) for p in a.pointers)
                for a in info.arguments
            ),
            needs_primal=self.facts.reads_result(call, info),
            needs_shadow=how.result == "duplicated",
            options=self.facts.request.options,
            caught=may_leave_traces(call, info, how, self.facts),
        )
        assert self.facts.request.rules is not None
        with choosing_for(call):
            code = self.facts.request.rules.choose(call.callee_name or "", request)
        copies = how.result == "duplicated"
        tape = RuleTape(call, code.tape_size, code.tape_alignment) if code.tape_size else None
        return RuleUse(
            **vars(ruled(call, info, request, self.facts)),
            code=code,
            tape=tape,
            result=SavedStruct(call, False, info.result_size) if copies else None,
            result_shadow=SavedStruct(call, True, info.result_size) if copies else None,
        )

    def _may_change(self, call: Instruction, pointer: Value, container: bool) -> bool:
        """Whether an argument of a rule may be overwritten before the reverse of the rule runs."""
        if container:
            return self.memory.changes.container_overwritten(call, pointer)
        return self.memory.changes.overwritten(call, pointer, None)

    def _control(self, reversal: Reversal) -> set[Node]:
        needed: set[Node] = {LeavingIteration(loop) for loop in reversal.loops}
        for block, step in reversal.steps.items():
            loop = self.flow.loop_of(block)
            if len(step.targets) > 1 and not (loop is not None and block is loop.header):
                needed.add(Taken(block))
        return needed

    def _refuse_moving(self, i: Instruction) -> None:
        """Refuse an address in memory that may move and that the reverse sweep cannot recompute."""
        if i.opcode not in {"phi", "select", "store", "freeze"}:
            return
        for value in i.operands[:1] if i.opcode == "store" else i.operands:
            if (
                value.type.is_pointer
                and self.activity.has_shadow(value)
                and self.recipes.moves(value)
            ):
                raise refusal(
                    i,
                    "the address of an item of a list is kept while the list may grow",
                    "its shadow may have moved when the reverse sweep runs",
                    ["use an array of fixed size"],
                )

    # --- callees ---

    def _calls_to_augment(self, retained: frozenset[MemoryObject]) -> set[Instruction]:
        """Calls whose primal would release memory that the reverse sweep reads. Their augmented
        primals are called instead.
        """
        called = self.memory.called.items()
        more = {call for call, memory in called if memory.fresh in retained}
        return more - self.derived.keys() - self.retaining

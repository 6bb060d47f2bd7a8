"""The reverse sweep: the adjoint of every active instruction of the primal, in the opposite order.

Needs       a Plan and its Layout; the frame and tape that the augmented primal filled, with the
            same arguments
Gives       the function `<name>.reverse`, which returns a status: 0, or that of a rule's reverse
            that failed
Invariants  R1  it writes no primal memory
            R2  the cotangent of an active value is complete when the sweep reaches its definition,
                where it is taken (read and set to zero), since the definition may run again in an
                earlier iteration
            R3  when the sweep reaches an instruction, shadow memory holds the cotangent of memory
                as it is right after that instruction
Source      Griewank and Walther (2008), ch. 3; the adjoint of an overwriting store: ibid. sec. 4.2

The order of sums of cotangents is not the user's, so they carry `reassoc nsz`: such loops vectorise
although the primal is strict.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from activerules.ir.analysis.nodes import LeavingIteration, Link, Taken
from activerules.ir.derivatives.rows import Partial, RowOperands
from activerules.ir.derivatives.rulecall import EXCINFO
from activerules.ir.derivatives.slopes import is_steep
from activerules.ir.derivatives.table import row_for
from activerules.ir.generate.cotangents import (
    SUM,
    Cotangents,
    seeds_of,
    tracked_sum,
    was_used,
)
from activerules.ir.generate.lanes import RARELY
from activerules.ir.generate.materialise import AtHand
from activerules.ir.generate.rule_sites import add_site
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import (
    Lanes,
    RowState,
    Slots,
    add_scalars,
    clear,
    clear_but,
    make_parameters,
    names_of,
    null,
    suffixed,
)
from activerules.ir.generate.window_sums import WindowSums
from activerules.ir.llvm.builder import Builder, at_offset
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Argument, Block, Function, Instruction, Value
from activerules.ir.llvm.types import I1, I8, I32, I64, PTR, VOID, StructType
from activerules.ir.normal.effects import CLEAR_COUNTED, COPIED_SIZE, COPY_RESIZED, memory_intrinsic
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.layout import Layout, shadow_offset
from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.reversal import Decision, Step
from activerules.ir.plan.shadow_copies import UndoneCopy
from activerules.ir.tape.runtime import TOO_DEEP
from activerules.ir.tape.struct_copies import cut_name, undo_name


def build_reverse(
    plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
) -> Function:
    """The reverse sweep as a new function.

    Its last parameters: the seed (one per lane) if the return is Active, and `ptr derivatives`.
    """
    return _Reverser(plan, layout, scopes, declarations).build()


class _Reverser:
    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        self.plan, self.layout = plan, layout
        self.width = plan.request.width
        self.seeds = seeds_of(plan)
        self.derivatives = Argument("ar.derivatives", PTR)
        self.parameters = make_parameters(plan, [*self.seeds, self.derivatives])
        self.namer = names_of(plan)
        self.entry = Block(self.namer("entry"))
        self.blocks: list[Block] = [self.entry]
        self.top = Builder(self.entry, self.namer, declarations)
        self.b = self.top.at(self.entry)
        self.bars = Cotangents(plan, self.top, self.b)
        self.windows = WindowSums(plan, self.top, self.b, self._add_to_shadow)
        self.use: Value | None = None
        self.heads = {
            block: Block(suffixed(block.name, ".reverse")) for block in plan.reversal.reached
        }
        self.slots = Slots(
            plan, layout, self.parameters.frame, scopes, lambda value: self.values.primal(value)
        )
        self.values = AtHand(plan, layout, self.parameters, self.slots, self.b)
        self.bases: dict[Loop, Instruction] = {}
        self.counts: dict[Loop, Instruction] = {}
        self.iterations: dict[Loop, Instruction] = {}
        name = suffixed(plan.request.name, ".reverse")
        self.function = Function(
            name,
            I32,
            self.parameters.arguments,
            self.blocks,
            "internal",
            "" if plan.request.callee else "alwaysinline",
        )

    def build(self) -> Function:
        start = Block(self.namer("start"))
        self._make_loop_state()
        self._open(start)
        if self.plan.request.callee:
            self._return_if_too_deep()
        if self.seeds:
            self.bars.add(self.plan.returns.exit.terminator.operands[0], tuple(self.seeds))
        self.b.br(self.heads[self.plan.returns.exit])
        for block in reversed(self.plan.reversal.reached):
            self._block(block)
        self.top.br(start)
        for block in self.blocks:
            block.parent = self.function
        return self.function

    def _return_if_too_deep(self) -> None:
        fine, failed = Block(self.namer("fine")), Block(self.namer("too.deep"))
        has_stack = self.b.call("activerules.tape.has_stack", I1, [self.parameters.tape])
        self.b.cond_br(has_stack, fine, failed)
        self._open(failed)
        self.b.ret(self.b.const(I32, TOO_DEEP))
        self._open(fine)

    def _make_loop_state(self) -> None:
        for loop in self.plan.reversal.loops:
            self.iterations[loop] = self.top.alloca(I64, hint="iteration")
            if loop in self.layout.rows:
                self.bases[loop] = self.top.alloca(PTR, hint="rows")
                if self.layout.rows[loop].known_length:
                    self.counts[loop] = self.top.alloca(I64, hint="count")

    # --- blocks ---

    def _open(self, block: Block) -> None:
        self.blocks.append(block)
        self.b.target = block

    def _block(self, block: Block) -> None:
        self._open(self.heads[block])
        self.values.begin_block(block)
        self.bars.begin_block()
        self._read_loop_state(block)
        for i in reversed(block.instructions):
            if i.opcode != "phi" and i in self.plan.needs:
                self._undo(i)
        self._go_back(block)
        self.values.end_block()

    def _read_loop_state(self, block: Block) -> None:
        """Load the current iteration, and the address of the rows, of every loop around a block."""
        for loop in self._around(block):
            self._read_one(loop)

    def _read_one(self, loop: Loop) -> None:
        state = RowState(null(), None, self.b.load(I64, self.iterations[loop]))
        if loop in self.bases:
            state.base = self.b.load(PTR, self.bases[loop])
            state.count = self.b.load(I64, self.counts[loop]) if loop in self.counts else None
        self.slots.state[loop] = state

    def _go_back(self, block: Block) -> None:
        step = self.plan.reversal.steps[block]
        if block is self.plan.flow.order[0]:
            self.bars.store_active(self.derivatives)
            self.b.ret(self.b.const(I32, 0))
            return
        phis = [phi for phi in block.phis if phi in self.plan.needs]
        taken = {phi: self.bars.take(phi) for phi in phis}
        loop = self.plan.flow.loop_of(block)
        if loop is not None and block is loop.header:
            self._previous_iteration(block, loop, step, taken)
            return
        predecessors = self.plan.returns.predecessors[block]
        edges = [
            self._edge(
                block,
                predecessors[k] if len(step.targets) == len(predecessors) else None,
                target,
                taken,
            )
            for k, target in enumerate(step.targets)
        ]
        self._choose(block, step, edges)

    def _edge(
        self,
        block: Block,
        predecessor: Block | None,
        target: Block,
        taken: dict[Instruction, Lanes],
    ) -> Block:
        """A new block that jumps to `target`.

        It adds the cotangents of the phis to those of their operands for one edge, and enters the
        loops that the primal left on this edge.
        """
        here, memo, states = self.b.target, self.values.memo, dict(self.slots.state)
        edge = Block(self.namer(suffixed(block.name, ".back").strip('"')))
        self._open(edge)
        self.values.memo = dict(memo)
        self.windows.finish(block, target)
        for phi, g in taken.items():
            assert predecessor is not None
            self.bars.add(phi.operands[phi.blocks.index(predecessor)], g)
        entered = [loop for loop in self._around(target) if block not in loop.blocks]
        if entered and entered[-1] in self.plan.passed_over:
            self._pass_over_if_zero(entered[-1])
        for loop in reversed(entered):
            self._enter_loop(loop)
        self.b.br(self.heads[target])
        self.b.target, self.slots.state = here, states
        self.values.memo, self.values.block = memo, block
        return edge

    def _pass_over_if_zero(self, loop: Loop) -> None:
        assert loop.preheader is not None
        enter = Block(self.namer("enter"))
        zero = self.bars.are_zero(self.plan.passed_over[loop])
        self.b.cond_br(zero, self.heads[loop.preheader], enter)
        self._open(enter)

    def _around(self, block: Block) -> list[Loop]:
        """The loops around a block, innermost first."""
        loop = self.plan.flow.loop_of(block)
        return list(loop.ancestors()) if loop else []

    def _enter_loop(self, loop: Loop) -> None:
        """Begin a loop of the sweep at the iteration in which the primal left it."""
        leaving = self.values.have(LeavingIteration(loop))
        self.b.store(leaving, self.iterations[loop])
        if loop in self.bases:
            base = self.slots.read(self.b, Link(loop))
            self.b.store(base, self.bases[loop])
            if loop in self.counts:
                self.b.store(self.b.binary("add", leaving, self.b.const(I64, 1)), self.counts[loop])
        self._read_one(loop)
        self.values.begin_block()

    def _previous_iteration(
        self, block: Block, loop: Loop, step: Step, taken: dict[Instruction, Lanes]
    ) -> None:
        preheader, latch = step.targets
        iteration = self.slots.state[loop].iteration
        assert iteration is not None
        first = self.b.icmp("eq", iteration, self.b.const(I64, 0))
        before = self._edge(block, preheader, preheader, taken)
        again = self._edge(block, latch, latch, taken)
        self.b.cond_br(first, before, again)
        self.b.target = again
        end = again.instructions.pop()
        self.b.store(self.b.binary("sub", iteration, self.b.const(I64, 1)), self.iterations[loop])
        rows = self.layout.rows.get(loop)
        if rows is not None and not rows.known_length:
            self.b.store(self.b.load(PTR, self.slots.state[loop].base), self.bases[loop])
        end.attributes["metadata"] = self.slots.scopes.loop()
        again.append(end)

    def _choose(self, block: Block, step: Step, edges: list[Block]) -> None:
        if not edges:  # the function always fails
            self.b.unreachable()
            return
        if len(edges) == 1:
            self.b.br(edges[0])
            return
        predecessors = self.plan.returns.predecessors[block]
        if Taken(block) not in self.plan.cache.kept and step.decision is not None:
            self._decide(step.decision, dict(zip(predecessors, edges, strict=True)))
            return
        number = self.slots.read(self.b, Taken(block))
        if len(edges) == 2:
            self.b.cond_br(
                self.b.icmp("eq", number, self.b.const(number.type, 0)), edges[0], edges[1]
            )
        else:
            self.b.switch(number, edges[0], [(k, edge) for k, edge in enumerate(edges) if k])

    def _decide(self, tree: Decision, edges: dict[Block, Block]) -> None:
        condition = self.values.primal(tree.condition)
        arms: list[Block] = []
        here = self.b.target
        for branch in (tree.if_true, tree.if_false):
            if isinstance(branch, Block):
                arms.append(edges[branch])
            else:
                arm = Block(self.namer("decide"))
                self._open(arm)
                memo, self.values.memo = self.values.memo, dict(self.values.memo)
                self._decide(branch, edges)
                self.values.memo = memo
                arms.append(arm)
                self.b.target = here
        self.b.cond_br(condition, arms[0], arms[1])

    def _scope(self, pointer: Value, lane: int) -> str:
        """The alias scopes of the shadow memory of a pointer of the primal."""
        return self.slots.scopes.shadow_access(self.plan.memory.objects(pointer), lane)

    # --- instructions ---

    def _undo(self, i: Instruction) -> None:
        if i in self.plan.derived:
            self._undo_callee(self.plan.derived[i])
            return
        for lane in range(self.width):
            self._undo_lane(i, lane)

    def _undo_lane(self, i: Instruction, lane: int) -> None:
        match i.opcode:
            case "load":
                self._undo_load(i, lane)
            case "store":
                self._undo_store(i, lane)
            case "freeze":
                used = self._use_of(i, lane)
                self.bars.add_one(i.operands[0], self.bars.take_one(i, lane), lane, used)
            case "call" if i in self.plan.rules:
                self._undo_rule(self.plan.rules[i], lane)
            case "call" if memory_intrinsic(i):
                self._undo_memory(i, lane)
            case _:
                self._undo_arithmetic(i, lane)

    def _undo_load(self, i: Instruction, lane: int) -> None:
        g = self.bars.take_one(i, lane)
        if i in self.plan.windows:
            self.windows.add(i, g, lane)
        elif i in self.plan.added_if_chosen:
            self._add_unless_zero(i, g, lane)
        else:
            self._add_to_shadow(i, g, lane)

    def _add_unless_zero(self, i: Instruction, g: Value, lane: int) -> None:
        self.values.shadow(i.operands[0], lane)  # what it is computed from holds on both paths
        add, after = Block(self.namer("chosen")), Block(self.namer("added"))
        self.b.cond_br(self.b.fcmp("une", g, self.b.const(g.type, 0.0)), add, after)
        self._open(add)
        self._add_to_shadow(i, g, lane)
        self.b.br(after)
        self._open(after)

    def _add_to_shadow(self, i: Instruction, g: Value, lane: int) -> None:
        shadow = self.values.shadow(i.operands[0], lane)
        align, scope = i.attributes.get("align"), self._scope(i.operands[0], lane)
        old = self.b.load(g.type, shadow, align=align, metadata=scope)
        if i in self.plan.tracked:
            new = tracked_sum(self.b, old, g, self._use_of(i, lane))
        else:
            new = self.b.fadd(old, g, flags=SUM)
        self.b.store(new, shadow, align=align, metadata=scope)

    def _undo_store(self, i: Instruction, lane: int) -> None:
        value, pointer = i.operands
        shadow = self.values.shadow(pointer, lane)
        align, scope = i.attributes.get("align"), self._scope(pointer, lane)
        if not value.type.is_float:
            self.b.store(self.b.const(value.type, 0), shadow, align=align, metadata=scope)
            return
        if self.plan.activity.is_active(value):
            g = self.b.load(value.type, shadow, align=align, metadata=scope)
            self.b.store(self.b.const(value.type, 0.0), shadow, align=align, metadata=scope)
            knows_use = lane == 0 and i in self.plan.tracked
            self.bars.add_one(value, g, lane, was_used(self.b, g) if knows_use else None)
        else:
            self.b.store(self.b.const(value.type, 0.0), shadow, align=align, metadata=scope)

    def _undo_memory(self, i: Instruction, lane: int) -> None:
        target, length = self.values.shadow(i.operands[0], lane), self.values.primal(i.operands[2])
        size = length if length.type == I64 else self.b.cast("zext", length, I64)
        undone = self.plan.undone[i]
        if undone.cleared:
            clear_but(self.b, target, size, undone.kept)
            self._mark_cut(undone, [target], size)
            return
        source, moved = self.values.shadow(i.operands[1], lane), undone.moved
        if isinstance(moved, tuple):
            add_scalars(self.b, moved, target, source)
        elif moved is not None:
            if i.callee_name == COPY_RESIZED:
                size = self.b.call(COPIED_SIZE, I64, [source, size])
            self.b.call(undo_name(moved), VOID, [target, source, size])
            self._mark_cut(undone, [target, source], size)

    def _mark_cut(self, undone: UndoneCopy, shadows: list[Value], size: Value) -> None:
        """Set floats to NaN, in both shadows, inside which a copy begins or ends: they have no
        derivative (C3 of `copies`).
        """
        if undone.cut is not None:
            for shadow, other in zip(shadows, reversed(shadows), strict=True):
                self.b.call(cut_name(undone.cut), VOID, [shadow, other, size])

    def _undo_arithmetic(self, i: Instruction, lane: int) -> None:
        row = row_for(i)
        assert row is not None
        g, used = self.bars.take_one(i, lane), self._use_of(i, lane)
        wanted = self.plan.wanted(i)
        access = row.access(i, wanted, self.values.primal)
        bars = row.adjoint(self.b, access, g, wanted)
        for k, (operand, partial) in enumerate(zip(i.operands, row.partials, strict=True)):
            bar = bars[k]
            if bar is not None:
                assert partial is not None
                kept = bar if partial.used else self._term(i, k, g, bar, used)
                self.bars.add_one(
                    operand, kept, lane, self._used_by(operand, partial, access, used)
                )

    def _use_of(self, i: Instruction, lane: int) -> Value | None:
        """Whether the program used the result of `i` (an i1); None if it certainly did."""
        if lane == 0:
            self.use = self.bars.take_use(i)
        return self.use

    def _used_by(
        self, operand: Value, partial: Partial, access: RowOperands, used: Value | None
    ) -> Value | None:
        """Whether this use of an operand was executed (an i1); None if it certainly was."""
        if partial.used is None or operand not in self.plan.speculated:
            return used
        chosen = partial.used(self.b, access)
        return chosen if used is None else self.b.binary("and", used, chosen)

    def _term(self, i: Instruction, k: int, g: Value, bar: Value, used: Value | None) -> Value:
        """`bar`; zero, whatever the slope is, where the program did not use the result of `i`, and
        for an absorbing operand where the cotangent `g` is zero.
        """
        zero = self.b.const(bar.type, 0.0)
        if (i, k) not in self.plan.absorbing:
            guarded = used if (i, k) in self.plan.guarded else None
            return bar if guarded is None else self.b.select(guarded, bar, zero)
        # what was not used has a cotangent of zero
        absorbs = self.b.fcmp("oeq", g, self.b.const(g.type, 0.0))
        if is_steep(i, k):
            absorbs = self.b.binary("and", self.b.fcmp("uno", bar, bar), absorbs)
        chosen = self.b.select(absorbs, zero, bar)
        if is_steep(i, k):
            chosen.attributes["metadata"] = RARELY
        return chosen

    def _undo_rule(self, use: RuleUse, lane: int) -> None:
        """Call the rule's reverse, and clear the cotangent of its result."""
        call = use.call
        named = StructType(tuple(o.type for o in use.active_operands()))
        bars: Value = self.top.alloca(named, hint="bars") if named.elements else null()
        ret = self.slots.address(self.b, use.result)[0] if use.result else null()
        if use.result_shadow is not None:
            start = self.slots.address(self.b, use.result_shadow)[0]
            ret_shadow = at_offset(self.b, start, shadow_offset(use.result_shadow, lane))
            self._take_cotangents(use, ret_shadow, lane)
        else:
            seeded = use.request.result == "active"
            ret_shadow = self.values.shadow(call.operands[0], lane) if seeded else null()
        tape = self.slots.address(self.b, use.tape)[0] if use.tape else null()
        excinfo = self._excinfo()
        operands = [ret, ret_shadow, excinfo, tape, bars]
        operands += [self.values.primal(o) for o in call.operands[2:]]
        for k in use.shadow_operands():
            operand = call.operands[k]
            operands.append(
                self.values.shadow(operand, lane)
                if operand.type.is_pointer
                else self.values.primal(operand)
            )
        after = self._unless_caught(use, bars, named) if use.caught else None
        status = self.b.call(use.code.reverse, I32, operands)
        self._return_unless_zero(status, lambda: add_site(self.b, use.site, excinfo, status))
        if use.request.result == "active":
            clear(self.b, ret_shadow, self.b.const(I64, use.info.result_size))
        elif use.result_shadow is not None and self.plan.request.split:
            for offset in use.info.result_meminfos:
                address = self.b.gep(I8, ret_shadow, [self.b.const(I64, offset)])
                self.b.call(CLEAR_COUNTED, VOID, [self.b.load(PTR, address)])
        if after is not None:
            self.b.br(after)
            self._open(after)
        self._add_from(bars, named, use.active_operands(), [lane])

    def _excinfo(self) -> Value:
        """The address where this function stores the exception that it fails with."""
        return self.parameters.primal[self.plan.request.parameters[EXCINFO].argument]

    def _take_cotangents(self, use: RuleUse, ret_shadow: Value, lane: int) -> None:
        """Move the cotangents of floats beside arrays in a result to the kept copy of its shadow,
        which has the arrays of this call.
        """
        for offset, t in use.info.result_floats:
            address = at_offset(self.b, self.values.shadow(use.call.operands[0], lane), offset)
            self.b.store(self.b.load(t, address), at_offset(self.b, ret_shadow, offset))
            self.b.store(self.b.const(t, 0.0), address)

    def _unless_caught(self, use: RuleUse, bars: Value, fields: StructType) -> Block:
        """Continue only if the call succeeded: one that failed has no tape and no derivative.
        Returns the block where both paths meet.
        """
        for k, t in enumerate(fields.elements):
            address = self.b.gep(fields, bars, [self.b.const(I32, 0), self.b.const(I32, k)])
            self.b.store(self.b.const(t, 0.0), address)
        fine, after = Block(self.namer("rule.succeeded")), Block(self.namer("rule.after"))
        succeeded = self.b.icmp("eq", self.values.primal(use.call), self.b.const(I32, 0))
        self.b.cond_br(succeeded, fine, after)
        self._open(fine)
        return after

    def _undo_callee(self, use: CalleeUse) -> None:
        """Call the callee's reverse with the frame that its augmented primal filled."""
        call, lanes = use.call, range(self.width)
        fields = StructType(tuple(o.type for o in use.active() for _ in lanes))
        bars: Value = self.top.alloca(fields, hint="bars") if fields.elements else null()
        operands: list[Value] = []
        for k, (o, activity) in enumerate(zip(call.operands, use.activities, strict=True)):
            raised = use.has_rules and k == EXCINFO
            operands.append(self._excinfo() if raised else self.values.primal(o))
            if activity == "duplicated":
                operands += [self.values.shadow(o, lane) for lane in lanes]
        operands += [self.slots.read(self.b, use.frame), self.parameters.tape]
        if use.returns == "active":
            operands += self.bars.take(call)
        status = self.b.call(suffixed(use.stem, ".reverse"), I32, [*operands, bars])
        self._return_unless_zero(status)
        self._add_from(bars, fields, use.active(), lanes)

    def _add_from(
        self, bars: Value, fields: StructType, operands: list[Value], lanes: Sequence[int]
    ) -> None:
        for k, (operand, lane) in enumerate(itertools.product(operands, lanes)):
            address = self.b.gep(fields, bars, [self.b.const(I32, 0), self.b.const(I32, k)])
            self.bars.add_one(operand, self.b.load(operand.type, address), lane)

    def _return_unless_zero(self, status: Value, first: Callable[[], None] | None = None) -> None:
        failed, fine = Block(self.namer("rule.failed")), Block(self.namer("rule.ok"))
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), fine, failed)
        self._open(failed)
        if first is not None:
            first()
        self.b.ret(status)
        self._open(fine)

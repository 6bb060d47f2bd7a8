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

This module makes the reversed control flow, and `adjoints` the code for each instruction.
The order of sums of cotangents is not the user's, so they carry `reassoc nsz`: such loops vectorise
although the primal is strict.
"""

from __future__ import annotations

from activerules.ir.analysis.nodes import LeavingIteration, Link, Taken
from activerules.ir.generate.adjoints import Adjoints
from activerules.ir.generate.cotangents import Cotangents, seeds_of
from activerules.ir.generate.materialise import AtHand
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import Lanes, RowState, Slots, make_parameters, names_of, null
from activerules.ir.llvm.builder import Builder, suffixed
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Argument, Block, Function, Instruction
from activerules.ir.llvm.types import I1, I32, I64, PTR
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.reversal import Decision, Step
from activerules.ir.tape.runtime import TOO_DEEP


def build_reverse(
    plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
) -> Function:
    """The reverse sweep as a new function.

    Its last parameters: the seed (one per lane) if the return is Active, and `ptr derivatives`.
    """
    return _Reverser(plan, layout, scopes, declarations).build()


class _Reverser:
    """Makes the control flow of the sweep, with an iteration number for each loop."""

    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        self.plan, self.layout = plan, layout
        self.seeds = seeds_of(plan)
        self.derivatives = Argument("ar.derivatives", PTR)
        self.parameters = make_parameters(plan, [*self.seeds, self.derivatives])
        self.namer = names_of(plan)
        self.entry = Block(self.namer("entry"))
        self.blocks: list[Block] = [self.entry]
        self.top = Builder(self.entry, self.namer, declarations)
        self.b = self.top.at(self.entry)
        self.bars = Cotangents(plan, self.top, self.b)
        self.heads = {
            block: Block(suffixed(block.name, ".reverse")) for block in plan.reversal.reached
        }
        self.slots = Slots(
            plan, layout, self.parameters.frame, scopes, lambda value: self.values.primal(value)
        )
        self.values = AtHand(plan, layout, self.parameters, self.slots, self.b)
        self.adjoints = Adjoints(self.values, self.bars, self.top, self._open)
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
        self.bars.begin_block(block)
        self._read_loop_state(block)
        for i in reversed(block.instructions):
            if i.opcode != "phi" and i in self.plan.needs:
                self.adjoints.add(i)
        self._go_back(block)
        self.values.end_block()

    def _read_loop_state(self, block: Block) -> None:
        """Load the current iteration, and the address of the rows, of every loop around a block."""
        for loop in self._around(block):
            self._read_state(loop)

    def _read_state(self, loop: Loop) -> None:
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
        self.adjoints.windows.finish(block, target)
        self.bars.finish(block, target)
        for phi, g in taken.items():
            assert predecessor is not None
            self.bars.add(phi.operands[phi.blocks.index(predecessor)], g)
        entered = [loop for loop in self._around(target) if block not in loop.blocks]
        if entered and entered[-1] in self.plan.sums.passed_over:
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
        zero = self.bars.are_zero(self.plan.sums.passed_over[loop])
        self.b.cond_br(zero, self.heads[loop.preheader], enter)
        self._open(enter)

    def _around(self, block: Block) -> list[Loop]:
        """The loops around a block, innermost first."""
        loop = self.plan.flow.loop_of(block)
        return list(loop.ancestors()) if loop else []

    def _enter_loop(self, loop: Loop) -> None:
        """Begin a loop of the sweep at the iteration in which the primal left it."""
        leaving = self.values.obtain(LeavingIteration(loop))
        self.b.store(leaving, self.iterations[loop])
        if loop in self.bases:
            base = self.slots.read(self.b, Link(loop))
            self.b.store(base, self.bases[loop])
            if loop in self.counts:
                self.b.store(self.b.binary("add", leaving, self.b.const(I64, 1)), self.counts[loop])
        self._read_state(loop)
        self.values.begin_block()

    def _previous_iteration(
        self, block: Block, loop: Loop, step: Step, taken: dict[Instruction, Lanes]
    ) -> None:
        preheader, latch = step.targets
        iteration = self.slots.state[loop].iteration
        assert iteration is not None
        first = self.b.icmp("eq", iteration, self.b.const(I64, 0))
        # Here, and not on the edge back, which should stay empty: LLVM moves to the block of an
        # edge what is used only behind it, such as sums for the next iteration. They would then
        # be computed after the stores of this one, and the loop could not be vectorised.
        self.b.store(self.b.binary("sub", iteration, self.b.const(I64, 1)), self.iterations[loop])
        before = self._edge(block, preheader, preheader, taken)
        again = self._edge(block, latch, latch, taken)
        self.b.cond_br(first, before, again)
        self.b.target = again
        end = again.instructions.pop()
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

"""Values of the primal in the reverse sweep, and shadows of its pointers.

Needs       a Plan and its Layout; the frame and tape that the augmented primal filled
Gives       `AtHand.primal` and `.shadow`: a value at the current point of the sweep, from an
            earlier use in the block, from the tape, or recomputed
Invariants  L2 of `plan`: only nodes that the plan keeps or computes are requested
"""

from __future__ import annotations

from collections.abc import Callable

from activerules.ir.analysis.loops.affine import Atom
from activerules.ir.analysis.nodes import LeavingIteration, Node, Primal, Shadow
from activerules.ir.analysis.read_ranges import ReadRange
from activerules.ir.generate.constant_shadows import shadow_of_constant
from activerules.ir.generate.mirror import derived_shadow
from activerules.ir.generate.sweep import (
    UNCHANGED,
    Parameters,
    Slots,
    by_address,
    integer,
    leaving_iteration,
    null,
)
from activerules.ir.llvm.builder import Builder, at_offset
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Constant, Instruction, Value
from activerules.ir.llvm.types import I8, I64, PTR
from activerules.ir.normal.effects import counted_memory
from activerules.ir.normal.short_axes import SHORT_AXIS
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.plan import Plan

# LLVM knows that the result points to the same memory, but not that it is the same address
_SAME = "llvm.strip.invariant.group.p0"


class AtHand:
    """The values that the reverse sweep can use in the current block.

    memo    nodes that were read or computed in this block, or in blocks that precede it
    block   of the primal, whose reverse it is; None on an edge that has entered a loop
    """

    def __init__(
        self, plan: Plan, layout: Layout, parameters: Parameters, slots: Slots, b: Builder
    ) -> None:
        self.plan, self.layout = plan, layout
        self.parameters, self.slots, self.b = parameters, slots, b
        self.memo: dict[tuple[Node, int], Value] = {}
        self.block: Block | None = None
        self._ended: dict[tuple[Node, int], list[tuple[Block, Value]]] = {}

    def begin_block(self, block: Block | None = None) -> None:
        """Begin a block of the sweep, the reverse of `block` if it is given."""
        self.memo, self.block = {}, block

    def end_block(self) -> None:
        """Keep what was read or computed in the block for those that it precedes.

        If each block did that again, the code would be as long as the square of the program.
        """
        assert self.block is not None
        for item, value in self.memo.items():
            entries = self._ended.setdefault(item, [])
            if all(known is not value for _, known in entries):
                entries.append((self.block, value))

    def primal(self, value: Value) -> Value:
        """A value of the primal in the current block."""
        if not isinstance(value, Instruction):
            return self.parameters.primal.get(value, value)
        return self.obtain(Primal(value))

    def shadow(self, value: Value, lane: int) -> Value:
        """The shadow of a pointer of the primal; null if it has none, and is never accessed."""
        constant_shadow = shadow_of_constant(value, self.plan, self.b.declarations)
        if constant_shadow is not None:
            return constant_shadow
        if not isinstance(value, Instruction):
            lanes = self.parameters.shadow.get(value)
            return lanes[lane] if lanes else null()
        return self.obtain(Shadow(value), lane)

    def obtain(self, node: Node, lane: int = 0) -> Value:
        """The value of a node in the current block: memoised, read from the tape, or recomputed.

        Only shadows differ between lanes.
        """
        if not self._is_known((node, lane)):
            for each in self._missing(node, lane):
                self.memo[each] = self._found(*each)
        return self.memo[node, lane]

    def _is_known(self, item: tuple[Node, int]) -> bool:
        """Whether a node is in the memo, or was made in a block that precedes this one."""
        if item in self.memo:
            return True
        if self.block is not None:
            precedes = self.plan.reversal.order.precedes
            for block, value in reversed(self._ended.get(item, ())):
                if precedes(block, self.block):
                    self.memo[item] = value
                    return True
        return False

    def _missing(self, node: Node, lane: int) -> list[tuple[Node, int]]:
        """The nodes that are needed to compute a node and are not in the memo, operands first.

        Not recursive: in straight-line code chains are as long as the program.
        """
        order: list[tuple[Node, int]] = []
        seen: set[tuple[Node, int]] = set()
        work = [((node, lane), False)]
        while work:
            item, has_operands = work.pop()
            if has_operands:
                order.append(item)
            elif item not in seen and not self._is_known(item):
                seen.add(item)
                operands = self.plan.cache.computed.get(item[0], ())
                work.append((item, True))
                work += [
                    ((each, lane if isinstance(each, Shadow) else 0), False)
                    for each in reversed(operands)
                    if not isinstance(each, Primal | Shadow) or isinstance(each.value, Instruction)
                ]
        return order

    def _found(self, node: Node, lane: int) -> Value:
        if node not in self.plan.cache.kept:
            return self._compute(node, lane)
        if isinstance(node, Shadow):
            return self.slots.read_lane(self.b, node, lane)
        return self.slots.read(self.b, node)

    def _compute(self, node: Node, lane: int) -> Value:
        is_stack = isinstance(node, Primal | Shadow) and _opcode(node.value) == "alloca"
        assert is_stack or node in self.plan.cache.computed, f"L2: {node} is not planned"
        match node:
            case LeavingIteration(loop):
                count = self.plan.loops[loop].trip_count
                assert count is not None
                start, bound = self.primal(count.start), self.primal(count.bound)
                return leaving_iteration(self.b, count, start, bound)
            case Primal(Instruction() as i) if i in self.plan.copies:
                return self.primal(self.plan.copies[i])
            case Primal(Instruction() as i):
                return self._compute_primal(i)
            case Shadow(Instruction() as i):
                return self._compute_shadow(i, lane)
            case _:
                raise AssertionError(f"L2: {node} is neither kept nor computable")

    def _compute_primal(self, i: Instruction) -> Value:
        if i.opcode == "alloca":
            return self.slots.frame_address(self.b, self.layout.stack[i, False])
        if i.opcode == "phi":
            return self._induction(i, self.primal)
        if i in self.plan.fixed_data:
            return self._data(self.primal(i.operands[0]))
        operands = [self.primal(o) for o in i.operands]
        entries = self.plan.entries_of(i)
        if entries is not None:
            address = by_address(self.b, self.obtain(entries), operands[0])
            operands = [self._in_box(i, self.plan.ranges[entries], address)]
        keep = {
            k: v
            for k, v in i.attributes.items()
            if k in {"predicate", "source", "indices", "align", SHORT_AXIS}
        }
        if i.opcode == "load":
            keep[UNCHANGED] = True
            scopes = self.slots.scopes
            objects = self.plan.memory.objects(i.operands[0])
            keep["metadata"] = scopes.tape_access if entries else scopes.primal_access(objects)
        return self.b.append(
            Instruction(i.opcode, i.type, operands, self.b.namer(), i.flags, [], i.callee, keep)
        )

    def _in_box(self, load: Instruction, entries: ReadRange, address: Value) -> Value:
        """The address in the copy of what a load has read, from that in a copy of everything."""
        if entries.box is None:
            return address

        def value_of(atom: Atom) -> Value:
            if isinstance(atom, Loop):
                iteration = self.slots.state[atom].iteration
                assert iteration is not None
                return iteration
            assert isinstance(atom, Value)
            return self.primal(atom)

        back = entries.box.skipped[load] * -entries.size
        return self.b.gep(I8, address, [integer(self.b, back, value_of)])

    def _induction(self, phi: Instruction, start_of: Callable[[Value], Value]) -> Value:
        """The value of an induction variable in the current iteration: start + iteration * step."""
        loop = self.plan.flow.loop_of(phi.owner)
        assert loop is not None
        induction = self.plan.loops[loop].inductions[phi]
        iteration = self.slots.state[loop].iteration
        assert iteration is not None
        step = self.primal(induction.step)
        if phi.type.is_pointer:
            number = step if step.type == I64 else self.b.cast("sext", step, I64)
            offset = self.b.binary("mul", iteration, number)
            return self.b.gep(
                induction.next.attributes["source"], start_of(induction.start), [offset]
            )
        if phi.type != I64:
            iteration = self.b.cast("trunc", iteration, phi.type)
        offset = iteration if _is_one(step) else self.b.binary("mul", iteration, step)
        return self.b.binary(
            "sub" if induction.negative else "add", start_of(induction.start), offset
        )

    def _compute_shadow(self, i: Instruction, lane: int) -> Value:
        def shadow_of(value: Value) -> Value:
            return self.shadow(value, lane)

        match i.opcode:
            case "alloca":
                return self.slots.stack_shadow(self.b, i, lane)
            case "phi":
                return self._induction(i, shadow_of)
            case "call" if i in self.plan.fixed_data:
                return self._data(shadow_of(i.operands[0]))
            case _:
                scope = None
                if i.opcode == "load":
                    objects = self.plan.memory.objects(i.operands[0])
                    scope = self.slots.scopes.shadow_access(objects, lane)
                shadow = derived_shadow(self.b, i, self.primal, shadow_of, scope)
                assert shadow is not None, f"L2: no shadow of {i.opcode}"
                if i in self.plan.sums.hidden_rows:
                    return self.b.call(_SAME, PTR, [shadow])
                return shadow

    def _data(self, header: Value) -> Value:
        """The result of the call, by a load that LLVM hoists out of loops: otherwise it cannot know
        that a loop never writes to a header.
        """
        address = at_offset(self.b, header, counted_memory().data_offset)
        return self.b.load(PTR, address, metadata=self.slots.scopes.fixed)


def _is_one(step: Value) -> bool:
    return isinstance(step, Constant) and step.text == "1"


def _opcode(value: Value) -> str:
    return value.opcode if isinstance(value, Instruction) else ""

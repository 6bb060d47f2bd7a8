"""The adjoint of each instruction: code that moves the cotangent of its result to its operands.

Needs       the values and the cotangents of the sweep, with its plan and builder
Gives       `Adjoints.add`, called for the instructions of a block from the last to the first
Invariants  R1 to R3 of `reverse`
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from activerules.ir.derivatives.rows import Partial, RowOperands
from activerules.ir.derivatives.rulecall import EXCINFO
from activerules.ir.derivatives.slopes import is_steep
from activerules.ir.derivatives.table import row_for
from activerules.ir.generate.cotangents import SUM, Cotangents, tracked_sum, was_used
from activerules.ir.generate.lanes import RARELY
from activerules.ir.generate.materialise import AtHand
from activerules.ir.generate.rule_sites import add_site
from activerules.ir.generate.sweep import add_scalars, clear, clear_but, null
from activerules.ir.generate.window_sums import WindowSums
from activerules.ir.llvm.builder import Builder, at_offset, suffixed
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import I8, I32, I64, PTR, VOID, StructType
from activerules.ir.normal.effects import CLEAR_COUNTED, COPIED_SIZE, COPY_RESIZED, memory_intrinsic
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.layout import shadow_offset
from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.shadow_copies import UndoneCopy
from activerules.ir.tape.struct_copies import cut_name, undo_name


class Adjoints:
    """Writes the adjoints of instructions at the builder of the sweep.

    open_block   continues in a new block
    """

    def __init__(
        self, values: AtHand, bars: Cotangents, top: Builder, open_block: Callable[[Block], None]
    ) -> None:
        self.plan, self.parameters, self.slots = values.plan, values.parameters, values.slots
        self.values, self.bars = values, bars
        self.top, self.b, self.namer, self.open_block = top, values.b, top.namer, open_block
        self.width = self.plan.request.width
        self.windows = WindowSums(self.plan, top, self.b, self._add_to_shadow)
        self.use: Value | None = None

    def add(self, i: Instruction) -> None:
        """Write the adjoint of `i`, for all lanes."""
        if i in self.plan.derived:
            self._call_callee(self.plan.derived[i])
            return
        for lane in range(self.width):
            self._add_lane(i, lane)

    def _add_lane(self, i: Instruction, lane: int) -> None:
        match i.opcode:
            case "load":
                self._add_load(i, lane)
            case "store":
                self._add_store(i, lane)
            case "freeze":
                used = self._use_of(i, lane)
                self.bars.add_lane(i.operands[0], self.bars.take_lane(i, lane), lane, used)
            case "call" if i in self.plan.rules:
                self._call_rule(self.plan.rules[i], lane)
            case "call" if i in self.plan.ownership.reused_shadows:
                self._clear_reused(i, lane)
            case "call" if memory_intrinsic(i):
                self._add_memory(i, lane)
            case _:
                self._add_arithmetic(i, lane)

    def _scope(self, pointer: Value, lane: int) -> str:
        """The alias scopes of the shadow memory of a pointer of the primal."""
        return self.slots.scopes.shadow_access(self.plan.memory.objects(pointer), lane)

    def _add_load(self, i: Instruction, lane: int) -> None:
        g = self.bars.take_lane(i, lane)
        if i in self.plan.slopes.in_place:
            self._use_of(i, lane)  # taken, as the cotangent is: the shadow has both
        elif i in self.plan.sums.windows:
            self.windows.add(i, g, lane)
        elif i in self.plan.sums.added_if_chosen:
            self._add_unless_zero(i, g, lane)
        else:
            self._add_to_shadow(i, g, lane)

    def _add_unless_zero(self, i: Instruction, g: Value, lane: int) -> None:
        self.values.shadow(i.operands[0], lane)  # here, as both paths may use it
        add, after = Block(self.namer("chosen")), Block(self.namer("added"))
        self.b.cond_br(self.b.fcmp("une", g, self.b.const(g.type, 0.0)), add, after)
        self.open_block(add)
        self._add_to_shadow(i, g, lane)
        self.b.br(after)
        self.open_block(after)

    def _add_to_shadow(self, i: Instruction, g: Value, lane: int) -> None:
        shadow = self.values.shadow(i.operands[0], lane)
        align, scope = i.attributes.get("align"), self._scope(i.operands[0], lane)
        old = self.b.load(g.type, shadow, align=align, metadata=scope)
        if i in self.plan.slopes.tracked:
            new = tracked_sum(self.b, old, g, self._use_of(i, lane))
        else:
            new = self.b.fadd(old, g, flags=SUM)
        self.b.store(new, shadow, align=align, metadata=scope)

    def _add_store(self, i: Instruction, lane: int) -> None:
        value, pointer = i.operands
        shadow = self.values.shadow(pointer, lane)
        align, scope = i.attributes.get("align"), self._scope(pointer, lane)
        is_active = self.plan.activity.is_active(value)
        g = self.b.load(value.type, shadow, align=align, metadata=scope) if is_active else None
        if i not in self.plan.slopes.in_place:
            self.b.store(self.b.const(value.type, 0), shadow, align=align, metadata=scope)
        if g is not None:
            knows_use = lane == 0 and i in self.plan.slopes.tracked
            self.bars.add_lane(value, g, lane, was_used(self.b, g) if knows_use else None)

    def _clear_reused(self, allocation: Instruction, lane: int) -> None:
        """Clear the shadow of an array, for the array for which it was used before."""
        self.b.call(CLEAR_COUNTED, VOID, [self.values.shadow(allocation, lane)])

    def _add_memory(self, i: Instruction, lane: int) -> None:
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
        """Set to NaN, in both shadows, the floats inside which a copy begins or ends: they have no
        derivative (C3 of `copies`).
        """
        if undone.cut is not None:
            for shadow, counterpart in zip(shadows, reversed(shadows), strict=True):
                self.b.call(cut_name(undone.cut), VOID, [shadow, counterpart, size])

    def _add_arithmetic(self, i: Instruction, lane: int) -> None:
        row = row_for(i)
        assert row is not None
        g, used = self.bars.take_lane(i, lane), self._use_of(i, lane)
        wanted = self.plan.wanted(i)
        access = row.access(i, wanted, self.values.primal)
        bars = row.adjoint(self.b, access, g, wanted)
        for k, (operand, partial) in enumerate(zip(i.operands, row.partials, strict=True)):
            bar = bars[k]
            if bar is not None:
                assert partial is not None
                term = bar if partial.used else self._term(i, k, g, bar, used)
                self.bars.add_lane(
                    operand, term, lane, self._used_by(operand, partial, access, used)
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
        if partial.used is None or operand not in self.plan.slopes.speculated:
            return used
        chosen = partial.used(self.b, access)
        return chosen if used is None else self.b.binary("and", used, chosen)

    def _term(self, i: Instruction, k: int, g: Value, bar: Value, used: Value | None) -> Value:
        """`bar`; zero, whatever the slope is, where the program did not use the result of `i`, and
        for an absorbing operand where the cotangent `g` is zero.
        """
        zero = self.b.const(bar.type, 0.0)
        if (i, k) not in self.plan.slopes.absorbing:
            guarded = used if (i, k) in self.plan.slopes.guarded else None
            return bar if guarded is None else self.b.select(guarded, bar, zero)
        # what was not used has a cotangent of zero
        absorbs = self.b.fcmp("oeq", g, self.b.const(g.type, 0.0))
        if is_steep(i, k):
            absorbs = self.b.binary("and", self.b.fcmp("uno", bar, bar), absorbs)
        chosen = self.b.select(absorbs, zero, bar)
        if is_steep(i, k):
            chosen.attributes["metadata"] = RARELY
        return chosen

    def _call_rule(self, use: RuleUse, lane: int) -> None:
        """Call the rule's reverse, and clear the cotangent of its result."""
        call = use.call
        named = StructType(tuple(o.type for o in use.active()))
        bars: Value = self.top.alloca(named, hint="bars") if named.elements else null()
        ret = self.slots.pointer(self.b, use.result)
        if use.result_shadow is not None:
            start = self.slots.pointer(self.b, use.result_shadow)
            ret_shadow = at_offset(self.b, start, shadow_offset(use.result_shadow, lane))
            self._take_cotangents(use, ret_shadow, lane)
        else:
            seeded = use.request.result == "active"
            ret_shadow = self.values.shadow(call.operands[0], lane) if seeded else null()
        tape = self.slots.pointer(self.b, use.tape)
        excinfo = self._excinfo()
        operands = [ret, ret_shadow, excinfo, tape, bars]
        operands += [self.values.primal(o) for o in call.operands[2:]]
        operands += [
            self.values.shadow(o, lane) if o.type.is_pointer else self.values.primal(o)
            for o in use.duplicated()
        ]
        after = self._unless_caught(use, bars, named) if use.caught else None
        status = self.b.call(use.code.reverse, I32, operands)
        self._return_unless_zero(status, lambda: add_site(self.b, use.site, excinfo, status))
        if use.request.result == "active":
            clear(self.b, ret_shadow, self.b.const(I64, use.info.result_size))
        elif use.result_shadow is not None and self.plan.request.caller.split:
            for offset in use.info.result_meminfos:
                address = self.b.gep(I8, ret_shadow, [self.b.const(I64, offset)])
                self.b.call(CLEAR_COUNTED, VOID, [self.b.load(PTR, address)])
        if after is not None:
            self.b.br(after)
            self.open_block(after)
        self._add_from(bars, named, use.active(), [lane])

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
        self.open_block(fine)
        return after

    def _call_callee(self, use: CalleeUse) -> None:
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
        if use.returned.kind == "active":
            operands += self.bars.take(call)
        status = self.b.call(suffixed(use.stem, ".reverse"), I32, [*operands, bars])
        self._return_unless_zero(status)
        self._add_from(bars, fields, use.active(), lanes)

    def _add_from(
        self, bars: Value, fields: StructType, operands: list[Value], lanes: Sequence[int]
    ) -> None:
        for k, (operand, lane) in enumerate(itertools.product(operands, lanes)):
            address = self.b.gep(fields, bars, [self.b.const(I32, 0), self.b.const(I32, k)])
            self.bars.add_lane(operand, self.b.load(operand.type, address), lane)

    def _return_unless_zero(self, status: Value, first: Callable[[], None] | None = None) -> None:
        failed, fine = Block(self.namer("rule.failed")), Block(self.namer("rule.ok"))
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), fine, failed)
        self.open_block(failed)
        if first is not None:
            first()
        self.b.ret(status)
        self.open_block(fine)

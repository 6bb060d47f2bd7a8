"""Cotangents of values in the reverse sweep: added to at uses, taken at definitions.

Needs       a Plan; builders at the entry of the sweep and at its current end
Gives       `Cotangents`; `tracked_sum`, `was_used`: code for floats in tracked memory
            (`plan.tracking`)
Invariants  B1  on every path, what is taken for a value is the sum of all that was added before
            B2  then the cotangent is zero: the definition may run again in an earlier iteration
            B3  a value that may be speculated has, beside its cotangent, a flag for whether the
                program used it: whether a chain of choices (see `rows.Partial.used`) leads from it
                to an instruction that certainly runs
            B4  an innermost loop sums what it adds to a value from outside in slots of its own;
                when the sweep has left the loop, they are zero

The cotangent of a value whose uses are all in its block is a value of the same block of the sweep.
The others are in stack slots, which LLVM turns into registers. By B4 such a register is used in one
loop: one that is used in several loops of a long function may be spilled, and then each iteration
waits for what the last one stored.
"""

from __future__ import annotations

from collections.abc import Iterable

from activerules.ir.generate.lanes import per_lane
from activerules.ir.generate.sweep import Lanes
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Argument, Block, Instruction, Value
from activerules.ir.llvm.types import FLOAT, I1, I32, IntType, StructType, Type
from activerules.ir.plan.plan import Plan

SUM = ("reassoc", "nsz")


class Cotangents:
    """The cotangents of the values of a primal, one per lane."""

    def __init__(self, plan: Plan, entry: Builder, here: Builder) -> None:
        self._plan, self._active = plan, plan.activity.is_active
        self._width = plan.request.width
        self._entry, self._b = entry, here
        self._shared = plan.sums.across_blocks
        self._slots: dict[Value, list[Instruction]] = {}
        self._sums: dict[tuple[Value, int], Value] = {}
        self._speculated = plan.slopes.speculated
        self._loop: Loop | None = None
        self._partial: dict[Loop, dict[Value, list[Instruction]]] = {}
        self._use_slots: dict[Value, Instruction] = {}
        self._uses: dict[Value, Value] = {}

    def __contains__(self, value: Value) -> bool:
        """Whether a value has stack slots for its cotangent; arguments get them at first use."""
        return value in self._slots

    def begin_block(self, block: Block) -> None:
        """Begin the code that reverses a block of the primal."""
        self._sums, self._uses = {}, {}
        loop = self._plan.flow.loop_of(block)
        self._loop = None if loop is None or loop.children else loop

    def finish(self, source: Block, target: Block) -> None:
        """Begin the edge to `target` at the end of a block. Where the sweep leaves an innermost
        loop, add what that has summed (B4).
        """
        loop, self._loop = self._plan.flow.loop_of(source), None
        if loop is None or source is not loop.header or target in loop.blocks:
            return
        for value, slots in self._partial.get(loop, {}).items():
            for slot, whole in zip(slots, self._slots_of(value), strict=True):
                self._add_to(whole, self._b.load(value.type, slot))
                self._b.store(self._b.const(value.type, 0.0), slot)

    def take(self, value: Value) -> Lanes:
        """Read the cotangents of a value and set them to zero."""
        return per_lane(self._width, lambda lane: self.take_lane(value, lane))

    def take_lane(self, value: Value, lane: int) -> Value:
        """Read the cotangent of a value in one lane and set it to zero."""
        zero = self._b.const(value.type, 0.0)
        if value not in self._shared:
            return self._sums.pop((value, lane), zero)
        slot = self._slots_of(value)[lane]
        bar = self._b.load(value.type, slot)
        self._b.store(zero, slot)
        return bar

    def store_active(self, derivatives: Value) -> None:
        """Store the cotangents of the Active parameters in a struct (`derivatives_type`)."""
        fields = derivatives_type(self._plan)
        k = 0
        for parameter in self._plan.request.parameters:
            if parameter.activity != "active":
                continue
            argument = parameter.argument
            zero = self._b.const(argument.type, 0.0)
            for bar in self.take(argument) if argument in self else (zero,) * self._width:
                indices = [self._b.const(I32, 0), self._b.const(I32, k)]
                self._b.store(bar, self._b.gep(fields, derivatives, indices))
                k += 1

    def are_zero(self, values: Iterable[Value]) -> Value:
        """Whether the cotangents of values that are used in other blocks are zero, in all lanes."""
        all_zero: Value = self._b.const(I1, 1)
        for slot in (slot for value in values for slot in self._slots_of(value)):
            bar = self._b.load(slot.attributes["allocated"], slot)
            zero = self._b.fcmp("oeq", bar, self._b.const(bar.type, 0.0))
            all_zero = self._b.binary("and", all_zero, zero)
        return all_zero

    def add(self, value: Value, bars: Lanes) -> None:
        """Add to the cotangents of a value, if it is active."""
        for lane, bar in enumerate(bars):
            self.add_lane(value, bar, lane)

    def add_lane(self, value: Value, bar: Value, lane: int, used: Value | None = None) -> None:
        """Add to the cotangent in one lane.

        used   whether this use of the value was executed (an i1); None if it certainly was
        """
        if not self._active(value):
            return
        if lane == 0 and value in self._speculated:
            self._note_use(value, self._b.const(I1, 1) if used is None else used)
        if value not in self._shared:
            before = self._sums.get((value, lane))
            self._sums[value, lane] = bar if before is None else self._sum(before, bar)
            return
        self._add_to(self._slots_here(value)[lane], bar)

    def take_use(self, value: Value) -> Value | None:
        """Read the flag for whether the program used a value, and reset it; None: it certainly did.

        All lanes have the same flag.
        """
        if value not in self._speculated:
            return None
        if value not in self._shared:
            return self._uses.pop(value, self._b.const(I1, 0))
        slot = self._use_slot(value)
        used = self._b.load(I1, slot)
        self._b.store(self._b.const(I1, 0), slot)
        return used

    def _note_use(self, value: Value, used: Value) -> None:
        if value not in self._shared:
            before = self._uses.get(value)
            self._uses[value] = used if before is None else self._b.binary("or", before, used)
            return
        slot = self._use_slot(value)
        self._b.store(self._b.binary("or", self._b.load(I1, slot), used), slot)

    def _use_slot(self, value: Value) -> Instruction:
        if value not in self._use_slots:
            slot = self._use_slots[value] = self._entry.alloca(I1, hint="used")
            self._entry.store(self._entry.const(I1, 0), slot)
        return self._use_slots[value]

    def _sum(self, x: Value, y: Value) -> Value:
        return self._b.fadd(x, y, flags=SUM)

    def _slots_of(self, value: Value) -> list[Instruction]:
        if value not in self._slots:
            self._slots[value] = self._new_slots(value.type)
        return self._slots[value]

    def _slots_here(self, value: Value) -> list[Instruction]:
        """The slots to which the current block adds."""
        whole = self._slots_of(value)
        if self._loop is None or _is_in(value, self._loop):
            return whole
        partial = self._partial.setdefault(self._loop, {})
        if value not in partial:
            partial[value] = self._new_slots(value.type)
        return partial[value]

    def _add_to(self, slot: Instruction, bar: Value) -> None:
        self._b.store(self._sum(self._b.load(bar.type, slot), bar), slot)

    def _new_slots(self, t: Type) -> list[Instruction]:
        slots = [self._entry.alloca(t, hint="bar") for _ in range(self._width)]
        for slot in slots:
            self._entry.store(self._entry.const(t, 0.0), slot)
        return slots


def _is_in(value: Value, loop: Loop) -> bool:
    return isinstance(value, Instruction) and value.owner in loop.blocks


def tracked_sum(b: Builder, old: Value, g: Value, used: Value | None) -> Value:
    """The new shadow of a float when `g` is added to its cotangent.

    used   whether this use of the float was executed (an i1); None if it certainly was
    """
    total = b.fadd(old, g)  # without flags: the sign of a zero counts
    is_zero = b.fcmp("oeq", total, b.const(total.type, 0.0))
    new = b.select(is_zero, b.const(total.type, -0.0), total)
    return new if used is None else b.select(used, new, old)


def was_used(b: Builder, g: Value) -> Value:
    """Whether the program used the float whose shadow in tracked memory is `g`."""
    bits = IntType(32 if g.type is FLOAT else 64)
    return b.icmp("ne", b.cast("bitcast", g, bits), b.const(bits, 0))


def derivatives_type(plan: Plan) -> StructType:
    """The struct of the derivatives of the Active parameters, in order; one field per lane
    for each.
    """
    active = [p.argument.type for p in plan.request.parameters if p.activity == "active"]
    return StructType(tuple(t for t in active for _ in range(plan.request.width)))


def seeds_of(plan: Plan) -> list[Argument]:
    """The parameters for the cotangents of an Active return."""
    if plan.request.returned.kind != "active":
        return []
    return [Argument("ar.seed", plan.request.function.result) for _ in range(plan.request.width)]

"""The instructions of the augmented primal: those of the primal, and the code added for each.

Needs       a Plan and its Layout
Gives       `AugmentedCode`, which emits copies of the instructions, shadows of pointers, references
            that the tape owns, and calls of rules and callees; `augmented` has blocks and loops
Invariants  P1, P2 and P3 of `augmented`
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.nodes import Node, Primal, Shadow
from activerules.ir.analysis.types.copies import CopiedScalar
from activerules.ir.derivatives.rulecall import CallInfo
from activerules.ir.generate.lanes import per_lane
from activerules.ir.generate.mirror import allocated_shadow, clear_allocated, is_dropped
from activerules.ir.generate.primal_copy import PrimalCopy
from activerules.ir.generate.rule_sites import add_site
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import Slots, make_parameters, names_of, null, result_parameters
from activerules.ir.llvm.builder import Builder, at_offset, suffixed
from activerules.ir.llvm.model import Block, Function, GlobalRef, Instruction, Value
from activerules.ir.llvm.types import I1, I32, I64, PTR, VOID, ArrayType
from activerules.ir.normal.effects import (
    REUSED_SHADOW,
    TAPE_ARRAY,
    TAPE_SHADOW,
    Allocation,
    allocation,
    counted_memory,
    effect_of,
)
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.layout import Layout, shadow_offset
from activerules.ir.plan.marked import RuleUse
from activerules.ir.plan.plan import Plan


class AugmentedCode(PrimalCopy[Plan, Builder]):
    """Emits the instructions of an augmented primal into its blocks."""

    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        self.results = result_parameters(plan.request)
        self.parameters = make_parameters(plan, self.results)
        b = Builder([], names_of(plan), declarations)
        super().__init__(plan, scopes, b, self.parameters.primal, self.parameters.shadow)
        self.layout = layout
        self.slots = Slots(plan, layout, self.parameters.frame, scopes, self._value)
        self.function = Function(
            suffixed(plan.request.name, ".augmented"),
            I32,
            self.parameters.arguments,
            self.blocks,
            "internal",
            "alwaysinline",
        )

    # --- values ---

    def _is_kept(self, node: Node) -> bool:
        return node in self.plan.cache.kept

    def _keep(self, node: Node, value: Value) -> None:
        if self._is_kept(node):
            self.slots.write(self.b, node, value)

    def _keep_shadow(self, value: Value) -> None:
        if value in self.shadows and self._is_kept(Shadow(value)):
            self.slots.write_lanes(self.b, Shadow(value), self.shadows[value])

    # --- instructions ---

    def _instruction(self, i: Instruction, live: bool) -> None:
        if i.opcode == "alloca" and (i, False) in self.layout.stack:
            self._stack(i)
        elif i.opcode == "call":
            self._call(i, live)
        else:
            self._clone(i)
            if live:
                self._mirror(i)
        if live and i in self.values and i.name is not None:
            self._keep(Primal(i), self.values[i])
            self._keep_shadow(i)

    def _stack(self, i: Instruction) -> None:
        self.values[i] = self.slots.frame_address(self.b, self.layout.stack[i, False])
        if (i, True) in self.layout.stack:
            self.shadows[i] = per_lane(self.width, lambda k: self.slots.stack_shadow(self.b, i, k))

    def _mirror(self, i: Instruction) -> None:
        """Repeat address arithmetic, and loads and stores of pointers and integers, on shadows."""
        if i in self.plan.mirrored:
            self._mirror_store(i)
            return
        if i.type.is_pointer and self.plan.activity.has_shadow(i):
            self._derive_shadow(i)

    def _mirror_store(self, i: Instruction) -> None:
        value, pointer = i.operands
        for k in range(self.width):
            stored = self._shadow(value, k) if value.type.is_pointer else self._value(value)
            self.b.store(stored, self._shadow(pointer, k))

    # --- calls ---

    def _call(self, i: Instruction, live: bool) -> None:
        if is_dropped(i):
            return
        if live and (i in self.plan.rules or i in self.plan.derived):
            if i in self.plan.rules:
                self._rule(self.plan.rules[i])
            else:
                self._callee(self.plan.derived[i])
            return
        info = self.plan.calls.marked(i)
        if i in self.plan.ownership.needless:
            return
        effect = effect_of(i.callee_name)
        if live and effect and effect.frees and i in self.plan.ownership.deferred:
            self._own(GlobalRef(effect.frees), self._value(i.operands[0]), i)
            return
        if live and MemoryObject("allocation", i) in self.plan.ownership.in_rows:
            self.values[i] = self._allocate_in_row(TAPE_ARRAY, i)
            self._shadow_of_allocation(i)
            return
        copy = self._clone(i)
        if info is not None:
            self._call_primal(copy, info.primal_symbol)
            if live and MemoryObject("result", i) in self.plan.ownership.retained:
                self._retain_result(i, info)
            return
        if live:
            self._after_call(i, copy)

    def _after_call(self, i: Instruction, copy: Instruction) -> None:
        effect = effect_of(i.callee_name)
        if effect is None:
            return
        if effect.allocates:
            self._allocation(i, copy, effect.allocates)
        elif effect.returns is not None:
            self._mirror(i)
            for shadow in self.shadows.get(i, ()) if effect.resizes is not None else ():
                self._fail_if_null(shadow)
        elif i in self.plan.mirrored:
            self._mirror_copy(i, self.plan.mirrored[i])

    def _mirror_copy(self, i: Instruction, pointers: Sequence[CopiedScalar] | None) -> None:
        """Repeat a copy on the shadows of these pointers; None: on all of the memory.

        The reverse sweep handles floats.
        """
        for k in range(self.width):
            operands = [
                self._shadow(o, k) if o.type.is_pointer else self._value(o) for o in i.operands
            ]
            if pointers is None:
                self.b.call(i.callee_name or "", VOID, operands)
                continue
            target, source = operands[:2]
            addresses = [
                self.b.load(p.type, at_offset(self.b, source, p.offset), align=1) for p in pointers
            ]
            for each, pointer in zip(pointers, addresses, strict=True):
                self.b.store(pointer, at_offset(self.b, target, each.offset), align=1)

    def _allocation(self, i: Instruction, copy: Instruction, made: Allocation) -> None:
        if MemoryObject("allocation", i) in self.plan.ownership.retained and made.counted:
            self._retain(copy, i)
        self._shadow_of_allocation(i)

    def _spare(self) -> Value:
        """A variable for a shadow that may be used again; none at first."""
        spare = self._local(PTR)
        none = Builder([], self.b.namer).store(null(), spare)
        self.blocks[0].insert(1, none)
        return spare

    def _allocate_in_row(
        self, function: str, i: Instruction, latest: Sequence[Value] = ()
    ) -> Value:
        """Allocate an array, or its shadow, in a row of the tape.

        latest   variables for the latest shadows: the oldest is used again if it has this size
        """
        size = self._value(i.operands[0])
        if latest:
            spares = [self.b.load(PTR, spare) for spare in latest]
            operands = [self.parameters.tape, size, spares[-1]]
            array = self.b.call(REUSED_SHADOW, PTR, operands)
            for spare, following in zip(latest, [array, *spares], strict=False):
                self.b.store(following, spare)
        else:
            array = self.b.call(function, PTR, [self.parameters.tape, size])
        self._fail_if_null(array)
        made = allocation(i)
        assert made is not None
        if made.counted:
            return array
        return self.b.load(PTR, at_offset(self.b, array, counted_memory().data_offset))

    def _shadow_of_allocation(self, i: Instruction) -> None:
        if MemoryObject("allocation", i) in self.plan.activity.active_memory:
            self.shadows[i] = per_lane(self.width, lambda _: self._new_shadow(i))

    def _new_shadow(self, i: Instruction) -> Value:
        """A shadow of zeros for memory that is allocated here; it is released with the tape."""
        ownership = self.plan.ownership
        if i in ownership.shadows_in_rows:
            latest = [self._spare() for _ in range(ownership.reused_shadows.get(i, 0))]
            return self._allocate_in_row(TAPE_SHADOW, i, latest)
        made = allocation(i)
        assert made is not None
        operands = [self._value(o) for o in i.operands]
        shadow = allocated_shadow(self.b, i, operands, plain=True)
        self._fail_if_null(shadow)
        self._own(GlobalRef(made.released_by), shadow, i, shadow=True)
        clear_allocated(self.b, i, shadow, operands)
        return shadow

    def _own(
        self, function: GlobalRef, address: Value, by: Instruction, *, shadow: bool = False
    ) -> None:
        """Let the gradient release an object with `function`: it is added to the tape's list.

        by, shadow   the call that allocates it or would free it, and whether it is the shadow
        """
        self.b.declarations.setdefault(function.name, f"declare void @{function.name}(ptr)")
        if self.layout.arrays is not None:
            offset, _ = self.layout.arrays.owned[by, shadow]
            self.b.store(address, self.slots.frame_address(self.b, offset))
            return
        recorded = self.b.call(
            "activerules.tape.own", I1, [self.parameters.tape, function, address]
        )
        self._fail_unless(recorded)

    def _retain(self, header: Value, by: Instruction) -> None:
        """Take a reference to counted memory, and let the tape own it."""
        self.b.call(counted_memory().retain, VOID, [header])
        self._own(GlobalRef(counted_memory().release), header, by)

    def _retain_result(self, i: Instruction, info: CallInfo) -> None:
        """Take references to the memory that a call returned, and let the tape own them."""
        for address in self._addresses(self._value(i.operands[0]), info.result_meminfos):
            self._retain(self.b.load(PTR, address), i)

    def _rule(self, use: RuleUse) -> None:
        """Call the rule's augmented primal instead of the function. One call serves all lanes: if
        there are several, the rule keeps no shadow (D1 of `widen`).
        """
        call = use.call
        tape = self.slots.pointer(self.b, use.tape)
        ret_shadow = self._shadow(call.operands[0], 0) if use.request.result != "const" else null()
        operands = [self._value(call.operands[0]), ret_shadow, self._value(call.operands[1]), tape]
        unowned = self.plan.ownership.unowned[call]
        operands += [
            null() if k in unowned else self._value(o)
            for k, o in enumerate(call.operands[2:], start=2)
        ]
        operands += [
            self._shadow(o, 0) if o.type.is_pointer else self._value(o) for o in use.duplicated()
        ]
        status = self.b.call(use.code.augmented, I32, operands)
        self.values[call] = status
        fine = Block(self.namer("rule.ok"))
        done = Block(self.namer("rule.done"))
        plain = use.site is None and not use.caught
        failed = done if plain else Block(self.namer("rule.failed"))
        # the rule's results exist only if it succeeded; then the program checks the status
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), fine, failed)
        if not plain:
            self._open(failed)
            add_site(self.b, use.site, self._value(call.operands[1]), status)
            if use.caught:
                self._return_if(self._has_ended(status), status, call, raised=True)
            self.b.br(done)
        self._open(fine)
        self._keep_results(use, tape)
        self.b.br(done)
        self._open(done)

    def _keep_results(self, use: RuleUse, tape: Value) -> None:
        call, info = use.call, use.info
        if use.code.drop is not None:
            self._own(GlobalRef(use.code.drop), tape, call)
        if MemoryObject("result", call) in self.plan.ownership.retained:
            self._retain_result(call, info)
        if use.result is not None:
            ret = self._value(call.operands[0])
            self._copy(self.slots.pointer(self.b, use.result), ret, use.result.size)
        for lane in range(self.width):
            self._keep_result_shadow(use, lane)

    def _keep_result_shadow(self, use: RuleUse, lane: int) -> None:
        """Keep the shadow of a rule's result: lane 0 has the rule's, others are made here."""
        saved, ret = use.result_shadow, use.call.operands[0]
        if saved is None:
            return
        shadow = self._shadow(ret, lane)
        if lane:
            assert use.code.new_shadow is not None
            operands = [self._shadow(ret, 0), shadow, self._value(use.call.operands[1])]
            status = self.b.call(use.code.new_shadow, I32, operands)
            self._fail_unless(self.b.icmp("eq", status, self.b.const(I32, 0)))
        slot = at_offset(self.b, self.slots.pointer(self.b, saved), shadow_offset(saved, lane))
        self._copy(slot, shadow, saved.size)
        release = GlobalRef(counted_memory().release)
        for address in self._addresses(shadow, use.info.result_meminfos):
            self._own(release, self.b.load(PTR, address), use.call)

    def _callee(self, use: CalleeUse) -> None:
        """Call the augmented primal of the callee instead of the callee."""
        call, operands = use.call, self._passed(use)
        operands += [self.slots.pointer(self.b, use.frame), self.parameters.tape]
        handed_back = use.returned.kind != "status" and call.type is not VOID
        outputs: list[Value] = []
        if handed_back:
            outputs.append(self._local(call.type))
        if use.returned.shadow:
            outputs.append(self._local(ArrayType(self.width, PTR)))
        status = self.b.call(suffixed(use.stem, ".enter"), I32, [*operands, *outputs])
        if use.returned.kind == "status":
            self.values[call] = status
            self._return_if(self._has_ended(status), status, call, raised=use.has_rules)
            return
        ended = self.b.icmp("ne", status, self.b.const(I32, 0))
        self._return_if(ended, status, call, raised=use.has_rules)
        if handed_back:
            self.values[call] = self.b.load(call.type, outputs[0])
        if use.returned.shadow:
            self.shadows[call] = per_lane(
                self.width, lambda k: self.b.load(PTR, self._lane_address(outputs[1], PTR, k))
            )

    def _copy(self, target: Value, source: Value, size: int) -> None:
        operands = [target, source, self.b.const(I64, size), self.b.const(I1, 0)]
        self.b.call("llvm.memcpy.p0.p0.i64", VOID, operands)

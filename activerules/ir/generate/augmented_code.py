"""The instructions of the augmented primal: each one of the primal, and what is added for it.

Needs       a Plan and its Layout
Gives       `AugmentedCode`, which writes the copies, the shadows of pointers, the objects held for
            the reverse, the calls of rules and callees; `augmented` has the blocks and the loops
Invariants  P1, P2 and P3 of `augmented`
"""

from __future__ import annotations

from activerules.ir.analysis.memory.objects import MemoryObject, is_counted
from activerules.ir.analysis.nodes import Node, Primal, RuleTape, SavedStruct, Shadow
from activerules.ir.analysis.types.copies import MixedCopy, copied_scalars, has_pointers
from activerules.ir.derivatives.rulecall import CallInfo
from activerules.ir.generate.lanes import per_lane
from activerules.ir.generate.mirror import (
    allocated_shadow,
    clear_allocated,
    derived_shadow,
    is_dropped,
)
from activerules.ir.generate.primal_copy import PrimalCopy
from activerules.ir.generate.rule_sites import add_site
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import (
    Slots,
    make_parameters,
    names_of,
    null,
    result_parameters,
    suffixed,
)
from activerules.ir.llvm.builder import Builder, at_offset
from activerules.ir.llvm.model import Argument, Block, Function, GlobalRef, Instruction, Value
from activerules.ir.llvm.types import I1, I32, I64, PTR, VOID, ArrayType, Type
from activerules.ir.normal.effects import counted_memory, effect_of, memory_intrinsic
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.layout import Layout, shadow_offset
from activerules.ir.plan.plan import Plan, RuleUse
from activerules.ir.plan.tape_arrays import TAPE_ARRAY, TAPE_SHADOW, is_plain


class AugmentedCode(PrimalCopy[Plan, Builder]):
    """Writes the instructions of an augmented primal into its blocks."""

    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        self.results = result_parameters(plan.request)
        self.parameters = make_parameters(plan, self.results)
        b = Builder([], names_of(plan), declarations)
        super().__init__(plan, scopes, b, self.parameters.primal, self.parameters.shadow)
        self.layout = layout
        self.slots = Slots(plan, layout, self.parameters.frame, scopes)
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

    # --- blocks ---

    def _fail_if_null(self, pointer: Value) -> None:
        self._fail_unless(self.b.icmp("ne", pointer, null()))

    def _is_in_row(self, pointer: Value) -> bool:
        objects = self.plan.memory.objects(pointer)
        return bool(objects) and objects <= self.plan.in_rows

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
        """Repeat address arithmetic, and copies of pointers and integers, on shadow memory."""
        if i.opcode == "store":
            self._mirror_store(i)
            return
        if not i.type.is_pointer or not self.plan.activity.has_shadow(i):
            return
        lanes = [
            derived_shadow(self.b, i, self._value, self._shadow_in(k)) for k in range(self.width)
        ]
        if None not in lanes:
            self.shadows[i] = tuple(s for s in lanes if s is not None)

    def _mirror_store(self, i: Instruction) -> None:
        value, pointer = i.operands
        if value.type.is_float or not self.plan.activity.has_shadow(pointer):
            return
        request, objects = self.plan.request, self.plan.memory.objects(pointer)
        filled = request.mirrored if value.type.is_pointer else request.copied_integers
        shadowed = value.type.is_pointer and self.plan.activity.has_shadow(value)
        if not shadowed and not all(o.is_local or o in filled for o in objects):
            return
        if not value.type.is_pointer and self.plan.types.touches_floats(i):
            return
        for k in range(self.width):
            what = self._shadow(value, k) if value.type.is_pointer else self._value(value)
            self.b.store(what, self._shadow(pointer, k))

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
        if self._is_needless(i):
            return
        effect = effect_of(i.callee_name)
        if live and effect and effect.frees and self._leads_to_retained(i.operands[0]):
            self._own(GlobalRef(effect.plain or i.callee_name or ""), self._value(i.operands[0]))
            return
        if live and MemoryObject("allocation", i) in self.plan.in_rows:
            self.values[i] = self._allocate_in_row(TAPE_ARRAY, i)
            self._shadow_of_allocation(i)
            return
        copy = self._clone(i)
        if info is not None:
            copy.callee = GlobalRef(info.primal_symbol)
            self.b.declarations.setdefault(info.primal_symbol, _declaration(info.primal_symbol, i))
            if live and MemoryObject("result", i) in self.plan.retained:
                self._retain_result(i, info)
            return
        if live:
            self._after_call(i, copy)

    def _leads_to_retained(self, pointer: Value) -> bool:
        objects = self.plan.memory.objects(pointer)
        if self.plan.request.callee and not all(o.is_local for o in objects):
            return True  # a caller's memory: its reverse may read it
        return not self.plan.retained.isdisjoint(objects)

    def _after_call(self, i: Instruction, copy: Instruction) -> None:
        effect = effect_of(i.callee_name)
        if effect is None:
            return
        if effect.allocates:
            self._allocation(i, copy)
        elif effect.returns is not None:
            self._mirror(i)
            for shadow in self.shadows.get(i, ()) if effect.resizes is not None else ():
                self._fail_if_null(shadow)
        elif memory_intrinsic(i) and self.plan.activity.has_shadow(i.operands[0]):
            self._mirror_intrinsic(i)

    def _mirror_intrinsic(self, i: Instruction) -> None:
        """Repeat copies of structs where the memory holds pointers; floats are undone instead."""
        objects = self.plan.memory.objects(i.operands[0])
        if not has_pointers(i.operands[0], self.plan.types) or not all(o.is_local for o in objects):
            return
        copies = memory_intrinsic(i) != "memset"
        for k in range(self.width):
            if copies and any(map(self.plan.types.holds_float, objects)):
                self._mirror_pointers(i, k)
                continue
            operands = [self._value(o) for o in i.operands]
            operands[0] = self._shadow(i.operands[0], k)
            if copies:
                operands[1] = self._shadow(i.operands[1], k)
            self.b.call(i.callee_name or "", VOID, operands)

    def _mirror_pointers(self, i: Instruction, lane: int) -> None:
        """Copy the shadows of pointers alone; the reverse refuses what is not known to be one."""
        try:
            copied = copied_scalars(i, self.plan.types)
        except MixedCopy:
            return
        scalars = [p for p in copied if p.type.is_pointer] if isinstance(copied, list) else []
        target, source = (self._shadow(o, lane) for o in i.operands[:2])
        found = [self.b.load(p.type, at_offset(self.b, source, p.offset), align=1) for p in scalars]
        for scalar, pointer in zip(scalars, found, strict=True):
            self.b.store(pointer, at_offset(self.b, target, scalar.offset), align=1)

    def _allocation(self, i: Instruction, copy: Instruction) -> None:
        effect = effect_of(i.callee_name)
        assert effect is not None
        if MemoryObject("allocation", i) in self.plan.retained and effect.counted:
            self._retain(copy)
        self._shadow_of_allocation(i)

    def _is_needless(self, call: Instruction) -> bool:
        """Whether a call counts, or frees, nothing but arrays in rows of the tape (O2, O3)."""
        effect = effect_of(call.callee_name)
        if effect is None:
            return False
        if effect.frees:
            objects = self.plan.memory.objects(call.operands[0])
            return any(o in self.plan.in_rows and not is_counted(o) for o in objects)
        return effect.counts and self._is_in_row(call.operands[0])

    def _allocate_in_row(self, function: str, i: Instruction) -> Value:
        """Allocate an array, or its shadow, in a row of the tape."""
        made = self.b.call(function, PTR, [self.parameters.tape, self._value(i.operands[0])])
        effect = effect_of(i.callee_name)
        assert effect is not None
        if effect.counted:
            return made
        self._fail_if_null(made)
        return self.b.load(PTR, at_offset(self.b, made, counted_memory().data_offset))

    def _shadow_of_allocation(self, i: Instruction) -> None:
        if MemoryObject("allocation", i) in self.plan.activity.active_memory:
            self.shadows[i] = per_lane(self.width, lambda _: self._new_shadow(i))

    def _new_shadow(self, i: Instruction) -> Value:
        """A shadow of memory that is allocated, of zeros, released with the tape."""
        if is_plain(i) and MemoryObject("allocation", i) not in self.plan.escaped:
            shadow = self._allocate_in_row(TAPE_SHADOW, i)
            self._fail_if_null(shadow)
            return shadow
        effect = effect_of(i.callee_name)
        assert effect is not None
        operands = [self._value(o) for o in i.operands]
        shadow = allocated_shadow(self.b, i, operands, owned=True)
        self._fail_if_null(shadow)
        self._own(GlobalRef(effect.released_by), shadow)
        clear_allocated(self.b, i, shadow, operands)
        return shadow

    def _own(self, function: GlobalRef, thing: Value) -> None:
        """Add an object to the list that is released at the end."""
        self.b.declarations.setdefault(function.name, f"declare void @{function.name}(ptr)")
        fine = self.b.call("activerules.tape.own", I1, [self.parameters.tape, function, thing])
        self._fail_unless(fine)

    def _retain(self, header: Value) -> None:
        """Hold on to counted memory as long as the tape."""
        self.b.call(counted_memory().retain, VOID, [header])
        self._own(GlobalRef(counted_memory().release), header)

    def _retain_result(self, i: Instruction, info: CallInfo) -> None:
        """Hold on to memory a call returned."""
        for address in self._result_addresses(i, info):
            self._retain(self.b.load(PTR, address))

    def _result_addresses(self, i: Instruction, info: CallInfo) -> list[Value]:
        return self._addresses(self._value(i.operands[0]), info.result_meminfos)

    def _rule(self, use: RuleUse) -> None:
        """Call the rule's augmented primal in place of the function: once, as it keeps no shadow
        where there are several lanes (D1 of `widen`).
        """
        call = use.call
        tape = self._slot(use.tape)
        ret_shadow = self._shadow(call.operands[0], 0) if use.request.result != "const" else null()
        operands = [self._value(call.operands[0]), ret_shadow, self._value(call.operands[1]), tape]
        unowned = self._unowned(use)
        operands += [
            null() if k in unowned else self._value(o)
            for k, o in enumerate(call.operands[2:], start=2)
        ]
        for k in use.shadow_operands():
            operand = call.operands[k]
            operands.append(
                self._shadow(operand, 0) if operand.type.is_pointer else self._value(operand)
            )
        status = self.b.call(use.code.augmented, I32, operands)
        self.values[call] = status
        fine = Block(self.namer("rule.ok"))
        done = Block(self.namer("rule.done"))
        failed = done if use.site is None else Block(self.namer("rule.failed"))
        # the rule's results exist only if it succeeded; the program checks the status next
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), fine, failed)
        if use.site is not None:
            self._open(failed)
            add_site(self.b, use.site, self._value(call.operands[1]), status)
            self.b.br(done)
        self._open(fine)
        self._keep_results(use, tape)
        self.b.br(done)
        self._open(done)

    def _unowned(self, use: RuleUse) -> set[int]:
        """The operands that a rule may be called without: owners of arrays that live as long as the
        tape whether or not the rule's tape counts a reference.
        """
        if not (use.info.borrows and use.code.borrows):
            return set()
        arrays = [a for a in use.info.arguments if a.kind == "memory"]
        owners = {k for a in arrays for k in a.pointers if k != a.data_operand}
        return {k for k in owners if self._outlives(use.call.operands[k])}

    def _outlives(self, pointer: Value) -> bool:
        """Whether what a pointer leads to is there as long as the tape."""
        objects, request = self.plan.memory.objects(pointer), self.plan.request
        if isinstance(pointer, Argument) and not (request.callee or request.split):
            return True
        return bool(objects) and all(map(self._is_retained, objects))

    def _is_retained(self, o: MemoryObject) -> bool:
        """Whether the tape is given a reference when an object is made."""
        if o not in self.plan.retained or not isinstance(o.key, Instruction):
            return False
        return o.kind == "allocation" or self.plan.calls.marked(o.key) is not None

    def _keep_results(self, use: RuleUse, tape: Value) -> None:
        call, info = use.call, use.info
        if use.code.drop is not None:
            self._own(GlobalRef(use.code.drop), tape)
        if MemoryObject("result", call) in self.plan.retained:
            self._retain_result(call, info)
        if use.result is not None:
            ret = self._value(call.operands[0])
            self._copy(self._slot(use.result), ret, use.result.size)
        for lane in range(self.width):
            self._keep_result_shadow(use, lane)

    def _keep_result_shadow(self, use: RuleUse, lane: int) -> None:
        """Keep the shadow of a rule's result: that of lane 0 is the rule's, others are made."""
        saved, ret = use.result_shadow, use.call.operands[0]
        if saved is None:
            return
        shadow = self._shadow(ret, lane)
        if lane:
            assert use.code.another is not None
            operands = [self._shadow(ret, 0), shadow, self._value(use.call.operands[1])]
            status = self.b.call(use.code.another, I32, operands)
            self._fail_unless(self.b.icmp("eq", status, self.b.const(I32, 0)))
        slot = at_offset(self.b, self._slot(saved), shadow_offset(saved, lane))
        self._copy(slot, shadow, saved.size)
        for address in self._addresses(shadow, use.info.result_meminfos):
            self._own(GlobalRef(counted_memory().release), self.b.load(PTR, address))

    def _callee(self, use: CalleeUse) -> None:
        """Call the augmented primal of the callee in place of the callee."""
        call = use.call
        operands: list[Value] = []
        for o, activity in zip(call.operands, use.activities, strict=True):
            operands.append(self._value(o))
            if activity == "duplicated":
                operands += [self._shadow(o, k) for k in range(self.width)]
        operands += [self.slots.address(self.b, use.frame)[0], self.parameters.tape]
        handed_back = use.returns != "status" and call.type is not VOID
        outputs: list[Value] = []
        if handed_back:
            outputs.append(self._local(call.type))
        if use.result_shadow:
            outputs.append(self._local(ArrayType(self.width, PTR)))
        status = self.b.call(suffixed(use.stem, ".enter"), I32, [*operands, *outputs])
        if use.returns == "status":
            self.values[call] = status
            self._return_if(self._has_ended(status), status)
            return
        self._return_if(self.b.icmp("ne", status, self.b.const(I32, 0)), status)
        if handed_back:
            self.values[call] = self.b.load(call.type, outputs[0])
        if use.result_shadow:
            self.shadows[call] = per_lane(
                self.width, lambda k: self.b.load(PTR, at_offset(self.b, outputs[1], 8 * k))
            )

    def _local(self, t: Type) -> Value:
        """Stack memory of the augmented primal itself: made once, at its entry."""
        made = Builder([], self.namer).alloca(t, hint="result")
        made.parent = self.blocks[0]
        self.blocks[0].instructions.insert(0, made)
        return made

    def _slot(self, node: RuleTape | SavedStruct | None) -> Value:
        return self.slots.address(self.b, node)[0] if node is not None else null()

    def _copy(self, target: Value, source: Value, size: int) -> None:
        operands = [target, source, self.b.const(I64, size), self.b.const(I1, 0)]
        self.b.call("llvm.memcpy.p0.p0.i64", VOID, operands)


def _declaration(name: str, call: Instruction) -> str:
    parameters = ", ".join(str(o.type) for o in call.operands)
    return f"declare {call.type} @{name}({parameters})"

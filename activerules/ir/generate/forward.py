"""Forward mode: the primal, with the computation of tangents added.

Needs       a ForwardPlan
Gives       the function `<name>.forward`: each parameter of the primal, if Duplicated followed by
            `width` tangents (a float) or shadow pointers; if any function is recursive, callees
            also take the lowest stack address they may use. The result is the status of the
            primal, if that is what it returns; else the tangent of the returned float (a struct of
            `width` tangents if there are several), or void if none is wanted
Invariants  F1  it computes what the primal computes, in the same order, and writes the same memory
            F2  right after each instruction, shadow memory holds the tangent of memory, and
                `tangents` that of the value
            F3  every reference the primal takes or drops is taken or dropped on the shadow as well,
                on error paths too: where the primal leaks an object, its shadow leaks
Source      Griewank and Walther (2008), section 3.1; Moses et al. (2022), Scalable Automatic
            Differentiation of Multiple Parallel Paradigms, for shadow memory in forward mode

The result is ordinary code: the engine differentiates it again like any other function.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from activerules.ir.analysis.memory.objects import UNKNOWN, MemoryObject
from activerules.ir.derivatives.table import row_for
from activerules.ir.generate.lanes import LaneBuilder, per_lane, with_scalars
from activerules.ir.generate.mirror import allocated_shadow, clear_allocated, is_dropped
from activerules.ir.generate.primal_copy import PrimalCopy, name_beside
from activerules.ir.generate.rule_sites import add_site
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import clear, names_of, null
from activerules.ir.llvm.builder import Builder, add_incoming, suffixed
from activerules.ir.llvm.model import Argument, Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import I1, I32, I64, PTR, VOID, ArrayType, StructType, Type
from activerules.ir.normal.effects import effect_of, memory_intrinsic
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.layout import stack_size
from activerules.ir.plan.marked import ForwardRuleUse
from activerules.ir.tape.runtime import STACK_DECLARATIONS, STACK_FLOOR, STACK_LEFT, TOO_DEEP
from activerules.ir.tape.struct_copies import cut_name


def build_forward(
    plan: ForwardPlan, scopes: Scopes, declarations: dict[str, str], recursive: frozenset[str]
) -> Function:
    """The forward derivative; functions it calls are added to `declarations`.

    recursive   the stems of recursive functions
    """
    return _Forwarder(plan, scopes, declarations, recursive).build()


class _Forwarder(PrimalCopy[ForwardPlan, LaneBuilder]):
    def __init__(
        self,
        plan: ForwardPlan,
        scopes: Scopes,
        declarations: dict[str, str],
        recursive: frozenset[str],
    ) -> None:
        self.recursive = recursive
        self.floor: Value | None = None
        b = LaneBuilder([], plan.request.width, names_of(plan), declarations)
        super().__init__(plan, scopes, b, {}, {})
        self.tangents: dict[Value, Value] = {}
        self.packed: dict[Value, tuple[Value, ...]] = {}
        self.function = Function(
            suffixed(plan.request.name, ".forward"),
            self._result_type(),
            self._parameters(),
            self.blocks,
            "internal" if plan.request.callee else "",
        )

    def build(self) -> Function:
        for block in self.plan.flow.order:
            self._block(block)
        self._connect()
        for block in self.plan.flow.order:
            for phi in block.phis:
                edges, tangent = self._connect_phi(phi), self.tangents.get(phi)
                if isinstance(tangent, Instruction):
                    for source, operand in edges:
                        add_incoming(tangent, self._tangent(operand), source)
        self.blocks += self.ends.values()
        with_scalars(self.function, {self.heads[loop] for loop in self.plan.scalars}, self.b)
        return self.function

    # --- parameters and result ---

    def _parameters(self) -> list[Argument]:
        arguments: list[Argument] = []
        for parameter in self.plan.request.parameters:
            old = parameter.argument
            primal = self.values[old] = Argument(old.name, old.type)
            arguments.append(primal)
            if parameter.activity == "duplicated":
                suffix = ".shadow" if old.type.is_pointer else ".tangent"
                own = [
                    Argument(self.namer(name_beside(old.name, suffix)), old.type)
                    for _ in range(self.width)
                ]
                (self.shadows if old.type.is_pointer else self.packed)[old] = tuple(own)
                arguments += own
        floor: list[Argument] = []
        if self.recursive and self.plan.request.callee:
            self.floor = Argument(self.namer("floor"), I64)
            floor = [self.floor]
        self.results = self._result_parameters()
        return [*arguments, *floor, *self.results]

    def _result_parameters(self) -> list[Argument]:
        """The parameters to which a callee stores its result and its tangents or shadows."""
        request, returned = self.plan.request, self.plan.request.returned
        if not request.callee or returned.kind == "status" or request.function.result == VOID:
            return []
        derived = returned.kind == "active" or returned.shadow
        return [Argument(self.namer("result"), PTR) for _ in range(1 + derived)]

    def _result_type(self) -> Type:
        result = self.plan.request.function.result
        if self.plan.request.returned.kind == "status":
            return result
        if self.plan.request.callee:
            return I32
        if self.plan.request.returned.kind != "active":
            return VOID
        return result if self.width == 1 else StructType((result,) * self.width)

    def _ret(self, end: Instruction) -> None:
        if self.plan.request.returned.kind == "status":
            self._clone(end)
            return
        if self.plan.request.callee:
            self._hand_back(end)
            return
        if self.plan.request.returned.kind != "active":
            self.b.ret()
            return
        tangent = self._tangent(end.operands[0])
        if self.width == 1:
            self.b.ret(tangent)
            return
        result: Value = Constant(self.function.result, "poison")
        for k in range(self.width):
            result = self.b.insertvalue(result, self.b.lane(tangent, k), k)
        self.b.ret(result)

    # --- values and tangents ---

    def _tangent(self, value: Value) -> Value:
        """The tangent of a float in all lanes; zero if it is not varied."""
        return self.tangents.get(value) or self.b.zero(value.type)

    # --- blocks ---

    def _block(self, block: Block) -> None:
        self._open(self.heads[block])
        live = block in self.plan.returns.live
        phis = list(block.phis)
        for phi in phis:
            self._clone(phi)
        for phi in phis:
            self._begin_phi(phi)
            self._begin_tangent(phi, live)
        if block is self.plan.flow.order[0]:
            for argument, lanes in self.packed.items():
                self.tangents[argument] = self.b.pack(lanes)
            if self.recursive and self.floor is None:
                self.b.declarations |= STACK_DECLARATIONS
                limit = self.b.const(I64, self.plan.request.limits.stack)
                self.floor = self.b.call(STACK_FLOOR, I64, [limit])
        for i in block.instructions[len(phis) : -1]:
            self._instruction(i, live)
        if block.terminator.opcode == "ret":
            self._ret(block.terminator)
        else:
            self._clone(block.terminator)
        self.tails[block] = self.current

    def _begin_tangent(self, phi: Instruction, live: bool) -> None:
        if live and phi.type.is_float and self.plan.activity.is_active(phi):
            hint = name_beside(phi.name or "", ".tangent")
            self.tangents[phi] = self.b.phi(self.b.packed(phi.type), hint=hint)

    def _leave(self, b: Builder, status: Value) -> None:
        if self.plan.request.returned.kind == "status" or self.plan.request.callee:
            super()._leave(b, status)
        else:
            b.call("llvm.trap", VOID, [])
            b.unreachable()

    # --- instructions ---

    def _instruction(self, i: Instruction, live: bool) -> None:
        if i.opcode == "call":
            self._call(i, live)
            return
        self._clone(i)
        if i.opcode == "store":
            self._store(i, live)
        elif i.opcode == "alloca":
            self._alloca(i)
        elif i.type.is_pointer:
            self._pointer(i, live)
        elif live and i.type.is_float and self.plan.activity.is_active(i):
            self._float(i)

    def _alloca(self, i: Instruction) -> None:
        if not self.plan.activity.has_shadow(i):
            return
        t, align = i.attributes["allocated"], i.attributes.get("align")
        size = self.b.const(I64, stack_size(i, self.plan.memory.named_types))
        self.shadows[i] = per_lane(
            self.width, lambda _: self.b.alloca(t, *i.operands, align=align, hint="shadow")
        )
        for shadow in self.shadows[i]:
            clear(self.b, shadow, size)

    def _pointer(self, i: Instruction, live: bool) -> None:
        if not self.plan.activity.has_shadow(i):
            return
        # on error paths it is not known that the memory that is read has a shadow
        if i.opcode == "load" and not live and not self.plan.is_shadowed(i.operands[0]):
            return
        scope = partial(self._scope, i.operands[0]) if i.opcode == "load" else None
        self._derive_shadow(i, scope)

    def _float(self, i: Instruction) -> None:
        match i.opcode:
            case "load":
                align, at = i.attributes.get("align"), i.operands[0]
                self.tangents[i] = self.b.pack(
                    [
                        self.b.load(i.type, self._shadow(at, k), align, metadata=self._scope(at, k))
                        for k in range(self.width)
                    ]
                )
            case "select":
                condition, x, y = i.operands
                chosen = self.b.select(self._value(condition), self._tangent(x), self._tangent(y))
                self.tangents[i] = chosen
            case _:
                self._arithmetic(i)

    def _arithmetic(self, i: Instruction) -> None:
        row = row_for(i)
        assert row is not None, f"W1: {i!r}"
        tangents = [self.tangents.get(o) for o in i.operands]
        access = row.access(i, [t is not None for t in tangents], self._value)

        def term(k: int, tangent: Value, product: Value) -> Value:
            absorbs = (i, k) in self.plan.absorbing
            return self.b.zero_where_zero(tangent, product) if absorbs else product

        tangent = row.tangent(self.b, access, tangents, term)
        if tangent is not None:
            self.tangents[i] = tangent

    def _scope(self, pointer: Value, lane: int) -> str:
        """The alias scopes of the shadow memory of a pointer of the primal."""
        return self.scopes.shadow_access(self.plan.memory.objects(pointer), lane)

    def _store(self, i: Instruction, live: bool) -> None:
        value, pointer = i.operands
        if not self.plan.activity.has_shadow(pointer):
            return
        if not live and not self.plan.is_shadowed(pointer):
            return
        align = i.attributes.get("align")
        for k in range(self.width):
            stored = self._stored(i, value, k)
            if stored is not None:
                scope = self._scope(pointer, k)
                self.b.store(stored, self._shadow(pointer, k), align, metadata=scope)

    def _stored(self, i: Instruction, value: Value, lane: int) -> Value | None:
        """The value to store to shadow memory; None if there is nothing to store."""
        if value.type.is_float:
            return self.b.lane(self._tangent(value), lane)
        if value.type.is_pointer:
            return self._shadow(value, lane)
        if i in self.plan.zeroed:
            return self.b.const(value.type, 0)
        return self._value(value) if i in self.plan.copied else None

    # --- calls ---

    def _call(self, i: Instruction, live: bool) -> None:
        if is_dropped(i):
            return
        if i in self.plan.rules:
            self._rule(self.plan.rules[i])
            return
        if live and i in self.plan.derived:
            self._callee(self.plan.derived[i])
            return
        copy = self._clone(i)
        info = self.plan.calls.marked(i)
        if info is not None:
            self._call_primal(copy, info.primal_symbol)
            self._forget_result(i.operands[0], info.result_size)
            return
        if live and i.type.is_float and self.plan.activity.is_active(i):
            self._arithmetic(i)
        self._after_call(i, live)

    def _after_call(self, i: Instruction, live: bool) -> None:
        effect = effect_of(i.callee_name)
        if effect is None:
            return
        if effect.allocates:
            self._allocation(i)
        elif effect.returns is not None:
            self._pointer(i, live)
            if effect.resizes is not None:
                for shadow in self.shadows.get(i, ()):
                    self._fail_if_null(shadow)
        elif effect.mirrored:
            self._repeat(i, effect.mirrored)
        elif live and memory_intrinsic(i):
            self._memory(i)

    def _repeat(self, i: Instruction, mirrored: Sequence[int]) -> None:
        """Repeat a call on the shadows of its `mirrored` operands."""
        if not all(self.plan.activity.has_shadow(i.operands[k]) for k in mirrored):
            return
        for lane in range(self.width):
            operands = [
                self._shadow(o, lane) if k in mirrored else self._value(o)
                for k, o in enumerate(i.operands)
            ]
            self.b.call(i.callee_name or "", i.type, operands)

    def _allocation(self, i: Instruction) -> None:
        if not self.plan.activity.has_shadow(i):
            return
        operands = [self._value(o) for o in i.operands]
        plain = not self._refers_to_shadows(i)
        shadows = per_lane(self.width, lambda _: allocated_shadow(self.b, i, operands, plain=plain))
        self.shadows[i] = shadows
        for shadow in shadows:
            self._fail_if_null(shadow)
            clear_allocated(self.b, i, shadow, operands)

    def _refers_to_shadows(self, i: Instruction) -> bool:
        """Whether the shadow of an allocation may hold pointers to other shadows. Its destructor
        would release these, and it may not accept null pointers.
        """
        activity = self.plan.activity
        pointees = activity.memory.pointees(MemoryObject("allocation", i))
        return UNKNOWN in pointees or not activity.active_memory.isdisjoint(pointees)

    def _memory(self, i: Instruction) -> None:
        """Repeat memcpy and memmove on the shadow; clear it for memset, and where the source has no
        shadow.
        """
        target, second, length = i.operands[:3]
        if not self.plan.activity.has_shadow(target):
            return
        copies = memory_intrinsic(i) != "memset" and self.plan.activity.has_shadow(second)
        size = self._value(length)
        wide = size if size.type == I64 else self.b.cast("zext", size, I64)
        cut = self.plan.cuts.get(i)
        for k in range(self.width):
            if copies:
                operands = [self._value(o) for o in i.operands]
                operands[0], operands[1] = self._shadow(target, k), self._shadow(second, k)
                self.b.call(i.callee_name or "", VOID, operands)
            else:
                clear(self.b, self._shadow(target, k), wide)
            if cut is not None:
                target_shadow = self._shadow(target, k)
                second_shadow = self._shadow(second, k) if copies else target_shadow
                self.b.call(cut_name(cut), VOID, [target_shadow, second_shadow, wide])

    def _rule(self, use: ForwardRuleUse) -> None:
        """Call the forward rule instead of the function."""
        call = use.call
        ret, excinfo, *primals = call.operands
        duplicated = use.request.result == "duplicated"
        shadows = [self._shadow(ret, k) if duplicated else null() for k in range(self.width)]
        operands = [self._value(ret), *shadows, self._value(excinfo), *map(self._value, primals)]
        for operand in use.duplicated():
            operands += self._lanes(operand)
        status = self.values[call] = self.b.call(use.code.symbol, I32, operands)
        if not duplicated:
            self._forget_result(ret, use.info.result_size)
        if use.site is not None or use.caught:
            failed, done = Block(self.namer("rule.failed")), Block(self.namer("rule.done"))
            self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), done, failed)
            self._open(failed)
            add_site(self.b, use.site, self._value(excinfo), status)
            if use.caught:
                self._return_if(self._has_ended(status), status, call, raised=True)
            self.b.br(done)
            self._open(done)

    def _callee(self, use: CalleeUse) -> None:
        """Call the forward derivative of the callee instead of the callee."""
        call, operands = use.call, self._passed(use)
        if self.floor is not None:
            operands.append(self.floor)
        outputs: list[Value] = []
        if use.returned.kind != "status" and call.type != VOID:
            outputs.append(self._local(call.type))
            if use.returned.kind == "active" or use.returned.shadow:
                outputs.append(self._local(ArrayType(self.width, call.type)))
        if self.floor is not None and use.stem in self.recursive:
            self._fail_unless(self.b.call(STACK_LEFT, I1, [self.floor]), TOO_DEEP)
        status = self.b.call(suffixed(use.stem, ".forward"), I32, [*operands, *outputs])
        if use.returned.kind == "status":
            self.values[call] = status
        self._return_if(self._has_ended(status), status, call, raised=use.has_rules)
        if outputs:
            self.values[call] = self.b.load(call.type, outputs[0])
        if len(outputs) > 1:
            lanes = [
                self.b.load(call.type, self._lane_address(outputs[1], call.type, k))
                for k in range(self.width)
            ]
            if use.returned.shadow:
                self.shadows[call] = tuple(lanes)
            else:
                self.tangents[call] = self.b.pack(lanes)

    def _lanes(self, operand: Value) -> list[Value]:
        """The shadow of a pointer, or the tangent of a float, in each lane; any other operand
        itself.
        """
        if operand.type.is_pointer:
            return super()._lanes(operand)
        if not operand.type.is_float:
            return [self._value(operand)] * self.width
        return [self.b.lane(self._tangent(operand), k) for k in range(self.width)]

    def _forget_result(self, ret: Value, size: int) -> None:
        """Clear the shadow of the memory in which a call without derivative returns its result: an
        earlier call may have written there.
        """
        if self.plan.is_shadowed(ret):
            for k in range(self.width):
                clear(self.b, self._shadow(ret, k), self.b.const(I64, size))

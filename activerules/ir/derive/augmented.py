"""The augmented primal: the primal that also keeps what the reverse sweep needs and makes shadows.

Needs       a Plan and its Layout
Gives       the function `<name>.augmented`, status as result: 0; the primal's status on its error
            paths; out of memory
Invariants  P1  it computes what the primal computes, in the same order, and writes the same memory
            P2  shadow memory that was passed in is read and written only to copy pointers and
                integers, never floats
            P3  every reference it takes is on the list of owned objects before anything else can
                fail
            P4  a kept value is stored once per iteration of its home loop, right behind its
                definition
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from activerules.ir.analysis.copies import MixedCopy, copied_pieces, has_pointers
from activerules.ir.analysis.nodes import (
    LeavingIteration,
    Link,
    Node,
    Primal,
    RuleTape,
    SavedStruct,
    Shadow,
    Taken,
)
from activerules.ir.analysis.objects import MemoryObject
from activerules.ir.builder import Builder, add_incoming, displaced
from activerules.ir.cfg import Loop
from activerules.ir.constants import constant
from activerules.ir.derive.callees import CalleeUse
from activerules.ir.derive.constant_shadows import shadow_of_constant
from activerules.ir.derive.layout import Layout, stack_size, taken_type
from activerules.ir.derive.mirror import (
    allocated_shadow,
    clear_allocated,
    derived_shadow,
    is_dropped,
)
from activerules.ir.derive.plan import Plan, RuleUse
from activerules.ir.derive.runtime import OUT_OF_MEMORY, TOO_DEEP
from activerules.ir.derive.scopes import Scopes
from activerules.ir.derive.sweep import (
    RowState,
    Slots,
    clear,
    clone,
    make_parameters,
    names_of,
    null,
    result_parameters,
    suffixed,
)
from activerules.ir.model import Block, Function, GlobalRef, Instruction, Value
from activerules.ir.runtime_calls import RELEASING, UNSIZED, effect_of, memory_intrinsic
from activerules.ir.types import I1, I8, I32, I64, PTR, VOID, Type


def build_augmented(
    plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
) -> Function:
    """The augmented primal as a new function; names it calls are added to `declarations`."""
    return _Augmenter(plan, layout, scopes, declarations).build()


class _Augmenter:
    def __init__(
        self, plan: Plan, layout: Layout, scopes: Scopes, declarations: dict[str, str]
    ) -> None:
        self.plan, self.layout = plan, layout
        self.results = result_parameters(plan.request)
        self.parameters = make_parameters(plan, self.results)
        self.values: dict[Value, Value] = dict(self.parameters.primal)
        self.shadows: dict[Value, Value] = dict(self.parameters.shadow)
        self.namer = names_of(plan)
        self.b = Builder([], self.namer, declarations)
        self.blocks: list[Block] = []
        self.heads: dict[Block, Block] = {b: Block(b.name) for b in plan.flow.order}
        self.tails: dict[Block, Block] = {}
        self.clones: list[Instruction] = []
        self.later: list[Callable[[], None]] = []
        self.taken: dict[Block, Instruction] = {}
        self.edges: dict[tuple[Block, Block], Block] = {}
        self.slots = Slots(plan, layout, self.parameters.frame, scopes)
        self.current = Block("")
        self.function = Function(
            suffixed(plan.request.name, ".augmented"),
            I32,
            self.parameters.arguments,
            self.blocks,
            "internal",
            "alwaysinline",
        )
        self.failure = Block(self.namer("out_of_memory"))

    def build(self) -> Function:
        for block in self.plan.flow.order:
            self._block(block)
        for copy in self.clones:
            copy.operands = [self._value(o) for o in copy.operands]
            if copy.opcode != "phi":
                copy.blocks = [self.heads[t] for t in copy.blocks]
        for action in self.later:
            action()
        for block in self.plan.flow.order:
            self._phis(block)
        self._split_exits()
        self._open(self.failure)
        self.b.ret(self.b.const(I32, OUT_OF_MEMORY))
        for block in self.blocks:
            block.parent = self.function
        return self.function

    # --- values ---

    def _value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def _shadow(self, value: Value) -> Value:
        """The shadow of a pointer; null where it has none (it is then never followed)."""
        constant_shadow = shadow_of_constant(value, self.plan, self.b.declarations)
        if constant_shadow is not None:
            return constant_shadow
        return self.shadows.get(value, null())

    def _kept(self, node: Node) -> bool:
        return node in self.plan.cache.kept

    def _keep(self, node: Node, value: Value) -> None:
        if self._kept(node):
            self.slots.write(self.b, node, value)

    # --- blocks ---

    def _open(self, block: Block) -> None:
        self.blocks.append(block)
        self.current = block
        self.b.target = block

    def _block(self, block: Block) -> None:
        self._open(self.heads[block])
        if block is self.plan.flow.order[0]:
            self._clear_stack_shadows()
        live = block in self.plan.returns.live
        phis = list(block.phis)
        for phi in phis:
            self._clone(phi)
        if live:
            self._begin(block, phis)
        for i in block.instructions[len(phis) : -1]:
            self._instruction(i, live)
        if live:
            self._end(block)
        self._terminator(block)
        self.tails[block] = self.current

    def _begin(self, block: Block, phis: list[Instruction]) -> None:
        for phi in phis:
            if phi.type.is_pointer and self.plan.activity.has_shadow(phi):
                self.shadows[phi] = self.b.phi(
                    PTR, hint=suffixed(phi.name or "", ".shadow").strip('"')
                )
        taken = None
        if self._kept(Taken(block)):
            taken = self.b.phi(taken_type(self.plan, block))
            self.taken[block] = taken
        loop = self.plan.flow.loop_of(block)
        if loop is not None and loop.header is block and loop in self.plan.reversal.loops:
            self._enter_iteration(loop)
        if taken is not None:
            self._keep(Taken(block), taken)
        for phi in phis:
            self._keep(Primal(phi), self.values[phi])
            if phi in self.shadows:
                self._keep(Shadow(phi), self.shadows[phi])

    def _end(self, block: Block) -> None:
        """Before the terminator of the preheader of a loop of known length: reserve its rows."""
        target = block.successors[0] if len(block.successors) == 1 else None
        loop = self.plan.flow.loop_of(target) if target is not None else None
        if (
            loop is None
            or loop.preheader is not block
            or target is not loop.header
            or loop not in self.plan.reversal.loops
        ):
            return
        count = self.plan.loops[loop].trip_count
        if count is None:
            return
        rows = self.layout.rows.get(loop)
        if rows is None and not self._kept(LeavingIteration(loop)):
            return
        leaving = count.emit(self.b, self._value(count.start), self._value(count.bound))
        self._keep(LeavingIteration(loop), leaving)
        if rows is not None:
            number = self.b.binary("add", leaving, self.b.const(I64, 1))
            base = self.b.call(
                "activerules.tape.reserve_rows",
                PTR,
                [self.parameters.tape, number, self.b.const(I64, rows.size)],
            )
            self._fail_if_null(base)
            self.slots.write(self.b, Link(loop), base)
            self.slots.state[loop] = RowState(base, number, None)

    def _enter_iteration(self, loop: Loop) -> None:
        """At the start of an iteration: count it, and have a row for it."""
        rows = self.layout.rows.get(loop)
        known = self.plan.loops[loop].trip_count is not None
        leaving = self._kept(LeavingIteration(loop)) and not known
        if rows is None and not leaving:
            return
        iteration = self.b.phi(I64, hint="iteration") if known or leaving else None
        chain = None if known else rows
        previous = self.b.phi(PTR, hint="row.before") if chain is not None else None
        if iteration is not None:
            following = self.b.binary("add", iteration, self.b.const(I64, 1))
            zero = self.b.const(I64, 0)
            self.later.append(partial(self._close_phi, iteration, loop, zero, following))
        if known:
            self.slots.state[loop].iteration = iteration
            return
        row: Value = null()
        if chain is not None and previous is not None:
            size = self.b.const(I64, chain.size)
            row = self.b.call("activerules.tape.reserve", PTR, [self.parameters.tape, size])
            self._fail_if_null(row)
            self.b.store(previous, row)
            self.later.append(partial(self._close_phi, previous, loop, null(), row))
        self.slots.state[loop] = RowState(row, None, iteration)

    def _close_phi(self, phi: Instruction, loop: Loop, start: Value, following: Value) -> None:
        for p in self.plan.flow.predecessors[loop.header]:
            add_incoming(phi, start if p is loop.preheader else following, self.tails[p])

    def _phis(self, block: Block) -> None:
        """Give the phis of a block their incoming blocks, and fill those of shadows."""
        taken = self.taken.get(block)
        live = self.plan.returns.predecessors.get(block, ())
        predecessors = self.plan.flow.predecessors[block]
        for phi in block.phis:
            clone, shadow = self.values[phi], self.shadows.get(phi)
            assert isinstance(clone, Instruction)
            incoming = list(zip(phi.blocks, phi.operands, clone.operands, strict=True))
            incoming = [edge for edge in incoming if edge[0] in predecessors]
            clone.blocks = [self.tails[source] for source, _, _ in incoming]
            clone.operands = [value for _, _, value in incoming]
            if isinstance(shadow, Instruction):
                for source, operand, _ in incoming:
                    add_incoming(shadow, self._shadow(operand), self.tails[source])
        if taken is not None:
            for source in predecessors:
                number = live.index(source) if source in live else 0
                add_incoming(taken, constant(taken.type, number), self.tails[source])

    def _split_exits(self) -> None:
        """On the edges out of a loop of unknown length, keep where the reverse sweep enters it.

        That is which iteration left the loop, and where the last row is.
        """
        for loop in self.plan.reversal.loops:
            if self.plan.loops[loop].trip_count is not None:
                continue
            if loop not in self.layout.rows and not self._kept(LeavingIteration(loop)):
                continue
            for inside, outside in self.plan.returns.exits_of(loop):
                self._open(self._edge(inside, outside))
                state = self.slots.state[loop]
                end = self.current.instructions.pop()
                if self._kept(LeavingIteration(loop)):
                    assert state.iteration is not None
                    self.slots.write(self.b, LeavingIteration(loop), state.iteration)
                if loop in self.layout.rows:
                    self.slots.write(self.b, Link(loop), state.base)
                self.current.append(end)

    def _edge(self, inside: Block, outside: Block) -> Block:
        """A block of its own on the edge; made once."""
        made = self.edges.get((inside, outside))
        if made is not None:
            self.blocks.remove(made)
            return made
        edge = self.edges[inside, outside] = Block(self.namer("leave"))
        Builder(edge, self.namer).br(self.heads[outside])
        tail = self.tails[inside]
        tail.terminator.blocks = [
            edge if t is self.heads[outside] else t for t in tail.terminator.blocks
        ]
        for phi in self.heads[outside].phis:
            phi.blocks = [edge if t is tail else t for t in phi.blocks]
        return edge

    def _terminator(self, block: Block) -> None:
        end = block.terminator
        if end.opcode != "ret":
            copy = self._clone(end)
            loop = self.plan.flow.loop_of(block)
            if loop is not None and loop.latch is block:
                serial = not loop.children and any(p.type.is_float for p in loop.header.phis)
                copy.attributes["metadata"] = self.slots.scopes.loop(serial=serial)
            return
        if self.plan.request.returns == "status":
            self._clone(end)
        else:
            self.later.append(partial(self._hand_back, end, self.current))

    def _hand_back(self, end: Instruction, block: Block) -> None:
        """Leave what the primal returns where the caller of a callee looks for it."""
        self.b.target = block
        for place, of in zip(self.results, (self._value, self._shadow), strict=False):
            self.b.store(of(end.operands[0]), place)
        self.b.ret(self.b.const(I32, 0))

    def _fail_if_null(self, pointer: Value) -> None:
        self._fail_unless(self.b.icmp("ne", pointer, null()))

    def _fail_unless(self, fine: Value) -> None:
        following = Block(self.namer("ok"))
        self.b.cond_br(fine, following, self.failure)
        self._open(following)

    # --- instructions ---

    def _clone(self, i: Instruction) -> Instruction:
        copy = clone(i, self.plan.memory, self.slots.scopes)
        self.current.append(copy)
        self.values[i] = copy
        self.clones.append(copy)
        return copy

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
            if i in self.shadows:
                self._keep(Shadow(i), self.shadows[i])

    def _stack(self, i: Instruction) -> None:
        self.values[i] = self.slots.frame_address(self.b, self.layout.stack[i, False])
        if (i, True) in self.layout.stack:
            self.shadows[i] = self.slots.frame_address(self.b, self.layout.stack[i, True])

    def _clear_stack_shadows(self) -> None:
        for (i, shadow), offset in self.layout.stack.items():
            if shadow:
                size = self.b.const(I64, stack_size(i, self.plan))
                clear(self.b, self.slots.frame_address(self.b, offset), size)

    def _mirror(self, i: Instruction) -> None:
        """Repeat address arithmetic, and copies of pointers and integers, on shadow memory."""
        if i.opcode == "store":
            self._mirror_store(i)
            return
        if not i.type.is_pointer or not self.plan.activity.has_shadow(i):
            return
        shadow = derived_shadow(self.b, i, self._value, self._shadow)
        if shadow is not None:
            self.shadows[i] = shadow

    def _mirror_store(self, i: Instruction) -> None:
        value, pointer = i.operands
        if value.type.is_float or not self.plan.activity.has_shadow(pointer):
            return
        request, objects = self.plan.request, self.plan.memory.objects(pointer)
        if value.type.is_pointer:
            if all(o.is_local or o in request.mirrored for o in objects):
                self.b.store(self._shadow(value), self._shadow(pointer))
        elif all(o.is_local or o in request.copied_integers for o in objects) and not (
            self.plan.types.touches_floats(i)
        ):
            self.b.store(self._value(value), self._shadow(pointer))

    # --- calls ---

    def _call(self, i: Instruction, live: bool) -> None:
        name = i.callee_name or ""
        if is_dropped(i):
            return
        if live and i in self.plan.rules:
            self._rule(self.plan.rules[i])
            return
        if live and i in self.plan.derived:
            self._callee(self.plan.derived[i])
            return
        info = self.plan.calls.marked(i)
        if live and name in RELEASING and self._leads_to_retained(i.operands[0]):
            self._own(GlobalRef(UNSIZED.get(name, name)), self._value(i.operands[0]))
            return
        copy = self._clone(i)
        if info is not None:
            copy.callee = GlobalRef(info.primal_symbol)
            self.b.declarations.setdefault(info.primal_symbol, _declaration(info.primal_symbol, i))
            if live:
                self._retain_result(i, info.result_meminfos)
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
            if effect.resizes is not None and i in self.shadows:
                self._fail_if_null(self.shadows[i])
        elif memory_intrinsic(i) and self.plan.activity.has_shadow(i.operands[0]):
            self._mirror_intrinsic(i)

    def _mirror_intrinsic(self, i: Instruction) -> None:
        """Repeat copies of structs where the memory holds pointers; floats are undone instead."""
        objects = self.plan.memory.objects(i.operands[0])
        if not has_pointers(i.operands[0], self.plan.types) or not all(o.is_local for o in objects):
            return
        if memory_intrinsic(i) != "memset" and any(map(self.plan.types.holds_float, objects)):
            self._mirror_pointers(i)
            return
        operands = [self._value(o) for o in i.operands]
        operands[0] = self._shadow(i.operands[0])
        if memory_intrinsic(i) != "memset":
            operands[1] = self._shadow(i.operands[1])
        self.b.call(i.callee_name or "", VOID, operands)

    def _mirror_pointers(self, i: Instruction) -> None:
        """Copy the shadows of pointers alone; the reverse refuses what is not known to be one."""
        try:
            copied = copied_pieces(i, self.plan.types)
        except MixedCopy:
            return
        pieces = [p for p in copied if p.type.is_pointer] if isinstance(copied, list) else []
        target, source = self._shadow(i.operands[0]), self._shadow(i.operands[1])
        found = [self.b.load(p.type, displaced(self.b, source, p.offset), align=1) for p in pieces]
        for piece, pointer in zip(pieces, found, strict=True):
            self.b.store(pointer, displaced(self.b, target, piece.offset), align=1)

    def _allocation(self, i: Instruction, copy: Instruction) -> None:
        effect = effect_of(i.callee_name)
        assert effect is not None
        memory = MemoryObject("allocation", i)
        if memory in self.plan.retained and effect.counted:
            self.b.call("NRT_incref", VOID, [copy])
            self._own(GlobalRef("NRT_decref"), copy)
        if memory not in self.plan.activity.active_memory:
            return
        operands = [self._value(o) for o in i.operands]
        shadow = allocated_shadow(self.b, i, operands, owned=True)
        self._fail_if_null(shadow)
        release = "NRT_Free" if i.callee_name == "NRT_Allocate" else "free"
        self._own(GlobalRef("NRT_decref" if effect.counted else release), shadow)
        clear_allocated(self.b, i, shadow, operands)
        self.shadows[i] = shadow

    def _own(self, function: GlobalRef, thing: Value) -> None:
        """Put an object on the list of what is released at the end."""
        self.b.declarations.setdefault(function.name, f"declare void @{function.name}(ptr)")
        fine = self.b.call("activerules.tape.own", I1, [self.parameters.tape, function, thing])
        self._fail_unless(fine)

    def _retain_result(self, i: Instruction, meminfos: tuple[int, ...]) -> None:
        """Hold on to memory a call returned, if the reverse reads it."""
        if MemoryObject("result", i) not in self.plan.retained:
            return
        for offset in meminfos:
            place = self.b.gep(I8, self._value(i.operands[0]), [self.b.const(I64, offset)])
            meminfo = self.b.load(PTR, place)
            self.b.call("NRT_incref", VOID, [meminfo])
            self._own(GlobalRef("NRT_decref"), meminfo)

    def _rule(self, use: RuleUse) -> None:
        """Call the rule's augmented primal in place of the function."""
        call = use.call
        tape = self._slot(use.tape)
        ret_shadow = self._shadow(call.operands[0]) if use.request.result != "const" else null()
        operands = [self._value(call.operands[0]), ret_shadow, self._value(call.operands[1]), tape]
        operands += [self._value(o) for o in call.operands[2:]]
        for k in use.shadow_operands():
            operand = call.operands[k]
            operands.append(
                self._shadow(operand) if operand.type.is_pointer else self._value(operand)
            )
        status = self.b.call(use.code.augmented, I32, operands)
        self.values[call] = status
        fine = Block(self.namer("rule.ok"))
        failed = Block(self.namer("rule.done"))
        # the rule's results exist only if it succeeded; the program checks the status next
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), fine, failed)
        self._open(fine)
        self._keep_results(use, tape)
        self.b.br(failed)
        self._open(failed)

    def _callee(self, use: CalleeUse) -> None:
        """Call the augmented primal of the callee in place of the callee."""
        call = use.call
        operands: list[Value] = []
        for o, activity in zip(call.operands, use.activities, strict=True):
            operands.append(self._value(o))
            if activity == "duplicated":
                operands.append(self._shadow(o))
        operands += [self.slots.address(self.b, use.frame)[0], self.parameters.tape]
        handed_back = use.returns != "status" and call.type is not VOID
        places: list[Value] = []
        if handed_back:
            places.append(self._local(call.type))
        if use.result_shadow:
            places.append(self._local(PTR))
        status = self.b.call(suffixed(use.stem, ".enter"), I32, [*operands, *places])
        if use.returns == "status":
            self.values[call] = status
            for end in (OUT_OF_MEMORY, TOO_DEEP):
                self._return_unless("ne", status, end)
            return
        self._return_unless("eq", status, 0)
        if handed_back:
            self.values[call] = self.b.load(call.type, places[0])
        if use.result_shadow:
            self.shadows[call] = self.b.load(PTR, places[1])

    def _local(self, t: Type) -> Value:
        """Stack memory of the augmented primal itself: made once, at its entry."""
        made = Builder([], self.namer).alloca(t, hint="result")
        made.parent = self.blocks[0]
        self.blocks[0].instructions.insert(0, made)
        return made

    def _return_unless(self, predicate: str, status: Value, number: int) -> None:
        failed, fine = Block(self.namer("callee.failed")), Block(self.namer("callee.ok"))
        self.b.cond_br(self.b.icmp(predicate, status, self.b.const(I32, number)), fine, failed)
        self._open(failed)
        self.b.ret(status)
        self._open(fine)

    def _keep_results(self, use: RuleUse, tape: Value) -> None:
        if use.code.drop is not None:
            self.b.declarations.setdefault(use.code.drop, f"declare void @{use.code.drop}(ptr)")
            self._own(GlobalRef(use.code.drop), tape)
        if use.result is not None:
            self._retain_result(use.call, use.info.result_meminfos)
        for saved, source in ((use.result, self._value), (use.result_shadow, self._shadow)):
            if saved is not None:
                self._copy(self._slot(saved), source(use.call.operands[0]), saved.size)
        if use.result_shadow is not None:
            for offset in use.info.result_meminfos:
                place = self.b.gep(
                    I8, self._shadow(use.call.operands[0]), [self.b.const(I64, offset)]
                )
                self._own(GlobalRef("NRT_decref"), self.b.load(PTR, place))

    def _slot(self, node: RuleTape | SavedStruct | None) -> Value:
        return self.slots.address(self.b, node)[0] if node is not None else null()

    def _copy(self, target: Value, source: Value, size: int) -> None:
        operands = [target, source, self.b.const(I64, size), self.b.const(I1, 0)]
        self.b.call("llvm.memcpy.p0.p0.i64", VOID, operands)


def _declaration(name: str, call: Instruction) -> str:
    parameters = ", ".join(str(o.type) for o in call.operands)
    return f"declare {call.type} @{name}({parameters})"

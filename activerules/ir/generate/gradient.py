"""The combined gradient: augmented primal, then reverse, with frame and tape on the stack.

Gives, by what the primal returns:

    status      i32 <name>.gradient(parameters with shadows, ptr derivatives, ptr stats): the status
                of the primal, of a rule that failed, or OUT_OF_MEMORY; `stats` is null or receives
                the bytes the tape used, as an i64
    otherwise   { derivatives } <name>.gradient(parameters with shadows[, seeds]); exhausted memory
                is a trap

Both sweeps are inlined into it, so that LLVM keeps the frame in registers, unless they are very
long. The tape is released in any case.
"""

from __future__ import annotations

from activerules.ir.generate.cotangents import derivatives_type, seeds_of
from activerules.ir.generate.sweep import make_parameters, names_of, null, result_parameters
from activerules.ir.llvm.builder import Builder, Namer, at_offset, suffixed
from activerules.ir.llvm.model import Argument, Block, Function, Value
from activerules.ir.llvm.types import I1, I32, I64, PTR, VOID, StructType, Type
from activerules.ir.normal.effects import counted_memory
from activerules.ir.plan.layout import Layout, stack_type
from activerules.ir.plan.plan import Plan
from activerules.ir.tape.runtime import OUT_OF_MEMORY, STACK_CHUNK, TAPE_SIZE, TOO_DEEP


def build_gradient(
    plan: Plan, layout: Layout, uses_tape: bool, declarations: dict[str, str]
) -> Function:
    """The gradient as a new function that calls the two sweeps."""
    return _Gradient(plan, layout, uses_tape, declarations).build()


class _Gradient:
    def __init__(
        self, plan: Plan, layout: Layout, uses_tape: bool, declarations: dict[str, str]
    ) -> None:
        self.plan, self.layout, self.uses_tape = plan, layout, uses_tape
        self.status = plan.request.returned.kind == "status"
        self.namer = Namer("ar", {a.name for a in plan.request.function.arguments})
        self.entry = Block(self.namer("entry"))
        self.b = Builder(self.entry, self.namer, declarations)

    def build(self) -> Function:
        plan = self.plan
        extra = self._extra_parameters()
        parameters = make_parameters(plan, extra)
        arguments = parameters.arguments[: -2 - len(extra)]
        fields = derivatives_type(plan)
        result: Type = I32 if self.status else (fields if fields.elements else VOID)
        blocks = [self.entry]
        function = Function(
            suffixed(plan.request.name, ".gradient"), result, [*arguments, *extra], blocks
        )
        derivatives: Value = extra[0] if self.status else self.b.alloca(fields, hint="derivatives")
        frame, tape = self._storage()
        inner: list[Value] = [*arguments, frame, tape]
        status = self.b.call(suffixed(plan.request.name, ".augmented"), I32, inner)
        reverse, done = Block(self.namer("reverse")), Block(self.namer("done"))
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), reverse, done)
        blocks += [reverse, done]
        self.b.target = reverse
        seeds = [] if self.status else extra
        second = self.b.call(
            suffixed(plan.request.name, ".reverse"), I32, [*inner, *seeds, derivatives]
        )
        last = self._release_result(second, done, blocks)
        self.b.target = done
        outcome = self.b.phi(I32, [(status, self.entry), *((second, block) for block in last)])
        if self.status:
            self._report(extra[1], tape, blocks)
        if self.uses_tape:
            self.b.call("activerules.tape.release", VOID, [tape])
        for address, release in self._owned(frame):
            self._release(self.b.load(PTR, address), release, blocks)
        if self.status:
            self.b.ret(outcome)
        else:
            self._return_derivatives(outcome, derivatives, fields, blocks)
        return function

    def _release_result(self, status: Value, done: Block, blocks: list[Block]) -> list[Block]:
        """Continue at `done`; if the reverse sweep failed, release the primal's result first."""
        assert isinstance(self.b.target, Block)
        reverse, offsets = self.b.target, self.plan.request.returned.meminfos
        if not offsets:
            self.b.br(done)
            return [reverse]
        failed = Block(self.namer("failed"))
        blocks.insert(-1, failed)
        self.b.cond_br(self.b.icmp("eq", status, self.b.const(I32, 0)), done, failed)
        self.b.target = failed
        result = self.plan.request.parameters[0].argument
        for offset in offsets:
            header = self.b.load(PTR, at_offset(self.b, result, offset))
            self.b.call(counted_memory().release, VOID, [header])
        self.b.br(done)
        return [reverse, failed]

    def _extra_parameters(self) -> list[Argument]:
        if self.status:
            return [Argument("ar.derivatives", PTR), Argument("ar.stats", PTR)]
        return seeds_of(self.plan)

    def _storage(self) -> tuple[Value, Value]:
        frame: Value = null()
        if self.layout.frame_size:
            frame = self.b.alloca(stack_type(self.layout.frame_size), align=16, hint="frame")
        for address, _ in self._owned(frame):
            self.b.store(null(), address)
        if not self.uses_tape:
            return frame, null()
        tape = self.b.alloca(stack_type(TAPE_SIZE), align=16, hint="tape")
        buffer = self.b.alloca(stack_type(STACK_CHUNK), align=16, hint="buffer")
        limit = self.b.const(I64, self.plan.request.limits.tape)
        self.b.call("activerules.tape.open", VOID, [tape, buffer, limit])
        bound_stack(self.b, self.plan, tape)
        return frame, tape

    def _owned(self, frame: Value) -> list[tuple[Value, str]]:
        """Where the frame holds the addresses of arrays and other memory, which are null until it
        is allocated, and the functions that release it.
        """
        arrays = self.layout.arrays
        if arrays is None:
            return []
        owned = [*((at, "free") for at, _ in arrays.entries.values()), *arrays.owned.values()]
        return [(at_offset(self.b, frame, at), function) for at, function in owned]

    def _release(self, memory: Value, function: str, blocks: list[Block]) -> None:
        allocated, following = Block(self.namer("allocated")), Block(self.namer("released"))
        self.b.cond_br(self.b.icmp("ne", memory, null()), allocated, following)
        self.b.target = allocated
        self.b.call(function, VOID, [memory])
        self.b.br(following)
        blocks += [allocated, following]
        self.b.target = following

    def _report(self, stats: Value, tape: Value, blocks: list[Block]) -> None:
        report, finish = Block(self.namer("stats")), Block(self.namer("finish"))
        self.b.cond_br(self.b.icmp("eq", stats, null()), finish, report)
        self.b.target = report
        frame = self.b.const(I64, self.layout.frame_size)
        used: Value = frame
        if self.uses_tape:
            used = self.b.binary("add", self.b.call("activerules.tape.used", I64, [tape]), frame)
        self.b.store(used, stats)
        self.b.br(finish)
        self.b.target = finish
        blocks += [report, finish]

    def _return_derivatives(
        self, outcome: Value, derivatives: Value, fields: StructType, blocks: list[Block]
    ) -> None:
        fine, failed = Block(self.namer("fine")), Block(self.namer("exhausted"))
        self.b.cond_br(self.b.icmp("eq", outcome, self.b.const(I32, 0)), fine, failed)
        blocks += [failed, fine]
        self.b.target = failed
        self.b.call("llvm.trap", VOID, [])
        self.b.unreachable()
        self.b.target = fine
        if fields.elements:
            self.b.ret(self.b.load(fields, derivatives))
        else:
            self.b.ret()


def bound_stack(b: Builder, plan: Plan, tape: Value) -> None:
    """At the start of a derivative, store the lowest stack address that its callees may use."""
    if plan.pairs:
        b.call("activerules.tape.bound", VOID, [tape, b.const(I64, plan.request.limits.stack)])


def build_enter(plan: Plan, layout: Layout, declarations: dict[str, str]) -> Function:
    """A function that reserves a callee's frame and runs its augmented primal (`plan.callees`)."""
    results = result_parameters(plan.request)
    parameters = make_parameters(plan, results)
    frame_at = Argument(parameters.frame.name, PTR)
    own = len(parameters.arguments) - 2 - len(results)
    arguments = [*parameters.arguments[:own], frame_at, parameters.tape, *results]
    namer = names_of(plan)
    hints = ("entry", "frame", "fine", "out.of.memory", "too.deep")
    entry, reserve, fine, failed, too_deep = (Block(namer(hint)) for hint in hints)
    b = Builder(entry, namer, declarations)
    b.cond_br(b.call("activerules.tape.has_stack", I1, [parameters.tape]), reserve, too_deep)
    b.target = reserve
    frame: Value = null()
    if layout.frame_size:
        size = b.const(I64, layout.frame_size)
        frame = b.call("activerules.tape.reserve", PTR, [parameters.tape, size])
        b.cond_br(b.icmp("ne", frame, null()), fine, failed)
    else:
        b.br(fine)
    b.target = fine
    b.store(frame, frame_at)
    operands = [*arguments[:own], frame, parameters.tape, *results]
    b.ret(b.call(suffixed(plan.request.name, ".augmented"), I32, operands))
    b.target = failed
    b.ret(b.const(I32, OUT_OF_MEMORY))
    b.target = too_deep
    b.ret(b.const(I32, TOO_DEEP))
    blocks = [entry, reserve, fine, failed, too_deep]
    name = suffixed(plan.request.name, ".enter")
    return Function(name, I32, arguments, blocks, "internal")


def uses_tape(functions: list[Function]) -> bool:
    """Whether any of the sweeps reserves rows or owns objects."""
    return any(
        (i.callee_name or "").startswith("activerules.tape.")
        for f in functions
        for i in f.instructions()
    )

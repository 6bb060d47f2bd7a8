"""Split mode: the two sweeps as separate functions that share memory of the caller.

Gives, for memory of `memory_size` bytes, aligned to 16, that the caller owns:

    i32 <name>.split.augmented(parameters with shadows, ptr memory)
    i32 <name>.split.reverse(parameters with shadows, ptr memory, [seed,] ptr derivatives)
    void <name>.split.drop(ptr memory, i64, ptr)

`augmented` opens a tape in the memory; if its status is not 0, it has released everything again.
`reverse` may then be called with the same arguments, any number of times. `drop` releases what the
tape owns; a second call does nothing. It has the signature of the destructor of a Numba array, and
ignores the last two arguments.

The memory holds the tape, its first chunk, and the frame.
"""

from __future__ import annotations

from activerules.ir.generate.cotangents import seeds_of
from activerules.ir.generate.gradient import bound_stack
from activerules.ir.generate.sweep import make_parameters
from activerules.ir.llvm.builder import Builder, Namer, suffixed
from activerules.ir.llvm.model import Argument, Block, Function, Value
from activerules.ir.llvm.types import I8, I32, I64, PTR, VOID, Type
from activerules.ir.plan.layout import Layout
from activerules.ir.plan.plan import Plan
from activerules.ir.tape.runtime import STACK_CHUNK, TAPE_SIZE


def memory_size(layout: Layout, uses_tape: bool) -> int:
    """The number of bytes of memory that the sweeps of one derivative share."""
    return _frame_offset(uses_tape) + layout.frame_size


def build_split(
    plan: Plan, layout: Layout, uses_tape: bool, declarations: dict[str, str]
) -> list[Function]:
    """The three functions; the sweeps they call are inlined."""
    maker = _Split(plan, layout, uses_tape, declarations)
    return [maker.augmented(), maker.reverse(), maker.drop()]


def _frame_offset(uses_tape: bool) -> int:
    return TAPE_SIZE + STACK_CHUNK if uses_tape else 0


class _Split:
    def __init__(
        self, plan: Plan, layout: Layout, uses_tape: bool, declarations: dict[str, str]
    ) -> None:
        self.plan, self.layout, self.uses_tape = plan, layout, uses_tape
        self.declarations = declarations
        self.memory = Argument("ar.memory", PTR)

    def augmented(self) -> Function:
        function, b, inner = self._begin(".split.augmented", [])
        if self.uses_tape:
            self._open_tape(b)
            bound_stack(b, self.plan, self.memory)
        status = b.call(suffixed(self.plan.request.name, ".augmented"), I32, inner)
        if self.uses_tape:
            failed, done = Block("ar.failed"), Block("ar.done")
            b.cond_br(b.icmp("eq", status, b.const(I32, 0)), done, failed)
            function.blocks += [failed, done]
            b.target = failed
            self._release(b)
            b.br(done)
            b.target = done
        b.ret(status)
        return function

    def reverse(self) -> Function:
        extra = [*seeds_of(self.plan), Argument("ar.derivatives", PTR)]
        function, b, inner = self._begin(".split.reverse", extra)
        bound_stack(b, self.plan, self.memory)
        name = suffixed(self.plan.request.name, ".reverse")
        b.ret(b.call(name, I32, [*inner, *extra]))
        return function

    def drop(self) -> Function:
        self.memory = Argument("ar.memory", PTR)
        parameters = [self.memory, Argument("ar.size", I64), Argument("ar.info", PTR)]
        function, b = self._function(".split.drop", VOID, parameters)
        if self.uses_tape:
            self._release(b)
        b.ret()
        return function

    def _begin(self, suffix: str, extra: list[Argument]) -> tuple[Function, Builder, list[Value]]:
        """A function of the parameters and the memory, and the arguments for calling a sweep."""
        self.memory = Argument("ar.memory", PTR)
        values = make_parameters(self.plan, [self.memory, *extra]).arguments
        arguments = values[: -3 - len(extra)]
        function, b = self._function(suffix, I32, [*arguments, self.memory, *extra])
        frame = b.gep(I8, self.memory, [b.const(I64, _frame_offset(self.uses_tape))])
        return function, b, [*arguments, frame, self.memory]

    def _function(
        self, suffix: str, result: Type, parameters: list[Argument]
    ) -> tuple[Function, Builder]:
        entry = Block("ar.entry")
        function = Function(suffixed(self.plan.request.name, suffix), result, parameters, [entry])
        taken = {a.name for a in parameters} | {"ar.failed", "ar.done"}
        return function, Builder(entry, Namer("ar", taken), self.declarations)

    def _open_tape(self, b: Builder) -> None:
        buffer = b.gep(I8, self.memory, [b.const(I64, TAPE_SIZE)])
        limit = b.const(I64, self.plan.request.limits.tape)
        b.call("activerules.tape.open", VOID, [self.memory, buffer, limit])

    def _release(self, b: Builder) -> None:
        b.call("activerules.tape.release", VOID, [self.memory])
        b.call("activerules.tape.forget", VOID, [self.memory])

"""The normal form the engine reads, its last rewrites, and its check.

N1  every value and block has a name
N2  only opcodes of `OPCODES` in blocks the reverse sweep may enter
N3  one return block (ir/analysis/returns.py)
N4  loops have a preheader, a single latch, and exits that only the loop reaches; values leave a
    loop through phis (LCSSA)
N5  no switch, invoke, indirect branch
N6  calls are arithmetic, marked calls, listed runtime calls, or of functions that no active data
    flows into (ir/analysis/soundness.py); none returns twice
N7  control flow is reducible (cfg.py); no vectors; stack memory is made in the entry block and has
    a fixed size
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.cfg import ControlFlow, Loop
from activerules.ir.llvm.constants import number_of
from activerules.ir.llvm.model import BINARY_FLOAT, BINARY_INT, CASTS, Block, Function, Instruction
from activerules.ir.llvm.printer import print_instruction
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import VectorType
from activerules.ir.llvm.vector_parts import is_on_lanes

OPCODES = (
    BINARY_FLOAT
    | BINARY_INT
    | CASTS
    | frozenset(
        "fneg icmp fcmp select phi call load store alloca getelementptr br ret unreachable freeze "
        "extractvalue insertvalue".split()
    )
)

RETURN_TWICE = frozenset(
    "setjmp setjmp_syscall sigsetjmp savectx vfork getcontext llvm.eh.sjlj.setjmp".split()
)

_OF_ONE_FRAME = tuple(
    f"llvm.{name}"
    for name in (
        "va_start va_copy va_end gcroot localescape localrecover returnaddress frameaddress "
        "addressofreturnaddress sponentry coro."
    ).split()
)


def tidy(function: Function) -> None:
    """Make a branch with equal targets unconditional.

    Changes `function` in place.
    """
    for block in function.blocks:
        end = block.terminator
        if end.opcode == "br" and len(end.blocks) == 2 and end.blocks[0] is end.blocks[1]:
            end.blocks = end.blocks[:1]
            end.operands = []
    for block in function.blocks:
        for phi in block.phis:
            pairs = dict(zip(phi.blocks, phi.operands, strict=True))
            phi.blocks, phi.operands = list(pairs), list(pairs.values())


def _refuse_opcode(i: Instruction) -> None:
    if i.opcode not in OPCODES:
        rule = "N5" if i.opcode in {"switch", "invoke", "indirectbr", "resume"} else "N2"
        instead = ["move this code into a function that has a rule or is declared inactive"]
        if i.opcode == "atomicrmw":
            instead.insert(0, "update without atomics, x[i] += y: a derivative has one thread")
        raise refusal(
            i,
            f"{rule}: no derivative is known for `{i.opcode}`",
            "the engine differentiates scalar code on ordinary memory",
            instead,
        )


def _refuse_loop(loop: Loop, function: Function, flow: ControlFlow) -> None:
    name = f"N4: the loop at {loop.header.name} of {function.name}"
    if loop.preheader is None or loop.latch is None:
        raise UnsupportedIR(what=f"{name} has no single preheader and latch")
    if len(flow.predecessors[loop.header]) != 2:
        raise UnsupportedIR(what=f"{name} has several latches")


def _refuse_vectors(blocks: Iterable[Block]) -> None:
    """Refuse vectors that `scalarise` left, at the instruction that most likely kept it from them:
    a call that is not made of calls on lanes.
    """
    vectors = [i for block in blocks for i in block.instructions if _has_vectors(i)]
    names = {i: i.callee_name or "" for i in vectors if i.opcode == "call"}
    calls = [i for i, name in names.items() if not is_on_lanes(name)]
    for i in calls or vectors:
        raise refusal(
            i,
            "N7: vectors that cannot be taken apart into scalars",
            "the engine differentiates scalar code, and vectorises its derivative afterwards",
            ["compile without vectorisation (clang: -fno-vectorize -fno-slp-vectorize)"],
        )


def _has_vectors(i: Instruction) -> bool:
    return any(isinstance(value.type, VectorType) for value in (i, *i.operands))


def _refuse_register_variable(i: Instruction) -> None:
    if i.opcode == "alloca" and "swifterror" in print_instruction(i):
        raise refusal(
            i,
            "N7: a `swifterror` variable",
            "it lives in a register, and only calls of one convention may be given it",
            ["differentiate a function that throws nothing"],
        )


def _refuse_second_return(i: Instruction) -> None:
    name = (i.callee_name or "") if i.opcode == "call" else ""
    if name.lstrip("_") in RETURN_TWICE:
        raise refusal(
            i,
            f"N6: {name} may return a second time",
            "how control came back is not in the control flow, and the reverse sweep follows that",
            ["return a status instead of jumping back"],
        )


def _refuse_frame(i: Instruction) -> None:
    name = (i.callee_name or "") if i.opcode == "call" else ""
    if name.startswith(_OF_ONE_FRAME):
        raise refusal(
            i,
            f"N2: {name} is about the function that contains it",
            "the derivative is another function, with other parameters and another frame",
            ["call a function that does this from one that does not, and give it a rule"],
        )


def _refuse_growing_stack(i: Instruction, entry: Block) -> None:
    if i.opcode == "alloca" and (
        i.parent is not entry or any(number_of(o) is None for o in i.operands)
    ):
        raise refusal(
            i,
            "N7: stack memory whose size is not fixed, or that is made inside a loop or branch",
            "the reverse sweep needs it after it was freed",
            ["use a fixed size in the entry block, or memory from malloc"],
        )


def check(function: Function, flow: ControlFlow, live: Collection[Block]) -> None:
    """Raises `UnsupportedIR`, naming the first rule that is broken and what breaks it."""
    _refuse_vectors(block for block in flow.order if block in live)
    for block in flow.order:
        if block in live:
            for instruction in block.instructions:
                _refuse_opcode(instruction)
                _refuse_register_variable(instruction)
                _refuse_second_return(instruction)
                _refuse_frame(instruction)
                _refuse_growing_stack(instruction, flow.order[0])
    for loop in flow.loops:
        if loop.header in live:
            _refuse_loop(loop, function, flow)
        for inside, outside in loop.exit_edges():
            shared = any(p not in loop.blocks for p in flow.predecessors[outside])
            if shared and inside in live and outside in live:
                raise UnsupportedIR(
                    what=f"N4: the exit {outside.name} of a loop is reached from outside it, too"
                )

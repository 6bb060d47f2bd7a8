"""Loops that run twice count their iterations, as other loops do.

Needs       a parsed module, loops in simplified form
Gives       `count_again(module)`: a loop that a phi of `false` and `true` leaves in its second
            iteration is left by a comparison of a counter, and its phis of two constants are
            computed from the counter
Invariants  X1  every remaining value has the bits it had, in both iterations

    loop:  second = phi [false], [true]      loop:  k = phi [0], [next]
           i = phi [3], [7]                         i = 4 * k + 3
           ...                                      ...
           br second, end, loop                     next = k + 1
                                                    second = next == 2
                                                    br second, end, loop

LLVM knows both values of such a counter, and leaves no trace of the counting; loops over the rows
of a matrix of two rows are common. Without a counter it is not known which memory a loop accesses,
or how long it is.
"""

from __future__ import annotations

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import ControlFlow, Loop, control_flow_if_reducible
from activerules.ir.llvm.constants import constant, integer_of
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Module, Value
from activerules.ir.llvm.types import I1, I64


def count_again(module: Module) -> None:
    """Rewrite the loops of the functions of a module, in place."""
    for function in module.defined():
        phis = (phi for block in function.blocks for phi in block.phis)
        flow = control_flow_if_reducible(function) if any(map(_is_of_truths, phis)) else None
        if flow is not None:
            for loop in flow.loops:
                _count(function, loop, flow)


def _count(function: Function, loop: Loop, flow: ControlFlow) -> None:
    exiting = _left_in_the_second(loop, flow)
    if exiting is None:
        return
    branch = exiting.terminator
    second = branch.operands[0]
    assert isinstance(second, Instruction)
    values = {p: ends for p in loop.header.phis if (ends := _constants(p, loop)) is not None}
    sources = _sources(loop)
    b = Builder([], Namer("two", function.local_names()))
    counter = next((phi for phi, ends in values.items() if ends == (0, 1)), None)
    if counter is None:
        counter = Instruction("phi", I64, [], b.namer(), blocks=[*sources])
        loop.header.insert(0, counter)
    computed, counted = b.at([]), b.at([])
    instead: dict[Value, Value] = {}
    for phi, (first, later) in values.items():
        if phi is not counter:
            value = computed.binary("mul", counter, constant(I64, _wrapped(later - first)))
            value = computed.binary("add", value, constant(I64, first))
            instead[phi], value.name = value, phi.name
    following = counted.binary("add", counter, constant(I64, 1))
    counter.operands = [constant(I64, 0), following]
    counter.blocks = sources
    leaves = branch.blocks[0] not in loop.blocks
    branch.operands[0] = counted.icmp("eq" if leaves else "ne", following, constant(I64, 2))
    exiting.insert(len(exiting.instructions) - 1, *_made(counted))
    loop.header.insert(len([*loop.header.phis]), *_made(computed))
    function.replace(instead)
    function.remove_unused({second})


def _constants(phi: Instruction, loop: Loop) -> tuple[int, int] | None:
    first, later = (integer_of(o) for o in _by_iteration(phi, loop))
    return (first, later) if phi.type == I64 and first is not None and later is not None else None


def _made(b: Builder) -> list[Instruction]:
    assert isinstance(b.target, list)
    return b.target


def _wrapped(number: int) -> int:
    """A number modulo 2⁶⁴, as an integer of LLVM is written."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _left_in_the_second(loop: Loop, flow: ControlFlow) -> Block | None:
    """The block that leaves the loop in its second iteration, at the latest, and only then."""
    if loop.preheader is None or loop.latch is None:
        return None
    for block, target in loop.exit_edges():
        branch = block.terminator
        if branch.opcode != "br" or not flow.dominates(block, loop.latch):
            continue
        phi = branch.operands[0] if len({*branch.blocks}) == 2 else None
        if isinstance(phi, Instruction) and phi.owner is loop.header and _is_of_truths(phi):
            leaves = "true" if branch.blocks[0] is target else "false"
            stays, goes = (o.ref == leaves for o in _by_iteration(phi, loop))
            if goes and not stays and branch.blocks[leaves == "true"] in loop.blocks:
                return block
    return None


def _is_of_truths(phi: Instruction) -> bool:
    constants = [o for o in phi.operands if isinstance(o, Constant)]
    return phi.type == I1 and len(constants) == len(phi.operands) == 2


def _by_iteration(phi: Instruction, loop: Loop) -> list[Value]:
    """What a phi of the header is in the first iteration, and in later ones."""
    incoming = dict(zip(phi.blocks, phi.operands, strict=True))
    return [incoming[block] for block in _sources(loop)]


def _sources(loop: Loop) -> list[Block]:
    assert loop.preheader is not None
    assert loop.latch is not None
    return [loop.preheader, loop.latch]

"""Which loops carry several tangents as scalars, side by side, instead of packed into vectors.

Needs       the Facts of a function
Gives       `vectorised_loops`: the blocks of innermost loops that LLVM may vectorise
Invariants  O1  only innermost loops with independent iterations are chosen: they carry no active
                float, except sums that may be reordered, and read no memory that another iteration
                may have written
            O2  they read and write consecutive numbers, and call nothing that LLVM cannot vectorise

A vector of tangents is loaded number by number, since the lanes are arrays of the caller. That
pays where LLVM leaves a loop scalar: a sum in the order of the program, a recurrence, a call of
`sin`. Other loops it vectorises over their iterations, if they compute on scalars.
"""

from __future__ import annotations

from activerules.ir.analysis.loops.affine import Atom, Poly
from activerules.ir.derivatives.table import cost, is_pure_call
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction, accessed_type
from activerules.ir.llvm.types import size_of
from activerules.ir.plan.facts import Facts


def vectorised_loops(facts: Facts) -> frozenset[Block]:
    """The blocks of the chosen loops; none unless there are several lanes."""
    if facts.request.width == 1:
        return frozenset()
    chosen = [loop for loop in facts.flow.loops if not loop.children and _is_chosen(loop, facts)]
    return frozenset(block for loop in chosen for block in loop.blocks)


def _is_chosen(loop: Loop, facts: Facts) -> bool:
    if len(loop.exit_edges()) != 1 or any(_waits(phi, loop, facts) for phi in loop.header.phis):
        return False
    inside = [i for block in loop.blocks for i in block.instructions]
    if not all(_is_arithmetic(i, facts) or _is_consecutive(i, loop, facts) for i in inside):
        return False
    return not any(
        _may_meet(store, load, loop, facts)
        for store in inside
        if store.opcode == "store"
        for load in inside
        if load.opcode == "load"
    )


def _waits(phi: Instruction, loop: Loop, facts: Facts) -> bool:
    """Whether an iteration needs an active float from the previous one; sums that may be reordered
    do not count.
    """
    if not phi.type.is_float or not facts.activity.is_active(phi):
        return False
    assert loop.latch is not None
    after = dict(zip(phi.blocks, phi.operands, strict=True))[loop.latch]
    is_sum = isinstance(after, Instruction) and after.opcode in {"fadd", "fsub"}
    return not (facts.request.optimiser.reassociate and is_sum and facts.flow.users[phi] == [after])


def _is_arithmetic(i: Instruction, facts: Facts) -> bool:
    if i.opcode != "call":
        return i.opcode not in {"load", "store"}
    name = i.callee_name or ""
    if facts.request.optimiser.vector_math and is_pure_call(name):
        return True
    return name.startswith("llvm.") and cost(i) is not None


def _is_consecutive(i: Instruction, loop: Loop, facts: Facts) -> bool:
    """Whether a load or store accesses one number after the other, or the same one always."""
    if i.opcode == "call":
        return False
    address = facts.integers.address(i.operands[-1])
    if address is None:
        return False
    t = accessed_type(i)
    size = size_of(t, facts.memory.named_types)
    steps = (address.offset - Poly.atom(loop) * step for step in (0, size, -size))
    return any(all(_is_outside(a, loop, facts) for a in rest.atoms) for rest in steps)


def _is_outside(atom: Atom, loop: Loop, facts: Facts) -> bool:
    return atom is not loop and facts.integers.loop_of(atom) is not loop


def _may_meet(store: Instruction, load: Instruction, loop: Loop, facts: Facts) -> bool:
    """Whether the load may read what the store wrote in another iteration. By a pointer that is
    computed in the loop, both are taken to access the memory of one iteration.
    """
    written, read = store.operands[1], load.operands[0]
    if written is read and isinstance(read, Instruction) and read.owner in loop.blocks:
        return False
    return not facts.memory.objects(written).isdisjoint(facts.memory.objects(read))

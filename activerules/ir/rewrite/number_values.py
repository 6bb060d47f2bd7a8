"""Integers and addresses are computed once, and outside the loops in which they do not change.

Needs       a Function in normal form, and its ControlFlow, which has answered nothing about users
Gives       the function, changed in place; its control flow is what it was
Invariants  V1  every remaining value has the bits it had
            V2  values still leave loops through phis

Once parts of loops are peeled off, branches are gone between which LLVM found nothing in common:
loads whose pointers are now one value are found to repeat one another, and a test that no longer
changes in a loop says for the whole loop whether it reads.

Source      value numbering over the dominator tree: Briggs, Cooper, Simpson (1997), Value
            numbering, Software: Practice and Experience 27(6)
"""

from __future__ import annotations

from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.constants import constant, integer_of
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value

# none of them can trap
_SHARED = frozenset(
    "add sub mul shl lshr ashr and or xor icmp sext zext trunc getelementptr".split()
)


def number_values(function: Function, flow: ControlFlow) -> None:
    """Rewrite; see the module docstring."""
    instead: dict[Value, Value] = {}
    known: dict[object, list[Instruction]] = {}
    for block in flow.order:
        for i in [i for i in block.instructions if i.opcode in _SHARED]:
            i.operands = [instead.get(o, o) for o in i.operands]
            value = _folded(i)
            if value is None:
                at = _outermost(i, flow)
                same = known.setdefault(_number(i), [])
                value = next((v for v in same if _reaches(v.owner, at, flow)), None)
                if value is None:
                    same.append(i)
                    if at is not block:
                        block.instructions.remove(i)
                        at.insert(-1, i)
            if value is not None:
                instead[i] = value
    function.replace(instead)


def _folded(i: Instruction) -> Value | None:
    """The value of a sum or difference of literals, or with zero; None for others."""
    if i.opcode not in {"add", "sub"}:
        return None
    x, y = map(integer_of, i.operands)
    if y == 0:
        return i.operands[0]
    if x is None or y is None:
        return i.operands[1] if x == 0 and i.opcode == "add" else None
    total = x + y if i.opcode == "add" else x - y
    return constant(i.type, total) if abs(total) < 1 << 31 else None


def _number(i: Instruction) -> object:
    """What two instructions with equal values have in common."""
    operands = [(str(o.type), o.ref) if isinstance(o, Constant) else o for o in i.operands]
    details = i.attributes.get("predicate"), str(i.attributes.get("source"))
    return i.opcode, str(i.type), i.flags, details, *operands


def _outermost(i: Instruction, flow: ControlFlow) -> Block:
    """The block where a value is computed least often: before all loops that do not change it."""
    at, loop = i.owner, flow.loop_of(i.owner)
    while loop is not None and loop.preheader is not None:
        if not all(is_invariant(o, loop) for o in i.operands):
            break
        at, loop = loop.preheader, loop.parent
    return at


def _reaches(block: Block, at: Block, flow: ControlFlow) -> bool:
    """Whether a value of one block may be used in another without a phi."""
    loop = flow.loop_of(block)
    return flow.dominates(block, at) and (loop is None or at in loop.blocks)

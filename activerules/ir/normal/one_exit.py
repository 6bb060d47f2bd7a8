"""Loops that are left by two equal tests, one on either side of a branch, get a single test.

Needs       a Function in normal form, but for the form of its loops
Gives       `leave_once`: changes the functions of a module in place; returns whether it did.
            Afterwards loops have to be simplified again
Invariants  L1  every remaining value has the bits it had, and blocks run in the same order

An assignment to a slice first copies its source if the two overlap. Numba tests whether it did for
each entry, and once more after the loop. LLVM's jump threading joins these tests: each side of the
branch then counts, tests and leaves the loop on its own, so the trip count is lost.

    begin:  br c, left, right
    left:   br d, x, latch      right:  br d, y, latch

becomes, where both sides compute an equal d,

    left:   br test             right:  br test
    test:   br d, leave, latch  leave:  br c, x, y
"""

from __future__ import annotations

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import control_flow_if_reducible
from activerules.ir.llvm.model import (
    BINARY_INT,
    MAY_TRAP,
    Block,
    Constant,
    Function,
    Instruction,
    Module,
    Value,
)

_MOVED = (BINARY_INT - MAY_TRAP) | {"icmp"}


def leave_once(module: Module) -> bool:
    """See the module docstring; for all functions that are defined."""
    changed = [_leave_once(function) for function in module.defined()]
    return any(changed)


def _leave_once(function: Function) -> bool:
    changed = False
    while (begin := _begin_of_two_exits(function)) is not None:
        _join(function, begin)
        changed = True
    return changed


def _begin_of_two_exits(function: Function) -> Block | None:
    candidates = [b for b in function.blocks if _is_candidate(b)]
    flow = control_flow_if_reducible(function) if candidates else None
    if flow is None:
        return None
    for begin in candidates:
        loop = flow.loop_of(begin) if begin in flow.position else None
        left, right = begin.successors
        stays = _shared(left, right)
        if loop is None or any(flow.predecessors[side] != [begin] for side in (left, right)):
            continue
        inside = [left, right, left.successors[stays]]
        outside = [side.successors[1 - stays] for side in (left, right)]
        if all(b in loop.blocks for b in inside) and loop.blocks.isdisjoint(outside):
            return begin
    return None


def _is_candidate(begin: Block) -> bool:
    """Whether both sides of the branch at the end of a block end alike, with equal tests."""
    if not (_has_two(begin) and all(map(_has_two, begin.successors))):
        return False
    left, right = begin.successors
    targets = [*left.successors, *right.successors]
    alike = [x is y for x, y in zip(left.successors, right.successors, strict=True)]
    if left is right or {begin, left, right} & set(targets):
        return False
    return alike.count(True) == 1 and len(set(targets)) == 3 and bool(_equal(left, right))


def _shared(left: Block, right: Block) -> int:
    """The place of the successor that two candidates share."""
    return 0 if left.successors[0] is right.successors[0] else 1


def _has_two(block: Block) -> bool:
    return block.terminator.opcode == "br" and len(block.successors) == 2


def _equal(left: Block, right: Block) -> dict[Value, Instruction]:
    """The instructions of `right` that repeat one of `left`, each with that one. Both can be moved
    before the branch: their operands are computed there, or by other such instructions. Empty if
    the tests are not equal.
    """
    twins: dict[Value, Instruction] = {}
    first: dict[tuple[object, ...], Instruction] = {}
    movable: set[Value] = set()
    for block in (left, right):
        for i in block.instructions:
            operands = [twins.get(o, o) for o in i.operands]
            if i.opcode not in _MOVED or any(
                isinstance(o, Instruction) and o.parent in (left, right) and o not in movable
                for o in operands
            ):
                continue
            names = (o if isinstance(o, Instruction) else o.ref for o in operands)
            key = (i.opcode, i.type, i.flags, i.attributes.get("predicate"), *names)
            if block is left:
                movable.add(first.setdefault(key, i))
            elif key in first:
                twins[i] = first[key]
    tests = left.terminator.operands[0], right.terminator.operands[0]
    return twins if twins.get(tests[1]) is tests[0] else {}


def _join(function: Function, begin: Block) -> None:
    left, right = begin.successors
    stays = _shared(left, right)
    latch = left.successors[stays]
    exits = [side.successors[1 - stays] for side in (left, right)]
    equal = _equal(left, right)
    _compute_before(begin, set(equal.values()))
    function.replace(dict(equal))
    condition, test = begin.terminator.operands[0], left.terminator.operands[0]
    namer = Namer("leave", function.local_names())
    joined = Block(namer("test"), parent=function)
    leave = Block(namer("leave"), parent=function)
    b = Builder(joined, namer)
    same: dict[Value, Value] = {}
    for phi in latch.phis:
        taken = dict(zip(phi.blocks, phi.operands, strict=True))
        value = _either(b, (left, taken.pop(left)), (right, taken.pop(right)))
        phi.blocks, phi.operands = [*taken, joined], [*taken.values(), value]
        if not taken:
            same[phi] = value
    for side, other, after in zip((left, right), (right, left), exits, strict=True):
        for phi in after.phis:
            k = phi.blocks.index(side)
            value = phi.operands[k]
            if isinstance(value, Instruction) and value.parent is side:
                value = _either(b, (side, value), (other, Constant(value.type, "poison")))
            phi.blocks[k], phi.operands[k] = leave, value
    b.cond_br(test, *((latch, leave) if stays == 0 else (leave, latch)))
    Builder(leave, namer).cond_br(condition, *exits)
    for side in (left, right):
        side.instructions.pop()
        Builder(side, namer).br(joined)
    function.blocks += [joined, leave]
    function.replace(same)


def _compute_before(begin: Block, moved: set[Instruction]) -> None:
    left = begin.successors[0]
    ordered = [i for i in left.instructions if i in moved]
    left.instructions = [i for i in left.instructions if i not in moved]
    begin.insert(-1, *ordered)


def _either(b: Builder, first: tuple[Block, Value], second: tuple[Block, Value]) -> Value:
    """The value that comes from either of two blocks; a phi if it is not the same."""
    if first[1].ref == second[1].ref:
        return first[1]
    values, blocks = [first[1], second[1]], [first[0], second[0]]
    return b.emit("phi", first[1].type, values, blocks=blocks)

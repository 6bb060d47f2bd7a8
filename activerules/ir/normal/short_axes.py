"""Subscripts along axes that may have length one are plain if the loop has the same length.

Needs       a parsed module, loops in simplified form
Gives       `plain_subscripts`: `n > 1 ? i : 0`, or the same of a multiple of `i`, becomes `i` where
            `i` counts from 0 in a loop that ends at `n`; a choice that stays, and whose condition
            does not change in the loop, is marked (`SHORT_AXIS`) for the passes over what is
            generated. In innermost loops that end at `m`, `min(i, n - 1)` becomes
            `n >= m ? i : min(i, n - 1)`
Invariants  B1  both are equal in every iteration: in the first, `i` is 0; in any other, the test at
                the end of the one before, the only exit, has shown that `i` is less than `n`, and
                `i` does not wrap around: so `n` is more than one
            B2  both are equal in every iteration: `i` is 0, or at most `m - 1`, which is at most
                `n - 1` where the choice is for `i`

Numba reads every operand of array arithmetic at such a subscript. Dependences between iterations,
and whether a loop can be vectorised, can be determined only for plain subscripts. The source of an
assignment to a slice is read at such a minimum. LLVM makes two loops of the choice, one of which
has plain subscripts.
"""

from __future__ import annotations

from typing import TypeGuard

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import Loop, control_flow_if_reducible
from activerules.ir.llvm.model import Constant, Function, Instruction, Module, Value
from activerules.ir.llvm.types import I1, I64

_MINIMUM = "llvm.umin.i64"
SHORT_AXIS = "short axis"
"""The attribute of a select that tells what its loop counts."""
ROW, ENTRY = "row", "entry"
"""Rows of entries: the select becomes a product (`ir/generated/strides`). Entries: the loop gets
versions without the select (`ir/generated/plain_loops`).
"""

_LONGER = {("ugt", "1"), ("sgt", "1"), ("ne", "1"), ("uge", "2"), ("sge", "2")}
_NOT_LONGER = {("ult", "2"), ("slt", "2"), ("eq", "1"), ("ule", "1"), ("sle", "1")}
_GOES_ON = {"ne", "slt", "ult"}
_ENDS = {"eq", "sge", "uge"}


def plain_subscripts(module: Module) -> None:
    """Replace or mark such subscripts in the functions of a module."""
    for function in module.defined():
        _plain_if_long_enough(function)
        choices = [(i, x) for i in function.instructions() if (x := _chosen(i)) is not None]
        flow = control_flow_if_reducible(function) if choices else None
        if flow is None:
            continue
        plain: dict[Value, Value] = {}
        for i, chosen in choices:
            count = _counter(chosen)
            loop = next((each for each in flow.loops if each.header is count.parent), None)
            if loop is None or i.parent not in loop.blocks:
                continue
            length = _length(i)
            if length is not None and _ends_at(loop, count, length):
                plain[i] = chosen
            elif not _changes_in(loop, i.operands[0]):
                i.attributes[SHORT_AXIS] = ROW if loop.children else ENTRY
        function.replace(plain)


def _plain_if_long_enough(function: Function) -> None:
    """Let minima of a counter and the last number of an axis be chosen, or the counter (B2)."""
    minima = [i for i in function.instructions() if i.callee_name == _MINIMUM]
    flow = control_flow_if_reducible(function) if minima else None
    if flow is None:
        return
    innermost = {loop.header: loop for loop in flow.loops if not loop.children}
    namer = Namer("axis", function.local_names())
    chosen: dict[Value, Instruction] = {}
    for i in minima:
        for count, last in (i.operands, i.operands[::-1]):
            if not _is_phi(count) or (loop := innermost.get(count.owner)) is None:
                continue
            if i.parent in loop.blocks and (ends := _lengths(loop, count, last)) is not None:
                chosen[i] = _choice(i, count, _compared(loop, *ends, namer), namer)
                break
    choices = set(chosen.values())
    for user in function.instructions():
        if user not in choices:
            user.operands = [chosen.get(o, o) for o in user.operands]


def _is_phi(value: Value) -> TypeGuard[Instruction]:
    return isinstance(value, Instruction) and value.opcode == "phi"


def _lengths(loop: Loop, count: Instruction, last: Value) -> tuple[Value, Value] | None:
    """`n` and `m`, where `last` is `n - 1` and the loop counts to `m`."""
    if loop.latch is None or loop.preheader is None:
        return None
    if not isinstance(last, Instruction) or last.opcode != "add":
        return None
    length, one_less = last.operands
    test = loop.latch.terminator.operands[0] if loop.latch.terminator.operands else None
    if not isinstance(test, Instruction) or test.opcode != "icmp":
        return None
    bound = test.operands[1]
    is_last = isinstance(one_less, Constant) and one_less.text == "-1"
    if not is_last or _changes_in(loop, length) or not _ends_at(loop, count, bound):
        return None
    return length, bound


def _compared(loop: Loop, length: Value, bound: Value, namer: Namer) -> Instruction:
    """Whether `length` is at least `bound`, computed in front of the loop."""
    assert loop.preheader is not None
    instructions: list[Instruction] = []
    b = Builder(instructions, namer)
    compared = b.icmp("uge", length, bound)
    loop.preheader.insert(-1, *instructions)
    return compared


def _choice(i: Instruction, count: Instruction, condition: Value, namer: Namer) -> Instruction:
    at = i.owner.instructions
    choice = Instruction("select", i.type, [condition, count, i], namer("plain"), parent=i.parent)
    at.insert(at.index(i) + 1, choice)
    return choice


def _chosen(i: Instruction) -> Instruction | None:
    """`x` in `condition ? x : 0`, or `condition ? 0 : x`, if it may be a multiple of a counter."""
    if i.opcode != "select" or i.type != I64 or i.operands[0].type != I1:
        return None
    _, *arms = i.operands
    if not any(isinstance(x, Constant) and x.text == "0" for x in arms):
        return None
    chosen = [x for x in arms if isinstance(x, Instruction)]
    return chosen[0] if chosen and _counter(chosen[0]).opcode == "phi" else None


def _counter(x: Instruction) -> Instruction:
    """The value of which `x` is a multiple: itself, or one that is multiplied by a constant. That
    product must not have overflow flags: a select discards poison, a product with zero does not.
    """
    if x.opcode in {"mul", "shl"} and not x.flags and isinstance(x.operands[1], Constant):
        factor = x.operands[0]
        return factor if isinstance(factor, Instruction) else x
    return x


def _length(i: Instruction) -> Value | None:
    """The length in `length > 1 ? counter : 0`."""
    test, first, _ = i.operands
    if not isinstance(test, Instruction) or test.opcode != "icmp":
        return None
    length, limit = test.operands
    comparison = (test.attributes["predicate"], limit.text if isinstance(limit, Constant) else "")
    expected = _NOT_LONGER if isinstance(first, Constant) else _LONGER
    return length if comparison in expected else None


def _changes_in(loop: Loop, value: Value) -> bool:
    return isinstance(value, Instruction) and value.parent in loop.blocks


def _ends_at(loop: Loop, count: Instruction, length: Value) -> bool:
    """Whether `count` is 0, 1, ... in its loop, and less than `length` (B1)."""
    if loop.latch is None or _changes_in(loop, length):
        return False
    if any(source is not loop.latch for source, _ in loop.exit_edges()):
        return False
    values = dict(zip(count.blocks, count.operands, strict=True))
    following = values.pop(loop.latch, None)
    starts = [v.text for v in values.values() if isinstance(v, Constant)]
    return (
        starts == ["0"] * len(values)
        and _is_next(following, count)
        and _goes_on_below(loop, following, length)
    )


def _is_next(value: Value | None, count: Instruction) -> bool:
    return (
        isinstance(value, Instruction)
        and value.opcode == "add"
        and value.operands[0] is count
        and isinstance(value.operands[1], Constant)
        and value.operands[1].text == "1"
        and {"nuw", "nsw"} <= set(value.flags)
    )


def _goes_on_below(loop: Loop, following: Value | None, length: Value) -> bool:
    """Whether control returns to the header only if the next count is less than the length."""
    assert loop.latch is not None
    branch = loop.latch.instructions[-1]
    if branch.opcode != "br" or len(branch.blocks) != 2:
        return False
    test = branch.operands[0]
    if not isinstance(test, Instruction) or test.opcode != "icmp":
        return False
    if test.operands[0] is not following or test.operands[1] is not length:
        return False
    back_if_true = branch.blocks[0] is loop.header
    if back_if_true == (branch.blocks[1] is loop.header):
        return False
    return test.attributes["predicate"] in (_GOES_ON if back_if_true else _ENDS)

"""Choices that always turn out the same are made at compile time.

Needs       a Function in normal form, and Integers of it
Gives       the function, changed in place: a `select` whose condition compares integers, and always
            has the same outcome, is replaced by the operand it chooses
Invariants  E1  every value that is left has the bits it had

An index may be negative in Python: the code that counts it from the end is left in loops of which
LLVM does not see that they count up from a number that is not negative. It keeps the loop from
being vectorised, and hides which element is accessed.
"""

from __future__ import annotations

from activerules.ir.analysis.integers import Integers
from activerules.ir.model import Function, Instruction, Value


def decide_selects(function: Function, integers: Integers) -> bool:
    """Whether anything was changed (what `integers` remembers is then out of date)."""
    instead: dict[Value, Value] = {}
    for i in function.instructions():
        condition = i.operands[0] if i.opcode == "select" and i.type.is_int else None
        if isinstance(condition, Instruction) and condition.opcode == "icmp":
            if condition.parent not in integers.flow.position:
                continue
            outcome = integers.outcome(condition)
            if outcome is not None:
                instead[i] = i.operands[1 if outcome else 2]
    for block in function.blocks:
        block.instructions = [i for i in block.instructions if i not in instead]
        for i in block.instructions:
            i.operands = [_final(o, instead) for o in i.operands]
    return bool(instead)


def _final(value: Value, instead: dict[Value, Value]) -> Value:
    while value in instead:
        value = instead[value]
    return value

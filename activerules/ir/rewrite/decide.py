"""Selects that always choose the same operand, and remainders that need no division, are replaced.

Needs       a Function in normal form, and its Integers
Gives       the function, changed in place: a `select` on a comparison of integers that always has
            the same outcome is replaced by the operand it chooses; a remainder of a number between
            minus the divisor and the divisor, by that number or zero
Invariants  E1  every remaining value has the bits it had

An index may be negative in Python. LLVM keeps the code that adds the length to it wherever it does
not see that a loop counts up from a number that is not negative; this code prevents vectorisation,
and hides which element is accessed. Neighbours on a ring are written as remainders: LLVM simplifies
`(i + 1) % n` in a loop that counts up, but not in its reverse.
"""

from __future__ import annotations

from activerules.ir.analysis.loops.affine import Poly, infeasible
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Function, Instruction, Value
from activerules.ir.llvm.types import I1, I64, Type


def decide(function: Function, integers: Integers) -> bool:
    """Rewrite; returns whether anything was changed (`integers` is out of date then)."""
    instead: dict[Value, Value] = {}
    for i in list(function.instructions()):
        if i.type == I64 and i.parent in integers.flow.position:
            value = _simpler(i, integers)
            if value is not None:
                instead[i] = value
    function.replace(instead)
    return bool(instead)


def _simpler(i: Instruction, integers: Integers) -> Value | None:
    if i.opcode == "select":
        return _chosen(i, integers)
    return _remainder(i, integers) if i.opcode in {"srem", "urem"} else None


def _chosen(select: Instruction, integers: Integers) -> Value | None:
    condition = select.operands[0]
    if not isinstance(condition, Instruction) or condition.opcode != "icmp":
        return None
    # others are hardly ever decided, and each takes a proof
    if not condition.attributes["predicate"].startswith("s"):
        return None
    outcome = integers.outcome(condition)
    return None if outcome is None else select.operands[1 if outcome else 2]


def _remainder(i: Instruction, integers: Integers) -> Value | None:
    """The remainder without a division, if the number is between -divisor and divisor."""
    x, divisor = map(integers.exact, i.operands)
    known = integers.facts(i.owner)

    def never(p: Poly) -> bool:
        return infeasible([*known, p])

    if not never(divisor * -1) or not never(x - divisor - 1):
        return None
    if not never(x * -1 - 1) and (i.opcode == "urem" or not never(x * -1 - divisor - 1)):
        return None
    value = i.operands[0]
    if not never(x - divisor):
        value = _zero_if(i, value, i.operands[1], "above")
    if not never(x * -1 - divisor):
        opposite = _before(i, "sub", I64, [constant(I64, 0), i.operands[1]], "opposite")
        value = _zero_if(i, value, opposite, "below")
    return value


def _zero_if(i: Instruction, value: Value, other: Value, hint: str) -> Value:
    """Insert before `i`: zero if the number is `other`, else `value`."""
    equal = _before(i, "icmp", I1, [i.operands[0], other], f"{hint}.is")
    equal.attributes["predicate"] = "eq"
    return _before(i, "select", I64, [equal, constant(I64, 0), value], hint)


def _before(i: Instruction, opcode: str, t: Type, operands: list[Value], hint: str) -> Instruction:
    block, name = i.owner, i.name or ""
    name = f'{name[:-1]}.ar.{hint}"' if name.startswith('"') else f"{name}.ar.{hint}"
    inserted = Instruction(opcode, t, operands, name)
    block.insert(block.instructions.index(i), inserted)
    return inserted

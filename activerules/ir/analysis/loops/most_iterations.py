"""Integers in all iterations of a loop but the first, or but the last.

Needs       the Integers of a function
Gives       `but_the_first`, `but_the_last`: Integers that hold in these iterations of a loop
Invariants  T1  I1 and I2 of `integers` hold for values of the loop in these iterations
            T2  `facts` hold whenever a block runs in one of them

`(j + 1) % n` is `j + 1` in all iterations over `j` but the last, and `j - 1 if j > 0 else n - 1` is
`j - 1` in all but the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeGuard

from activerules.ir.analysis.loops.affine import Poly, infeasible
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import I64


def but_the_first(integers: Integers, loop: Loop) -> Integers:
    """The Integers that hold in all iterations of a loop but the first."""
    return _MostIterations(integers, loop, [Poly.atom(loop) - 1])


def but_the_last(integers: Integers, loop: Loop) -> Integers:
    """The Integers that hold in all iterations of a loop but the last."""
    return _MostIterations(integers, loop, integers.while_going_on(loop))


class _MostIterations(Integers):
    def __init__(self, all_: Integers, loop: Loop, known: list[Poly]) -> None:
        super().__init__(all_.flow, all_.named_types, all_.lengths)
        self._all, self._loop, self._known = all_, loop, known

    def facts(self, block: Block) -> list[Poly]:
        facts = self._all.facts(block)
        return [*facts, *self._known] if block in self._loop.blocks else facts

    def _structure(self, value: Value, of: Callable[[Value], Poly]) -> Poly | None:
        if isinstance(value, Instruction) and value.type == I64:
            if value.opcode == "select":
                holds = self._decided(value.operands[0])
                return of(value.operands[1 if holds else 2]) if holds is not None else None
            if value.opcode in {"urem", "srem"}:
                return of(value.operands[0]) if self._is_less(value) else None
        return super()._structure(value, of)

    def _decided(self, condition: Value) -> bool | None:
        """The outcome of a comparison, if it is the same in these iterations; else None."""
        if not isinstance(condition, Instruction) or condition.opcode != "icmp":
            return None
        known = self.facts(condition.owner)
        x, y = condition.operands
        if condition.attributes["predicate"] == "slt" and integer_of(y) == 0 and _is_xor(x):
            # two signs are compared, as for a remainder with the sign of the divisor
            return False if all(self._is_natural(o, known) for o in x.operands) else None
        for holds in (True, False):
            claims, equal = self._implied(condition, not holds, known)
            if (claims or equal) and infeasible([*known, *claims], equal):
                return holds
        return None

    def _is_less(self, remainder: Instruction) -> bool:
        """Whether a remainder is its dividend, which is not negative and less than the divisor."""
        known = self.facts(remainder.owner)
        x, y = remainder.operands
        return self._is_natural(x, known) and infeasible([*known, self.exact(x) - self.exact(y)])

    def _is_natural(self, value: Value, known: list[Poly]) -> bool:
        return infeasible([*known, self.exact(value) * -1 - 1])


def _is_xor(value: Value) -> TypeGuard[Instruction]:
    return isinstance(value, Instruction) and value.opcode == "xor" and value.type == I64

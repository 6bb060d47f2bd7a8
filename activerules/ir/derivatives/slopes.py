"""Operands whose slope may be infinite or NaN where the cotangent is zero.

`is_finite`   the slope is a number whatever the arguments are: no zero meets an infinity
`is_steep`    the slope may be infinite or NaN although the values it is computed from are finite:
              1 / x at 0, the functions that have a pole or a vertical tangent; and |x|, whose slope
              is NaN at NaN alone, so that a mask drops missing data
`absorbing`   the operands for which a zero cotangent (or tangent) gives a zero term

By default that is so for steep slopes; the comparison costs little next to the division or root
that computes the slope. The product of `g` with a value of the program, as in `x * y`, has a slope
that is infinite only if the program computed an infinity; it is left as it is, unless `strong_zero`
asks for zero everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import isfinite

from activerules.ir.derivatives.table import function_of, row_for
from activerules.ir.llvm.constants import number_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import DOUBLE, FLOAT, IntType, Type

STEEP_FUNCTIONS = frozenset(
    "sqrt cbrt log log2 log10 log1p pow powi asin acos acosh atanh atan2 cpow.re cpow.im lgamma "
    "tgamma fabs copysign".split()
)
_REMAINDERS = frozenset("frem fmod remainder".split())
# Their slopes are finite for any argument: one of few numbers, or a cotangent that is scaled.
_FINITE = frozenset({"ldexp"})
# Their slopes may overflow for arguments that are far from it.
_GROWING = frozenset("sinh cosh".split())


def absorbing(
    instructions: Iterable[Instruction],
    wanted: Callable[[Instruction], Iterable[bool]],
    strong: bool,
) -> frozenset[tuple[Instruction, int]]:
    """The wanted operands whose term is zero where the cotangent of the result is, whatever the
    slope; `strong`: all whose slope may be infinite or NaN.
    """
    terms: set[tuple[Instruction, int]] = set()
    for i in instructions:
        if row_for(i) is not None:
            for k, is_wanted in enumerate(wanted(i)):
                if is_wanted and (is_steep(i, k) or (strong and not is_finite(i, k))):
                    terms.add((i, k))
    return frozenset(terms)


def is_steep(i: Instruction, k: int) -> bool:
    """Whether the slope with respect to operand `k` may be infinite or NaN where the values it is
    computed from are finite.
    """
    name = _name(i)
    if name == "fdiv":
        return number_of(i.operands[1]) in {None, 0.0}
    if name in _REMAINDERS:
        return k == 1
    if name in {"pow", "powi"} and k == 0:
        exponent = number_of(i.operands[1])
        return exponent is None or not (exponent >= 1 or exponent == 0)
    return name in STEEP_FUNCTIONS


def is_finite(i: Instruction, k: int) -> bool:
    """Whether the slope with respect to operand `k` is a finite number for any arguments."""
    row = row_for(i)
    partial = row.partials[k] if row is not None else None
    if partial is None or not partial.needs or partial.used is not None or _name(i) in _FINITE:
        return True
    if is_steep(i, k) or _name(i) in _GROWING:
        return False
    values = dict(zip("xyzw", i.operands, strict=False)) | {"r": i}
    return all(_bound(values[name]) is not None for name in partial.needs)


def _name(i: Instruction) -> str:
    return (function_of(i.callee_name or "") or "") if i.opcode == "call" else i.opcode


_DEPTH = 8
# Bounds beyond which a square or a product of bounded values could overflow.
_LIMITS: dict[Type, float] = {DOUBLE: 1e100, FLOAT: 1e15}


def _bound(value: Value, depth: int = _DEPTH) -> float | None:
    """A number that the modulus of a value never exceeds; None if no small one is known."""
    bound = _bound_of(value, depth)
    limit = _LIMITS.get(value.type, 0.0)
    return bound if bound is not None and bound <= limit else None


def _bound_of(value: Value, depth: int) -> float | None:
    number = number_of(value)
    if number is not None:
        return abs(float(number)) if isfinite(number) else None
    if not isinstance(value, Instruction) or depth == 0:
        return None
    if value.opcode in {"sitofp", "uitofp"}:
        t = value.operands[0].type
        return 2.0**t.bits if isinstance(t, IntType) and t.bits <= 64 else None
    name = _name(value)
    operands = value.operands[1:] if name == "select" else value.operands
    combine = _COMBINED.get(name)
    if combine is None:
        return None
    bounds = [_bound(o, depth - 1) for o in operands]
    known = [b for b in bounds if b is not None]
    return combine(known) if len(known) == len(bounds) else None


_COMBINED: dict[str, Callable[[list[float]], float]] = {
    **dict.fromkeys(("fadd", "fsub"), sum),
    "fmul": lambda bounds: bounds[0] * bounds[1],
    **dict.fromkeys("fneg fabs fpext fptrunc freeze select minnum maxnum".split(), max),
    **dict.fromkeys("sin cos tanh".split(), lambda bounds: 1.0),
}

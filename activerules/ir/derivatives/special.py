"""Special functions that derivatives need and no C library has, as LLVM IR.

`activerules.digamma` is ψ(x) = Γ'(x) / Γ(x): upwards recurrence to x ≥ 10, there the asymptotic
series; reflection for negative x. Relative error below 1e-13 away from its zeros; NaN at the poles
and at -inf.

Source: Abramowitz and Stegun, Handbook of Mathematical Functions, 6.3.5, 6.3.7, 6.3.18.
"""

from __future__ import annotations

import math

from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Value
from activerules.ir.llvm.types import DOUBLE

DIGAMMA = "activerules.digamma"

# B(2k) / 2k, k = 1 ... 7, of the series  ψ(x) ~ ln x - 1/(2x) - Σ B(2k) / (2k x^2k)
_SERIES = (1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12)


def digamma(b: Builder, x: Value) -> Value:
    """ψ(x) of a `double` or `float`; declarations that it needs are added to the builder's."""
    for name in ("floor", "rint", "tan", "log"):
        b.declarations[f"llvm.{name}.f64"] = f"declare double @llvm.{name}.f64(double)"
    b.declarations[DIGAMMA] = definition()
    if x.type is DOUBLE:
        return b.call(DIGAMMA, DOUBLE, [x])
    return b.cast("fptrunc", b.call(DIGAMMA, DOUBLE, [b.cast("fpext", x, DOUBLE)]), x.type)


def digamma_value(x: float) -> float:
    """ψ(x) as a number, by the same formulas."""
    if x <= 0.0 and (math.isinf(x) or x == math.floor(x)):
        return math.nan
    if x < 0.0:
        return digamma_value(1.0 - x) - math.pi / math.tan(math.pi * (x - round(x)))
    below = 0.0
    while x < 10.0:
        below -= 1.0 / x
        x += 1.0
    u, tail = 1.0 / (x * x), 0.0
    for coefficient in reversed(_SERIES):
        tail = (tail + coefficient) * u
    return below + math.log(x) - 0.5 / x - tail


def definition() -> str:
    """The text of `activerules.digamma`; it calls the intrinsics floor, rint, tan and log."""
    series = "0.0"
    terms: list[str] = []
    for k, coefficient in reversed(list(enumerate(_SERIES, 1))):
        # Horner's scheme in 1/x², from the last term
        terms += [
            f"  %c{k} = fadd double {series}, {_literal(coefficient)}",
            f"  %s{k} = fmul double %c{k}, %u",
        ]
        series = f"%s{k}"
    return _TEXT.format(name=DIGAMMA, terms="\n".join(terms), series=series, pi=_literal(math.pi))


def _literal(number: float) -> str:
    return constant(DOUBLE, number).text


_TEXT = """\
define internal double @{name}(double %x) memory(none) nounwind willreturn {{
entry:
  %floor = call double @llvm.floor.f64(double %x)
  %whole = fcmp ueq double %floor, %x
  %below = fcmp ule double %x, 0.0
  %bad = and i1 %whole, %below
  br i1 %bad, label %pole, label %start
pole:
  ret double 0x7FF8000000000000
start:
  %negative = fcmp olt double %x, 0.0
  %mirror = fsub double 1.0, %x
  %from = select i1 %negative, double %mirror, double %x
  br label %loop
loop:
  %y = phi double [ %from, %start ], [ %y.next, %step ]
  %sum = phi double [ 0.0, %start ], [ %sum.next, %step ]
  %small = fcmp olt double %y, 10.0
  br i1 %small, label %step, label %series
step:
  %inverse = fdiv double 1.0, %y
  %sum.next = fsub double %sum, %inverse
  %y.next = fadd double %y, 1.0
  br label %loop
series:
  %t = fdiv double 1.0, %y
  %u = fmul double %t, %t
{terms}
  %log = call double @llvm.log.f64(double %y)
  %half = fmul double %t, 0.5
  %tail = fadd double %half, {series}
  %near = fsub double %log, %tail
  %psi = fadd double %near, %sum
  br i1 %negative, label %reflect, label %done
reflect:
  %nearest = call double @llvm.rint.f64(double %x)
  %rest = fsub double %x, %nearest
  %angle = fmul double %rest, {pi}
  %tan = call double @llvm.tan.f64(double %angle)
  %cot = fdiv double {pi}, %tan
  %reflected = fsub double %psi, %cot
  ret double %reflected
done:
  ret double %psi
}}"""

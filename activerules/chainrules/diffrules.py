"""Scalar functions the engine differentiates through their bodies, as rows of `scalar_rule`.

The engine needs no rules for these: Numba compiles them to instructions in the engine's own table.
They are here for direct calls of `frule` and `rrule`. So are the holomorphic functions at complex
numbers, which are not in that table.

Source  the rule tables of DiffRules.jl; Abramowitz and Stegun, chapters 4 and 6.
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from activerules.annotations.tangents import One, ZeroTangent
from activerules.chainrules.scalar import ScalarRule
from activerules.rules.pickled import identity

Row = tuple[Any, int, Callable[..., tuple[Any, ...]]]


def _no_slope(*values: Any) -> tuple[Any, ...]:
    return (ZeroTangent(),) * (len(values) - 1)


def _share(a: float, b: float, scale: float = 1.0) -> float:
    """1 / (1 + exp(scale (b - a))), also at equal infinities. For large a and b the slope of
    logaddexp is not exp(a - Ω): Ω is rounded to the larger of the two.
    """
    if a == b:
        return 0.5
    with np.errstate(over="ignore"):
        return float(1 / (1 + np.exp(scale * (b - a))))


def _slope_of_sinc(y: float, x: float) -> float:
    """(cos πx - y) / x; by its series near zero, where the difference cancels."""
    z = math.pi * x
    if abs(z) > 0.01:
        return (math.cos(z) - y) / x
    return -math.pi * z / 3 * (1 - z * z / 10 * (1 - z * z / 28))


def _by_divisor(_: float, x: float, divisor: float) -> tuple[Any, Any]:
    """The slopes of x - n y, where n = floor(x / y) is -1 or 0 for an infinite y."""
    with np.errstate(all="ignore"):
        return One(), -float(np.floor_divide(x, divisor)) if divisor else math.nan


def _same(arity: int, partials: Callable[..., Any], *functions: Any) -> list[Row]:
    """The rows of functions with the same partials."""
    return [(function, arity, partials) for function in functions]


_DEGREE = math.pi / 180
_LN2 = math.log(2)

#                function        arguments  partials at (Ω, x...)
REAL_ROWS: tuple[Row, ...] = (
    *_same(1, lambda y, x: (1 / _DEGREE,), math.degrees, np.degrees, np.rad2deg),
    *_same(1, lambda y, x: (_DEGREE,), math.radians, np.radians, np.deg2rad),
    *_same(1, lambda y, x: (One(),), np.positive, operator.pos, np.real, np.conjugate),
    (math.log, 2, lambda y, x, b: (1 / (x * math.log(b)), -y / (b * math.log(b)))),
    (np.square, 1, lambda y, x: (2 * x,)),
    (np.reciprocal, 1, lambda y, x: (-y * y,)),
    (np.logaddexp, 2, lambda y, a, b: (_share(a, b), _share(b, a))),
    (np.logaddexp2, 2, lambda y, a, b: (_share(a, b, _LN2), _share(b, a, _LN2))),
    # Python returns the first one unless the second one is more, or less
    (max, 2, lambda y, a, b: (0.0, 1.0) if b > a else (1.0, 0.0)),
    (min, 2, lambda y, a, b: (0.0, 1.0) if b < a else (1.0, 0.0)),
    # Numba returns the second of two NaN
    (np.fmin, 2, lambda y, a, b: (1.0, 0.0) if a <= b or (b != b and a == a) else (0.0, 1.0)),
    *_same(2, _by_divisor, np.remainder, operator.mod, operator.imod),
    (np.sinc, 1, lambda y, x: (_slope_of_sinc(y, x),)),
    *_same(1, _no_slope, np.sign, np.signbit),
    *_same(2, _no_slope, np.heaviside, np.floor_divide, operator.floordiv),
)


def _over(a: complex, b: complex) -> complex:
    """`a / b`; infinite or NaN at a pole, where Python would raise an error."""
    with np.errstate(all="ignore"):
        return complex(np.complex128(a) / np.complex128(b))


def _power_slopes(w: complex, z: complex, n: complex) -> tuple[complex, complex]:
    if z != 0:
        return n * z ** (n - 1), w * cmath.log(z)
    n = complex(n)
    by_z = 0 if n == 0 or n.real > 1 else 1 if n == 1 else math.inf
    return by_z, -math.inf if w else 0


def _circle(z: complex) -> complex:
    """√(1 - z²). On a branch cut the sign of a zero tells the side: a difference with a real number
    keeps it, `1 - z * z` does not.
    """
    return cmath.sqrt(-(z * z - 1))


def _hyperbola(z: complex) -> complex:
    """√(z² + 1), likewise."""
    return cmath.sqrt(z * z - -1)


def _elementary(module: Any, arc: str) -> list[Row]:
    f = module
    names = ("sin", "cos", "tan", "sinh", "cosh", "tanh")
    inverse = {name: getattr(f, f"{arc}{name}") for name in names}
    return [
        (f.exp, 1, lambda w, z: (w,)),
        (f.log, 1, lambda w, z: (_over(1, z),)),
        (f.log10, 1, lambda w, z: (_over(1, z * math.log(10)),)),
        (f.sqrt, 1, lambda w, z: (_over(0.5, w),)),
        (f.sin, 1, lambda w, z: (cmath.cos(z),)),
        (f.cos, 1, lambda w, z: (-cmath.sin(z),)),
        (f.tan, 1, lambda w, z: (1 + w * w,)),
        (f.sinh, 1, lambda w, z: (cmath.cosh(z),)),
        (f.cosh, 1, lambda w, z: (cmath.sinh(z),)),
        (f.tanh, 1, lambda w, z: (1 - w * w,)),
        (inverse["sin"], 1, lambda w, z: (_over(1, _circle(z)),)),
        (inverse["cos"], 1, lambda w, z: (_over(-1, _circle(z)),)),
        (inverse["tan"], 1, lambda w, z: (_over(1, 1 + z * z),)),
        (inverse["sinh"], 1, lambda w, z: (_over(1, _hyperbola(z)),)),
        (inverse["cosh"], 1, lambda w, z: (_over(1, cmath.sqrt(z - 1) * cmath.sqrt(z - -1)),)),
        (inverse["tanh"], 1, lambda w, z: (_over(1, 1 - z * z),)),
    ]


HOLOMORPHIC_ROWS: tuple[Row, ...] = (
    *_same(2, lambda w, a, b: (One(), One()), operator.add, np.add),
    *_same(2, lambda w, a, b: (One(), -1.0), operator.sub, np.subtract),
    *_same(2, lambda w, a, b: (b, a), operator.mul, np.multiply),
    *_same(2, lambda w, a, b: (_over(1, b), _over(-w, b)), operator.truediv, np.divide),
    *_same(1, lambda w, z: (-1.0,), operator.neg, np.negative),
    *_same(2, _power_slopes, operator.pow, np.power),
    *_elementary(cmath, "a"),
    *_elementary(np, "arc"),
    (np.square, 1, lambda w, z: (2 * z,)),
    (np.reciprocal, 1, lambda w, z: (-w * w,)),
)


def _table(rows: tuple[Row, ...]) -> dict[tuple[int, int], ScalarRule]:
    return {
        (identity(function), arity): ScalarRule(function, partials, None, arity)
        for function, arity, partials in rows
    }


REAL_RULES = _table(REAL_ROWS)
HOLOMORPHIC_RULES = _table(HOLOMORPHIC_ROWS)

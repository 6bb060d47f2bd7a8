"""The scalar functions in the engine's table, by the Python callables that compute them.

    PARTNERS        math.sin -> "sin", operator.add -> "fadd", np.arctan2 -> "atan2"
    frule, rrule    of these, and of the functions in `diffrules`

The derivatives are those of `ir.derivatives.table`, evaluated at numbers by
`ir.derivatives.numeric`. That table has no complex numbers; `diffrules` has holomorphic functions.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from activerules.chainrules.diffrules import HOLOMORPHIC_RULES, REAL_RULES
from activerules.chainrules.scalar import SCALAR_RULES, ScalarRule
from activerules.ir.derivatives.numeric import partials, row_named
from activerules.rules.pickled import identity

_SAME_NAME = (
    "sqrt cbrt sin cos tan sinh cosh tanh exp exp2 expm1 log log2 log10 log1p hypot fabs copysign "
    "fmod floor ceil trunc ldexp nextafter"
).split()
_MATH = "asin acos atan atan2 asinh acosh atanh erf erfc pow remainder".split()
_MATH_OTHER = {"gamma": "tgamma", "lgamma": "lgamma"}
_OPERATORS = {
    "add": "fadd",
    "sub": "fsub",
    "mul": "fmul",
    "truediv": "fdiv",
    "neg": "fneg",
    "pow": "pow",
    "abs": "fabs",
    "iadd": "fadd",
    "isub": "fsub",
    "imul": "fmul",
    "itruediv": "fdiv",
    "ipow": "pow",
}
_UFUNCS = {
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
    "power": "pow",
    "float_power": "pow",
    "absolute": "fabs",
    "add": "fadd",
    "subtract": "fsub",
    "multiply": "fmul",
    "divide": "fdiv",
    "negative": "fneg",
    "maximum": "maximum",
    "minimum": "minimum",
    "fmax": "maxnum",
    "rint": "rint",
}
_BUILTINS = {"abs": "fabs", "pow": "pow"}


def _partners() -> dict[Any, str]:
    named = [(math, {name: name for name in (*_SAME_NAME, *_MATH)} | _MATH_OTHER)]
    named += [(np, {name: name for name in _SAME_NAME} | _UFUNCS)]
    named += [(operator, _OPERATORS), (builtins, _BUILTINS)]
    return {
        getattr(module, name): row
        for module, rows in named
        for name, row in rows.items()
        if hasattr(module, name)
    }


PARTNERS: dict[Any, str] = _partners()


def rrule(function: Any, x: Sequence[Any]) -> tuple[Any, Callable[[Any], Any]] | None:
    """The reverse rule of a scalar function at numbers; None if it is not in the tables."""
    rule = rule_of(function, x)
    return None if rule is None else rule.with_pullback(x)


def frule(deltas: Sequence[Any], function: Any, x: Sequence[Any]) -> tuple[Any, Any] | None:
    """The forward rule of a scalar function at numbers; None if it is not in the tables."""
    rule = rule_of(function, x)
    return None if rule is None else rule.push(deltas, x)


def rule_of(function: Any, x: Sequence[Any]) -> ScalarRule | None:
    """The derivatives of a function of numbers: by its `scalar_rule`, by the engine's table, or by
    a row of `diffrules`.
    """
    written = SCALAR_RULES.get(identity(function))
    if written is not None and written.admits(x):
        return written
    key = identity(function), len(x)
    if all(map(_is_real, x)):
        return _engine_rule(function, len(x)) or REAL_RULES.get(key)
    return HOLOMORPHIC_RULES.get(key) if all(map(_is_complex, x)) else None


def _engine_rule(function: Any, arity: int) -> ScalarRule | None:
    try:
        name = PARTNERS.get(function)
    except TypeError:
        return None
    row = None if name is None else row_named(name)
    if name is None or row is None or len(row.partials) != arity:
        return None

    def slopes(result: Any, *x: Any) -> tuple[Any, ...]:
        if isinstance(result, complex):  # (-1.0) ** 0.5
            return HOLOMORPHIC_RULES[identity(function), arity].partials(result, *x)
        return partials(name, float(result), *map(float, x))

    return ScalarRule(function, slopes, None, arity)


def _is_real(x: Any) -> bool:
    return isinstance(x, float | int | np.floating | np.integer)


def _is_complex(x: Any) -> bool:
    return _is_real(x) or isinstance(x, complex | np.complexfloating)

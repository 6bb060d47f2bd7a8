"""The derivatives of the engine's table as numbers: the rows are evaluated, without emitting code.

    partials("atan2", 0.3, y, x)      the partial derivatives at arguments x, y with result 0.3

A row of `table` is written in terms of a builder. Here the builder computes with numbers instead of
emitting instructions, so a derivative is written only once, in the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from activerules.ir.derivatives.rows import Row
from activerules.ir.derivatives.special import DIGAMMA, digamma_value
from activerules.ir.derivatives.table import FUNCTIONS, INSTRUCTIONS, function_of
from activerules.ir.llvm.types import DOUBLE, Type


def row_named(name: str) -> Row | None:
    """The row of an instruction (`fadd`) or of a function of the C library (`sin`)."""
    return INSTRUCTIONS.get(name) or FUNCTIONS.get(function_of(name) or name)


def partials(name: str, result: float, *x: float) -> tuple[float, ...]:
    """The derivatives of the result by each argument, by the row of that name.

    Where there is no derivative, the result may be infinite or NaN; nothing is raised.
    """
    row = row_named(name)
    if row is None or len(row.partials) != len(x):
        raise KeyError(name)
    # rows are written for values of the IR; here they get numbers
    point: Any = _Point(x, result)
    builder: Any = _Calculator()
    one: Any = _Number(1.0)
    with np.errstate(all="ignore"):
        slopes: list[Any] = [p and p.times(builder, point, one) for p in row.partials]
    return tuple(float(number.value) if number is not None else 0.0 for number in slopes)


class _Number:
    """A number where a row expects a value of the IR."""

    __slots__ = ("type", "value")

    def __init__(self, value: Any, type_: Type = DOUBLE) -> None:
        self.value = np.float64(value)
        self.type = type_


class _Point:
    """What a row reads: the operands, the result, their type."""

    callee = "ldexp"
    type = DOUBLE

    def __init__(self, x: Sequence[float], result: float) -> None:
        self._operands = tuple(map(_Number, x))
        self.r = _Number(result)

    def operand_type(self, k: int) -> Type:
        """The type of operand `k`."""
        return DOUBLE

    def __getattr__(self, name: str) -> _Number:
        index = "xyz".find(name)
        if len(name) != 1 or not 0 <= index < len(self._operands):
            raise AttributeError(name)
        return self._operands[index]


class _Calculator:
    """The part of `ir.llvm.builder.Builder` that rows use, on numbers."""

    def __init__(self) -> None:
        self.declarations: dict[str, str] = {}

    def const(self, type_: Type, number: float) -> _Number:
        return _Number(number)

    def fadd(self, x: _Number, y: _Number) -> _Number:
        return _Number(x.value + y.value)

    def fsub(self, x: _Number, y: _Number) -> _Number:
        return _Number(x.value - y.value)

    def fmul(self, x: _Number, y: _Number) -> _Number:
        return _Number(x.value * y.value)

    def fdiv(self, x: _Number, y: _Number) -> _Number:
        return _Number(x.value / y.value)

    def fneg(self, x: _Number) -> _Number:
        return _Number(-x.value)

    def fcmp(self, predicate: str, x: _Number, y: _Number) -> bool:
        unordered = math.isnan(x.value) or math.isnan(y.value)
        if unordered:
            return predicate.startswith("u")
        equal, greater = x.value == y.value, x.value > y.value
        compare = {"eq": equal, "ne": not equal, "gt": greater, "ge": greater or equal, "no": False}
        return bool(compare[predicate[1:]])

    def binary(self, op: str, x: bool, y: bool) -> bool:
        return {"or": x or y, "and": x and y}[op]

    def select(self, condition: Any, first: _Number, second: _Number) -> _Number:
        return first if condition else second

    def cast(self, op: str, x: _Number, type_: Type) -> _Number:
        return x

    def intrinsic(self, name: str, type_: Type, arguments: Sequence[_Number]) -> _Number:
        return _Number(_INTRINSICS[name](*(a.value for a in arguments)))

    def call(self, name: str, type_: Type, arguments: Sequence[_Number]) -> _Number:
        return _Number(_FUNCTIONS[name](*(a.value for a in arguments)))


_INTRINSICS: dict[str, Callable[..., Any]] = {
    **{f"llvm.{name}": getattr(np, name) for name in ("sin", "cos", "sinh", "cosh", "exp", "log")},
    **{f"llvm.{name}": getattr(np, name) for name in ("sqrt", "fabs", "copysign", "rint")},
    "llvm.pow": np.power,
    "llvm.maxnum": np.fmax,
}


def _digamma(x: Any) -> float:
    return digamma_value(float(x))


def _ldexp(x: Any, n: Any) -> Any:
    return np.ldexp(x, int(n))


_FUNCTIONS: dict[str, Callable[..., Any]] = {DIGAMMA: _digamma, "ldexp": _ldexp}

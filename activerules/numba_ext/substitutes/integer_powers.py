"""Floats to the power of integers for the AD target: `x ** 2`, `c[k] * x ** k`.

Numba's own code is a loop of squarings, even for constant exponents; the tape would have a row per
iteration. Here it is a product, or one call that the table of derivatives knows; so is the inverse
of a power, whose slope is finite where the power overflows.

Gives       implementations in `LOWERING`
            `DEFINITIONS`: LLVM IR of the functions they call, linked with derivatives
Invariants  W1  values are those of Numba, bit for bit; errors too
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import product
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.numba_ext.codegen.unoptimised import LOWERING

_SUFFIX = {types.float64: "f64", types.float32: "f32"}
_EXPONENTS = (types.int64, types.int32, types.uint64)
_LARGEST = 0x10000
"""Numba leaves larger exponents to `math.pow`."""


def _power(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    def power(x, n):
        if n < 0:
            m = -n
            if m < 0:
                raise OverflowError
            if m > _LARGEST:
                return math.pow(x, float(n))
            whole = _whole_power(x, m)  # pyright: ignore[reportCallIssue]
            if whole == 0.0:
                raise ZeroDivisionError("division by zero")
            return _inverse_power(x, m, whole)  # pyright: ignore[reportCallIssue]
        if n > _LARGEST:
            return math.pow(x, float(n))
        return _whole_power(x, n)  # pyright: ignore[reportCallIssue]

    return context.compile_internal(builder, power, sig, args)


for _number, _exponent in product(_SUFFIX, _EXPONENTS):
    for _operator in (pow, operator.pow, operator.ipow):
        LOWERING.lower(_operator, _number, _exponent)(_power)


@intrinsic
def _whole_power(typing_context, x, n):
    """`x` to the power of 0 <= n <= _LARGEST."""

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        base = values[0]
        exponent = context.cast(builder, values[1], n, types.int64)
        result = cgutils.alloca_once(builder, base.type)
        with builder.if_else(_is_constant(builder, exponent, 2)) as (square, higher):
            with square:
                builder.store(builder.fmul(base, base), result)
            with higher, builder.if_else(_is_constant(builder, exponent, 3)) as (cube, further):
                with cube:
                    builder.store(builder.fmul(base, builder.fmul(base, base)), result)
                with further:
                    builder.store(_call(builder, "ipow", x, [base, exponent]), result)
        return builder.load(result)

    return signature(x, x, n), codegen


@intrinsic
def _inverse_power(typing_context, x, n, whole):
    """`1 / whole`, where `whole` is `x` to the power of `n` and not zero."""

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        exponent = context.cast(builder, values[1], n, types.int64)
        return _call(builder, "inverse_power", x, [values[0], exponent, values[2]])

    return signature(x, x, n, x), codegen


def _is_constant(builder: Builder, exponent: Value, number: int) -> Value:
    """Whether LLVM can prove that the exponent is this number."""
    same = builder.icmp_unsigned("==", exponent, exponent.type(number))
    constant = call_named(builder, "llvm.is.constant.i64", cgutils.bool_t, [exponent])
    return builder.and_(constant, same)


def _call(builder: Builder, function: str, number: Any, arguments: Sequence[Value]) -> Value:
    types_ = [argument.type for argument in arguments]
    name = f"activerules.{function}.{_SUFFIX[number]}"
    declared = cgutils.insert_pure_function(
        builder.module, ir.FunctionType(types_[0], types_), name
    )
    return builder.call(declared, arguments)


_DEFINITION = """
define {t} @activerules.ipow.{suffix}({t} %x, i64 %n) alwaysinline memory(none) willreturn {{
entry:
  %none = icmp eq i64 %n, 0
  br i1 %none, label %end, label %turn
turn:
  %left = phi i64 [ %n, %entry ], [ %rest, %turn ]
  %square = phi {t} [ %x, %entry ], [ %next, %turn ]
  %product = phi {t} [ 1.0, %entry ], [ %chosen, %turn ]
  %odd = trunc i64 %left to i1
  %times = fmul {t} %product, %square
  %chosen = select i1 %odd, {t} %times, {t} %product
  %rest = lshr i64 %left, 1
  %next = fmul {t} %square, %square
  %done = icmp eq i64 %rest, 0
  br i1 %done, label %end, label %turn
end:
  %power = phi {t} [ 1.0, %entry ], [ %chosen, %turn ]
  ret {t} %power
}}
define {t} @activerules.inverse_power.{suffix}({t} %x, i64 %n, {t} %power) \
alwaysinline memory(none) willreturn {{
  %inverse = fdiv {t} 1.0, %power
  ret {t} %inverse
}}
"""
DEFINITIONS = "".join(
    _DEFINITION.format(t=t, suffix=suffix) for t, suffix in (("double", "f64"), ("float", "f32"))
)

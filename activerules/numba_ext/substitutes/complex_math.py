"""Functions of complex numbers for the AD target, in a form that has a derivative.

Numba's own code is correct for the value, but not for the derivative: `z ** 2` is `z * z` even if
the exponent is active, other powers are one call with operands in memory, and the square root of a
negative real number uses `abs(z.imag)`, which has no derivative at 0 (`np.arccosh` does, too). At
branch points, where the slope is infinite, `sqrt`, `asinh` and `atanh` return constants; `asin` and
`atan` call the last two. The formula for `cmath.tanh`, which `tan` calls, has slopes that cancel or
overflow; those of `sin(z) / z` cancel near 0.

Gives       implementations in `LOWERING`; `ufunc_loops`: the same for ufuncs
            `POWER_DEFINITIONS`: LLVM IR of the functions they call, linked with derivatives
Invariants  C1  values are those of Numba, bit for bit
            C2  a power is two calls, one for each part of the result, that the table of derivatives
                knows; `z ** 2` with a constant exponent stays a product
            C3  derivatives at the branch points of `sqrt`, `asinh` and `atanh`, and of what calls
                them, are infinite or NaN
            C4  no slopes of `tanh`, `tan` and `sinc` cancel, and none overflow
"""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.cpython import cmathimpl, mathimpl
from numba.extending import overload, register_jitable

from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.numba_ext.codegen.unoptimised import AD_TARGET, LOWERING
from activerules.numba_ext.substitutes.single_points import sinc_near_zero, with_parts, with_value

_BITS_OF_TWO = {types.complex128: 0x4000000000000000, types.complex64: 0x40000000}
_SUFFIX = {types.complex128: "f64", types.complex64: "f32"}


def ufunc_loops(ufunc: Any) -> Mapping[str, Callable[..., Any]]:
    """The loops of a ufunc that this target implements itself."""
    if ufunc in (np.power, np.float_power):
        return {"FF->F": _power, "DD->D": _power}
    loop = _LOOPS.get(ufunc)
    return {} if loop is None else {"F->F": loop, "D->D": loop}


# --- powers ---


def _power(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    number = sig.args[0]
    base, exponent = (context.make_complex(builder, number, value=value) for value in args)
    result = context.make_complex(builder, number)
    with builder.if_else(_is_constant_two(builder, number, exponent)) as (square, general):
        with square:
            a, b = base.real, base.imag
            result.real = builder.fsub(builder.fmul(a, a), builder.fmul(b, b))
            result.imag = builder.fadd(builder.fmul(a, b), builder.fmul(b, a))
        with general:
            operands = [base.real, base.imag, exponent.real, exponent.imag]
            result.real = _part(builder, "re", number, operands)
            result.imag = _part(builder, "im", number, operands)
    return result._getvalue()


for _number, _operator in product(_SUFFIX, (pow, operator.pow, operator.ipow)):
    LOWERING.lower(_operator, _number, _number)(_power)


def _is_constant_two(builder: Builder, number: Any, exponent: Any) -> Any:
    """Whether LLVM can prove that the exponent is 2; compared as bits, which LLVM folds."""
    width = number.underlying_float.bitwidth
    known = cgutils.true_bit
    for part, bits in ((exponent.real, _BITS_OF_TWO[number]), (exponent.imag, 0)):
        integer = builder.bitcast(part, ir.IntType(width))
        same = builder.icmp_unsigned("==", integer, integer.type(bits))
        constant = call_named(builder, f"llvm.is.constant.f{width}", cgutils.bool_t, [part])
        known = builder.and_(known, builder.and_(constant, same))
    return known


def _part(builder: Builder, part: str, number: Any, operands: list[Any]) -> Value:
    name = f"activerules.cpow.{part}.{_SUFFIX[number]}"
    return call_named(builder, name, operands[0].type, operands, "nounwind")


_POWER_PART = """
define {t} @activerules.cpow.{part}.{suffix}({t} %a, {t} %b, {t} %c, {t} %d) #{number} {{
entry:
  %two = fcmp oeq {t} %c, 2.0
  %real = fcmp oeq {t} %d, 0.0
  %square = and i1 %two, %real
  br i1 %square, label %product, label %power
product:
  %p = fmul {t} {first}
  %q = fmul {t} {second}
  %r = {combine} {t} %p, %q
  ret {t} %r
power:
  %base = alloca {{ {t}, {t} }}
  %exponent = alloca {{ {t}, {t} }}
  %result = alloca {{ {t}, {t} }}
  %base.im = getelementptr {{ {t}, {t} }}, ptr %base, i32 0, i32 1
  %exponent.im = getelementptr {{ {t}, {t} }}, ptr %exponent, i32 0, i32 1
  store {t} %a, ptr %base
  store {t} %b, ptr %base.im
  store {t} %c, ptr %exponent
  store {t} %d, ptr %exponent.im
  call void @{helper}(ptr %base, ptr %exponent, ptr %result)
  %address = getelementptr {{ {t}, {t} }}, ptr %result, i32 0, i32 {index}
  %value = load {t}, ptr %address
  ret {t} %value
}}
attributes #{number} = {{ memory(none) nounwind willreturn noinline }}
"""


def _power_definitions() -> str:
    text = ""
    for k, (t, suffix, helper) in enumerate(
        (("double", "f64", "numba_cpow"), ("float", "f32", "numba_cpowf"))
    ):
        text += f"declare void @{helper}(ptr, ptr, ptr)\n"
        parts = (("re", "%a, %a", "%b, %b", "fsub"), ("im", "%a, %b", "%b, %a", "fadd"))
        for index, (part, first, second, combine) in enumerate(parts):
            text += _POWER_PART.format(
                t=t,
                suffix=suffix,
                helper=helper,
                part=part,
                first=first,
                second=second,
                combine=combine,
                index=index,
                number=90 + 2 * k + index,
            )
    return text


POWER_DEFINITIONS = _power_definitions()


# --- square roots ---


@LOWERING.lower(cmath.sqrt, types.complex128)
@LOWERING.lower(cmath.sqrt, types.complex64)
def _square_root(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    single = sig.args[0] == types.complex64
    threshold = (mathimpl.FLT_MAX if single else mathimpl.DBL_MAX) / (1 + math.sqrt(2))

    def square_root(z):
        a, b = z.real, z.imag
        if math.isinf(b):
            return complex(with_value(0.0, abs(b)), with_value(0.0, b))
        if math.isnan(a):
            return complex(a, a)
        if math.isinf(a):
            if a < 0.0:
                return complex(abs(b - b), with_value(0.0, math.copysign(a, b)))
            return complex(with_value(0.0, a), math.copysign(b - b, b))
        if a == 0.0 and b == 0.0:
            steep = math.sqrt(a) + math.sqrt(b)  # the derivatives are infinite
            return complex(with_value(steep, abs(a)), with_value(steep, b))
        scale = abs(a) >= threshold or abs(b) >= threshold
        if scale:
            a *= 0.25
            b *= 0.25
        # the larger part by a root, the other one by division (CACM algorithm 312)
        if a >= 0:
            t = math.sqrt((a + math.hypot(a, b)) * 0.5)
            real, imag = t, b / (2 * t)
        else:
            t = math.sqrt((-a + math.hypot(a, b)) * 0.5)
            # b times its sign, not abs(b): on the branch cut the derivative is that of one side
            real, imag = b * math.copysign(1.0, b) / (2 * t), math.copysign(t, b)
        return complex(real * 2, imag) if scale else complex(real, imag)

    return context.compile_internal(builder, square_root, sig, args)


def _inverse_cosh(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    """Like Numba's own, but with the square root above."""
    one = np.complex64(1) if sig.args[0] == types.complex64 else np.complex128(1)

    def inverse_cosh(z):
        return np.log(z + np.sqrt(z + one) * np.sqrt(z - one))

    return context.compile_internal(builder, inverse_cosh, sig, args)


# --- inverse hyperbolic functions ---


@register_jitable
def _steep_at_one(zero, one, value):
    """`value`, with infinite slopes where the part `zero` is 0 and the part `one` is 1 or -1."""
    if zero == 0.0 and abs(one) == 1.0:
        steep = math.sqrt(zero) + math.sqrt(abs(one) - 1.0)
        return complex(with_value(steep, value.real), with_value(steep, value.imag))
    return value


def _steep(function: Any, implementation: Any, corrected: Callable[..., Any]) -> Any:
    """The lowering of a function: Numba's own, and `corrected` of the argument and its value."""

    @LOWERING.lower(function, types.complex128)
    @LOWERING.lower(function, types.complex64)
    def lower(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
        value = implementation(context, builder, sig, args)
        typed = signature(sig.return_type, *sig.args, sig.return_type)
        return context.compile_internal(builder, corrected, typed, [*args, value])

    return lower


_inverse_sinh = _steep(
    cmath.asinh, cmathimpl.asinh_impl, lambda z, value: _steep_at_one(z.real, z.imag, value)
)
_inverse_tanh = _steep(
    cmath.atanh, cmathimpl.atanh_impl, lambda z, value: _steep_at_one(z.imag, z.real, value)
)


_LOOPS: dict[Any, Callable[..., Any]] = {
    np.sqrt: _square_root,
    np.arccosh: _inverse_cosh,
    np.arcsinh: _inverse_sinh,
    np.arctanh: _inverse_tanh,
}


# --- functions whose slopes cancel ---


@overload(cmath.tanh, target=AD_TARGET)
def _tanh(z):
    if not isinstance(z, types.Complex):
        return None
    implementation: Any = cmathimpl.impl_cmath_tanh(z)
    original = register_jitable(implementation)

    def tanh(z):
        value = original(z)
        x, y = z.real, z.imag
        if math.isinf(x):
            return value
        # x times its sign, not abs(x), which has no derivative at 0
        sign = math.copysign(1.0, x)
        below_one = math.expm1(-2.0 * sign * x)
        four_cosines = 4.0 * math.exp(-2.0 * sign * x) * math.cos(y)
        scale = below_one * below_one + four_cosines * math.cos(y)
        real, imag = -sign * math.expm1(-4.0 * sign * x), four_cosines * math.sin(y)
        return with_parts(complex(real / scale, imag / scale), value)

    return tanh


@overload(np.sinc, target=AD_TARGET)
def _sinc(x):
    if not isinstance(x, types.Complex):
        return None

    def sinc(x):
        y = x * np.pi
        if abs(y) > 0.01:
            return np.sin(y) / y
        at = y if y != 0.0 else complex(1e-20, 0.0) * np.pi
        return with_parts(sinc_near_zero(y), np.sin(at) / at)

    return sinc

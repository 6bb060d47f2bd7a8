"""NumPy functions with a branch for single points, for the AD target, with the derivative of the
function at these points, not of the branch.

Numba's own code returns a constant if `x % y` is zero, or if the argument of `cbrt` is NaN,
`x + log(2)` if the arguments of `logaddexp` are equal, the sample if `np.interp` is evaluated at a
knot, roots of a shorter polynomial if the last coefficient is 0: right for the value alone.

Gives       implementations in `LOWERING`; `ufunc_loops`: the same for ufuncs
            `DEFINITIONS`: LLVM IR of the functions they call, linked with derivatives
Invariants  E1  values are those of Numba, bit for bit; errors too
            E2  first and second derivatives are those of the function wherever it is smooth; at a
                kink or jump of `%` and `np.interp` they are those from the right; at NaN they
                are NaN

`with_value(x, value)` is `value`, with the derivative of `x`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.cpython import numbers
from numba.extending import intrinsic, overload, register_jitable
from numba.np import arraymath, npyfuncs
from numba.np.polynomial import polynomial_functions

from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.unoptimised import AD_TARGET, LOWERING

_SYMBOLS = {
    types.float64: "activerules.with_value.f64",
    types.float32: "activerules.with_value.f32",
}
DEFINITIONS = "".join(
    f"define {t} @{_SYMBOLS[number]}({t} %x, {t} %value) alwaysinline memory(none) willreturn {{\n"
    f"  ret {t} %value\n}}\n"
    for number, t in ((types.float64, "double"), (types.float32, "float"))
)


def ufunc_loops(ufunc: Any) -> Mapping[str, Callable[..., Any]]:
    """The loops of a ufunc that this target implements itself."""
    loop = _UFUNCS.get(ufunc)
    return {} if loop is None else {f"{t * ufunc.nin}->{t}": loop for t in "fd"}


def _with_value(builder: Builder, number: Any, x: Any, value: Value) -> Value:
    function_type = ir.FunctionType(value.type, [value.type, value.type])
    function = cgutils.insert_pure_function(builder.module, function_type, _SYMBOLS[number])
    return builder.call(function, [x, value])


_intrinsic: Any = intrinsic  # what it returns is called with fewer arguments


@_intrinsic
def with_value(typing_context, x, value):
    """`value` with the derivative of `x`, which is cast to the type of `value`; both are floats."""

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Any:
        same = context.cast(builder, values[0], x, value)
        return _with_value(builder, value, same, values[1])

    return signature(value, x, value), codegen


@register_jitable
def with_parts(z, value):
    """`value` with the derivative of `z`; both are complex."""
    return complex(with_value(z.real, value.real), with_value(z.imag, value.imag))


# --- remainders ---


def _smooth_remainder(builder: Builder, x: Any, y: Any) -> Value:
    """The remainder as x - n y; at a jump, with the n to its right if y > 0. Signs of zeros may
    differ from the value's.
    """
    remainder, zero = builder.frem(x, y), x.type(0.0)
    other_sign = builder.xor(
        builder.fcmp_ordered("<", y, zero), builder.fcmp_ordered("<", remainder, zero)
    )
    differs = builder.and_(builder.fcmp_ordered("!=", remainder, zero), other_sign)
    return builder.fadd(remainder, builder.select(differs, y, zero))


def _remainder(
    context: Context, builder: Builder, sig: Any, args: Sequence[Value], loc: Any = None
) -> Any:
    value = numbers.real_mod_impl(context, builder, sig, args, loc)
    return _with_value(builder, sig.return_type, _smooth_remainder(builder, *args), value)


def _quotient_and_remainder(
    context: Context, builder: Builder, sig: Any, args: Sequence[Value], loc: Any = None
) -> Value:
    results = numbers.real_divmod_impl(context, builder, sig, args, loc)
    quotient, value = cgutils.unpack_tuple(builder, results, 2)
    remainder = _with_value(builder, sig.args[0], _smooth_remainder(builder, *args), value)
    return cgutils.pack_array(builder, (quotient, remainder))


for _number in _SYMBOLS:
    for _operator in (operator.mod, operator.imod):
        LOWERING.lower(_operator, _number, _number)(_remainder)
    LOWERING.lower(divmod, _number, _number)(_quotient_and_remainder)


# --- ufuncs ---


def _sign(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Any:
    """The sign; Numba returns the argument itself if it is zero or NaN."""
    value = numbers.real_sign_impl(context, builder, sig, args)
    return _with_value(builder, sig.return_type, value.type(0.0), value)


def _sum_of_powers(original: Any, base: float) -> Callable[..., Any]:
    """The implementation of log(base ** x + base ** y), logarithm to that base."""
    at_equal, curvature = math.log(2) / math.log(base), math.log(base) / 8

    def equal_or_not(x, y, value):
        if x < y or x > y:
            return value
        if x != y:
            return with_value(math.exp(x + y), value)
        middle = x * 0.5 + y * 0.5 + at_equal
        difference = x - y
        # false for infinities of one sign; the difference is zero, but LLVM does not know that
        if difference < 1.0:
            middle += curvature * difference * difference
        return with_value(middle, value)

    def loop(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
        value = original(context, builder, sig, args)
        number = sig.return_type
        typed = signature(number, *sig.args, number)
        return context.compile_internal(builder, equal_or_not, typed, [*args, value])

    return loop


def _cube_root(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Any:
    def number_or_not(x, value):
        # every derivative of the exponential is NaN at NaN
        return value if x == x else with_value(math.exp(x), value)

    value = npyfuncs.np_real_cbrt_impl(context, builder, sig, args)
    typed = signature(sig.return_type, *sig.args, sig.return_type)
    return context.compile_internal(builder, number_or_not, typed, [*args, value])


_UFUNCS: dict[Any, Callable[..., Any]] = {
    np.sign: _sign,
    np.cbrt: _cube_root,
    np.logaddexp: _sum_of_powers(npyfuncs.np_real_logaddexp_impl, math.e),
    np.logaddexp2: _sum_of_powers(npyfuncs.np_real_logaddexp2_impl, 2.0),
}


# --- array functions ---


@overload(np.sinc, target=AD_TARGET)
def _sinc(x):
    if not isinstance(x, types.Float):
        return None

    def sinc(x):
        y = x * np.pi
        if abs(y) > 0.01:
            return np.sin(y) / y
        value = 1.0 if x == 0.0 else np.sin(y) / y
        return with_value(sinc_near_zero(y), value)

    return sinc


@register_jitable
def sinc_near_zero(y):
    """sin(y) / y by its series: the derivative of the quotient cancels."""
    square = y * y
    return 1.0 - square / 6.0 * (1.0 - square / 20.0 * (1.0 - square / 42.0))


@overload(np.unwrap, target=AD_TARGET)
def _unwrap(p, discont=None, axis=-1, period=6.283185307179586):
    original = register_jitable(arraymath.numpy_unwrap(p, discont, axis, period))
    if not (isinstance(p, types.Array) and isinstance(p.dtype, types.Float)):
        return original

    def unwrap(p, discont=None, axis=-1, period=6.283185307179586):
        values = original(p, discont, axis, period)
        result = np.empty_like(values)
        for index, value in np.ndenumerate(values):
            turns = np.rint((value - p[index]) / period)
            smooth = p[index] + turns * period
            result[index] = with_value(smooth, value)
        return result

    return unwrap


@overload(np.roots, target=AD_TARGET)
def _roots(p):
    original: Any = register_jitable(polynomial_functions.roots_impl(p))
    number = getattr(p, "dtype", None)
    if not (isinstance(p, types.Array) and isinstance(number, (types.Float, types.Complex))):
        return original
    with_root = _with_complex_root if isinstance(number, types.Complex) else _with_real_root

    def roots(p):
        values = original(p)
        if len(p) > 0 and p[-1] == 0.0:  # the coefficient was dropped
            for i in range(len(values)):
                values[i] = with_root(p, values[i])
        return values

    return roots


@register_jitable
def _with_real_root(p, root):
    return with_value(_near_root(p, with_value(0.0, root)), root)


@register_jitable
def _with_complex_root(p, root):
    return with_parts(_near_root(p, with_parts(0j, root)), root)


@register_jitable
def _near_root(p, root):
    """The root by two steps of Newton's method, which have its first and second derivatives."""
    for _ in range(2):
        value = slope = 0.0 * root
        for c in p:
            slope = slope * root + value
            value = value * root + c
        root = root - value / slope
    return root


@overload(np.interp, target=AD_TARGET)
def _interp(x, xp, fp):
    arraymath.np_interp(x, xp, fp)  # raises Numba's errors for arguments it refuses
    number = np.result_type(arraymath.determine_dtype(fp), np.float64).type
    between = _between_complex if number is np.complex128 else _between

    @register_jitable
    def of_arrays(points, knots, samples):
        if len(knots) == 0:
            raise ValueError("array of sample points is empty")
        if len(knots) != len(samples):
            raise ValueError("fp and xp are not of the same size.")
        result = np.empty(points.shape, number)
        last, interval = len(knots) - 1, 0
        for index, at in np.ndenumerate(points):
            if np.isnan(at) and last > 0:
                result[index] = number(at)
                continue
            interval = arraymath.binary_search_with_guess(at, knots, len(knots), interval)
            if interval == -1:
                result[index] = samples[0]
            elif interval >= last:
                result[index] = samples[last]
            else:
                ends = knots[interval], knots[interval + 1]
                result[index] = between(at, ends, (samples[interval], samples[interval + 1]))
        return result

    def interp(x, xp, fp):
        points, knots = np.asarray(x, np.float64), np.asarray(xp, np.float64)
        return of_arrays(points, knots, np.asarray(fp, number))

    def interp_at_number(x, xp, fp):
        return interp_of_array(np.full(1, x), xp, fp)[0]

    interp_of_array = register_jitable(interp)
    return interp_at_number if isinstance(x, types.Number) else interp


@register_jitable
def _on_line(at, ends, slope, left, right):
    """Interpolate from the left end, or from the right one if that gives NaN."""
    value = slope * (at - ends[0]) + left
    if at == ends[0]:
        return with_value(value, left)
    if np.isnan(value):
        value = slope * (at - ends[1]) + right
        if np.isnan(value) and left == right:
            value = left
    return value


@register_jitable
def _between(at, ends, samples):
    left, right = samples
    return _on_line(at, ends, (right - left) / (ends[1] - ends[0]), left, right)


@register_jitable
def _between_complex(at, ends, samples):
    left, right = samples
    inverse = 1 / (ends[1] - ends[0])
    real = _on_line(at, ends, (right.real - left.real) * inverse, left.real, right.real)
    imag = _on_line(at, ends, (right.imag - left.imag) * inverse, left.imag, right.imag)
    return complex(real, imag) if at == ends[0] else real + 1j * imag

"""The derivative of a complex power (a + bi) ** (c + di), which is two functions of four floats.

    activerules.cpow.re.f64(a, b, c, d), activerules.cpow.im.f64(a, b, c, d), and .f32

A front end that knows complex powers calls these and defines them. With w = z ** p:

    dw/dz = p z ** (p - 1)            dw/dp = w log z

and the partials of both parts with respect to both parts of z and p follow from the Cauchy-Riemann
equations. Where w has no derivative, at z = 0, dw/dz is infinite for p < 1 (0 for p = 0), and dw/dp
is zero.

Source: Ahlfors, Complex Analysis, section 3.4.
"""

from __future__ import annotations

from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Value

POWER_SYMBOLS = {
    f"activerules.cpow.{part}.{suffix}": f"cpow.{part}"
    for part in ("re", "im")
    for suffix in ("f64", "f32")
}


def power_terms(b: Builder, part: str, by: int, x: Value, y: Value, c: Value, d: Value) -> Value:
    """The partial of one part of (x + yi) ** (c + di) by operand `by`."""
    re, im = _slope(b, x, y, c, d) if by < 2 else _log_slope(b, x, y, c, d)
    by_imaginary = by % 2 == 1
    if part == "re":
        return b.fneg(im) if by_imaginary else re
    return re if by_imaginary else im


def _slope(b: Builder, x: Value, y: Value, c: Value, d: Value) -> tuple[Value, Value]:
    """P z ** (p - 1)."""
    one, zero = constant(x.type, 1.0), constant(x.type, 0.0)
    re, im = _product(b, (c, d), _power(b, x, y, b.fsub(c, one), d))
    at_zero = _both_zero(b, x, y)
    singular = b.binary("and", at_zero, b.fcmp("olt", c, one))
    constant_one = _both_zero(b, c, d)
    infinite = b.select(constant_one, zero, constant(x.type, float("inf")))
    return b.select(singular, infinite, re), b.select(singular, zero, im)


def _log_slope(b: Builder, x: Value, y: Value, c: Value, d: Value) -> tuple[Value, Value]:
    """Z ** p log z; 0 where z or the power is."""
    w = _power(b, x, y, c, d)
    modulus = b.intrinsic("llvm.log", x.type, [_libm(b, "hypot", x, y)])
    re, im = _product(b, w, (modulus, _libm(b, "atan2", y, x)))
    vanishes = b.binary("or", _both_zero(b, *w), _both_zero(b, x, y))
    zero = constant(x.type, 0.0)
    return b.select(vanishes, zero, re), b.select(vanishes, zero, im)


def _power(b: Builder, x: Value, y: Value, c: Value, d: Value) -> tuple[Value, Value]:
    suffix = "f64" if str(x.type) == "double" else "f32"
    re, im = (
        b.call(f"activerules.cpow.{part}.{suffix}", x.type, [x, y, c, d]) for part in ("re", "im")
    )
    return re, im


def _libm(b: Builder, name: str, x: Value, y: Value) -> Value:
    return b.call(name if str(x.type) == "double" else name + "f", x.type, [x, y])


def _product(b: Builder, u: tuple[Value, Value], v: tuple[Value, Value]) -> tuple[Value, Value]:
    re = b.fsub(b.fmul(u[0], v[0]), b.fmul(u[1], v[1]))
    return re, b.fadd(b.fmul(u[0], v[1]), b.fmul(u[1], v[0]))


def _both_zero(b: Builder, x: Value, y: Value) -> Value:
    zero = constant(x.type, 0.0)
    return b.binary("and", b.fcmp("oeq", x, zero), b.fcmp("oeq", y, zero))

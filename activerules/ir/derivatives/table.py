"""Derivatives of scalar floating point instructions: one row each, which declares what it reads.

    x, y, z, w   operands 0 to 3      r   the result        g   cotangent of r (see `rows`)

Where a function has no derivative, the convention is
    fabs, copysign at 0            0; at NaN it is NaN, as their result is
    hypot at (0, 0)                0
    min and max of equal operands  all to the first operand; of two NaN, too
    floor, ceil, rint ...          0, at the jumps too
    nextafter(x, y)                that of x: the step to the next number is a constant
    with_value(x, y)               that of x, for which y is substituted
    inverse_power(x, n, z)         that of 1 / x ** n; z is x ** n
    sqrt, cbrt at 0                inf, also as x ** 0.5, which LLVM writes as fabs(sqrt(x))
    x ** y                         in x: 0 if y is 0; in y: 0 if the result is 0
    frem, fmod, remainder          the quotient is locally constant

A slope of 0 is a factor like any other: inf · 0 is NaN; but a cotangent or tangent of 0 stays 0 at
a slope that is infinite for finite operands: see `slopes`. An operand that a select,
min, max or fdim does not choose is not part of the derivative: see `rows.Partial.used`.

Source: Griewank and Walther, Evaluating Derivatives (2nd ed., 2008), section 2.1; Abramowitz and
Stegun 4.3-4.6, 6.3, 7.1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from activerules.ir.derivatives.complex_power import POWER_SYMBOLS, power_terms
from activerules.ir.derivatives.rows import Partial, Row, RowOperands, Times
from activerules.ir.derivatives.special import digamma
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.model import BINARY_INT, CASTS, MAY_TRAP, Instruction, Value
from activerules.ir.llvm.refusal import refusal
from activerules.ir.llvm.types import DOUBLE, FLOAT, I1, I64, FloatType


def row_for(instruction: Instruction) -> Row | None:
    """The row of an instruction; None if no derivative is known.

    Scalars only. Calls are looked up by name: intrinsics, the C library, `add_symbols`.
    """
    if not isinstance(instruction.type, FloatType):
        return None
    if instruction.opcode != "call":
        return INSTRUCTIONS.get(instruction.opcode)
    name = instruction.callee_name
    if name is None or instruction.type not in (DOUBLE, FLOAT):
        return None
    function = function_of(name)
    if function == "fabs" and _is_root(instruction.operands[0]):
        return _KEPT
    row = FUNCTIONS.get(function or "")
    return row if row is not None and len(row.partials) == len(instruction.operands) else None


def require_row(i: Instruction) -> Row:
    """The row of an instruction with an active result; refused if there is none."""
    row = row_for(i)
    if row is None:
        raise refusal(
            i,
            f"no derivative is known for {i.callee_name or i.opcode} of type {i.type}",
            "an active value is computed by it",
            ["put the computation into a function and give it a rule"],
        )
    return row


def _is_root(value: Value) -> bool:
    """Whether the modulus of a value changes nothing but the sign of zero."""
    name = value.callee_name if isinstance(value, Instruction) else None
    return name is not None and function_of(name) == "sqrt"


def chooses(instruction: Instruction) -> bool:
    """Whether the result depends on only some of the operands, chosen at run time."""
    row = row_for(instruction)
    return row is not None and any(p is not None and p.used is not None for p in row.partials)


_INTRINSIC_SUFFIX = re.compile(r"(?:\.(?:b?f16|f32|f64|f80|f128|ppcf128|i\d+|p\d+|n?x?v\d\w*))+$")


def function_of(symbol: str) -> str | None:
    """The function a symbol computes, without its type; None for an unknown symbol.

    `sin` for `sin`, `sinf` and `llvm.sin.f64`; `smax` for `llvm.smax.i64`. Any intrinsic is taken
    to be known.
    """
    if not symbol.startswith("llvm."):
        return _SYMBOLS.get(symbol)
    name = _INTRINSIC_SUFFIX.sub("", symbol)[len("llvm.") :]
    return _INTRINSICS.get(name, name)


def add_symbols(symbols: Mapping[str, str]) -> None:
    """Let symbols of a language's own library stand for functions that have a row."""
    _SYMBOLS.update(symbols)


def is_inactive_math(name: str) -> bool:
    """Whether the derivative of a function is zero wherever it exists: `floor`, `llvm.rint.f64`."""
    return function_of(name) in _INACTIVE


def is_pure_call(name: str) -> bool:
    """Whether a function has no effect but its result: it may be computed again, or not at all."""
    return function_of(name) in _PURE


def cost(instruction: Instruction) -> int | None:
    """What computing the instruction again costs, in units of about one addition.

    0 for cheap arithmetic, None for what should rather be kept: expensive calls, memory, phis.
    """
    opcode = instruction.opcode
    if opcode == "call":
        name = instruction.callee_name
        return _CALL_COSTS.get(function_of(name or "") or "")
    if opcode == "fdiv" or opcode in MAY_TRAP:
        return _DIVISION
    return 0 if opcode in _CHEAP else None


# --- the terms that rows are made of ---


def _by(needs: str, times: Times) -> Partial:
    return Partial(tuple(needs), times)


def _row(*partials: Partial | None) -> Row:
    return Row(partials)


def _c(b: Builder, like: Value, number: float) -> Value:
    return b.const(like.type, number)


def _scaled(b: Builder, g: Value, factor: float) -> Value:
    return b.fmul(g, _c(b, g, factor))


def _m(b: Builder, name: str, *arguments: Value) -> Value:
    return b.intrinsic(f"llvm.{name}", arguments[0].type, arguments)


def _or_zero(b: Builder, is_zero: Value, otherwise: Value) -> Value:
    return b.select(is_zero, _c(b, otherwise, 0.0), otherwise)


def _equal(b: Builder, x: Value, number: float) -> Value:
    return b.fcmp("oeq", x, _c(b, x, number))


def _sign(b: Builder, x: Value) -> Value:
    return _m(b, "copysign", _c(b, x, 1.0), x)


_same = _by("", lambda b, i, g: g)
_negated = _by("", lambda b, i, g: b.fneg(g))


def _remainder_y(b: Builder, i: RowOperands, g: Value) -> Value:
    # r = x - n y; n from the exact difference, for x / y may round across an integer
    quotient = b.fdiv(b.fsub(i.x, i.r), i.y)
    return b.fneg(b.fmul(g, _m(b, "rint", quotient)))


def _sqrt_x(b: Builder, i: RowOperands, g: Value) -> Value:
    # the root of -0.0 is -0.0, but the slope is that of the right-hand side
    return b.fdiv(_scaled(b, g, 0.5), _m(b, "fabs", i.r))


def _one_minus_square(b: Builder, x: Value) -> Value:
    # (1 - x)(1 + x): 1 - x² would cancel near ±1
    one = _c(b, x, 1.0)
    return b.fmul(b.fsub(one, x), b.fadd(one, x))


def _one_plus_square(b: Builder, x: Value) -> Value:
    return b.fadd(b.fmul(x, x), _c(b, x, 1.0))


def _asinh_x(b: Builder, i: RowOperands, g: Value) -> Value:
    # of a large x the square could overflow, and the 1 is lost
    size = _m(b, "fabs", i.x)
    is_large = b.fcmp("ogt", size, _c(b, size, 1e10))
    return b.fdiv(g, b.select(is_large, size, _m(b, "sqrt", _one_plus_square(b, i.x))))


def _acosh_x(b: Builder, i: RowOperands, g: Value) -> Value:
    # two roots: the root of the product would be real for x < -1, and could overflow
    one = _c(b, i.x, 1.0)
    roots = b.fmul(_m(b, "sqrt", b.fsub(i.x, one)), _m(b, "sqrt", b.fadd(i.x, one)))
    return b.fdiv(g, roots)


def _atan2_term(b: Builder, g: Value, numerator: Value, other: Value) -> Value:
    # numerator / (numerator² + other²), scaled so that the squares neither overflow nor vanish
    scale = _m(b, "maxnum", _m(b, "fabs", numerator), _m(b, "fabs", other))
    p, q = b.fdiv(numerator, scale), b.fdiv(other, scale)
    square = b.fadd(b.fmul(p, p), b.fmul(q, q))
    slope = b.fdiv(b.fdiv(p, square), scale)
    return b.fmul(g, _or_zero(b, _equal(b, scale, math.inf), slope))


def _erf_x(b: Builder, i: RowOperands, g: Value) -> Value:
    density = _m(b, "exp", b.fneg(b.fmul(i.x, i.x)))
    return b.fmul(g, _scaled(b, density, 2 / math.sqrt(math.pi)))


def _pow_x(b: Builder, i: RowOperands, g: Value) -> Value:
    less = _m(b, "pow", i.x, b.fsub(i.y, _c(b, i.y, 1.0)))
    # so large a y is even: y - 1 would be odd, and is rounded
    is_even = b.fcmp("oge", _m(b, "fabs", i.y), _c(b, i.y, 2.0 ** (53 if i.type is DOUBLE else 24)))
    less = b.select(is_even, _m(b, "copysign", less, i.x), less)
    slope = b.fmul(i.y, less)
    # elsewhere the product is 0 by itself, and to second order depends on y; or y is infinite
    is_zero = b.binary("or", _equal(b, i.y, 0.0), _equal(b, less, 0.0))
    is_nan = b.fcmp("uno", slope, slope)
    return b.fmul(g, _or_zero(b, b.binary("and", is_zero, is_nan), slope))


def _pow_y(b: Builder, i: RowOperands, g: Value) -> Value:
    # 0 ** y is 0 for all y > 0, although log(0) is not finite
    slope = b.fmul(i.r, _m(b, "log", i.x))
    return b.fmul(g, _or_zero(b, _equal(b, i.r, 0.0), slope))


def _powi_x(b: Builder, i: RowOperands, g: Value) -> Value:
    # by pow: llvm.powi needs compiler-rt, which a JIT need not have
    n = b.cast("sitofp", i.y, i.type)
    slope = b.fmul(n, _m(b, "pow", i.x, b.fsub(n, _c(b, n, 1.0))))
    return b.fmul(g, _or_zero(b, _equal(b, n, 0.0), slope))


def _ipow_x(b: Builder, i: RowOperands, g: Value) -> Value:
    n = b.cast("uitofp", i.y, i.type)
    name = f"activerules.ipow.{'f64' if i.type is DOUBLE else 'f32'}"
    # not -1 for n = 0, which would be a power with 64 squarings
    less = b.binary("sub", _m(b, "umax", i.y, b.const(I64, 1)), b.const(I64, 1))
    return b.fmul(g, b.fmul(n, b.call(name, i.type, [i.x, less])))


def _inverse_power_x(b: Builder, i: RowOperands, g: Value) -> Value:
    # by the result: it stays finite where the power overflows
    n = b.cast("uitofp", i.y, i.type)
    return b.fneg(b.fmul(g, b.fdiv(b.fmul(n, i.r), i.x)))


def _power_row(part: str) -> Row:
    def by(k: int) -> Partial:
        return _by("xyzw", lambda b, i, g: b.fmul(g, power_terms(b, part, k, i.x, i.y, i.z, i.w)))

    return _row(*map(by, range(4)))


def _hypot_term(b: Builder, i: RowOperands, g: Value, x: Value) -> Value:
    return b.fmul(g, _or_zero(b, _equal(b, i.r, 0.0), b.fdiv(x, i.r)))


def _times_sign(b: Builder, g: Value, x: Value, sign: Value) -> Value:
    """G times the sign of x, given for other numbers than 0. At 0 and NaN, where the slope is x, it
    is x times 0: to second order it is constant.
    """
    zero = _c(b, x, 0.0)
    return b.fmul(g, b.select(b.fcmp("one", x, zero), sign, b.fmul(x, zero)))


def _fabs_x(b: Builder, i: RowOperands, g: Value) -> Value:
    return _times_sign(b, g, i.x, _sign(b, i.x))


def _copysign_x(b: Builder, i: RowOperands, g: Value) -> Value:
    return _times_sign(b, g, i.x, b.fmul(_sign(b, i.x), _sign(b, i.y)))


def _chosen(first: bool, *, or_nan: bool) -> Partial:
    """One operand of a minimum or maximum; `or_nan`: the result is the operand that is NaN."""

    def is_first(b: Builder, i: RowOperands) -> Value:
        nan = i.x if or_nan else i.r  # a result that is no NaN was chosen before one
        return b.binary("or", b.fcmp("oeq", i.r, i.x), b.fcmp("uno", nan, nan))

    def used(b: Builder, i: RowOperands) -> Value:
        chosen = is_first(b, i)
        return chosen if first else b.binary("xor", chosen, b.const(I1, 1))

    def times(b: Builder, i: RowOperands, g: Value) -> Value:
        zero = _c(b, g, 0.0)
        return b.select(is_first(b, i), *((g, zero) if first else (zero, g)))

    return Partial(("x", "r"), times, used=used)


def _positive_part(negate: bool) -> Partial:
    def used(b: Builder, i: RowOperands) -> Value:
        return b.fcmp("ugt", i.r, _c(b, i.r, 0.0))

    def times(b: Builder, i: RowOperands, g: Value) -> Value:
        return b.select(used(b, i), b.fneg(g) if negate else g, _c(b, g, 0.0))

    return Partial(("r",), times, used=used)


def _select_term(first: bool) -> Partial:
    def times(b: Builder, i: RowOperands, g: Value) -> Value:
        zero = _c(b, g, 0.0)
        return b.select(i.x, g, zero) if first else b.select(i.x, zero, g)

    def used(b: Builder, i: RowOperands) -> Value:
        return i.x if first else b.binary("xor", i.x, b.const(I1, 1))

    return Partial(("x",), times, used=used)


def _cast(pull: str, push: str) -> Partial:
    return Partial(
        (),
        lambda b, i, g: b.cast(pull, g, i.operand_type(0)),
        lambda b, i, t: b.cast(push, t, i.type),
    )


def _ldexp_x(b: Builder, i: RowOperands, g: Value) -> Value:
    return b.call(i.callee, g.type, [g, i.y])


_remainder = _row(_same, _by("xyr", _remainder_y))
_product_x, _product_y = (
    _by("y", lambda b, i, g: b.fmul(g, i.y)),
    _by("x", lambda b, i, g: b.fmul(g, i.x)),
)
# minnum gives the operand that is not NaN; minimum gives NaN if either is
_choice = _row(_chosen(True, or_nan=False), _chosen(False, or_nan=False))
_KEPT = _row(_same)
_choice_of_nan = _row(_chosen(True, or_nan=True), _chosen(False, or_nan=True))

INSTRUCTIONS: dict[str, Row] = {
    "fadd": _row(_same, _same),
    "fsub": _row(_same, _negated),
    "fmul": _row(_product_x, _product_y),
    "fdiv": _row(
        _by("y", lambda b, i, g: b.fdiv(g, i.y)),
        _by("yr", lambda b, i, g: b.fneg(b.fmul(b.fdiv(g, i.y), i.r))),
    ),
    "frem": _remainder,
    "fneg": _row(_negated),
    "fpext": _row(_cast("fptrunc", "fpext")),
    "fptrunc": _row(_cast("fpext", "fptrunc")),
    "select": _row(None, _select_term(True), _select_term(False)),
    "freeze": _row(_same),
}

FUNCTIONS: dict[str, Row] = {
    "sqrt": _row(_by("r", _sqrt_x)),
    "cbrt": _row(_by("r", lambda b, i, g: b.fdiv(_scaled(b, g, 1 / 3), b.fmul(i.r, i.r)))),
    "sin": _row(_by("x", lambda b, i, g: b.fmul(g, _m(b, "cos", i.x)))),
    "cos": _row(_by("x", lambda b, i, g: b.fneg(b.fmul(g, _m(b, "sin", i.x))))),
    "tan": _row(_by("r", lambda b, i, g: b.fmul(g, _one_plus_square(b, i.r)))),
    "asin": _row(
        _by("x", lambda b, i, g: b.fdiv(g, _m(b, "sqrt", _one_minus_square(b, i.x)))),
    ),
    "acos": _row(
        _by("x", lambda b, i, g: b.fneg(b.fdiv(g, _m(b, "sqrt", _one_minus_square(b, i.x))))),
    ),
    "atan": _row(_by("x", lambda b, i, g: b.fdiv(g, _one_plus_square(b, i.x)))),
    "atan2": _row(
        _by("xy", lambda b, i, g: _atan2_term(b, g, i.y, i.x)),
        _by("xy", lambda b, i, g: b.fneg(_atan2_term(b, g, i.x, i.y))),
    ),
    "sinh": _row(_by("x", lambda b, i, g: b.fmul(g, _m(b, "cosh", i.x)))),
    "cosh": _row(_by("x", lambda b, i, g: b.fmul(g, _m(b, "sinh", i.x)))),
    "tanh": _row(_by("r", lambda b, i, g: b.fmul(g, _one_minus_square(b, i.r)))),
    "asinh": _row(_by("x", _asinh_x)),
    "acosh": _row(_by("x", _acosh_x)),
    "atanh": _row(_by("x", lambda b, i, g: b.fdiv(g, _one_minus_square(b, i.x)))),
    "exp": _row(_by("r", lambda b, i, g: b.fmul(g, i.r))),
    "exp2": _row(_by("r", lambda b, i, g: b.fmul(g, _scaled(b, i.r, math.log(2))))),
    "exp10": _row(_by("r", lambda b, i, g: b.fmul(g, _scaled(b, i.r, math.log(10))))),
    "expm1": _row(_by("r", lambda b, i, g: b.fmul(g, b.fadd(i.r, _c(b, i.r, 1.0))))),
    "log": _row(_by("x", lambda b, i, g: b.fdiv(g, i.x))),
    "log2": _row(_by("x", lambda b, i, g: b.fdiv(_scaled(b, g, 1 / math.log(2)), i.x))),
    "log10": _row(_by("x", lambda b, i, g: b.fdiv(_scaled(b, g, 1 / math.log(10)), i.x))),
    "log1p": _row(_by("x", lambda b, i, g: b.fdiv(g, b.fadd(i.x, _c(b, i.x, 1.0))))),
    "pow": _row(_by("xy", _pow_x), _by("xr", _pow_y)),
    "powi": _row(_by("xy", _powi_x), None),
    "ipow": _row(_by("xy", _ipow_x), None),
    "inverse_power": _row(_by("xyr", _inverse_power_x), None, None),
    "hypot": _row(
        _by("xr", lambda b, i, g: _hypot_term(b, i, g, i.x)),
        _by("yr", lambda b, i, g: _hypot_term(b, i, g, i.y)),
    ),
    "erf": _row(_by("x", _erf_x)),
    "erfc": _row(_by("x", lambda b, i, g: b.fneg(_erf_x(b, i, g)))),
    "lgamma": _row(_by("x", lambda b, i, g: b.fmul(g, digamma(b, i.x)))),
    "tgamma": _row(_by("xr", lambda b, i, g: b.fmul(g, b.fmul(i.r, digamma(b, i.x))))),
    "fabs": _row(_by("x", _fabs_x)),
    "copysign": _row(_by("xy", _copysign_x), None),
    "fmod": _remainder,
    "remainder": _remainder,
    "fdim": _row(_positive_part(negate=False), _positive_part(negate=True)),
    "fma": _row(_product_x, _product_y, _same),
    "minnum": _choice,
    "maxnum": _choice,
    "minimum": _choice_of_nan,
    "maximum": _choice_of_nan,
    "ldexp": _row(_by("y", _ldexp_x), None),
    "cpow.re": _power_row("re"),
    "cpow.im": _power_row("im"),
    "nextafter": _row(_same, None),
    "with_value": _row(_same, None),
    "canonicalize": _row(_same),
    "arithmetic.fence": _row(_same),
    **dict.fromkeys(
        ("floor", "ceil", "trunc", "rint", "nearbyint", "round", "roundeven", "logb"), _row(None)
    ),
}

_LIBRARY = (
    "sqrt cbrt sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh exp exp2 exp10 "
    "expm1 log log2 log10 log1p pow hypot erf erfc lgamma tgamma fabs copysign fmod remainder fdim "
    "fma ldexp floor ceil trunc rint nearbyint round roundeven logb ilogb lround llround lrint "
    "llrint nextafter"
).split()
_SYMBOLS = {
    f"{symbol}{suffix}": function
    for symbol, function in (
        *((name, name) for name in _LIBRARY),
        ("fmin", "minnum"),
        ("fmax", "maxnum"),
        ("scalbn", "ldexp"),
    )
    for suffix in ("", "f")
} | {
    **POWER_SYMBOLS,
    **{
        f"activerules.{function}.f{bits}": function
        for function in ("ipow", "inverse_power", "with_value")
        for bits in (32, 64)
    },
}
_INTRINSICS = {"minimumnum": "minnum", "maximumnum": "maxnum", "fmuladd": "fma"}
_NO_FLOAT = frozenset("ilogb lround llround lrint llrint is.fpclass".split())
_INACTIVE = _NO_FLOAT | {name for name, row in FUNCTIONS.items() if not any(row.partials)}
_PURE = _NO_FLOAT.union(
    FUNCTIONS,
    "sincos sincospi modf frexp abs smax smin umax umin ctpop ctlz cttz bswap bitreverse fshl fshr "
    "fptosi.sat fptoui.sat sadd.with.overflow uadd.with.overflow ssub.with.overflow "
    "usub.with.overflow smul.with.overflow umul.with.overflow sadd.sat uadd.sat ssub.sat usub.sat "
    "scmp ucmp expect objectsize".split(),
)

_DIVISION = 8
_CHEAP = (
    BINARY_INT
    | CASTS
    | frozenset("fadd fsub fmul fneg icmp fcmp select freeze getelementptr".split())
    | frozenset("extractvalue insertvalue".split())
) - MAY_TRAP
_CALL_COSTS: dict[str, int] = {
    "sqrt": _DIVISION,
    "ipow": _DIVISION,
    "inverse_power": _DIVISION,
    **dict.fromkeys(
        "fabs copysign minnum maxnum minimum maximum fma canonicalize floor ceil trunc rint "
        "nearbyint roundeven arithmetic.fence abs smax smin umax umin ctpop ctlz cttz bswap "
        "bitreverse fshl fshr sadd.with.overflow uadd.with.overflow ssub.with.overflow "
        "usub.with.overflow smul.with.overflow umul.with.overflow sadd.sat uadd.sat ssub.sat "
        "usub.sat scmp ucmp expect is.fpclass fptosi.sat fptoui.sat with_value".split(),
        0,
    ),
}

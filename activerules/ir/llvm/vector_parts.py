"""Operations on vectors that can be done lane by lane: calls, and bit casts of integers.

Needs       names of intrinsics; lanes as scalars
Gives       `is_on_lanes`, `REDUCTIONS`, `VECTOR_SUFFIX`; `recast(builder, lanes, types)`
Invariants  L1  lane 0 has the low bits of an integer, as on every machine that Numba supports
"""

from __future__ import annotations

import re

from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.constant_parts import CannotSplit
from activerules.ir.llvm.model import Value
from activerules.ir.llvm.types import IntType, Type

VECTOR_SUFFIX = re.compile(r"\.v\d+(?=f\d|i\d|bf\d|p\d)")
_SCALAR = re.compile(r"(?:f|i|bf)\d+")
ELEMENTWISE = frozenset(
    "llvm." + name
    for name in (
        "sqrt sin cos tan asin acos atan atan2 sinh cosh tanh exp exp2 exp10 log log2 log10 pow "
        "powi fabs floor ceil trunc rint nearbyint round roundeven fma fmuladd minnum maxnum "
        "minimum maximum minimumnum maximumnum copysign canonicalize arithmetic.fence abs smax "
        "smin umax umin ctpop ctlz cttz bswap bitreverse fshl fshr ldexp is.fpclass lround llround "
        "lrint llrint fptosi.sat fptoui.sat sadd.sat uadd.sat ssub.sat usub.sat"
    ).split()
)
REDUCING = "llvm.vector.reduce."
REDUCTIONS: dict[str, str] = {
    **{name: name for name in "fadd fmul add mul and or xor".split()},
    **{name: f"llvm.{name}" for name in "smax smin umax umin".split()},
    "fmax": "llvm.maxnum",
    "fmin": "llvm.minnum",
    "fmaximum": "llvm.maximum",
    "fminimum": "llvm.minimum",
}


def is_on_lanes(name: str) -> bool:
    """Whether an intrinsic on vectors is the same intrinsic on their lanes, or reduces them."""
    if name.startswith(REDUCING):
        return name.split(".")[3] in REDUCTIONS
    return without_types(VECTOR_SUFFIX.sub(".", name)) in ELEMENTWISE


def without_types(name: str) -> str:
    """The name of an intrinsic of scalars without types: `llvm.powi` of `llvm.powi.f64.i32`."""
    return ".".join(part for part in name.split(".") if not _SCALAR.fullmatch(part))


def recast(b: Builder, lanes: list[Value], types: list[Type]) -> list[Value]:
    """The bits of integers as integers of another width: several are joined, or one is split.

    Raises `CannotSplit` for anything else.
    """
    t, to = lanes[0].type, types[0]
    if not isinstance(t, IntType) or not isinstance(to, IntType):
        raise CannotSplit
    if to == t:
        return lanes
    if to.bits % t.bits == 0:
        ratio = to.bits // t.bits
        return [_joined(b, lanes[k : k + ratio], t, to) for k in range(0, len(lanes), ratio)]
    if t.bits % to.bits == 0:
        starts = range(0, t.bits, to.bits)
        return [
            b.cast("trunc", b.binary("lshr", lane, b.const(t, start)), to)
            for lane in lanes
            for start in starts
        ]
    raise CannotSplit


def _joined(b: Builder, lanes: list[Value], t: IntType, to: IntType) -> Value:
    whole: Value = b.cast("zext", lanes[0], to)
    for k, lane in enumerate(lanes[1:], 1):
        shifted = b.binary("shl", b.cast("zext", lane, to), b.const(to, k * t.bits))
        whole = b.binary("or", whole, shifted)
    return whole

"""`math.frexp` for the AD target, as functions that have derivatives.

Numba calls a C function that writes the exponent to memory. Here the exponent comes from
`ilogb`, which has no derivative, and the mantissa is `ldexp(x, -exponent)`, whose slope is a power
of two.

Gives       an implementation in `LOWERING`
Invariants  P1  values are those of Numba, bit for bit: scaling to a mantissa in [0.5, 1) rounds
                nothing, and the exponent of zeros, infinities and NaN is 0
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.unoptimised import LOWERING

_ILOGB = {types.float64: "ilogb", types.float32: "ilogbf"}


@LOWERING.lower(math.frexp, types.float64)
@LOWERING.lower(math.frexp, types.float32)
def _frexp(context: Context, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    (number,), (x,) = sig.args, args
    int32 = ir.IntType(32)
    name = _ILOGB[number]
    ilogb = cgutils.insert_pure_function(
        builder.module, ir.FunctionType(int32, [x.type]), name=name
    )
    usual = cgutils.true_bit
    for special in (0.0, math.inf, -math.inf):
        usual = builder.and_(usual, builder.fcmp_ordered("!=", x, x.type(special)))
    exponent = builder.select(usual, builder.add(builder.call(ilogb, [x]), int32(1)), int32(0))
    ldexp = context.get_function(math.ldexp, signature(number, number, types.intc))
    mantissa = ldexp(builder, [x, builder.neg(exponent)])
    return cgutils.pack_struct(builder, (mantissa, exponent))

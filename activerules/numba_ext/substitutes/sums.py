"""Sums of whole arrays for the AD target, where Numba before 0.67 sums by `np.nditer`.

The length of such a loop is unknown until it ends, and the tape would have two pointers per item.
Here it is a loop over the items, in the same order.

Gives       implementations in `LOWERING`
Invariants  W1  values are those of Numba, bit for bit
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import types
from numba.np.arraymath import array_sum

from activerules.numba_ext.codegen.numba_versions import SUMS_BY_NDITER
from activerules.numba_ext.codegen.protocols import Builder, Value
from activerules.numba_ext.codegen.unoptimised import LOWERING


def _sum(context: Any, builder: Builder, sig: Any, args: Sequence[Value]) -> Value:
    ty = sig.args[0]
    if not _is_in_one_row(ty):
        by_nditer: Any = array_sum
        return by_nditer(context, builder, sig, args)
    zero, is_line, is_turned = sig.return_type(0), ty.ndim == 1, ty.layout == "F"

    def of_line(a):
        total = zero
        for i in range(a.size):
            total += a[i]
        return total

    def of_items(a):
        items = a.T.ravel() if is_turned else a.ravel()
        total = zero
        for i in range(items.size):
            total += items[i]
        return total

    implementation = of_line if is_line else of_items
    names = {"total": sig.return_type}
    return context.compile_internal(builder, implementation, sig, args, locals=names)


def _is_in_one_row(ty: Any) -> bool:
    """Whether the items of an array of numbers can be counted through without a copy."""
    return isinstance(ty.dtype, types.Number) and (
        ty.ndim == 1 or (ty.ndim > 1 and ty.layout in "CF")
    )


if SUMS_BY_NDITER:
    for _name in (np.sum, "array.sum"):
        LOWERING.lower(_name, types.Array)(_sum)

"""What a converted rule calls, compiled; the meaning is that of `rules.closures.delivery`.

Everything is decided by the types of the annotation and of the cotangent: a symbolic zero for an
array leaves no code at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload
from numba.np.numpy_support import as_dtype

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.annotations.tangents import One, ZeroTangent, conjugate
from activerules.annotations.values import make_zero
from activerules.errors import RuleReturnError
from activerules.numba_ext.tangents import TangentType, is_zero_type, refuse_type
from activerules.numba_ext.types import AnnotationType, marker_class
from activerules.rules.closures.delivery import (
    contracted,
    copied,
    cotangent,
    deliver,
    kept,
    result_shadow,
)
from activerules.rules.protocol import accumulate


@overload(cotangent)
def _cotangent(dret):
    if dret.kind is Const:
        zero = ZeroTangent()
        return lambda dret: zero
    if dret.kind is Active:
        return lambda dret: dret.val
    return lambda dret: dret.dval


@overload(deliver)
def _deliver(x, x_bar):
    if x.kind is Const:
        return lambda x, x_bar: None
    refuse_type(x_bar)
    if x.kind is Active:
        return _returned(x, x_bar)
    if is_zero_type(x_bar):
        return lambda x, x_bar: None
    _require_array(x, x_bar)

    def added(x, x_bar):
        accumulate(x, x_bar)

    return added


def _returned(x: AnnotationType, x_bar: Any) -> Any:
    """Return the implementation of `deliver` for an Active argument."""
    if is_zero_type(x_bar):
        return lambda x, x_bar: make_zero(x.val)
    convert = as_dtype(x.val).type
    if isinstance(x_bar, TangentType) and isinstance(x_bar.value, One):
        one = convert(1)
        return lambda x, x_bar: one
    if not isinstance(x_bar, types.Number | types.Boolean):
        raise RuleReturnError(
            f"the pullback gives {x_bar} as the cotangent of {x.val}",
            why="the cotangent of a number is a number",
        )
    if isinstance(x_bar, types.Complex) and not isinstance(x.val, types.Complex):
        return lambda x, x_bar: convert(x_bar.real)
    return lambda x, x_bar: convert(x_bar)


def _require_array(x: AnnotationType, x_bar: Any) -> None:
    if not isinstance(x_bar, types.Array) or x_bar.ndim != getattr(x.val, "ndim", None):
        raise RuleReturnError(
            f"the pullback gives {x_bar} as the cotangent of {x.val}",
            why="a cotangent has the shape of its primal; broadcasting hides a missing sum",
        )


@overload(result_shadow)
def _result_shadow(ret, result):
    if marker_class(ret) is not Duplicated:
        return lambda ret, result: None
    return lambda ret, result: make_zero(result)


@overload(copied)
def _copied(value):
    if not isinstance(value, types.Array):
        return lambda value: value
    if value.layout == "A":
        return lambda value: value.copy()

    def copy(value):
        made = np.empty_like(value)
        made[...] = value
        return made

    return copy


@overload(kept)
def _kept(value, result, overwritten):
    if isinstance(value, types.BaseTuple):
        return _kept_tuple(value)
    if not isinstance(value, types.Array):
        return lambda value, result, overwritten: value
    if not isinstance(result, types.Array):

        def keep(value, result, overwritten):
            if overwritten:
                return copied(value)
            return value

        return keep

    def keep_apart(value, result, overwritten):
        if overwritten or _overlap(value, result):
            return copied(value)
        return value

    return keep_apart


def _kept_tuple(value: Any) -> Any:
    """Write out the items: they have types of their own."""
    items = "".join(f"kept(value[{i}], result, overwritten), " for i in range(len(value)))
    scope = {"kept": kept, "__name__": __name__}
    exec(f"def keep(value, result, overwritten):\n return ({items})", scope)
    return scope["keep"]


def _overlap(a: Any, b: Any) -> bool:
    """Whether the memory two arrays reach over has a byte in common."""
    return np.may_share_memory(a, b)


@overload(_overlap)
def _compiled_overlap(a, b):
    def extents_meet(a, b):
        a_low, a_high = _extent(a)
        b_low, b_high = _extent(b)
        return a_low < b_high and b_low < a_high

    return extents_meet


def _extent(a: Any) -> tuple[int, int]:
    """The first byte an array reaches, and the one after its last."""
    raise NotImplementedError("this function only has a compiled form")


@overload(_extent)
def _compiled_extent(a):
    def extent(a):
        low = np.int64(a.ctypes.data)
        high = low
        for axis in range(a.ndim):
            if a.shape[axis] == 0:
                return low, low
            reach = (a.shape[axis] - 1) * a.strides[axis]
            if reach < 0:
                low += reach
            else:
                high += reach
        return low, high + a.itemsize

    return extent


@overload(contracted, prefer_literal=True)
def _contracted(slopes, i, bar):
    if not isinstance(i, types.IntegerLiteral):
        return None
    k = i.literal_value
    if not isinstance(slopes, types.BaseTuple):
        return lambda slopes, i, bar: conjugate(slopes) * bar
    if not isinstance(slopes[0], types.BaseTuple):
        return lambda slopes, i, bar: conjugate(slopes[k]) * bar
    terms = " + ".join(f"conjugate(slopes[{row}][{k}]) * bar[{row}]" for row in range(len(slopes)))
    scope = {"conjugate": conjugate, "__name__": __name__}
    exec(f"def contract(slopes, i, bar):\n return {terms}", scope)
    return scope["contract"]

"""The compiled forms of active, accumulate, ignore_derivatives, make_zero and onehot.

Each has the meaning of its plain Python form. The argument types select the branch at compile time:
`accumulate` of a Const argument leaves no code.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload, register_jitable
from numba.np.numpy_support import as_dtype

from activerules.annotations.activity import Const, Duplicated
from activerules.annotations.values import ignore_derivatives, make_zero, onehot
from activerules.errors import RuleReturnError
from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.numba_ext.codegen.types import AnnotationType, is_zero_type
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.numba_ext.substitutes.inactive_values import IGNORE_FUNCTIONS
from activerules.rules.pattern import type_name
from activerules.rules.protocol import accumulate, accumulate_outer, accumulate_scaled, active
from activerules.rules.written import function_from, item_by_item, over_elements
from activerules.values.kinds import is_collection, is_instance
from activerules.values.layout import FLOATS, layout_of
from activerules.values.overlaps import arrays_overlap
from activerules.values.shadows import zeros_like

IGNORE_DEFINITIONS = """
define double @activerules.ignore.f64(double %x) {
  ret double %x
}
define float @activerules.ignore.f32(float %x) {
  ret float %x
}
define void @activerules.inactive_memory(ptr %memory) {
  ret void
}
define void @activerules.inactive_argument(ptr %memory) {
  ret void
}
define void @activerules.reinterpreted_memory(ptr %memory) {
  ret void
}
define void @activerules.viewed_records(ptr %memory) {
  ret void
}
"""
"""Definitions of these functions, linked with derivatives."""


# --- in rules ---


@overload(active)
def _active(x):
    if not isinstance(x, AnnotationType):
        raise TypingError("active() takes an argument of a rule")
    is_active = x.kind is not Const
    return lambda x: is_active


@overload(accumulate)
def _accumulate(x, g):
    if not isinstance(x, AnnotationType):
        raise TypingError("accumulate() takes an argument of a rule and its cotangent")
    if x.kind is Const or is_zero_type(g):
        return lambda x, g: None
    if isinstance(x.dval, types.BaseTuple):
        return _accumulated_items(x, g)
    if not isinstance(x.dval, types.Array):
        raise TypingError("accumulate takes a Duplicated array; an Active derivative is returned")
    if x.dval.ndim == 0 and isinstance(g, types.Number):  # as arithmetic of such arrays gives
        return _added(x, "x, g", "()", "g", g)
    if (
        not isinstance(g, types.Array)
        or g.ndim != x.dval.ndim
        or isinstance(g.dtype, types.Boolean)
    ):
        raise TypingError(f"accumulate: {type_name(g)} is not a cotangent of {type_name(x.val)}")
    added = _added(x, "x, g", "g.shape", "g[{index}]", g.dtype)
    if g.layout == x.dval.layout != "A":
        return added  # it may only be the shadow itself: see `protocol.accumulate`
    added = register_jitable(added)

    def impl(x, g):  # `g` may be the shadow in another order, as for a flip or a transpose
        if arrays_overlap(x.dval, g):
            added(x, g.copy())
        else:
            added(x, g)

    return impl


def _accumulated_items(x: Any, g: Any) -> Any:
    """A function that accumulates a tuple item by item; the items have different types."""
    count = len(x.dval.types)
    if len(getattr(g, "types", ())) != count:
        raise TypingError(f"accumulate: {type_name(g)} is not a cotangent of {type_name(x.val)}")
    items = [
        f"    accumulate(Duplicated(x.val[{i}], x.dval[{i}]), g[{i}])\n"
        for i, item in enumerate(g.types)
        if not is_zero_type(item)
    ]
    source = f"def impl(x, g):\n{''.join(items) or '    pass'}"
    scope = {"accumulate": accumulate, "Duplicated": Duplicated}
    return function_from(source, "impl", scope, module=__name__)


@overload(accumulate_scaled)
def _accumulate_scaled(x, scale, u):
    if x.kind is Const:
        return lambda x, scale, u: None
    return _added(x, "x, scale, u", "u.shape", "scale * u[{index}]", scale, u.dtype)


@overload(accumulate_outer)
def _accumulate_outer(x, u, v):
    if x.kind is Const:
        return lambda x, u, v: None
    return _added(x, "x, u, v", "(u.size, v.size)", "u[i0] * v[i1]", u.dtype, v.dtype)


def _added(x: Any, parameters: str, shape: str, item: str, *dtypes: Any) -> Any:
    """A function that adds `item` to every element of the shadow of `x`."""
    is_real = any(map(_is_complex, dtypes)) and not _is_complex(x.dval.dtype)
    loops = over_elements(f"shadow[{{index}}] += project({item})", "shadow", x.dval.ndim)
    source = f"""def impl({parameters}):
    shadow = x.dval
    if shadow.shape != {shape}:
        raise RuleReturnError("accumulate: the cotangent does not have the shape of the shadow")
{loops}
"""
    scope = {"project": _real_part if is_real else _same, "RuleReturnError": RuleReturnError}
    return function_from(source, "impl", scope, module=__name__)


def _is_complex(ty: Any) -> bool:
    return isinstance(ty, types.Complex)


@register_jitable
def _real_part(g):
    return g.real


@register_jitable
def _same(g):
    return g


# --- in programs ---


@intrinsic
def _ignored_float(typing_context, x):
    """The identity; on the AD target a call that the engine recognises."""

    def codegen(context: Context, builder: Builder, signature: Any, args: Sequence[Value]) -> Any:
        if context.target_name != AD_TARGET:
            return args[0]
        kind = args[0].type
        return call_named(builder, IGNORE_FUNCTIONS[kind], kind, args, "nounwind")

    return x(x), codegen


@overload(ignore_derivatives)
def _ignore_derivatives(x):
    if isinstance(x, types.Float) and x in FLOATS:
        return lambda x: _ignored_float(x)  # pyright: ignore[reportCallIssue]
    if isinstance(x, types.Complex):
        return lambda x: complex(ignore_derivatives(x.real), ignore_derivatives(x.imag))
    if isinstance(x, types.BaseTuple):
        return _map_tuple("ignore_derivatives", x)
    if isinstance(x, types.Array) and isinstance(x.dtype, types.Float | types.Complex):
        loops = over_elements("result[{index}] = ignore_derivatives(x[{index}])", "x", x.ndim)
        source = f"def of_array(x):\n    result = np.empty_like(x)\n{loops}\n    return result"
        scope = {"np": np, "ignore_derivatives": ignore_derivatives}
        return function_from(source, "of_array", scope, module=__name__)
    if not layout_of(x).numbers.any:
        return lambda x: x
    raise TypingError(f"ignore_derivatives takes floats, tuples and arrays of them, not {x}")


@overload(make_zero)
def _make_zero(x):
    if isinstance(x, types.BaseTuple):
        return _map_tuple("make_zero", x)
    if isinstance(x, types.Array):
        if x.layout == "A":
            return lambda x: zeros_like(x)  # pyright: ignore[reportCallIssue]
        return lambda x: np.zeros_like(x)
    if isinstance(x, types.Float | types.Complex):
        zero = as_dtype(x).type(0)
        return lambda x: zero
    if is_instance(x) or is_collection(x):
        return None  # the overload with `zeros` serves it
    if layout_of(x).numbers.by_value or layout_of(x).numbers.by_reference:
        raise TypingError(f"make_zero: a {x} has no shadow of its own inside @njit")
    return lambda x: x


@overload(onehot)
def _onehot(x):
    if isinstance(x, types.Float):
        (one,) = np.ones(1, as_dtype(x))
        return lambda x: (one,)
    if isinstance(x, types.UniTuple) and isinstance(x.dtype, types.Float):
        identity = np.eye(x.count, dtype=as_dtype(x.dtype))
        rows = tuple(tuple(row) for row in identity)
        return lambda x: rows
    raise TypingError("inside @njit, onehot takes a float or a tuple of floats of one type")


def _map_tuple(function: str, x: Any) -> Any:
    """Return an implementation that applies one of the functions above to every item of a tuple."""
    return item_by_item(x, "x", f"{function}(x[{{i}}])", _SCOPE, module=__name__)


_SCOPE = {"ignore_derivatives": ignore_derivatives, "make_zero": make_zero}

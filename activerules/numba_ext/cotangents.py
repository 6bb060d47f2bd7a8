"""Cotangents of a result and the shadows they go to: arrays, and tuples with arrays.

Python functions that are compiled into their callers; none of them raises, so that none of them
leaks. Where nothing is an array they do nothing. Of what may be None, the cotangent may be None,
and is where the result is; so may be that of an array of integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import types
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import signature
from numba.extending import intrinsic, overload, register_jitable

from activerules.errors import ActivityError
from activerules.numba_ext.fields import items_of
from activerules.numba_ext.kinds import optional_leaf, returned_type
from activerules.numba_ext.overwriting import overwrite
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

_FLOATS = types.Float | types.Complex
_COUNTS = types.Integer | types.Boolean


def require_fitting(shadow: Any, cotangent: Any) -> None:
    """Raise `ActivityError` unless the type of a cotangent is one of the result's."""
    inner = optional_leaf(shadow)
    if cotangent == types.none and (inner is not None or _counts(shadow)):
        return
    if inner is not None:
        require_fitting(inner, returned_type(cotangent))
        return
    if isinstance(shadow, types.BaseTuple):
        fits = isinstance(cotangent, types.BaseTuple) and len(cotangent) == len(shadow)
        if fits:
            for one, other in zip(items_of(shadow), items_of(cotangent), strict=True):
                require_fitting(one, other)
            return
    elif isinstance(shadow, types.Array):
        fits = isinstance(cotangent, types.Array) and cotangent.ndim == shadow.ndim
        fits = fits and _holds(shadow.dtype, cotangent.dtype)
    else:
        fits = not isinstance(shadow, _FLOATS) or _holds(shadow, cotangent)
    if not fits:
        raise ActivityError(
            f"the cotangent of a result of type {type_name(shadow)} is {type_name(cotangent)}",
            why="it has the type and the shape of the result",
        )


def _counts(shadow: Any) -> bool:
    return isinstance(shadow, types.Array) and isinstance(shadow.dtype, _COUNTS)


def _holds(shadow: Any, cotangent: Any) -> bool:
    if isinstance(cotangent, types.Complex):
        return isinstance(shadow, types.Complex)
    return isinstance(cotangent, types.Float | types.Integer | types.Boolean)


def fits(shadow: Any, cotangent: Any) -> Any:
    """Whether the arrays of a cotangent have the shapes of the result's."""
    return fits(shadow, cotangent)


def clear(shadow: Any) -> Any:
    """Make the arrays in a shadow zero."""
    clear(shadow)


def seed(shadow: Any, cotangent: Any) -> Any:
    """Add the arrays of a cotangent to the shadow of the result."""
    seed(shadow, cotangent)


@register_jitable
def copied(shadow: Any) -> Any:
    """A new array with what is in the shadow."""
    result = np.empty(shadow.shape, shadow.dtype)
    overwrite(result, shadow)
    return result


def _present(typing_context, x):
    """What may be None where it is not; anything else as it is."""
    inner = returned_type(x)

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        value = values[0]
        if inner != x:
            value = context.make_helper(builder, x, value).data
        return impl_ret_borrowed(context, builder, inner, value)

    return signature(inner, x), codegen


present: Any = intrinsic(_present)


@overload(fits)
def _fits(shadow, cotangent):
    if cotangent == types.none:
        return lambda shadow, cotangent: True
    if optional_leaf(shadow) is not None:
        if optional_leaf(cotangent) is not None:
            return lambda shadow, cotangent: (
                cotangent is None
                or (shadow is not None and fits(present(shadow), present(cotangent)))
            )
        return lambda shadow, cotangent: shadow is not None and fits(present(shadow), cotangent)
    if isinstance(shadow, types.BaseTuple):
        tests = " and ".join(f"fits(shadow[{k}], cotangent[{k}])" for k in range(len(shadow)))
        return _from_source(f"def impl(shadow, cotangent): return {tests or True}")
    if isinstance(shadow, types.Array):
        return lambda shadow, cotangent: shadow.shape == cotangent.shape
    return lambda shadow, cotangent: True


@overload(clear)
def _clear(shadow):
    if isinstance(shadow, types.BaseTuple):
        lines = "; ".join(f"clear(shadow[{k}])" for k in range(len(shadow)))
        return _from_source(f"def impl(shadow): {lines or 'pass'}")
    if not _takes(returned_type(shadow)):
        return lambda shadow: None
    if optional_leaf(shadow) is not None:

        def impl_present(shadow):
            if shadow is not None:
                clear(present(shadow))

        return impl_present

    def impl(shadow):
        shadow[...] = 0

    return impl


@overload(seed)
def _seed(shadow, cotangent):
    if isinstance(shadow, types.BaseTuple):
        lines = "; ".join(f"seed(shadow[{k}], cotangent[{k}])" for k in range(len(shadow)))
        return _from_source(f"def impl(shadow, cotangent): {lines or 'pass'}")
    if not _takes(returned_type(shadow)) or cotangent == types.none:
        return lambda shadow, cotangent: None
    if optional_leaf(shadow) is not None:

        def impl_present(shadow, cotangent):
            if shadow is not None and cotangent is not None:
                seed(present(shadow), present(cotangent))

        return impl_present

    def impl(shadow, cotangent):
        for place in np.ndindex(shadow.shape):
            shadow[place] += cotangent[place]

    return impl


def _takes(shadow: Any) -> bool:
    return isinstance(shadow, types.Array) and isinstance(shadow.dtype, _FLOATS)


def _from_source(source: str) -> Any:
    scope = {"fits": fits, "clear": clear, "seed": seed}
    return function_from(source, "impl", scope, module=__name__)

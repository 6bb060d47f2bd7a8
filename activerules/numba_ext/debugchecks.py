"""What the checks of debug mode call inside compiled rules; everything is chosen by type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import overload, register_jitable

from activerules.annotations.activity import Active, Duplicated
from activerules.numba_ext.types import AnnotationType

__all__ = [
    "agrees",
    "all_finite",
    "along",
    "close",
    "copy",
    "cotangent",
    "direction",
    "entry",
    "fits",
    "flag",
    "is_zero_like",
    "moved",
    "paired",
    "part",
    "poisoned",
    "shadow",
    "size",
    "tangent",
]


def _compiled_only(name: str, meaning: str) -> Callable[..., Any]:
    def function(*_: Any) -> Any:
        raise NotImplementedError(f"{name} is there in compiled rules only")

    function.__name__ = name
    function.__doc__ = meaning
    return function


agrees = _compiled_only("agrees", "Whether two values are the same up to a relative tolerance.")
all_finite = _compiled_only("all_finite", "Whether no float in a value is NaN or infinite.")
along = _compiled_only("along", "The derivative by an argument along its direction.")
close = _compiled_only("close", "Whether two directional derivatives agree within their errors.")
copy = _compiled_only("copy", "A value that nobody else writes into.")
cotangent = _compiled_only("cotangent", "The cotangent of a result.")
direction = _compiled_only("direction", "A direction to move an argument in; None if Const.")
entry = _compiled_only("entry", "The derivative by an argument, returned or in its shadow.")
fits = _compiled_only("fits", "Whether a tangent is what finite differences of a value say.")
flag = _compiled_only("flag", "Memory of one integer.")
is_zero_like = _compiled_only("is_zero_like", "Whether a shadow is zeros in the shape of a primal.")
moved = _compiled_only("moved", "A value moved along a direction.")
paired = _compiled_only("paired", "A cotangent times a difference of values.")
part = _compiled_only("part", "Primal or tangent of what a forward rule returned.")
poisoned = _compiled_only("poisoned", "An argument, its value NaN if it is not what it was.")
shadow = _compiled_only("shadow", "A copy of the shadow of an argument; None if it has none.")
size = _compiled_only("size", "A bound of `along`, without cancellation.")
tangent = _compiled_only("tangent", "A copy of the tangent of an argument; None if it has none.")


def _is_float(found: Any) -> bool:
    return isinstance(found, types.Float)


def _is_float_array(found: Any) -> bool:
    return isinstance(found, types.Array) and _is_float(found.dtype)


def _is_inexact(found: Any) -> bool:
    return isinstance(found, types.Float | types.Complex)


@overload(flag)
def _flag():
    return lambda: np.zeros(1, np.int8)


@overload(copy)
def _copy(x):
    if isinstance(x, types.Array):
        return lambda x: x.copy()
    return lambda x: x


@overload(shadow)
def _shadow(x):
    if x.kind is Duplicated and isinstance(x.dval, types.Array):
        return lambda x: x.dval.copy()
    return lambda x: None


@overload(cotangent)
def _cotangent(dret):
    if dret.kind is Duplicated:
        return lambda dret: dret.dval
    if dret.kind is Active:
        return lambda dret: dret.val
    return lambda dret: None


@overload(agrees)
def _agrees(x, y, tolerance):
    if isinstance(x, types.Array) and isinstance(y, types.Array):

        def of_arrays(x, y, tolerance):
            if x.shape != y.shape:
                return False
            for place in np.ndindex(x.shape):
                if not agrees(x[place], y[place], tolerance):
                    return False
            return True

        return of_arrays
    if _is_inexact(x) or _is_inexact(y):

        def of_floats(x, y, tolerance):
            if np.isnan(x) or np.isnan(y):
                return np.isnan(x) and np.isnan(y)
            return x == y or abs(x - y) <= tolerance * (1.0 + abs(y))

        return of_floats
    if isinstance(x, types.Number) and isinstance(y, types.Number):
        return lambda x, y, tolerance: x == y
    return lambda x, y, tolerance: True


@overload(is_zero_like)
def _is_zero_like(shadow, primal):
    if not isinstance(shadow, types.Array) or not isinstance(primal, types.Array):
        return lambda shadow, primal: True

    def of_arrays(shadow, primal):
        if shadow.shape != primal.shape:
            return False
        for place in np.ndindex(shadow.shape):
            if shadow[place] != 0.0:
                return False
        return True

    return of_arrays


@overload(all_finite)
def _all_finite(x):
    if isinstance(x, types.Array) and _is_inexact(x.dtype):

        def of_array(x):
            for place in np.ndindex(x.shape):
                if not np.isfinite(x[place]):
                    return False
            return True

        return of_array
    if _is_inexact(x):
        return lambda x: np.isfinite(x)
    return lambda x: True


@overload(poisoned)
def _poisoned(x, after):
    same_type = (
        x.kind is Duplicated
        and _is_float_array(x.val)
        and x.val.layout == "C"
        and x.val.mutable
        and x.val.aligned
    )
    if not same_type:
        return lambda x, after: x

    def of_array(x, after):
        if agrees(x.val, after, 0.0):
            return x
        return Duplicated(np.full_like(x.val, np.nan), x.dval)

    return of_array


@overload(entry)
def _entry(returned, index, x):
    if x.kind is Duplicated:
        return lambda returned, index, x: x.dval
    if x.kind is not Active:
        return lambda returned, index, x: None
    if isinstance(returned, types.BaseTuple) and not isinstance(x.val, types.BaseTuple):
        return lambda returned, index, x: returned[index]
    return lambda returned, index, x: returned


@overload(direction)
def _direction(x, value, seed):
    if not isinstance(x, AnnotationType) or x.kind not in (Active, Duplicated):
        return lambda x, value, seed: None
    if _is_float_array(value):

        def of_array(x, value, seed):
            result = np.empty_like(value)
            largest = 0.0
            for place in np.ndindex(value.shape):
                largest = max(largest, abs(value[place]))
            count = 0
            for place in np.ndindex(value.shape):
                scale = abs(value[place]) + 1e-3 * largest + 1e-6
                result[place] = scale * math.sin(12.9898 * (count + 1) + seed)
                count += 1
            return result

        return of_array
    if _is_float(value):
        return lambda x, value, seed: (abs(value) + 1e-6) * math.sin(12.9898 + seed)
    return lambda x, value, seed: None


@overload(moved)
def _moved(value, along_it, step):
    if isinstance(along_it, types.NoneType):
        return lambda value, along_it, step: copy(value)
    if isinstance(value, types.Array):

        def of_array(value, along_it, step):
            result = value.copy()
            for place in np.ndindex(value.shape):
                result[place] += step * along_it[place]
            return result

        return of_array
    return lambda value, along_it, step: value + step * along_it


@overload(paired)
def _paired(bar, plus, minus):
    if _is_float_array(bar) and isinstance(plus, types.Array):

        def of_arrays(bar, plus, minus):
            total = 0.0
            for place in np.ndindex(bar.shape):
                total += bar[place] * (plus[place] - minus[place])
            return total

        return of_arrays
    if _is_float(bar):
        return lambda bar, plus, minus: bar * (plus - minus)
    return lambda bar, plus, minus: 0.0


def _summed(term: Callable[[Any, Any], Any]) -> Any:
    def of(bar, along_it):
        if isinstance(bar, types.NoneType) or isinstance(along_it, types.NoneType):
            return lambda bar, along_it: 0.0
        if isinstance(bar, types.Array):

            def of_arrays(bar, along_it):
                total = 0.0
                for place in np.ndindex(bar.shape):
                    total += term(bar[place], along_it[place])
                return total

            return of_arrays
        return lambda bar, along_it: term(bar, along_it)

    return of


@register_jitable
def _product(bar, along_it):
    return bar * along_it


@register_jitable
def _absolute_product(bar, along_it):
    return abs(bar * along_it)


overload(along)(_summed(_product))
overload(size)(_summed(_absolute_product))


@overload(close)
def _close(coarse, fine, out, tolerance):
    def of_floats(coarse, fine, out, tolerance):
        if not (np.isfinite(coarse) and np.isfinite(fine) and np.isfinite(out)):
            return True
        best = (4.0 * fine - coarse) / 3.0
        return abs(best - out) <= tolerance + 10.0 * abs(fine - coarse)

    return of_floats


# --- forward mode ---


@overload(tangent)
def _tangent(x):
    if x.kind is Duplicated:
        return lambda x: copy(x.dval)
    return lambda x: None


@overload(part)
def _part(returned, index):
    if isinstance(returned, types.BaseTuple) and len(returned) == 2:
        return lambda returned, index: returned[index]
    return lambda returned, index: None


@overload(fits)
def _fits(plus, minus, plus_half, minus_half, found, step, tolerance):
    if _is_float_array(found):

        def of_arrays(plus, minus, plus_half, minus_half, found, step, tolerance):
            for place in np.ndindex(found.shape):
                if not fits(
                    plus[place],
                    minus[place],
                    plus_half[place],
                    minus_half[place],
                    found[place],
                    step,
                    tolerance,
                ):
                    return False
            return True

        return of_arrays
    if _is_float(found):

        def of_floats(plus, minus, plus_half, minus_half, found, step, tolerance):
            coarse = (plus - minus) / (2.0 * step)
            fine = (plus_half - minus_half) / step
            size = abs(fine) + abs(found) + 1e-6
            return close(coarse, fine, found, tolerance * size)

        return of_floats
    return lambda plus, minus, plus_half, minus_half, found, step, tolerance: True

"""The compiled functions that the checks of debug mode call, selected by argument types.

Values are numbers, arrays of them, lists, and tuples of all these; anything else is ignored.
Complex numbers pair as in cotangents: Re(conj(x̄) ẋ).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.extending import register_jitable

from activerules.annotations.activity import (
    SHADOWED,
    Active,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.written import function_from, item_by_item
from activerules.values.kinds import is_number, is_number_array
from activerules.values.overlaps import arrays_overlap


def _by_items(parameters: str, item: str, joined: str, ty: Any) -> Any:
    """An implementation for tuples: `item`, with `{i}` the index, for each item of `ty`.

    They are combined by the operator `joined`, or to a tuple if that is "make".
    """
    if joined == "make":
        return item_by_item(ty, parameters, item, globals(), module=__name__)
    body = f" {joined} ".join(item.format(i=i) for i in range(len(ty)))
    source = f"def of_tuple({parameters}):\n    return {body}\n"
    return function_from(source, "of_tuple", globals(), module=__name__)


def _is_items(*argtypes: Any) -> bool:
    """Whether all are tuple types of the same length, at least one."""
    counts = {len(each) if isinstance(each, types.BaseTuple) else 0 for each in argtypes}
    return len(counts) == 1 and counts != {0}


@chosen_by_types
def copy(x):
    """A copy of a value, to which nothing else refers."""
    if isinstance(x, types.Array | types.List | types.ListType):
        return lambda x: x.copy()
    if _is_items(x):
        return _by_items("x", "copy(x[{i}])", "make", x)
    return lambda x: x


@chosen_by_types
def value(dret):
    """A copy of the result that a reverse is given; None if it is not."""
    if dret.kind in SHADOWED:
        return lambda dret: copy(dret.val)
    return lambda dret: None


@chosen_by_types
def shadow(x):
    """A copy of the shadow of an argument; None if it has none."""
    if x.kind in SHADOWED and isinstance(x.dval, types.Array | types.BaseTuple):
        return lambda x: copy(x.dval)
    return lambda x: None


@chosen_by_types
def its_shadow(x):
    """The shadow of an argument itself; None if it has none."""
    if x.kind in SHADOWED:
        return lambda x: x.dval
    return lambda x: None


@chosen_by_types
def share(x, y):
    """Whether arrays in two values share memory."""
    if _is_items(x):
        return _by_items("x, y", "share(x[{i}], y)", "or", x)
    if _is_items(y):
        return _by_items("x, y", "share(x, y[{i}])", "or", y)
    if isinstance(x, types.List | types.ListType) and isinstance(x.dtype, types.Array):
        return _share_items
    if isinstance(x, types.Array) and isinstance(y, types.Array):
        return arrays_overlap
    return lambda x, y: False


def _share_items(x, y):
    for item in x:
        if share(item, y):
            return True
    return False


@chosen_by_types
def cotangent(dret):
    """The cotangent of a result."""
    if dret.kind in SHADOWED:
        return lambda dret: dret.dval
    if dret.kind is Active:
        return lambda dret: dret.val
    return lambda dret: None


@chosen_by_types
def agrees(x, y, tolerance):
    """Whether two values are the same up to a relative tolerance."""
    if isinstance(x, types.Array) and isinstance(y, types.Array):
        return _agree_arrays
    if _is_items(x, y):
        return _by_items("x, y, tolerance", "agrees(x[{i}], y[{i}], tolerance)", "and", x)
    if isinstance(x, types.List | types.ListType) and x == y:
        return _agree_lists
    if is_number(x) or is_number(y):
        return _agree_numbers
    if isinstance(x, types.Number) and isinstance(y, types.Number):
        return lambda x, y, tolerance: x == y
    return lambda x, y, tolerance: True


def _agree_arrays(x, y, tolerance):
    if x.shape != y.shape:
        return False
    for index in np.ndindex(x.shape):
        if not agrees(x[index], y[index], tolerance):
            return False
    return True


def _agree_lists(x, y, tolerance):
    if len(x) != len(y):
        return False
    for index in range(len(x)):
        if not agrees(x[index], y[index], tolerance):
            return False
    return True


def _agree_numbers(x, y, tolerance):
    if np.isnan(x) or np.isnan(y):
        return np.isnan(x) and np.isnan(y)
    return x == y or abs(x - y) <= tolerance * (1.0 + abs(y))


@chosen_by_types
def is_zero_like(shadow, primal):
    """Whether a shadow is zeros in the shape of a primal."""
    if _is_items(shadow, primal):
        return _by_items("shadow, primal", "is_zero_like(shadow[{i}], primal[{i}])", "and", shadow)
    if isinstance(shadow, types.Float | types.Complex):
        return lambda shadow, primal: shadow == 0.0
    if not isinstance(shadow, types.Array) or not isinstance(primal, types.Array):
        return lambda shadow, primal: True

    def of_arrays(shadow, primal):
        if shadow.shape != primal.shape:
            return False
        for index in np.ndindex(shadow.shape):
            if shadow[index] != 0.0:
                return False
        return True

    return of_arrays


@chosen_by_types
def all_finite(x):
    """Whether no float in a value is NaN or infinite."""
    if is_number_array(x):

        def of_array(x):
            for index in np.ndindex(x.shape):
                if not np.isfinite(x[index]):
                    return False
            return True

        return of_array
    if _is_items(x):
        return _by_items("x", "all_finite(x[{i}])", "and", x)
    if is_number(x):
        return lambda x: np.isfinite(x)
    return lambda x: True


@chosen_by_types
def poisoned(x, after):
    """An argument, with NaN in place of arrays in its value that differ from `after`."""
    if x.kind is Duplicated:
        return lambda x, after: Duplicated(unless_changed(x.val, after), x.dval)
    if x.kind is MixedDuplicated:
        return lambda x, after: MixedDuplicated(unless_changed(x.val, after), x.dval)
    return lambda x, after: x


@chosen_by_types
def unless_changed(x, after):
    """The arrays of `x`, filled with NaN where they differ from `after`."""
    if _is_items(x, after):
        return _by_items("x, after", "unless_changed(x[{i}], after[{i}])", "make", x)
    if not (is_number_array(x) and x.layout == "C" and x.mutable and x.aligned):
        return lambda x, after: x

    def of_array(x, after):
        return x if agrees(x, after, 0.0) else np.full_like(x, np.nan)

    return of_array


@chosen_by_types
def entry(returned, index, x, whole):
    """The derivative with respect to an argument: what is returned, or its shadow."""
    if x.kind is Duplicated:
        return lambda returned, index, x, whole: x.dval
    if x.kind is MixedDuplicated and isinstance(whole, types.NoneType):
        return lambda returned, index, x, whole: completed(returned[index], x.dval)
    if x.kind is MixedDuplicated:
        return lambda returned, index, x, whole: completed(returned, x.dval)
    if x.kind is not Active:
        return lambda returned, index, x, whole: None
    if isinstance(whole, types.NoneType):
        return lambda returned, index, x, whole: returned[index]
    return lambda returned, index, x, whole: returned


@chosen_by_types
def completed(x, other):
    """A value with None entries taken from another value."""
    if isinstance(x, types.NoneType):
        return lambda x, other: other
    if _is_items(x, other):
        return _by_items("x, other", "completed(x[{i}], other[{i}])", "make", other)
    return lambda x, other: x


@register_jitable
def _wave(index):
    return math.sin(12.9898 * (index + 1.0))


@chosen_by_types
def direction(x, value, seed):
    """A direction to move an argument in; None if Const."""
    if isinstance(x, AnnotationType) and x.kind not in (Active, *SHADOWED):
        return lambda x, value, seed: None
    if is_number_array(value):
        turn = 1j if isinstance(value.dtype, types.Complex) else 0.0

        def of_array(x, value, seed):
            result = np.empty_like(value)
            largest = 0.0
            for index in np.ndindex(value.shape):
                largest = max(largest, abs(value[index]))
            for count, index in enumerate(np.ndindex(value.shape)):
                scale = abs(value[index]) + 1e-3 * largest + 1e-6
                result[index] = scale * (_wave(count + seed) + turn * _wave(count + seed + 0.3))
            return result

        return of_array
    if _is_items(value):
        return _by_items("x, value, seed", "direction(None, value[{i}], seed + {i})", "make", value)
    if is_number(value):
        turn = 1j if isinstance(value, types.Complex) else 0.0
        return lambda x, value, seed: (abs(value) + 1e-6) * (_wave(seed) + turn * _wave(seed + 0.3))
    return lambda x, value, seed: None


@chosen_by_types
def moved(value, along_it, step):
    """A value moved along a direction."""
    if isinstance(along_it, types.NoneType):
        return lambda value, along_it, step: copy(value)
    if isinstance(value, types.Array):

        def of_array(value, along_it, step):
            result = value.copy()
            for index in np.ndindex(value.shape):
                result[index] += step * along_it[index]
            return result

        return of_array
    if _is_items(value):
        item = "moved(value[{i}], along_it[{i}], step)"
        return _by_items("value, along_it, step", item, "make", value)
    return lambda value, along_it, step: value + step * along_it


@chosen_by_types
def paired(bar, plus, minus):
    """A cotangent times a difference of values."""
    if is_number_array(bar) and isinstance(plus, types.Array):

        def of_arrays(bar, plus, minus):
            total = 0.0
            for index in np.ndindex(bar.shape):
                total += _product(bar[index], plus[index] - minus[index])
            return total

        return of_arrays
    if _is_items(bar, plus):
        item = "paired(bar[{i}], plus[{i}], minus[{i}])"
        return _by_items("bar, plus, minus", item, "+", bar)
    if is_number(bar):
        return lambda bar, plus, minus: _product(bar, plus - minus)
    return lambda bar, plus, minus: 0.0


@register_jitable
def _product(bar, along_it):
    return (np.conj(bar) * along_it).real


@register_jitable
def _absolute_product(bar, along_it):
    return abs(bar * along_it)


def _summed(name: str, meaning: str, term: Callable[[Any, Any], Any]) -> Any:
    def of(bar, along_it):
        if isinstance(bar, types.NoneType) or isinstance(along_it, types.NoneType):
            return lambda bar, along_it: 0.0
        if isinstance(bar, types.Array):

            def of_arrays(bar, along_it):
                total = 0.0
                for index in np.ndindex(bar.shape):
                    total += term(bar[index], along_it[index])
                return total

            return of_arrays
        if _is_items(bar):
            return _by_items("bar, along_it", f"{name}(bar[{{i}}], along_it[{{i}}])", "+", bar)
        return lambda bar, along_it: term(bar, along_it)

    of.__name__, of.__doc__ = name, meaning
    return chosen_by_types(of)


along = _summed(
    "along", "The derivative with respect to an argument along its direction.", _product
)
size = _summed("size", "A bound of `along`, without cancellation.", _absolute_product)


@register_jitable
def close(coarse, fine, out, tolerance):
    """Whether two directional derivatives agree within their errors."""
    if not (np.isfinite(coarse) and np.isfinite(fine) and np.isfinite(out)):
        return True
    best = (4.0 * fine - coarse) / 3.0
    return abs(best - out) <= tolerance + 10.0 * abs(fine - coarse)


# --- forward mode ---


@chosen_by_types
def tangent(x, lane):
    """A copy of the tangent of an argument in a lane; None: Const."""
    if x.kind in (BatchDuplicated, BatchDuplicatedNoNeed):
        return lambda x, lane: copy(x.dval[lane])
    if x.kind in (Duplicated, DuplicatedNoNeed):
        return lambda x, lane: copy(x.dval)
    return lambda x, lane: None


@chosen_by_types
def fits(values, found, step, tolerance):
    """Whether a tangent agrees with finite differences of a value: `values` are those one step
    forwards and backwards, and half a step.
    """
    if is_number_array(found):

        def of_arrays(values, found, step, tolerance):
            plus, minus, plus_half, minus_half = values
            for k in np.ndindex(found.shape):
                four = plus[k], minus[k], plus_half[k], minus_half[k]
                if not fits(four, found[k], step, tolerance):
                    return False
            return True

        return of_arrays
    if _is_items(found, values[0]):
        four = ", ".join(f"values[{k}][{{i}}]" for k in range(4))
        item = f"fits(({four}), found[{{i}}], step, tolerance)"
        return _by_items("values, found, step, tolerance", item, "and", found)
    if is_number(found):

        def of_floats(values, found, step, tolerance):
            plus, minus, plus_half, minus_half = values
            coarse = (plus - minus) / (2.0 * step)
            fine = (plus_half - minus_half) / step
            size = abs(fine) + abs(found) + 1e-6
            return close(coarse, fine, found, tolerance * size)

        return of_floats
    return lambda values, found, step, tolerance: True

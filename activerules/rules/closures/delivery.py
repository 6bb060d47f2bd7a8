"""Functions that converted rules call, between tangents and the annotations of a rule.

These are the plain Python forms; `numba_ext.tangents.delivery` has the compiled ones, which decide
by types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from activerules.annotations.activity import (
    SHADOWED,
    Active,
    Annotation,
    Const,
    Duplicated,
    MixedDuplicated,
)
from activerules.annotations.containers import is_array, is_list, is_tuple, like_tuple
from activerules.annotations.projection import ProjectTo
from activerules.annotations.tangents import (
    NoTangent,
    NotImplementedTangent,
    ZeroTangent,
    conjugate,
    is_zero,
)
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.errors import RuleDefinitionError, RuleReturnError
from activerules.rules.protocol import accumulate

__all__ = [
    "by_argument",
    "combined",
    "contracted",
    "copy_for_tape",
    "cotangent",
    "deliver",
    "fresh",
    "kept",
    "pushed",
    "result_shadow",
    "scaled",
    "separate",
    "tangent",
]


def cotangent(dret: Annotation) -> Any:
    """The cotangent of a result: a number, or the shadow of an array."""
    if isinstance(dret, Const):
        return ZeroTangent()
    return dret.val if isinstance(dret, Active) else dret.fields[1]


def deliver(x: Annotation, x_bar: Any) -> Any:
    """Deliver a cotangent to an argument; the entry that the reverse returns for it.

    For an Active argument that is the projected cotangent; for a Duplicated one the cotangent is
    added to the shadow, and None returned. Symbolic zeros are zero. Raises `TangentMismatch` and
    `RuleReturnError` for a cotangent whose shape is not that of its argument,
    `TangentNotImplemented` for one the rule does not have.
    """
    if isinstance(x, Const):
        return None
    x_bar = extern(x_bar)
    if isinstance(x_bar, NotImplementedTangent):
        x_bar.refuse()
    if isinstance(x, Active):
        return make_zero(x.val) if is_zero(x_bar) else ProjectTo(x.val)(x_bar)
    if isinstance(x, MixedDuplicated):
        return _delivered(x.val, x.dval, x_bar)
    if not is_zero(x_bar):
        accumulate(x, x_bar)
    return None


def _delivered(value: Any, shadow: Any, bar: Any) -> Any:
    """Add the arrays of a tuple's cotangent; a tuple with the derivatives of its numbers."""
    if is_tuple(value):
        bars = (ZeroTangent(),) * len(value) if is_zero(bar) else tuple(bar)
        if len(bars) != len(value):
            raise RuleReturnError("a cotangent does not have the length of its tuple")
        return tuple(map(_delivered, value, shadow, bars))
    if is_array(value):
        return deliver(Duplicated(value, shadow), bar)
    return deliver(Active(value), bar) if ProjectTo(value).has_tangent else None


def kept(value: Any, result: Any, overwritten: bool) -> Any:
    """A captured value as it is put on the tape.

    An array is copied if its memory may change before it is read: it may be an argument's that is
    `overwritten`, or overlap `result`, which belongs to the caller.
    """
    if is_array(value):
        return value.copy() if overwritten or _shared(value, result) else value
    if is_tuple(value):
        return like_tuple(type(value), (kept(entry, result, overwritten) for entry in value))
    return value


def copy_for_tape(value: Any) -> Any:
    """A copy of an argument for the tape."""
    return kept(value, None, True)


def result_shadow(ret: Any, result: Any) -> Any:
    """The shadow of a rule's result: zeros of its structure if it has arrays, otherwise None."""
    if ret in SHADOWED or isinstance(ret, SHADOWED):
        if not isinstance(result, np.ndarray | tuple):
            raise RuleReturnError(f"a Duplicated result is an array, not {type(result).__name__}")
        return make_zero(result)
    return None


def fresh(result: Any, x: Annotation) -> Any:
    """The result of a rule; `RuleReturnError` if it shares memory with an argument.

    A write to one would change the other, and the engine takes the result for new memory.
    """
    parts = result if is_tuple(result) else (result,)
    if any(shares_memory(part, x.fields[0]) for part in parts):
        raise RuleReturnError("the result of the rule shares memory with an argument")
    return result


# --- forward ---


def tangent(x: Annotation) -> Any:
    """The tangent of an argument: a symbolic zero if it is Const, for a tuple one per item."""
    return zero_tangent(x.val) if isinstance(x, Const) else x.fields[1]


def zero_tangent(value: Any) -> Any:
    """The symbolic zero that stands for the tangent of a value; for a tuple one per item."""
    if is_tuple(value):
        return like_tuple(type(value), map(zero_tangent, value))
    return ZeroTangent() if ProjectTo(value).has_tangent else NoTangent()


def pushed(y: Any, dy: Any) -> Any:
    """The tangent of a result, as a value of the result's type."""
    dy = extern(dy)
    if isinstance(dy, NotImplementedTangent):
        dy.refuse()
    return make_zero(y) if is_zero(dy) else ProjectTo(y)(dy)


def separate(dy: Any, x: Annotation) -> Any:
    """The tangent of a result in its own memory: a copy if it shares that of an argument."""
    if is_tuple(dy):
        return like_tuple(type(dy), [separate(item, x) for item in dy])
    shared = any(shares_memory(dy, field) for field in x.fields)
    return dy.copy() if shared else dy


def _shared(a: Any, b: Any) -> bool:
    return is_array(a) and is_array(b) and np.may_share_memory(a, b)


def shares_memory(a: Any, value: Any) -> bool:
    """Whether an array may share memory with one in a value."""
    if is_tuple(value) or is_list(value):
        return any(shares_memory(a, item) for item in value)
    return _shared(a, value)


def by_argument(slopes: Any, x: tuple[Any, ...]) -> Any:
    """Partial derivatives as a tuple: one per argument of `x`, or a row of them per output.

    A single one need not be in a tuple. `RuleDefinitionError` if their number is not that of the
    arguments.
    """
    entries = slopes if is_tuple(slopes) else (slopes,)
    rows = entries if any(map(is_tuple, entries)) else (entries,)
    for row in rows:
        if not is_tuple(row) or len(row) != len(x):
            raise wrong_partials(len(row) if is_tuple(row) else 1, len(x))
    return entries


def wrong_partials(found: int, wanted: int, **where: Any) -> RuleDefinitionError:
    """The error about a wrong number of partial derivatives."""
    return RuleDefinitionError(
        f"a scalar rule has a partial derivative per argument: found {found}, expected {wanted}",
        why="they are in the order of the arguments; with several outputs there is a row for each: "
        "((a, b), (c, d))",
        instead=["ZeroTangent() for an argument that the result does not depend on"],
        **where,
    )


def contracted(slopes: Any, i: int, bar: Any) -> Any:
    """The cotangent of argument `i`: conj(∂Ω/∂x_i) Ω̄, summed over the outputs if there are
    several.

    `slopes` has an entry per argument, or a row of them per output.
    """
    several = isinstance(slopes[0], tuple)
    if is_tuple(bar) and len(bar) != (len(slopes) if several else 1):
        raise wrong_rows(len(slopes) if several else 1, len(bar))
    if not several:
        return scaled(conjugate(slopes[i]), bar)
    total: Any = ZeroTangent()
    for row, entry in zip(slopes, bar, strict=True):
        total = total + scaled(conjugate(row[i]), entry)
    return total


def wrong_rows(found: int, wanted: int) -> RuleDefinitionError:
    """The error about a wrong number of outputs."""
    return RuleDefinitionError(
        f"a scalar rule has a row of partials per output: found {found}, expected {wanted}",
        why="with several outputs the partials are a tuple of tuples: ((a, b), (c, d))",
    )


def combined(slopes: Any, dots: Any) -> Any:
    """The tangent of the result: ∂Ω/∂x_i ẋ_i summed over the arguments; a tuple if there are
    several outputs.

    `slopes` as in `contracted`, `dots` are the tangents of the arguments.
    """
    if isinstance(slopes[0], tuple):
        return tuple(combined(row, dots) for row in slopes)
    total: Any = ZeroTangent()
    for slope, dot in zip(slopes, dots, strict=True):
        total = total + scaled(slope, dot)
    return total


_INEXACT: tuple[type, ...] = (float, complex, np.inexact)


def scaled(slope: Any, value: Any) -> Any:
    """A partial derivative times a cotangent or tangent; 0 if that is 0 and the slope infinite.

    Only a product that is NaN is replaced: where the slope is finite, second derivatives need the
    product (decision 0050).
    """
    product = slope * value
    is_number = isinstance(product, _INEXACT)
    return value if is_number and product != product and value == 0 else product

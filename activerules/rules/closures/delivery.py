"""What a converted rule calls: between tangents and the annotations of a rule.

These are the plain Python forms; `numba_ext.delivery` gives them the same meaning in compiled
rules, where what they do is decided by types.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from activerules.annotations.activity import Active, Annotation, Const, Duplicated
from activerules.annotations.projection import ProjectTo
from activerules.annotations.tangents import (
    NotImplementedTangent,
    ZeroTangent,
    conjugate,
    is_zero,
)
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.errors import RuleReturnError
from activerules.rules.protocol import accumulate

__all__ = ["contracted", "copied", "cotangent", "deliver", "kept", "result_shadow"]


def cotangent(dret: Annotation) -> Any:
    """The cotangent of a result: a number, or the shadow of an array."""
    if isinstance(dret, Const):
        return ZeroTangent()
    return dret.val if isinstance(dret, Active) else dret.fields[1]


def deliver(x: Annotation, x_bar: Any) -> Any:
    """Give an argument its cotangent: what a reverse returns for it.

    Of an Active argument the projected cotangent; that of a Duplicated one is added to its shadow,
    and None is returned. Symbolic zeros are zero. `TangentMismatch` and `RuleReturnError` for a
    cotangent of another shape than its argument, `TangentNotImplemented` for one the rule lacks.
    """
    if isinstance(x, Const):
        return None
    x_bar = extern(x_bar)
    if isinstance(x_bar, NotImplementedTangent):
        x_bar.refuse()
    if isinstance(x, Active):
        return make_zero(x.val) if is_zero(x_bar) else ProjectTo(x.val)(x_bar)
    if not is_zero(x_bar):
        accumulate(x, x_bar)
    return None


def kept(value: Any, result: Any, overwritten: bool) -> Any:
    """A captured value as it goes on the tape.

    An array is copied if its memory may change before it is read: it may be an argument's that is
    `overwritten`, or overlap `result`, which belongs to the caller.
    """
    if isinstance(value, np.ndarray):
        shared = isinstance(result, np.ndarray) and np.may_share_memory(value, result)
        return value.copy() if overwritten or shared else value
    if isinstance(value, tuple):
        return tuple(kept(entry, result, overwritten) for entry in value)
    return value


def copied(value: Any) -> Any:
    """A copy of an argument for the tape."""
    return kept(value, None, True)


def result_shadow(ret: Any, result: Any) -> Any:
    """The shadow of a rule's result: zeros like it if it is Duplicated, else None."""
    if ret is Duplicated or isinstance(ret, Duplicated):
        if not isinstance(result, np.ndarray | tuple):
            raise RuleReturnError(f"a Duplicated result is an array, not {type(result).__name__}")
        return make_zero(result)
    return None


def contracted(slopes: Any, i: int, bar: Any) -> Any:
    """The cotangent of argument `i`: conj(∂Ω/∂x_i) Ω̄, summed over the outputs if there are several.

    `slopes` has an entry per argument, or a row of them per output.
    """
    if not isinstance(slopes[0], tuple):
        return conjugate(slopes[i]) * bar
    total: Any = ZeroTangent()
    for row, entry in zip(slopes, bar, strict=True):
        total = total + conjugate(row[i]) * entry
    return total

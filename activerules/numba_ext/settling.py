"""Cotangents of arrays that were replaced: from the caller's shadow to where the sweep begins.

Gives       `settling`: a function of the arrays that were in some fields at first, and of those
            that are in the end. It does nothing; its rules move cotangents and tangents
            `hold`: one whose rule keeps arrays until the reverse sweep ends
            `changes_shadows`: whether an argument's shadow is written though its memory is not
Invariants  S1  all cotangents are taken before one is given: arrays may have changed places
            S2  a cotangent, other than of zeros, for which there is no place is an error
"""
# pyright: reportAttributeAccessIssue=false
# pyright: reportCallIssue=false, reportIndexIssue=false

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

import numba
import numpy as np
from numba.extending import register_jitable

from activerules.annotations.activity import Annotation, Duplicated
from activerules.errors import ShadowMismatch
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.protocol import AugmentedReturn, active
from activerules.rules.written import function_from, over_places

_FIELD = "an array in a Duplicated object is replaced by one of another shape"
_COTANGENT = "its shadow is not zero, and has the cotangent of what is in the field in the end"
_TANGENT = "the shadow has no place for the tangent of what is in the field in the end"
_ZERO = "set its shadow to zero before"
_SAME = "replace it by an array of its shape"

_functions: list[Any] = []


def changes_shadows(function: Any, position: int) -> bool:
    """Whether a function with rules, one of those made here, writes the shadow of an argument."""
    # by identity: ctypes functions cannot be compared by their hashes
    return position == 0 and any(function is one for one in _functions)


@numba.njit
def hold(arrays, others):
    """Do nothing: the rule keeps the arrays."""


_functions.append(hold)


@augmented_primal(hold, keeps_shadow=False)
def _hold(config, ret: Annotation, arrays: Duplicated, others: Annotation):
    return AugmentedReturn(None, None, (arrays.val, others.val))


@reverse(hold)
def _hold_reverse(config, dret: Annotation, tape, arrays: Duplicated, others: Annotation):
    return None, None


@register_jitable
def is_another(first, last):
    """Tell whether two arrays are not the same piece of memory, read in the same way."""
    return (
        first.ctypes.data != last.ctypes.data
        or first.shape != last.shape
        or first.strides != last.strides
    )


@register_jitable
def has_no_place(shadow, first, last):
    """Tell whether a cotangent is lost: none is that is zero."""
    if is_another(first, last) and shadow.shape != last.shape:
        return np.any(shadow != 0)
    return False


@register_jitable
def require_place(lost):
    """Raise for a cotangent; nothing is held here, which an exception would lose."""
    if lost:
        raise ShadowMismatch(_FIELD, (), _COTANGENT, (_ZERO, _SAME))


@register_jitable
def require_tangent_place(lost):
    """Raise for a tangent."""
    if lost:
        raise ShadowMismatch(_FIELD, (), _TANGENT, (_SAME,))


_REVERSE = """
def reverse(config, dret, tape, before, after):
    lost = False
{check}
    require_place(lost)
{take}
    if active(after):
{give}
    return None, None
"""
_CHECK = """
    lost |= has_no_place(before.dval[{k}], before.val[{k}], after.val[{k}])
"""
_TAKE = """
    taken{k} = before.dval[{k}]
    moves{k} = is_another(before.val[{k}], after.val[{k}])
    moves{k} &= before.val[{k}].shape == after.val[{k}].shape
    if moves{k}:
        taken{k} = taken{k}.copy()
        before.dval[{k}][...] = 0
"""
_GIVE = """
        if moves{k}:
            given{k} = after.dval[{k}]
{loops}
"""
_FORWARD = """
def forward(config, ret, before, after):
    lost = False
{check}
    require_tangent_place(lost)
{take}
{give}
"""
_CHECK_TANGENT = """
    lost |= before.val[{k}].shape != after.val[{k}].shape
"""
_TAKE_TANGENT = """
    tangent{k} = before.dval[{k}]
    moves{k} = is_another(before.val[{k}], after.val[{k}])
    if moves{k}:
        if active(after):
            tangent{k} = after.dval[{k}].copy()
        else:
            tangent{k} = tangent{k} * 0
"""
_GIVE_TANGENT = """
    if moves{k}:
        before.dval[{k}][...] = tangent{k}
"""
_NAMES = {
    "active": active,
    "is_another": is_another,
    "has_no_place": has_no_place,
    "require_place": require_place,
    "require_tangent_place": require_tangent_place,
}


@cache
def settling(dimensions: tuple[int, ...]) -> Any:
    """The function for as many arrays, of these dimensions."""

    @numba.njit
    def settled(before, after):
        pass

    _functions.append(settled)
    give = [
        _GIVE.format(
            k=k,
            loops=over_places(
                f"given{k}[{{place}}] += taken{k}[{{place}}]", f"taken{k}", ndim, " " * 12
            ),
        )
        for k, ndim in enumerate(dimensions)
    ]
    parts = {"check": _CHECK, "take": _TAKE, "give": give}
    undo = _function("reverse", _REVERSE, parts, len(dimensions))
    parts = {"check": _CHECK_TANGENT, "take": _TAKE_TANGENT, "give": _GIVE_TANGENT}
    push = _function("forward", _FORWARD, parts, len(dimensions))

    @augmented_primal(settled, keeps_shadow=False)
    def augmented(config, ret: Annotation, before: Duplicated, after: Annotation):
        return AugmentedReturn(None, None, None)

    undo.__annotations__ = {"dret": Annotation, "before": Duplicated, "after": Annotation}
    push.__annotations__ = {"ret": Annotation, "before": Duplicated, "after": Annotation}
    reverse(settled)(undo)
    forward(settled)(push)
    return settled


def _function(name: str, source: str, parts: Mapping[str, str | list[str]], count: int) -> Any:
    """A rule from its source; of each part there is one per array."""
    text = {
        part: "".join(each if isinstance(each, list) else [each.format(k=k) for k in range(count)])
        for part, each in parts.items()
    }
    return function_from(source.format(**text), name, _NAMES, module=__name__)

"""Cotangents of replaced arrays, moved between shadows at the start of the reverse sweep.

Gives       `transferring`: a function of the initial arrays of some fields and of the final ones.
            It does nothing; its rules move cotangents and tangents
            `keep_alive`: a function whose rule keeps arrays alive until the reverse sweep ends
            `changes_shadows`: whether an argument's shadow is written though its memory is not
Invariants  S1  all cotangents are read before the first is written: arrays may have been swapped
            S2  a nonzero cotangent without an array to go to is an error
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

from activerules.annotations.activity import Annotation, Const, Duplicated
from activerules.errors import NotYetSupported, ShadowMismatch
from activerules.numba_ext.replaced.local_lists import is_another
from activerules.rules.define import augmented_primal, define_on, reverse
from activerules.rules.protocol import AugmentedReturn, active
from activerules.rules.registry import RULES
from activerules.rules.rule import Half
from activerules.rules.written import by_name, function_from, over_elements
from activerules.values.overwriting import overwrite

_FIELD = "an array in a Duplicated object is replaced by one of a different shape"
_COTANGENT = "its shadow is not zero, and has the cotangent of the final array in the field"
_TANGENT = "the shadow has no room for the tangent of the final array in the field"
_ZERO = "set its shadow to zero before"
_SAME = "replace it by an array of its shape"
_APPENDED = "an array in a Duplicated list is replaced, and moves behind the former end of a list"
_TAKEN = "in the shadow, the array with its tangent gets the tangent of what replaces it"
_COPY = "append a copy of it: rows.append(rows[0].copy())"

_functions: list[Any] = []
_list_functions: list[Any] = []


def changes_shadows(function: Any, position: int) -> bool:
    """Whether a function made here writes, in its rules, the shadow of an argument."""
    # by identity: ctypes functions cannot be compared by their hashes
    of_lists = position % 2 == 1 and any(function is known for known in _list_functions)
    return of_lists or (position == 0 and any(function is known for known in _functions))


@numba.njit
def keep_alive(arrays, others):
    """Do nothing: the rule keeps the arrays."""


_functions.append(keep_alive)


@augmented_primal(keep_alive, keeps_shadow=False)
def _keep_alive_augmented(config, ret: Annotation, arrays: Duplicated, others: Annotation):
    return AugmentedReturn(None, None, (arrays.val, others.val))


@reverse(keep_alive)
def _keep_alive_reverse(config, dret: Annotation, tape, arrays: Duplicated, others: Annotation):
    return None, None


@register_jitable
def has_no_target(shadow, first, last):
    """Whether a nonzero cotangent would be lost."""
    if is_another(first, last) and shadow.shape != last.shape:
        return np.any(shadow != 0)
    return False


@register_jitable
def moves(first, last):
    """Whether a cotangent is moved."""
    return is_another(first, last) and first.shape == last.shape


@register_jitable
def require_target(lost):
    """Raise for a cotangent without an array to go to; nothing is owned here that would leak."""
    if lost:
        raise ShadowMismatch(_FIELD, (), _COTANGENT, (_ZERO, _SAME))


@register_jitable
def require_tangent_target(lost):
    """Raise `ShadowMismatch` if a tangent would have no array to be put into."""
    if lost:
        raise ShadowMismatch(_FIELD, (), _TANGENT, (_SAME,))


@register_jitable
def require_not_appended(appended):
    """Raise `NotYetSupported` if an array that is replaced is behind the former end of a list."""
    if appended:
        raise NotYetSupported(_APPENDED, (), _TAKEN, (_COPY, "reverse mode"))


_REVERSE = """
def reverse(config, dret, tape, before, after):
    lost = False
{check}
    require_target(lost)
{take}
    if active(after):
{give}
    return None, None
"""
_CHECK = """
    lost |= has_no_target(before.dval[{k}], before.val[{k}], after.val[{k}])
"""
_TAKE = """
    taken{k} = before.dval[{k}]
    moves{k} = moves(before.val[{k}], after.val[{k}])
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
    require_tangent_target(lost)
{take}
{give}
"""
_CHECK_TANGENT = """
    lost |= before.val[{k}].shape != after.val[{k}].shape
"""
_TAKE_TANGENT = """
    tangent{k} = before.dval[{k}]
    moves{k} = moves(before.val[{k}], after.val[{k}])
    if moves{k}:
        if active(after):
            tangent{k} = after.dval[{k}].copy()
        else:
            tangent{k} = np.zeros_like(tangent{k})
"""
_GIVE_TANGENT = """
    if moves{k}:
        overwrite(before.dval[{k}], tangent{k})
"""
_NAMES = {
    **by_name(active, has_no_target, moves, overwrite),
    **by_name(require_target, require_tangent_target),
    "np": np,
}


@cache
def transferring(dimensions: tuple[int, ...]) -> Any:
    """The function for arrays of these dimensions."""

    @numba.njit
    def transfer(before, after):
        pass

    _functions.append(transfer)
    give = [
        _GIVE.format(
            k=k,
            loops=over_elements(
                f"given{k}[{{index}}] += taken{k}[{{index}}]", f"taken{k}", ndim, " " * 12
            ),
        )
        for k, ndim in enumerate(dimensions)
    ]
    parts = {"check": _CHECK, "take": _TAKE, "give": give}
    undo = _function("reverse", _REVERSE, parts, len(dimensions))
    parts = {"check": _CHECK_TANGENT, "take": _TAKE_TANGENT, "give": _GIVE_TANGENT}
    push = _function("forward", _FORWARD, parts, len(dimensions))

    def augmented(config, ret: Annotation, before: Duplicated, after: Annotation):
        return AugmentedReturn(None, None, None)

    undo.__annotations__ = {"dret": Annotation, "before": Duplicated, "after": Annotation}
    push.__annotations__ = {"ret": Annotation, "before": Duplicated, "after": Annotation}
    _attach(transfer, augmented, undo, push)
    return transfer


def _attach(function: Any, augmented: Any, undo: Any, push: Any) -> None:
    """Give a new function its rules without a new epoch, which would invalidate the derivative that
    is being compiled.
    """
    halves: dict[Half, Any] = {"augmented_primal": augmented, "reverse": undo, "forward": push}
    for which, written in halves.items():
        half = define_on(function, which, written, keeps_shadow=which != "augmented_primal")
        RULES.attach(function, which, *half)


_LISTS = """
def reverse(config, dret, tape, {arguments}):
    lost = False
{check}
    require_target(lost)
{take}
{clear}
{give}
    return {nothing}

def forward(config, ret, {arguments}):
    lost = False
{check_tangents}
    require_tangent_target(lost)
    require_not_appended(appended.val)
{take_tangents}
{give_tangents}
"""
_CHECK_LIST = """
    n{j} = min(len(before{j}.val), len(after{j}.val))
    for k in range(n{j}):
        lost |= has_no_target(before{j}.dval[k], before{j}.val[k], after{j}.val[k])
"""
_TAKE_LIST = """
    taken{j} = [before{j}.dval[k].copy() for k in range(n{j})]
"""
_CLEAR_LIST = """
    for k in range(n{j}):
        if moves(before{j}.val[k], after{j}.val[k]):
            before{j}.dval[k][...] = 0
"""
_GIVE_LIST = """
    if active(after{j}):
        for k in range(n{j}):
            if moves(before{j}.val[k], after{j}.val[k]):
                given, own = after{j}.dval[k], taken{j}[k]
{loops}
"""
_CHECK_TANGENT_LIST = """
    n{j} = min(len(before{j}.val), len(after{j}.val))
    for k in range(n{j}):
        lost |= before{j}.val[k].shape != after{j}.val[k].shape
"""
_TAKE_TANGENT_LIST = """
    tangents{j} = [before{j}.dval[k].copy() for k in range(n{j})]
    for k in range(n{j}):
        tangents{j}[k][...] = 0
        if active(after{j}):
            overwrite(tangents{j}[k], after{j}.dval[k])
"""
_GIVE_TANGENT_LIST = """
    for k in range(n{j}):
        if moves(before{j}.val[k], after{j}.val[k]):
            overwrite(before{j}.dval[k], tangents{j}[k])
"""
_IN_LISTS = """
def transfer({arguments}):
    pass

def augmented(config, ret, {arguments}):
    return AugmentedReturn(None, None, None)
"""


@cache
def transferring_lists(ndim: int, count: int) -> Any:
    """The function for `count` pairs of lists of arrays of one type: the initial and the final
    arrays of each, compared up to the shorter length; and whether one that is replaced is appended.
    """
    names = [f"{when}{j}" for j in range(count) for when in ("before", "after")]
    loops = over_elements("given[{index}] += own[{index}]", "own", ndim, " " * 16)
    parts = {
        "check": _CHECK_LIST,
        "take": _TAKE_LIST,
        "clear": _CLEAR_LIST,
        "give": _GIVE_LIST,
        "check_tangents": _CHECK_TANGENT_LIST,
        "take_tangents": _TAKE_TANGENT_LIST,
        "give_tangents": _GIVE_TANGENT_LIST,
    }
    text = {
        part: "".join(each.format(j=j, loops=loops) for j in range(count))
        for part, each in parts.items()
    }
    arguments = ", ".join(["appended", *names])
    nothing = ", ".join(["None"] * (1 + len(names)))
    source = (_IN_LISTS + _LISTS).format(arguments=arguments, nothing=nothing, **text)
    scope = {**_NAMES, **by_name(AugmentedReturn, require_not_appended)}
    functions = {
        name: function_from(source, name, scope, module=__name__)
        for name in ("transfer", "augmented", "reverse", "forward")
    }
    kinds: dict[str, Any] = {"appended": Const}
    kinds |= {name: Duplicated if name.startswith("before") else Annotation for name in names}
    functions["augmented"].__annotations__ = {"ret": Annotation, **kinds}
    functions["reverse"].__annotations__ = {"dret": Annotation, **kinds}
    functions["forward"].__annotations__ = {"ret": Annotation, **kinds}
    transfer = numba.njit(functions["transfer"])
    _list_functions.append(transfer)
    _attach(transfer, functions["augmented"], functions["reverse"], functions["forward"])
    return transfer


def _function(name: str, source: str, parts: Mapping[str, str | list[str]], count: int) -> Any:
    """A rule from its source; of each part there is one per array."""
    text = {
        part: "".join(each if isinstance(each, list) else [each.format(k=k) for k in range(count)])
        for part, each in parts.items()
    }
    return function_from(source.format(**text), name, _NAMES, module=__name__)

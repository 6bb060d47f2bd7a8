"""Results of functions in split mode: their activity, their shadow, their cotangent.

Gives       `read_result`: the activity that fits a result; `shadow_of`: the type of the shadow that
            `augmented` returns; `require_cotangent`: the check of a cotangent given to `reverse`
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from numba.core import types

from activerules.annotations.activity import (
    Active,
    Annotation,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.annotations.signature import SplitSpec
from activerules.errors import ActivityError, NotYetSupported
from activerules.numba_ext.calls.forward_checks import has_tangent
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.types import runtime_type
from activerules.rules.pattern import type_name
from activerules.values.kinds import is_record_array, leaves_of, optional_leaf
from activerules.values.layout import (
    Array,
    Node,
    Number,
    Optional,
    has_items_of,
    layout_of,
    map_type,
    pairs,
    shadow_of_leaf,
)


def read_result(split_spec: SplitSpec, dispatcher: Any, ty: Any) -> SplitSpec:
    """`split_spec`, with the activity of the result; `ActivityError` if it does not fit."""
    name = dispatcher.py_func.__name__
    if split_spec.result is Annotation:
        split_spec = replace(split_spec, result=_fitting(name, ty))
    _require_result(name, split_spec.result, ty)
    return split_spec


def _is_list_of_numbers(ty: Any) -> bool:
    return isinstance(ty, types.List) and isinstance(ty.dtype, types.Number)


def _require_result(name: str, activity: type[Annotation], ty: Any) -> None:
    """Raise `ActivityError` unless the return activity fits the type of the result."""
    kinds = set(_kinds(ty))
    if activity is Const:
        return
    if any(map(is_record_array, leaves_of(ty))):
        raise NotYetSupported(
            f"{name} returns {type_name(ty)}, and is asked for its derivative",
            why="the shadow of an array of records cannot be returned yet",
            instead=["return the fields, which are arrays: (records.a, records.b)"],
        )
    if "other" in kinds:
        raise NotYetSupported(
            f"{name} returns {type_name(ty)}, and is asked for its derivative",
            why="the shadow of a list, dictionary or object that a function makes refers to memory "
            "that is released with the tape, and a record has no owner: neither can be returned; "
            "nor has a tuple that may be None a cotangent inside another tuple",
            instead=[
                *(["a tuple, or np.array([…])"] if _is_list_of_numbers(ty) else []),
                "the gradient of a function that calls it, and returns a number made of the result",
                "a function that returns arrays and floats",
            ],
        )
    fits: dict[type[Annotation], bool] = {
        Active: kinds >= {"float"} and "array" not in kinds,
        Duplicated: kinds >= {"array"} and "float" not in kinds,
        DuplicatedNoNeed: kinds >= {"array"} and "float" not in kinds,
        MixedDuplicated: kinds >= {"array", "float"},
    }
    if fits.get(activity, False):
        return
    better = [kind.__name__ for kind, fit in fits.items() if fit and kind is not DuplicatedNoNeed]
    raise ActivityError(
        f"{name} returns {type_name(ty)}, which cannot be {activity.__name__}",
        why="floats are Active, arrays Duplicated, tuples with both MixedDuplicated",
        instead=[f"the return activity {kind}" for kind in better or ["Const"]],
    )


def _fitting(name: str, ty: Any) -> type[Annotation]:
    """The activity of a result; `ActivityError` if it has no derivative."""
    kinds = set(_kinds(ty))
    if "array" in kinds and ("other" in kinds or has_tangent(ty)):
        return MixedDuplicated if "float" in kinds else Duplicated
    if "float" in kinds or "other" in kinds:
        return Active
    raise ActivityError(
        f"{name} returns {type_name(ty)}, which has no derivative",
        why="a result with a cotangent is a float, an array of floats, or a tuple with such",
        instead=["a function that returns what it computes"],
    )


def _kinds(ty: Any) -> Iterator[str]:
    """The kinds of the parts of a result: float, array, other, or nothing (integers, strings,
    None).
    """
    plain = types.Integer | types.Boolean
    for leaf in leaves_of(ty):
        held = runtime_type(optional_leaf(leaf) or leaf)
        if isinstance(held, types.Array):
            is_known = isinstance(held.dtype, types.Float | types.Complex | plain)
            yield "array" if is_known else "other"
        elif isinstance(held, types.Float | types.Complex):
            yield "float"
        else:
            constant = isinstance(held, plain | types.NoneType | types.UnicodeType)
            yield "nothing" if constant else "other"


def has_shadow(result: type[Annotation]) -> bool:
    """Whether a result of this activity has a shadow that `augmented` returns."""
    return result not in (Active, Const)


def shadow_of(ty: Any) -> Any:
    """The type of the shadow of a result: that of the result, with writable arrays."""
    return map_type(layout_of(ty), _shadow_of_leaf)


def _shadow_of_leaf(leaf: Node) -> Any:
    if isinstance(leaf, Optional) and optional_leaf(leaf.numba_type) is not None:
        return types.Optional(shadow_of_leaf(leaf.item))
    return shadow_of_leaf(leaf)


def require_cotangent(typing_context: TypingContext, activity: Any, result: Any, dret: Any) -> None:
    """Raise `ActivityError` unless a cotangent has the type of its result."""
    if activity not in (Active, MixedDuplicated):
        return
    matched = pairs(layout_of(result), layout_of(dret))
    if not all(_fits(typing_context, node, given) for _, node, given in matched):
        raise ActivityError(
            f"the cotangent of a result of type {type_name(result)} is {type_name(dret)}",
            why="it has the type of the result",
        )


def _fits(typing_context: TypingContext, node: Node, given: Node) -> bool:
    result, dret = node.numba_type, given.numba_type
    if node.is_tuple:
        return has_items_of(node, given)
    if isinstance(node, Number):
        return typing_context.can_convert(dret, result) is not None
    if isinstance(node, Array):
        return isinstance(dret, types.Array) and dret.dtype == result.dtype
    return True

"""Checks of a call of a forward derivative while it is typed.

In forward mode everything with a derivative is Duplicated, floats and tuples too; Active does not
exist. All errors are raised before a derivative is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import types

from activerules.annotations.activity import (
    BATCHED,
    Active,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    MixedDuplicated,
)
from activerules.errors import ActivityError, NotYetSupported, ShadowMismatch
from activerules.numba_ext.calls.checks import (
    is_array_alike,
    refuse_declared_inactive,
    require_known_fields,
    require_known_leaves,
)
from activerules.numba_ext.calls.emitter import is_batched
from activerules.numba_ext.calls.lanes import width_of
from activerules.numba_ext.calls.refused_kinds import refuse_kind
from activerules.numba_ext.codegen.types import AnnotationType, runtime_type
from activerules.rules.pattern import type_name
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import (
    is_instance,
    is_number,
    is_number_array,
    items_of,
    optional_leaf,
)
from activerules.values.layout import (
    CONSTANT,
    Array,
    Node,
    Number,
    has_items_of,
    layout_of,
    pairs,
    show,
)

_DUPLICATED = (Duplicated, DuplicatedNoNeed, *BATCHED)


def wants_tangent(marker: Any) -> bool:
    """Whether a tangent of the result is requested, if it has one, by the activity given for it."""
    if marker in (Active, MixedDuplicated):
        raise ActivityError(
            f"a return marked {marker.__name__} is for reverse mode",
            why="forward mode computes the tangent of the return value: it is Duplicated or Const",
            instead=["Duplicated, or leave the activity of the return out"],
        )
    return marker is not Const


@dataclass(frozen=True)
class ForwardArguments:
    """The arguments of a call, the types of their tangents (one per lane), and how many lanes.

    batched   whether the call is a batch; then the result is a tuple even for one lane
    """

    arguments: tuple[ArgumentSpec, ...]
    shadows: tuple[tuple[Any, ...], ...]
    width: int
    batched: bool


def read_forward_arguments(names: Sequence[str], argtypes: Sequence[Any]) -> ForwardArguments:
    """Read a call's arguments; a bare value is Const.

    Raises `ActivityError` (Active, or no floats in what is Duplicated), `ShadowMismatch` (a tangent
    of another type), `BatchWidthMismatch` (not one width in the whole call).
    """
    width = width_of(names, argtypes)
    read = [_read(name, ty) for name, ty in zip(names, argtypes, strict=True)]
    arguments, shadows = zip(*read, strict=True) if read else ((), ())
    return ForwardArguments(arguments, shadows, width, is_batched(argtypes))


def _read(name: str, ty: Any) -> tuple[ArgumentSpec, tuple[Any, ...]]:
    if not isinstance(ty, AnnotationType):
        return ArgumentSpec(name, runtime_type(ty), "const"), ()
    if ty.kind is Const:
        return ArgumentSpec(name, ty.val, "const"), ()
    if ty.kind is Active:
        raise ActivityError(
            f"`{name}` is marked Active, which is for reverse mode",
            why="in forward mode each active argument needs a tangent",
            instead=[f"Duplicated({name}, tangent)", f"Const({name})"],
        )
    if ty.kind not in _DUPLICATED:
        raise NotYetSupported(
            f"`{name}` is marked {ty.kind.__name__}, which is for reverse mode",
            instead=[f"Duplicated({name}, tangent): a tuple of the tangents of its items"],
        )
    require_tangible(name, ty.val)
    lanes = items_of(ty.dval) if ty.kind in BATCHED else (ty.dval,)
    for lane in lanes:
        require_tangent(name, ty.val, lane)
    return ArgumentSpec(name, ty.val, "duplicated"), lanes


def require_tangible(name: str, ty: Any) -> None:
    """Raise unless values of this type can have a tangent."""
    refuse_declared_inactive(name, ty)
    for path, leaf in layout_of(ty).leaf_paths:
        if not (path and _is_constant(leaf.numba_type)):
            _require_tangible_leaf(name + show(path), leaf)


def _require_tangible_leaf(name: str, leaf: Node) -> None:
    ty = leaf.numba_type
    refuse_kind(name, ty)
    if isinstance(leaf, Number):
        return
    if is_instance(ty) or (leaf.has_shadow and not is_number_array(ty)):
        require_known_leaves(name, ty)
        if leaf.has_shadow:
            return
    if isinstance(leaf, Array):
        if isinstance(leaf.element, Number):
            return
        require_known_fields(name, ty)
    raise ActivityError(
        f"`{name}` is {type_name(ty)}, which has no tangent",
        why="tangents are of floats, of arrays of floats, and of tuples of these",
        instead=[f"Const({name})"],
    )


def _is_constant(item: Any) -> bool:
    """Whether an item of a tuple neither has nor needs a tangent."""
    item = runtime_type(item)
    return isinstance(item.dtype if isinstance(item, types.Array) else item, CONSTANT)


def require_tangent(name: str, primal: Any, tangent: Any) -> None:
    """Raise `ShadowMismatch` unless `tangent` is the type of a tangent of `primal`."""
    for path, node, tangent_node in pairs(layout_of(primal), layout_of(tangent)):
        if not (path and _is_constant(node.numba_type)) or _would_lose(node, tangent_node):
            _require_tangent_of_part(name + show(path), node, tangent_node)


def _would_lose(node: Node, tangent_node: Node) -> bool:
    """Whether an array of integers is given a tangent of floats, which would be dropped."""
    arrays = node.numba_type, tangent_node.numba_type
    return all(isinstance(ty, types.Array) for ty in arrays) and not _is_constant(arrays[1])


def _require_tangent_of_part(name: str, node: Node, tangent_node: Node) -> None:
    primal, tangent = node.numba_type, tangent_node.numba_type
    if isinstance(primal, types.Float):
        fits = isinstance(tangent, types.Float | types.Integer)
    elif isinstance(primal, types.Complex):
        fits = isinstance(tangent, types.Complex | types.Float | types.Integer)
    elif isinstance(primal, types.Array):
        fits = is_array_alike(primal, tangent) and (tangent.mutable or not primal.mutable)
    elif node.is_tuple:
        fits = has_items_of(node, tangent_node)
    else:
        fits = tangent == primal or not node.has_shadow
    if isinstance(tangent, types.Array) and not tangent.mutable and not fits:
        raise ShadowMismatch(
            f"the tangent of `{name}` is {type_name(tangent)}, a constant array",
            why="the function may write into its argument, and the derivative into the tangent",
            instead=["a copy of it, v.copy()"],
        )
    if not fits:
        raise ShadowMismatch(
            f"the tangent of `{name}` is {_with_fields(tangent)}, and `{name}` is "
            f"{_with_fields(primal)}",
            instead=["a tangent of the same type", f"make_zero({name})"],
        )


def _with_fields(ty: Any) -> str:
    """A type as it is written, with the names of the items of a named tuple."""
    fields = getattr(ty, "fields", ()) if isinstance(ty, types.BaseTuple) else ()
    return f"{type_name(ty)}({', '.join(fields)})" if fields else type_name(ty)


def has_tangent(ty: Any) -> bool:
    """Whether a result of this type contains floats; `NotYetSupported` if that is unknown."""
    return any([_has_tangent(leaf) for leaf in layout_of(ty).leaves])


def _has_tangent(leaf: Node) -> bool:
    ty = optional_leaf(leaf.numba_type) or leaf.numba_type
    if is_number(ty) or is_number_array(ty):
        return True
    if _is_constant(ty):
        return False
    raise NotYetSupported(
        f"a function that returns {type_name(ty)} has no tangent yet",
        instead=["return floats, arrays of floats, or tuples of these", "the activity Const"],
    )

"""Calls with several shadows per argument: their width, and the call for one lane.

Invariants  B1  one width for the whole call (`BatchWidthMismatch`)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numba.core import types

from activerules.annotations.activity import BATCHED, Active, Const, Duplicated
from activerules.annotations.signature import SplitSpec
from activerules.errors import ActivityError, BatchWidthMismatch, ShadowMismatch
from activerules.numba_ext.codegen.protocols import Emit
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.pattern import type_name
from activerules.values.kinds import items_of


def width_of(names: Sequence[str], args: Sequence[Any]) -> int:
    """The width of a call (B1); 1 if no argument is batched."""
    widths: dict[str, int] = {}
    for name, ty in zip(names, args, strict=True):
        kind = ty.kind if isinstance(ty, AnnotationType) else Const
        if kind in BATCHED:
            if not isinstance(ty.dval, types.BaseTuple) or not len(ty.dval):
                raise ActivityError(
                    f"the shadows of `{name}` are {type_name(ty.dval)}",
                    why=f"{kind.__name__} takes a tuple of shadows, one per derivative",
                    instead=[f"{kind.__name__}({name}, (d{name}1, d{name}2))"],
                )
            _require_one_type(name, items_of(ty.dval))
            widths[name] = len(ty.dval)
        elif kind not in (Active, Const):
            widths[name] = 1
    if len(set(widths.values())) > 1:
        listed = ", ".join(f"`{name}` has {n}" for name, n in widths.items())
        raise BatchWidthMismatch(
            f"the arguments of one call have different numbers of shadows: {listed}",
            instead=["BatchDuplicated with as many shadows for each"],
        )
    return next(iter(widths.values()), 1)


def _require_one_type(name: str, lanes: Sequence[Any]) -> None:
    if any(lane != lanes[0] for lane in lanes):
        raise ShadowMismatch(
            f"the shadows of `{name}` have different types: {', '.join(map(type_name, lanes))}",
            instead=[f"make_zero({name}) for each"],
        )


def first_lane(ty: Any) -> Any:
    """The annotation of one lane, for a call of width one."""
    if not isinstance(ty, AnnotationType) or ty.kind not in BATCHED:
        return ty
    return AnnotationType(Duplicated, ty.val, items_of(ty.dval)[0])


def one_lane(split_spec: SplitSpec) -> SplitSpec:
    """The specification of the derivative for one lane."""
    kinds = tuple(Duplicated if kind in BATCHED else kind for kind in split_spec.arguments)
    return replace(split_spec, arguments=kinds)


def lane_tuples(derivative_types: Sequence[Any], width: int, *, batched: bool) -> list[Any]:
    """The types of the derivatives of a call; of a batch, tuples with an entry per lane."""
    if not batched:
        return list(derivative_types)
    return [
        types.none if isinstance(ty, types.NoneType) else types.UniTuple(ty, width)
        for ty in derivative_types
    ]


def packed_lanes(em: Emit, by_argument: Sequence[Any], lanes: Sequence[Sequence[Any]]) -> list[Any]:
    """The derivatives of all lanes, by argument, with the types that `lane_tuples` gives."""
    return [
        em.context.make_tuple(em.builder, ty, column)
        if isinstance(ty, types.BaseTuple)
        else em.context.get_dummy_value()
        for ty, column in zip(by_argument, zip(*lanes, strict=True), strict=True)
    ]

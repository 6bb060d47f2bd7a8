"""Cotangents of results with arrays, and the shadows that they are added to.

The emitted code never raises, so that nothing leaks; for results without arrays it does nothing.
The cotangent of an optional result may be None, and must be if the result is None. That of an array
of integers may be None, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import signature
from numba.extending import intrinsic, register_jitable

from activerules.errors import ActivityError
from activerules.numba_ext.codegen.protocols import Builder, Context, Emit, Value, doing
from activerules.rules.pattern import type_name
from activerules.values.kinds import returned_type
from activerules.values.layout import Array, Node, Number, Optional, has_items_of, layout_of, pairs
from activerules.values.overwriting import overwrite
from activerules.values.shadows import clear_shadow
from activerules.values.walk import Depth, Visit, WalkedValue, walk

_COUNTS = types.Integer | types.Boolean


def require_fitting(shadow: Any, cotangent: Any) -> None:
    """Raise `ActivityError` unless the type of a cotangent fits the result."""
    for _, node, given in pairs(layout_of(shadow), layout_of(cotangent)):
        if not _is_one(node, given):
            what = f"{type_name(node.numba_type)} is {type_name(given.numba_type)}"
            raise ActivityError(
                f"the cotangent of a result of type {what}",
                why="a cotangent has the type and the shape of the result",
                instead=["a number for each number; np.ones_like(out), or another array like it"],
            )


def _is_one(node: Node, given: Node) -> bool:
    if isinstance(node, Optional):
        return True
    if node.is_tuple:
        return has_items_of(node, given)
    if isinstance(node, Array):
        if given.numba_type == types.none:
            return isinstance(node.element.numba_type, _COUNTS)
        same_axes = isinstance(given, Array) and given.numba_type.ndim == node.numba_type.ndim
        return same_axes and _holds(node.element, given.children[0][1])
    return not isinstance(node, Number) or _holds(node, given)


def _holds(node: Node, given: Node) -> bool:
    if isinstance(given.numba_type, types.Complex):
        return isinstance(node.numba_type, types.Complex)
    return isinstance(given.numba_type, types.Float | types.Integer | types.Boolean)


def fits(em: Emit, argtypes: tuple[Any, Any], pair: tuple[Any, Any]) -> Value:
    """Whether the arrays of a cotangent have the shapes of those in the shadow of the result."""
    nodes, builder = tuple(map(layout_of, argtypes)), em.builder
    result = cgutils.alloca_once_value(builder, cgutils.true_bit)
    for visit in walk(em, nodes, pair, depth=Depth.VALUE):
        unfit = _unfit(em, visit)
        builder.store(builder.and_(builder.load(result), builder.not_(unfit)), result)
    return builder.load(result)


def _unfit(em: Emit, visit: Visit) -> Any:
    builder, (shadow, cotangent) = em.builder, visit.slots
    if isinstance(shadow.node, Optional):
        is_missing = builder.not_(_is_there(em, shadow))
        return builder.and_(_is_there(em, cotangent), is_missing)
    differs = cgutils.false_bit
    if isinstance(shadow.node, Array) and isinstance(cotangent.node, Array):
        shapes: list[list[Any]] = []
        for slot in visit.slots:
            array = em.array(slot.node.numba_type, slot.value)
            shapes.append(cgutils.unpack_tuple(builder, array.shape, slot.node.numba_type.ndim))
        for left, right in zip(*shapes, strict=True):
            differs = builder.or_(differs, builder.icmp_unsigned("!=", left, right))
    return differs


def _is_there(em: Emit, slot: WalkedValue) -> Any:
    ty = slot.node.numba_type
    if not isinstance(slot.node, Optional):
        return cgutils.false_bit if ty == types.none else cgutils.true_bit
    return cgutils.as_bool_bit(em.builder, em.context.make_helper(em.builder, ty, slot.value).valid)


@intrinsic
def clear(typing_context, shadow):
    """Make the arrays in a shadow zero."""
    return types.none(shadow), doing(lambda em, args: clear_shadow(em, shadow, args[0]))


@register_jitable
def copy_of_shadow(shadow: Any) -> Any:
    """A new array with the contents of a shadow."""
    result = np.empty(shadow.shape, shadow.dtype)
    overwrite(result, shadow)
    return result


def _present(typing_context, x):
    """The value of an optional that is not None; anything else unchanged."""
    inner = returned_type(x)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        value = values[0]
        if inner != x:
            value = context.make_helper(builder, x, value).data
        return impl_ret_borrowed(context, builder, inner, value)

    return signature(inner, x), codegen


present: Any = intrinsic(_present)

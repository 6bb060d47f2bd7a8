"""Operations on whole shadows: visitors of `walk`, and new values made by `rebuild`.

Needs       the tree of a type, and LLVM values of it: shadows of one structure
Gives       `clear_shadow`, `add`, `take`, `give`, `add_cotangent`: all floats at once
            `zero_shadow`, `copy_of_shadow`, `sum_of_shadows`, `uninitialised_like`,
            `zeros_like`: new shadows; `constant_where_same`: zeros for what is the primal itself
            `own_constants`: references to the constant parts of a new shadow
            `keep`, `release`: references to everything reachable from an object
Invariants  F1  only floats are written: pointers, integers and keys stay
            F2  nothing raises but `MemoryError`, and `ShadowMismatch` in a sum of unlike shadows
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from activerules.errors import ShadowMismatch
from activerules.numba_ext.codegen.protocols import Emit, emitting
from activerules.values.extents import extent_of
from activerules.values.kinds import is_instance
from activerules.values.layout import (
    Array,
    Items,
    Node,
    Number,
    Plain,
    layout_of,
    map_type,
    shadow_of_leaf,
    show,
)
from activerules.values.regions import data_of_region
from activerules.values.walk import Depth, Making, Visit, WalkedValue, fresh, rebuild, walk

# the new value of a number in memory, from it and the number of another shadow
_Change = Callable[[Emit, WalkedValue, WalkedValue], None]


def clear_shadow(em: Emit, ty: Any, shadow: Any) -> None:
    """Make all floats of a shadow zero."""
    for visit in walk(em, layout_of(ty), (shadow,), where=may_change):
        if visit.is_number_in_memory:
            visit.slots[0].store(em.context.get_constant_null(visit.node.numba_type))


# The first of two shadows is fixed: dictionaries in the other are reordered where their keys have
# other indices.


def take(em: Emit, ty: Any, fixed: Any, other: Any) -> None:
    """Replace the floats of the fixed shadow by those of the other."""
    _change(em, layout_of(ty), (fixed, other), 0, _set)


def give(em: Emit, ty: Any, fixed: Any, other: Any) -> None:
    """Replace the floats of the other shadow by those of the fixed one."""
    _change(em, layout_of(ty), (fixed, other), 1, _set)


def add(em: Emit, ty: Any, fixed: Any, other: Any) -> None:
    """Add the floats of the fixed shadow to those of the other."""
    _change(em, layout_of(ty), (fixed, other), 1, _add)


def sum_of_shadows(em: Emit, tys: tuple[Any, Any], pair: tuple[Any, Any], why: str) -> Any:
    """A new shadow, owned by the caller, with the sums of the floats of two; strides and constant
    parts are those of the first. Arrays may differ in layout.

    Raises `ShadowMismatch` where shapes, lengths or keys differ.
    """
    x, y = pair
    result = copy_of_shadow(em, tys[0], x)
    result_type = map_type(layout_of(tys[0]), shadow_of_leaf)
    nodes = layout_of(tys[1]), layout_of(result_type)

    def release() -> None:
        em.context.nrt.decref(em.builder, result_type, result)

    def refuse(differ: Any, what: str) -> None:
        fields = f"tree_add: {what} in the other value", (), why
        em.raise_if(differ, ShadowMismatch, fields, release)

    _look_for_differences(em, nodes, (y, result), refuse)
    _change(em, nodes, (y, result), 1, _add)
    return result


def _look_for_differences(
    em: Emit, nodes: Sequence[Node], pair: tuple[Any, Any], refuse: Callable[[Any, str], None]
) -> None:
    for visit in walk(em, nodes, pair, depth=Depth.ITEMS, where=may_change):
        if visit.has_other_keys is not None:
            refuse(visit.has_other_keys, "a dictionary has different keys")
            continue
        name = f"`x{show(visit.path)}`"
        arrays, what = list(visit.values), f"the array {name} has a different shape"
        array_types = [slot.node.numba_type for slot in visit.slots]
        if visit.entries is not None:
            arrays, what = list(visit.entries.arrays), f"the list {name} has a different length"
            array_types = [visit.entries.array_type] * len(arrays)
        elif not isinstance(visit.node, Array):
            continue
        shapes: list[list[Any]] = []
        for ty, value in zip(array_types, arrays, strict=True):
            array = em.array(ty, value)
            shapes.append(cgutils.unpack_tuple(em.builder, array.shape, ty.ndim))
        for left, right in zip(*shapes, strict=True):
            refuse(em.builder.icmp_unsigned("!=", left, right), what)


def _change(
    em: Emit,
    nodes: Node | Sequence[Node],
    pair: tuple[Any, Any],
    into: int,
    change: _Change,
) -> None:
    for visit in walk(em, nodes, pair, where=may_change):
        _require_keys(em, visit)
        if visit.is_number_in_memory:
            change(em, visit.slots[into], visit.slots[1 - into])


def may_change(node: Node) -> bool:
    """Whether its shadow has floats, directly or behind references."""
    return node.numbers.by_value or node.numbers.by_reference


def _require_keys(em: Emit, visit: Visit) -> None:
    if visit.has_other_keys is not None:
        message = "no memory for the keys of a dictionary"
        em.raise_if(visit.has_other_keys, MemoryError, (message,))


def add_cotangent(em: Emit, tys: tuple[Any, Any], pair: tuple[Any, Any]) -> None:
    """Add a cotangent to the shadow of a result; layouts and precisions may differ."""
    nodes = tuple(map(layout_of, tys))
    _change(em, nodes, pair, 0, _add)


def _set(em: Emit, target: WalkedValue, source: WalkedValue) -> None:
    target.store(source.value)


def _add(em: Emit, target: WalkedValue, source: WalkedValue) -> None:
    ty = target.node.numba_type
    plus = em.context.get_function(operator.add, signature(ty, ty, ty))
    value, source_type = source.value, source.node.numba_type
    if source_type != ty:
        value = em.context.cast(em.builder, value, source_type, ty)
    target.store(plus(em.builder, (target.value, value)))


# --- new shadows ---


def zero_shadow(em: Emit, ty: Any, primal: Any) -> Any:
    """A new shadow of zeros, owned by the caller; arrays have the shape and strides of `primal`.
    Constant items of tuples are borrowed from `primal`; an instance owns its fields.
    """
    return rebuild(em, layout_of(ty), (primal,), _zero_or_borrowed, shadow_of_leaf)


def _zero_or_borrowed(em: Emit, node: Node, primal: Any) -> Any:
    has_zero = node.has_shadow or isinstance(node, Number)
    return fresh(em, node, primal, _ZERO) if has_zero else primal


def own_constants(em: Emit, ty: Any, shadow: Any) -> None:
    """Take references to the borrowed constant parts of a new shadow."""
    for visit in walk(em, layout_of(ty), (shadow,), depth=Depth.TUPLES):
        if not visit.node.is_tuple and not visit.node.has_shadow:
            em.context.nrt.incref(em.builder, visit.node.numba_type, visit.values[0])


def copy_of_shadow(em: Emit, ty: Any, shadow: Any) -> Any:
    """A new shadow with the floats of another; the caller owns it."""
    result = zero_shadow(em, ty, shadow)
    give(em, ty, shadow, result)
    return result


def constant_where_same(em: Emit, ty: Any, primal: Any, shadow: Any) -> Any:
    """The shadow, in which memory that is the primal's own is replaced by zeros: it is constant.

    This is decided at run time. The caller owns a reference to all counted memory in the result.
    Records are returned unchanged.
    """
    pair = primal, shadow
    return rebuild(em, layout_of(ty), pair, _constant_where_same, shadow_of_leaf)


def _constant_where_same(em: Emit, leaf: Node, primal: Any, shadow: Any) -> Any:
    builder, ty = em.builder, leaf.numba_type
    if not leaf.has_shadow or isinstance(ty, types.Record):
        return shadow
    own, its = (data_of_region(em, ty, value) for value in (primal, shadow))
    result = cgutils.alloca_once_value(builder, shadow)
    with builder.if_else(builder.icmp_unsigned("==", own, its), likely=False) as (same, apart):
        with same:
            builder.store(zero_shadow(em, ty, primal), result)
        with apart:
            em.context.nrt.incref(builder, ty, shadow)
    return builder.load(result)


def _is_object_with_numbers(node: Node) -> bool:
    return node.has_shadow and (isinstance(node, Items) or is_instance(node.numba_type))


def _zero_leaf(em: Emit, node: Node, primal: Any) -> Any:
    if isinstance(node, Number):
        return em.context.get_constant_null(node.numba_type)
    if isinstance(node, Array) and node.has_shadow:
        return _zeros_like(em, node, primal)
    em.context.nrt.incref(em.builder, node.numba_type, primal)
    return primal


def _is_plain(node: Node) -> bool:
    return isinstance(node, Plain)


_ZERO = Making(leaf=_zero_leaf, opened=_is_object_with_numbers, kept=_is_plain)


def _uninitialised_like(em: Emit, node: Node, array: Any) -> tuple[Any, Any, Any]:
    """A new array with the shape and strides of another, the start of its memory, and its size.

    A multiple of eight bytes: to clear that many is known to end between floats.
    """
    context, builder, ty = em.context, em.builder, node.numba_type
    primal = em.array(ty, array)
    extent = extent_of(builder, ty, primal)
    up = builder.add(builder.sub(extent.high, extent.low), cgutils.intp_t(7))
    size = builder.and_(up, cgutils.intp_t(-8))
    alignment = context.get_preferred_array_alignment(ty.dtype)
    meminfo = context.nrt.meminfo_alloc_aligned(builder, size, cgutils.int32_t(alignment))
    start = context.nrt.meminfo_data(builder, meminfo)
    below = builder.sub(extent.data, extent.low)
    result = em.array(shadow_of_leaf(node), array)
    data = cgutils.pointer_add(builder, start, below)
    result.data = builder.bitcast(data, primal.data.type)
    result.meminfo = meminfo
    result.parent = cgutils.get_null_value(primal.parent.type)
    return result._getvalue(), start, size


def _zeros_like(em: Emit, node: Node, array: Any) -> Any:
    result, start, size = _uninitialised_like(em, node, array)
    cgutils.memset(em.builder, start, size, 0)
    return result


@intrinsic
def zeros_like(typing_context, x):
    """A new array of zeros with the shape and strides of `x`."""
    node = layout_of(x)
    return shadow_of_leaf(node)(x), emitting(lambda em, args: _zeros_like(em, node, args[0]))


@intrinsic
def uninitialised_like(typing_context, x):
    """A new, uninitialised array with the shape and strides of `x`."""
    node = layout_of(x)
    emit = emitting(lambda em, args: _uninitialised_like(em, node, args[0])[0])
    return shadow_of_leaf(node)(x), emit


# --- references ---


def keep(em: Emit, node: Node, value: Any) -> None:
    """Take one more reference to everything reachable from an object."""
    _count(em, node, value, em.context.nrt.incref)


def release(em: Emit, node: Node, value: Any) -> None:
    """Drop a reference to each counted part of a value."""
    _count(em, node, value, em.context.nrt.decref)


def _count(em: Emit, node: Node, value: Any, change: Callable[..., Any]) -> None:
    models = em.context.data_model_manager

    def is_counted(part: Node) -> bool:
        return models[part.numba_type].contains_nrt_meminfo()

    # the contents of an object before the object, which may hold the last reference to them
    every = walk(em, node, (value,), depth=Depth.ITEMS, where=is_counted, inside_first=True)
    for visit in every:
        if visit.path and not visit.node.is_tuple:
            change(em.builder, visit.node.numba_type, visit.values[0])

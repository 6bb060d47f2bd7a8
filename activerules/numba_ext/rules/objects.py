"""Objects as arguments of rules: records, instances, typed lists and dictionaries, with all that
their pointers lead to.

Needs       the arguments of a marked call
Gives       `object_checks`: the checks around every call of a rule with objects;
            `copied` and `overlap` of `checks`, for objects
Invariants  O1  an object consists of the same memory blocks before and after a rule runs, and in
                both halves: its pointers are unchanged, and those of its shadow lead to the
                corresponding blocks
            O2  the pointers of the shadow are unchanged while a rule runs

`identity.identity_of_memory` tells whether pointers have changed. Between the halves only the
primal is checked: in memory of the function that is differentiated, code that replaces pointers of
the primal replaces those of the shadow, and memory of its caller may not be changed so (D2 of
`declared`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import intrinsic, overload

from activerules.errors import NotYetSupported, RuleArgumentsOverlap, RuleViolation
from activerules.numba_ext.codegen.protocols import Emit, Value, doing, emitting
from activerules.numba_ext.rules.checks import copied, copy_in_place, overlap
from activerules.numba_ext.rules.compiled import ObjectCheck, RuleArgument
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.rules.pattern import type_name
from activerules.values.contents import array_of_record, memory_of
from activerules.values.identity import identity_of_memory
from activerules.values.kinds import is_instance, is_object, leads_to_memory
from activerules.values.layout import Array, Items, Node, Number, Plain, layout_of
from activerules.values.overlaps import arrays_overlap
from activerules.values.shadows import keep, may_change, release
from activerules.values.walk import Depth, Making, fresh, walk


@intrinsic
def identity(typing_context, x):
    """A hash of the pointers in an object; it changes when one of them does."""
    emit = emitting(lambda em, args: identity_of_memory(em, layout_of(x), args[0]))
    return types.intp(x), emit


@intrinsic
def _meet(typing_context, x, y):
    """Whether two values, objects or arrays, share arrays, items, records or instances."""

    def emit(em: Emit, args: Sequence[Value]) -> Value:
        overlap = cgutils.alloca_once_value(em.builder, cgutils.false_bit)
        for left in _memory(em, x, args[0]):
            for right in _memory(em, y, args[1]):
                _note_if_same(em, overlap, left, right)
        return em.builder.load(overlap)

    return types.boolean(x, y), emitting(emit)


def _memory(em: Emit, ty: Any, value: Value) -> Iterator[tuple[Any, Any]]:
    """All memory with floats that a value leads to, with its type.

    For a list or dictionary that is an array over its items, for a record an array of one.
    """
    for visit in walk(em, layout_of(ty), (value,), depth=Depth.ITEMS, where=may_change):
        if visit.entries is not None:
            if layout_of(visit.entries.array_type).has_shadow:
                yield visit.entries.array_type, visit.entries.arrays[0]
        elif isinstance(visit.node.numba_type, types.Record):
            yield array_of_record(em, visit.node.numba_type, visit.values[0])
        elif visit.node.has_shadow:
            yield visit.node.numba_type, visit.values[0]


def _note_if_same(em: Emit, flag: Any, left: tuple[Any, Any], right: tuple[Any, Any]) -> None:
    (ty, value), (right_ty, right_value) = left, right
    if isinstance(ty, types.Array) and isinstance(right_ty, types.Array):
        typed = signature(types.boolean, ty, right_ty)
        meets = em.context.compile_internal(em.builder, arrays_overlap, typed, (value, right_value))
    elif is_instance(ty) and ty == right_ty:
        addresses = [memory_of(em, ty, v) for v in (value, right_value)]
        meets = em.builder.icmp_unsigned("==", *addresses)
    else:
        return
    em.builder.store(em.builder.or_(em.builder.load(flag), meets), flag)


@intrinsic
def _copied(typing_context, x):
    """A deep copy, owned by the caller, with copies of all arrays, those of integers too."""
    return x(x), emitting(lambda em, args: fresh(em, layout_of(x), args[0], _COPY))


def _is_opened(node: Node) -> bool:
    return is_instance(node.numba_type) or (isinstance(node, Items) and node.is_typed)


def _is_value(node: Node) -> bool:
    return isinstance(node, Number | Plain)


def _copy_of_leaf(em: Emit, node: Node, value: Value) -> Value:
    ty = node.numba_type
    if isinstance(node, Array):
        typed = signature(ty, ty)
        return em.context.compile_internal(em.builder, _copied_array, typed, [value])
    em.context.nrt.incref(em.builder, ty, value)
    return value


def _copied_array(x):
    return copy_in_place(x, x)  # in the same layout, which the shadow of the object has too


_COPY = Making(leaf=_copy_of_leaf, opened=_is_opened, kept=_is_value)


@overload(copied)
def _copied_object(x):
    if isinstance(x, types.Array) or not can_be_copied(x):
        return None
    if isinstance(x, types.List | types.Set):
        return lambda x: x.copy()
    return lambda x: _copied(x)  # pyright: ignore[reportCallIssue]


def is_copied_memory(
    marked: MarkedCall, name: str, ty: types.Type, *, records: bool = True
) -> bool:
    """Whether an argument, which may change between two runs of functions of a rule, leads to
    memory; raises `NotYetSupported` if that cannot be copied. `records`: whether the caller keeps
    the array that a record is copied into.
    """
    if not leads_to_memory(ty):
        return False
    if not (can_be_copied(ty) or (records and isinstance(ty, types.Record))):
        raise NotYetSupported(
            f"`{name}` of {marked.name}, {type_name(ty)}, may change before its rule reads it",
            why="a value of this type is not copied",
            instead=["arrays", "the numbers that the reverse reads, on the tape"],
        )
    return True


def can_be_copied(ty: types.Type) -> bool:
    """Whether `copied` makes a value that shares no memory with the one it is given."""
    if isinstance(ty, types.List | types.Set):
        return _is_value(layout_of(ty.dtype))
    return _is_known(layout_of(ty))


def _is_known(node: Node) -> bool:
    """Whether `fresh` opens all that leads to memory."""
    if _is_value(node) or isinstance(node, Array):
        return True
    return (node.is_tuple or _is_opened(node)) and all(_is_known(x) for _, x in node.children)


@overload(overlap)
def _objects_overlap(x, y):
    if is_object(x) or is_object(y):
        return lambda x, y: _meet(x, y)  # pyright: ignore[reportCallIssue]
    return None


def identity_of(x: Any) -> Any:
    """The `identity` of an object, to be compared after a rule has run."""
    return identity(x)  # pyright: ignore[reportCallIssue]


@intrinsic
def _keep(typing_context, x):
    """Take a reference to everything an object leads to."""
    return types.none(x), doing(lambda em, args: keep(em, layout_of(x), args[0]))


@intrinsic
def _release(typing_context, x):
    """Drop a reference to a value."""
    return types.none(x), doing(lambda em, args: release(em, layout_of(x), args[0]))


def retain_shadow(x: Any) -> Any:
    """Retain the memory of a shadow, and return its identity.

    Shadows that the engine made are owned by the tape, not by the objects that point to them: a
    rule that replaces an array in one would release it.
    """
    _keep(x)  # pyright: ignore[reportCallIssue]
    return identity(x)  # pyright: ignore[reportCallIssue]


def release_shadow(x: Any, before: Any) -> None:
    """Release what `retain_shadow` retained, if no pointer was replaced."""
    if identity(x) == before:  # pyright: ignore[reportCallIssue]
        _release(x)  # pyright: ignore[reportCallIssue]


@cache
def objects_apart(message: str) -> Callable[[Any, Any], Any]:
    """A function that raises `RuleArgumentsOverlap(message)` if two objects share memory.

    Its result is the second argument of `nothing_kept`.
    """

    def check(x, y):
        if overlap(x, y):
            raise RuleArgumentsOverlap(message)
        return 0

    return check


def nothing_kept(x: Any, copy: Any) -> None:
    """Do nothing: objects have no copy to compare with."""


@cache
def unchanged(primal: str, shadow: str, later: str) -> Callable[[Any, Any, Any], None]:
    """A function that raises if two identities differ.

    Its last argument selects the error: 0 for the object and 1 for its shadow after a rule ran, 2
    for the object when the reverse begins.
    """

    def check(now, before, which):
        if now != before:
            if which == 0:
                raise RuleViolation(primal)
            if which == 1:
                raise RuleViolation(shadow)
            raise NotYetSupported(later)

    return check


def object_checks(marked: MarkedCall, arguments: Sequence[RuleArgument]) -> tuple[ObjectCheck, ...]:
    """The checks of each object that is passed to a rule."""
    checks: list[ObjectCheck] = []
    for i, argument in enumerate(arguments):
        if is_object(argument.value_type):
            what = f"of `{argument.name}`, an argument of {marked.name}"
            unequal = unchanged(
                f"a rule replaces an array or object {what}, or its length",
                f"a rule replaces an array or object in the shadow {what}, or its length; "
                "write into its arrays: d.w[:] = g or d.w += g",
                f"an array or object {what}, which has a rule, was replaced after the call, or its "
                "length changed: where its shadow was is not known any more; pass a copy of the "
                "object, or the arrays in it",
            )
            checks.append(ObjectCheck(i, unequal))
    return tuple(checks)

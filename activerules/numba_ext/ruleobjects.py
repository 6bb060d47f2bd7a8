"""Objects as arguments of rules: instances and typed lists, with all that their pointers lead to.

Needs       the arguments of a marked call
Gives       `object_checks`: the compiled checks that every call of a rule with objects makes;
            `copy_of_object`: what keeps the value of one that the reverse reads
Invariants  O1  an object is made of the same pieces of memory before and after a rule runs, and in
                both halves: what is found at the places in it is what was there, and its shadow is
                made of the pieces that belong to these
            O2  the same of its shadow, while a rule runs

The pieces are told by `identity.identity_of_memory`. Of the time between the halves the primal is
looked at: in memory of the function that is differentiated, what exchanges pieces of the primal
exchanges those of the shadow, and in memory of its caller nothing may (D2 of `declared`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from activerules.errors import (
    NotYetSupported,
    RuleArgumentsOverlap,
    RuleReturnError,
    RuleViolation,
)
from activerules.numba_ext import floats_of_shadows
from activerules.numba_ext.calls import MarkedCall
from activerules.numba_ext.compiledrule import ObjectCheck, RuleArgument
from activerules.numba_ext.fields import fields_of, has_inner, is_collection, is_instance, items_in
from activerules.numba_ext.identity import identity_of_memory
from activerules.numba_ext.kinds import is_object
from activerules.numba_ext.pieces import (
    each_item,
    entries_of,
    field_values,
    memory_of,
    parts_of,
)
from activerules.numba_ext.rulechecks import copied, copy_in_place, none_of, overlap
from activerules.numba_ext.zero_shadows import new_instance


@intrinsic
def identity(typing_context, x):
    """A number that changes when the memory does that an object leads to."""

    def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        return identity_of_memory(context, builder, x, args[0])

    return types.intp(x), codegen


@intrinsic
def shares(typing_context, array, x):
    """Whether an array overlaps one of those in an object."""

    def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        array_value, value = args
        found = cgutils.alloca_once_value(builder, cgutils.false_bit)
        for ty, (one,) in floats_of_shadows.pieces_with_floats(context, builder, x, (value,)):
            if isinstance(ty, types.Array):
                typed = signature(types.boolean, array, ty)
                meets = context.compile_internal(builder, overlap, typed, (array_value, one))
                builder.store(builder.or_(builder.load(found), meets), found)
        return builder.load(found)

    return types.boolean(array, x), codegen


@intrinsic
def _meet(typing_context, x, y):
    """Whether two objects share arrays, items or instances."""

    def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        found = cgutils.alloca_once_value(builder, cgutils.false_bit)
        first, second = args
        for ty, (one,) in floats_of_shadows.pieces_with_floats(context, builder, x, (first,)):
            each = floats_of_shadows.pieces_with_floats(context, builder, y, (second,))
            for other_ty, (other,) in each:
                meets = _same_memory(context, builder, (ty, one), (other_ty, other))
                builder.store(builder.or_(builder.load(found), meets), found)
        return builder.load(found)

    return types.boolean(x, y), codegen


def _same_memory(context: Any, builder: Any, one: tuple[Any, Any], other: tuple[Any, Any]) -> Any:
    (ty, value), (other_ty, other_value) = one, other
    if isinstance(ty, types.Array) and isinstance(other_ty, types.Array):
        typed = signature(types.boolean, ty, other_ty)
        return context.compile_internal(builder, overlap, typed, (value, other_value))
    if is_instance(ty) and ty == other_ty:
        places = [memory_of(context, builder, ty, v) for v in (value, other_value)]
        return builder.icmp_unsigned("==", *places)
    return cgutils.false_bit


@intrinsic
def _copied(typing_context, x):
    return x(x), lambda context, builder, typed, args: _copy(context, builder, x, args[0])


def _copy(context: Any, builder: Any, found: Any, value: Any) -> Any:
    """A value of its own, owned, with copies of all arrays it leads to, of integers too."""
    if isinstance(found, types.BaseTuple):
        items = [_copy(context, builder, t, part) for t, (part,) in parts_of(builder, found, value)]
        return context.make_tuple(builder, found, items)
    if is_instance(found):
        return new_instance(context, builder, found, value, _copy)
    typed = signature(found, found)
    if isinstance(found, types.Array):
        return context.compile_internal(builder, _copied_array, typed, [value])
    if isinstance(found, types.ListType):
        copy = _copied_list if isinstance(found.item_type, types.Number) else _copied_items
        return context.compile_internal(builder, copy, typed, [value])
    if isinstance(found, types.DictType):
        return context.compile_internal(builder, _copied_values, typed, [value])
    context.nrt.incref(builder, found, value)
    return value


def _copied_array(x):
    return copy_in_place(x, x)  # the shadow of the object lies in memory as the object does


def _copied_list(x):
    return x.copy()


def _copied_items(x):
    result = x.copy()
    for k in range(len(x)):
        result[k] = _copied(x[k])  # pyright: ignore[reportCallIssue]
    return result


def _copied_values(x):
    result = x.copy()
    for key, value in x.items():
        result[key] = _copied(value)  # pyright: ignore[reportCallIssue]
    return result


def copy_of_object(x: Any) -> Any:
    """Keep what an object holds: its own numbers, and those it leads to."""
    return _copied(x)  # pyright: ignore[reportCallIssue]


def identity_of(x: Any) -> Any:
    """What is compared later."""
    return identity(x)  # pyright: ignore[reportCallIssue]


@intrinsic
def _keep(typing_context, x):
    """Count one reference more to everything an object leads to."""
    return types.none(x), _counting(x, "incref")


@intrinsic
def _release(typing_context, x):
    """Count one reference less."""
    return types.none(x), _counting(x, "decref")


def _counting(found: Any, change: str) -> Callable[..., Any]:
    def codegen(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        _count(context, builder, found, args[0], getattr(context.nrt, change))
        return context.get_dummy_value()

    return codegen


def _count(context: Any, builder: Any, found: Any, value: Any, change: Callable[..., Any]) -> None:
    if isinstance(found, types.BaseTuple):
        for item, (part,) in parts_of(builder, found, value):
            _count(context, builder, item, part, change)
    elif is_instance(found):
        values = field_values(context, builder, found, value)
        for field, part in zip(fields_of(found), values, strict=True):
            _count(context, builder, field.numba_type, part, change)
            change(builder, field.numba_type, part)
    elif is_collection(found) and has_inner(found):
        item_type = items_in(found).item_type
        entries = entries_of(context, builder, found, (value,))
        with each_item(context, builder, found, entries) as (item,):
            _count(context, builder, item_type, item, change)
            change(builder, item_type, item)


def held(x: Any) -> Any:
    """Keep what a shadow is made of, and tell what that is.

    Shadows that the engine made are owned by the tape, and not by what leads to them: a rule that
    puts another array in place of one would release it.
    """
    _keep(x)  # pyright: ignore[reportCallIssue]
    return identity(x)  # pyright: ignore[reportCallIssue]


def let_go(x: Any, before: Any) -> None:
    """The end of `held`, where nothing was exchanged."""
    if identity(x) == before:  # pyright: ignore[reportCallIssue]
        _release(x)  # pyright: ignore[reportCallIssue]


@cache
def apart_from_object(message: str) -> Callable[[Any, Any], None]:
    """The function that raises `RuleReturnError(message)` if an array is one of an object's."""

    def check(result, x):
        if shares(result, x):  # pyright: ignore[reportCallIssue]
            raise RuleReturnError(message)

    return check


def kept_if_in_object(x: Any, y: Any) -> Any:
    """As `kept_if_shared`, of an array that may be one of an object's."""
    return copied(x) if shares(x, y) else copied(none_of(x))  # pyright: ignore[reportCallIssue]


@cache
def objects_apart(message: str) -> Callable[[Any, Any], Any]:
    """The function that raises `RuleArgumentsOverlap(message)` if two objects share memory. It
    returns what `nothing_kept` takes.
    """

    def check(x, y):
        if _meet(x, y):  # pyright: ignore[reportCallIssue]
            raise RuleArgumentsOverlap(message)
        return 0

    return check


def nothing_kept(x: Any, kept: Any) -> None:
    """Check nothing behind the rule."""


@cache
def unchanged(primal: str, shadow: str, later: str) -> Callable[[Any, Any, Any], None]:
    """The function that raises if an object is no more what it was, by what was looked at: 0, 1
    or 2.
    """

    def check(now, before, which):
        if now != before:
            if which == 0:
                raise RuleViolation(primal)
            if which == 1:
                raise RuleViolation(shadow)
            raise NotYetSupported(later)

    return check


def object_checks(
    marked: MarkedCall,
    arguments: Sequence[RuleArgument],
    compile_function: Callable[[Any, tuple[types.Type, ...]], Any],
) -> tuple[ObjectCheck, ...]:
    """What is checked of each object that a rule is passed."""
    checks: list[ObjectCheck] = []
    for i, argument in enumerate(arguments):
        found = argument.value_type
        if not is_object(found):
            continue
        what = f"of `{argument.name}`, an argument of {marked.name}"
        unequal = unchanged(
            f"a rule exchanges an array or object {what}, or its length",
            f"a rule exchanges an array or object in the shadow {what}, or its length; "
            "write into its arrays: d.w[:] = g or d.w += g",
            f"an array or object {what}, which has a rule, was exchanged after the call, or its "
            "length changed: where its shadow was is not known any more; pass a copy of the "
            "object, or the arrays in it",
        )
        checks.append(
            ObjectCheck(
                place=i,
                identity=compile_function(identity_of, (found,)),
                held=compile_function(held, (found,)),
                let_go=compile_function(let_go, (found, types.intp)),
                unchanged=compile_function(unequal, (types.intp, types.intp, types.intp)),
            )
        )
    return tuple(checks)

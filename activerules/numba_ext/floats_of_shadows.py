"""What is done to all floats of a shadow at once, however deep they are: clear, add, copy.

Needs       the Numba type of an argument, and LLVM values of it: shadows of one shape
Gives       `clear`, `take`, `give`, `add`: code in the IR of the caller; `copy_of`: a new shadow
Invariants  F1  nothing but floats is written: pointers, integers and keys stay
            F2  nothing raises but `MemoryError`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.numba_ext.fields import (
    fields_of,
    has_inner,
    holds_floats,
    is_collection,
    is_instance,
    items_in,
)
from activerules.numba_ext.kinds import has_numbers, has_shadow, is_number, shadow_type
from activerules.numba_ext.pieces import (
    each_item,
    entries_of,
    field_values,
    parts_of,
    struct_of,
)
from activerules.numba_ext.zero_shadows import zero_shadow
from activerules.rules.written import function_from

# how an item of the target changes, by an item of the source
_CLEAR, _ADD, _TAKE = "{0} = 0", "{0} += {1}", "{0} = {1}"


def clear(context: Any, builder: Any, found: Any, shadow: Any) -> None:
    """Make all floats of a shadow zero."""
    _each(context, builder, found, (shadow, shadow), 0, _CLEAR)


# Of two shadows, one is fixed: where keys of dictionaries lie at other places in the other one,
# they are put at the same.


def take(context: Any, builder: Any, found: Any, fixed: Any, other: Any) -> None:
    """Replace the floats of the fixed shadow by those of the other."""
    _each(context, builder, found, (fixed, other), 0, _TAKE)


def give(context: Any, builder: Any, found: Any, fixed: Any, other: Any) -> None:
    """Replace the floats of the other shadow by those of the fixed one."""
    _each(context, builder, found, (fixed, other), 1, _TAKE)


def add(context: Any, builder: Any, found: Any, fixed: Any, other: Any) -> None:
    """Add the floats of the fixed shadow to those of the other."""
    _each(context, builder, found, (fixed, other), 1, _ADD)


def copy_of(context: Any, builder: Any, found: Any, shadow: Any) -> Any:
    """A new shadow with the floats of another; the caller owns it."""
    result = zero_shadow(context, builder, found, shadow)
    give(context, builder, found, shadow, result)
    return result


def _each(
    context: Any, builder: Any, found: Any, pair: tuple[Any, Any], into: int, change: str
) -> None:
    """Change number `into` of two shadows, piece by piece."""
    for ty, both in pieces_with_floats(context, builder, found, pair):
        target, source = both[into], both[1 - into]
        if is_instance(ty):
            _change_fields(context, builder, ty, target, source, change)
        else:
            typed = signature(types.none, ty, ty)
            context.compile_internal(builder, _changing(ty, change), typed, (target, source))


def pieces_with_floats(
    context: Any, builder: Any, found: Any, pair: Sequence[Any]
) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The pieces of memory with floats in two shadows, with their types."""
    if isinstance(found, types.BaseTuple):
        for item, parts in parts_of(builder, found, *pair):
            yield from pieces_with_floats(context, builder, item, parts)
    elif is_collection(found):
        entries = entries_of(context, builder, found, pair)
        with cgutils.if_unlikely(builder, builder.not_(entries.alike)):
            message = "no memory for the keys of a dictionary"
            context.call_conv.return_user_exc(builder, MemoryError, (message,))
        if has_shadow(entries.array_type):
            yield entries.array_type, entries.arrays
        if has_inner(found):
            with each_item(context, builder, found, entries) as parts:
                item_type = items_in(found).item_type
                yield from pieces_with_floats(context, builder, item_type, parts)
    elif has_shadow(found):
        ty = shadow_type(found)
        yield ty, pair
        if is_instance(ty):
            fields = [field_values(context, builder, ty, one) for one in pair]
            for field, parts in zip(fields_of(ty), zip(*fields, strict=True), strict=True):
                yield from pieces_with_floats(context, builder, field.numba_type, parts)


# --- instances ---


def _change_fields(context: Any, builder: Any, found: Any, into: Any, by: Any, change: str) -> None:
    target, source = (struct_of(context, builder, found, value) for value in (into, by))
    for k, field in enumerate(fields_of(found)):
        if has_numbers(field.numba_type):
            new = _changed(context, builder, field.numba_type, target[k], source[k], change)
            target[k] = new


def _changed(context: Any, builder: Any, found: Any, old: Any, other: Any, change: str) -> Any:
    """A field, with the numbers in it changed."""
    if isinstance(found, types.BaseTuple):
        parts = parts_of(builder, found, old, other)
        items = [_changed(context, builder, item, a, b, change) for item, (a, b) in parts]
        return context.make_tuple(builder, found, items)
    if not is_number(found):
        return old
    if change == _CLEAR:
        return context.get_constant_null(found)
    if change == _TAKE:
        return other
    return context.compile_internal(builder, _sum, signature(found, found, found), [old, other])


def _sum(x, y):
    return x + y


# --- arrays and records ---


@cache
def _changing(found: Any, change: str) -> Any:
    """A function of two arrays, or of two records, that changes the first."""
    lines = ["def impl(target, source):"]
    if isinstance(found, types.Record):
        lines += _statements(found, "target", "source", change)
    elif found.layout == "C":
        lines += [
            "to, of = target.reshape(target.size), source.reshape(source.size)",
            "for i in range(to.size):",
            *("    " + line for line in _statements(found.dtype, "to[i]", "of[i]", change)),
        ]
    else:
        items = "target[place]", "source[place]"
        lines += [
            "for place in np.ndindex(target.shape):",
            *("    " + line for line in _statements(found.dtype, *items, change)),
        ]
    return function_from("\n    ".join(lines), "impl", {"np": np}, module=__name__)


def _statements(found: Any, target: str, source: str, change: str, deep: int = 0) -> Iterator[str]:
    """What changes the floats of one item: a number, or a record with arrays in it."""
    if is_number(found):
        yield change.format(target, source)
    elif isinstance(found, types.NestedArray):
        yield f"for p{deep} in np.ndindex({found.shape}):"
        items = f"{target}[p{deep}]", f"{source}[p{deep}]"
        yield from ("    " + line for line in _statements(found.dtype, *items, change, deep + 1))
    elif isinstance(found, types.Record):
        for name, field in found.fields.items():
            if holds_floats(field.type):
                items = f"{target}[{name!r}]", f"{source}[{name!r}]"
                yield from _statements(field.type, *items, change, deep)

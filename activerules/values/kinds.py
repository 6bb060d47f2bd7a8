"""The activity that values of a Numba type can have.

A value is a tree: tuples, and leaves that are no tuples. A leaf is a *number* (float or complex:
its derivative is a value), *memory* with numbers in it (an array, a record, an instance, a list:
its derivative is added to a shadow), or neither. An argument made of numbers is Active, one made of
memory Duplicated, one with both MixedDuplicated; leaves that are neither (integers, strings, None)
are constant in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numba.core import types

from activerules.ir.llvm.types import DOUBLE, FLOAT, Type
from activerules.values.layout import (
    Node,
    Number,
    ValueActivity,
    layout_of,
    map_type,
    shadow_of_leaf,
)

_ELEMENTS: dict[types.Type, Type] = {
    types.float64: DOUBLE,
    types.float32: FLOAT,
    types.complex128: DOUBLE,
    types.complex64: FLOAT,
}


def leaves_of(found: types.Type) -> Iterator[types.Type]:
    """The types of the leaves of a value, in order."""
    return (leaf.numba_type for leaf in layout_of(found).leaves)


def is_number(found: types.Type) -> bool:
    """Whether a leaf is a float or complex number."""
    return isinstance(found, types.Float | types.Complex)


def is_number_array(found: types.Type) -> bool:
    """Whether a leaf is an array of float or complex numbers."""
    return isinstance(found, types.Array) and is_number(found.dtype)


def has_shadow(found: types.Type) -> bool:
    """Whether a leaf is memory that holds numbers: its derivative is added to a shadow."""
    return layout_of(found).has_shadow


def is_shadowed_array(found: types.Type) -> bool:
    """Whether a leaf is an array of numbers, or of records with numbers."""
    return isinstance(found, types.Array) and has_shadow(found)


def has_numbers(found: types.Type) -> bool:
    """Whether there is a number outside arrays in a value."""
    return layout_of(found).carried.by_value


def may_hold_numbers(found: Any) -> bool:
    """Whether there may be a float or complex number anywhere in a value: in arrays, containers,
    objects. A type that is not known here may hold some.
    """
    return layout_of(found).numbers.any


def is_container(found: types.Type) -> bool:
    """Whether a value may hold pointers to memory that a function it is passed to can change: a
    list, an object. Arrays hold none, texts are never changed.
    """
    return layout_of(found).is_container


def is_object(found: types.Type) -> bool:
    """Whether a leaf is memory with numbers that is no array: a record, an instance, a typed list
    or dictionary.
    """
    return has_shadow(found) and not isinstance(found, types.Array)


def has_shadows(found: types.Type) -> bool:
    """Whether there is memory with numbers in a value."""
    return layout_of(found).carried.by_reference


def float_elements(found: types.Type) -> Type | None:
    """The LLVM type of the floats an array is made of; None for anything else."""
    return _ELEMENTS.get(found.dtype) if isinstance(found, types.Array) else None


def returned_type(found: Any) -> types.Type:
    """The type of what a function of this return type returns where that is not None: Numba passes
    an optional result as what it is, and None as a status.
    """
    return found.type if isinstance(found, types.Optional) else found


def optional_leaf(found: Any) -> Any:
    """What a leaf of a result is where it is not None, if that is a number, an array, or constant;
    None for what is never None.
    """
    if not isinstance(found, types.Optional):
        return None
    inner: Any = found.type
    return inner if isinstance(inner, types.Array | types.Number | types.Boolean) else None


def derivative_type(found: types.Type) -> types.Type:
    """The type of what is returned for an Active value: its own, None in place of what is constant
    or has a shadow.
    """
    return map_type(layout_of(found), _number_or_none)


def anonymous(found: Any) -> Any:
    """The type with plain tuples for the named ones in it."""
    return map_type(layout_of(found), lambda leaf: leaf.numba_type, named=False)


def activity_of(found: types.Type) -> ValueActivity:
    """The activity of a value with everything in it that can be active."""
    return layout_of(found).activity


def shadow_type(found: Any) -> Any:
    """The type of a new shadow: that of its primal, arrays writable."""
    return map_type(layout_of(found), shadow_of_leaf)


def gradient_type(found: types.Type) -> types.Type:
    """The type of the gradient with respect to a value: values for numbers, new arrays for arrays,
    else None.
    """
    return map_type(layout_of(found), gradient_of_leaf)


def gradient_of_leaf(leaf: Node) -> Any:
    """The type of a gradient with respect to a leaf."""
    return shadow_of_leaf(leaf) if leaf.has_shadow else _number_or_none(leaf)


def _number_or_none(leaf: Node) -> Any:
    return leaf.numba_type if isinstance(leaf, Number) else types.none

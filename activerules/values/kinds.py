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
    FLOATS,
    Node,
    Number,
    layout_of,
    map_type,
    shadow_of_leaf,
    show,
)

_ELEMENTS: dict[types.Type, Type] = {
    types.float64: DOUBLE,
    types.float32: FLOAT,
    types.complex128: DOUBLE,
    types.complex64: FLOAT,
}


def items_of(tuple_type: Any) -> tuple[types.Type, ...]:
    """The types of the items of a tuple type of any of Numba's kinds."""
    return tuple(tuple_type)


def leaves_of(found: types.Type) -> Iterator[types.Type]:
    """The types of the leaves of a value, in order."""
    return (leaf.numba_type for leaf in layout_of(found).leaves)


def is_number(found: types.Type) -> bool:
    """Whether a leaf is a float or complex number."""
    return isinstance(found, types.Float | types.Complex)


def is_number_array(found: types.Type) -> bool:
    """Whether a leaf is an array of float or complex numbers."""
    return isinstance(found, types.Array) and is_number(found.dtype)


def is_instance(found: Any) -> bool:
    """Whether a value is a reference to counted memory with named fields of several types."""
    return isinstance(found, types.ClassInstanceType | types.StructRef)


def is_record_array(found: Any) -> bool:
    """Whether a value is an array of records."""
    return isinstance(found, types.Array) and isinstance(found.dtype, types.Record)


def is_known_list(found: Any) -> bool:
    """Whether a value is a typed list of whose items all is known that may hold floats."""
    return isinstance(found, types.ListType) and layout_of(found).unknown_path is None


def is_list_of_numbers(found: Any) -> bool:
    """Whether a value is a typed list of floats or complex numbers."""
    return isinstance(found, types.ListType) and found.item_type in FLOATS


def is_known_dict(found: Any) -> bool:
    """Whether a value is a typed dictionary of whose values all is known that may hold floats, by
    keys that hold none.
    """
    return isinstance(found, types.DictType) and layout_of(found).unknown_path is None


def is_collection(found: Any) -> bool:
    """Whether a value is a typed list or dictionary with numbers."""
    return isinstance(found, types.ListType | types.DictType) and layout_of(found).has_shadow


def unknown_field(found: Any) -> str | None:
    """The first field, of those that may hold floats, of a type nothing is known of; as `.a.b`."""
    path = layout_of(found).unknown_path
    return None if path is None else show(path)


def is_object(found: types.Type) -> bool:
    """Whether a leaf is memory with numbers that is no array: a record, an instance, a typed list
    or dictionary.
    """
    return layout_of(found).has_shadow and not isinstance(found, types.Array)


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

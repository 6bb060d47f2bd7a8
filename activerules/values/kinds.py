"""The activity that values of a Numba type can have.

A value is a tree of tuples and leaves. A leaf is a *number* (float or complex: its derivative is a
value), *memory* that holds numbers (an array, a record, an instance, a list: its derivative is
added to a shadow), or neither. An argument whose leaves are numbers is Active, one whose leaves are
memory Duplicated, one with both MixedDuplicated; other leaves (integers, strings, None) are
constant in all of these.
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
    Optional,
    Plain,
    layout_of,
    map_type,
    shadow_of_leaf,
    show,
)

FLOAT_OF: dict[types.Type, Type] = {
    types.float64: DOUBLE,
    types.float32: FLOAT,
    types.complex128: DOUBLE,
    types.complex64: FLOAT,
}
"""The LLVM type of the floats that a number consists of."""


def items_of(tuple_type: Any) -> tuple[types.Type, ...]:
    """The types of the items of a tuple type of any of Numba's kinds."""
    return tuple(tuple_type)


def leaves_of(ty: types.Type) -> Iterator[types.Type]:
    """The types of the leaves of a value, in order."""
    return (leaf.numba_type for leaf in layout_of(ty).leaves)


def is_number(ty: types.Type) -> bool:
    """Whether a leaf is a float or complex number."""
    return isinstance(ty, types.Float | types.Complex)


def is_number_array(ty: types.Type) -> bool:
    """Whether a leaf is an array of float or complex numbers."""
    return isinstance(ty, types.Array) and is_number(ty.dtype)


def is_instance(ty: Any) -> bool:
    """Whether a value is a reference to counted memory with named fields of several types."""
    return isinstance(ty, types.ClassInstanceType | types.StructRef)


def is_record_array(ty: Any) -> bool:
    """Whether a value is an array of records."""
    return isinstance(ty, types.Array) and isinstance(ty.dtype, types.Record)


def is_known_list(ty: Any) -> bool:
    """Whether a value is a typed list whose items have all floats at known offsets."""
    return isinstance(ty, types.ListType) and layout_of(ty).unknown_path is None


def is_absent(argument: Any) -> bool:
    """Whether an argument of an overload is left out or None."""
    if isinstance(argument, types.NoneType):
        return True
    return getattr(argument, "value", argument) is None


def is_number_list(ty: Any) -> bool:
    """Whether a value is a list of floats or complex numbers, a typed one or Python's."""
    return is_typed_number_list(ty) or (isinstance(ty, types.List) and is_number(ty.dtype))


def is_typed_number_list(ty: Any) -> bool:
    """Whether a value is a typed list of floats or complex numbers."""
    return isinstance(ty, types.ListType) and ty.item_type in FLOATS


def is_known_dict(ty: Any) -> bool:
    """Whether a value is a typed dictionary whose values have all floats at known offsets, and
    whose keys hold none.
    """
    return isinstance(ty, types.DictType) and layout_of(ty).unknown_path is None


def is_collection(ty: Any) -> bool:
    """Whether a value is a typed list or dictionary with numbers."""
    return isinstance(ty, types.ListType | types.DictType) and layout_of(ty).has_shadow


def unknown_field(ty: Any) -> str | None:
    """The path (`.a.b`) of the first field of unknown layout that may hold floats."""
    path = layout_of(ty).unknown_path
    return None if path is None else show(path)


def is_object(ty: types.Type) -> bool:
    """Whether a leaf is memory with numbers other than an array of numbers: a record, an array of
    records, an instance, a typed list or dictionary.
    """
    return layout_of(ty).has_shadow and not is_number_array(ty)


def leads_to_memory(ty: types.Type) -> bool:
    """Whether a value is, or leads to, memory that may be changed, with numbers or without: an
    array, list, set, dictionary, record, instance; or that is not known.
    """
    return _leads_to_memory(layout_of(ty))


def _leads_to_memory(node: Node) -> bool:
    if isinstance(node, Number | Plain):
        return False
    if node.is_tuple or isinstance(node, Optional):
        return any(_leads_to_memory(child) for _, child in node.children)
    return True


def float_elements(ty: types.Type) -> Type | None:
    """The LLVM type of the floats of an array, also of a complex one; None for anything else."""
    return FLOAT_OF.get(ty.dtype) if isinstance(ty, types.Array) else None


def returned_type(ty: Any) -> types.Type:
    """The type of the value that a function with this return type returns, if not None. Numba
    returns the value of an optional result without a wrapper, and None by a status code.
    """
    return ty.type if isinstance(ty, types.Optional) else ty


def optional_leaf(ty: Any) -> Any:
    """The type of the value in an optional leaf of a result, if it is a number, an array or
    constant; None for any other leaf.
    """
    if not isinstance(ty, types.Optional):
        return None
    inner: Any = ty.type
    return inner if isinstance(inner, types.Array | types.Number | types.Boolean) else None


def derivative_type(ty: types.Type) -> types.Type:
    """The type of the derivative returned for an Active value: its own, with None for leaves that
    are constant or have a shadow.
    """
    return map_type(layout_of(ty), _number_or_none)


def anonymous(ty: Any) -> Any:
    """The type with plain tuples in place of named ones."""
    return map_type(layout_of(ty), lambda leaf: leaf.numba_type, named=False)


def shadow_type(ty: Any) -> Any:
    """The type of a new shadow: that of its primal, with arrays writable."""
    return map_type(layout_of(ty), shadow_of_leaf)


def gradient_type(ty: types.Type) -> types.Type:
    """The type of the gradient with respect to a value: numbers for numbers, new arrays for arrays,
    None for everything else.
    """
    return map_type(layout_of(ty), gradient_of_leaf)


def gradient_of_leaf(leaf: Node) -> Any:
    """The type of a gradient with respect to a leaf."""
    return shadow_of_leaf(leaf) if leaf.has_shadow else _number_or_none(leaf)


def _number_or_none(leaf: Node) -> Any:
    return leaf.numba_type if isinstance(leaf, Number) else types.none

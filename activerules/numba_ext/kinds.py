"""What values of a Numba type are to a derivative.

A value is a tree: tuples, and leaves that are no tuples. A leaf is a *number* (float or complex:
its derivative is a value), *memory* with numbers in it (an array, a record, an instance, a list:
its derivative is added to a shadow), or neither. An argument made of numbers is Active, one made of
memory Duplicated, one with both MixedDuplicated; leaves that are neither (integers, strings, None)
are constant in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from numba.core import types

from activerules.ir.types import DOUBLE, FLOAT, Type
from activerules.numba_ext.fields import (
    holds_floats,
    is_collection,
    is_instance,
    is_list,
    is_record_array,
    items_of,
)
from activerules.numba_ext.gradient import ArgumentActivity

_ELEMENTS: dict[types.Type, Type] = {
    types.float64: DOUBLE,
    types.float32: FLOAT,
    types.complex128: DOUBLE,
    types.complex64: FLOAT,
}


def leaves_of(found: types.Type) -> Iterator[types.Type]:
    """The types of the leaves of a value, in order."""
    if isinstance(found, types.BaseTuple):
        for item in items_of(found):
            yield from leaves_of(item)
    else:
        yield found


def is_number(found: types.Type) -> bool:
    """Whether a leaf is a float or complex number."""
    return isinstance(found, types.Float | types.Complex)


def is_number_array(found: types.Type) -> bool:
    """Whether a leaf is an array of float or complex numbers."""
    return isinstance(found, types.Array) and is_number(found.dtype)


def has_shadow(found: types.Type) -> bool:
    """Whether a leaf is memory that holds numbers: its derivative is added to a shadow."""
    if is_number_array(found):
        return True
    is_struct = is_instance(found) or is_record_array(found) or isinstance(found, types.Record)
    return is_collection(found) or (is_struct and holds_floats(found))


def is_shadowed_array(found: types.Type) -> bool:
    """Whether a leaf is an array of numbers, or of records with numbers."""
    return isinstance(found, types.Array) and has_shadow(found)


def has_numbers(found: types.Type) -> bool:
    """Whether there is a number outside arrays in a value."""
    return any(map(is_number, leaves_of(found)))


def may_hold_numbers(found: Any, seen: tuple[Any, ...] = ()) -> bool:
    """Whether there may be a float or complex number anywhere in a value: in arrays, containers,
    objects. A type that is not known here may hold some.
    """
    if found in seen or isinstance(found, _WITHOUT_NUMBERS):
        return False
    if isinstance(found, types.Optional):
        parts: list[Any] = [found.type]
    elif isinstance(found, types.BaseTuple):
        parts = list(items_of(found))
    elif isinstance(found, types.Record):
        parts = [field.type for field in found.fields.values()]
    elif isinstance(found, types.ClassInstanceType):
        parts = list(found.struct.values())
    elif isinstance(found, types.StructRef):
        parts = list(found.field_dict.values())
    elif isinstance(found, types.DictType):
        parts = [found.key_type, found.value_type]
    elif hasattr(found, "dtype"):
        parts = [found.dtype]
    else:
        return True
    return any(is_number(part) or may_hold_numbers(part, (*seen, found)) for part in parts)


_WITHOUT_NUMBERS = (
    types.Integer,
    types.Boolean,
    types.UnicodeType,
    types.Bytes,
    types.Callable,
    types.NoneType,
    types.Omitted,
    types.Literal,
    types.SliceType,
    types.EnumMember,
    types.DTypeSpec,
    types.NPDatetime,
    types.NPTimedelta,
    types.Module,
    types.EllipsisType,
)


def is_container(found: types.Type) -> bool:
    """Whether a value may hold pointers to memory that a function it is passed to can change: a
    list, an object. Arrays hold none, texts are never changed.
    """
    return any(
        not isinstance(leaf, (types.Array, types.Number, types.Record, *_WITHOUT_NUMBERS))
        for leaf in leaves_of(found)
    )


def is_object(found: types.Type) -> bool:
    """Whether a leaf leads to memory with numbers by pointers in it that a rule follows: an
    instance, or a typed list.
    """
    return has_shadow(found) and (is_instance(found) or is_list(found))


def has_shadows(found: types.Type) -> bool:
    """Whether there is memory with numbers in a value."""
    return any(map(has_shadow, leaves_of(found)))


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
    if is_number(found):
        return found
    if isinstance(found, types.BaseTuple):
        return _mapped(found, derivative_type)
    return types.none


def anonymous(found: Any) -> Any:
    """The type with plain tuples for the named ones in it."""
    if isinstance(found, types.BaseTuple):
        return types.BaseTuple.from_types(tuple(map(anonymous, items_of(found))))
    return found


def activity_of(found: types.Type) -> ArgumentActivity:
    """The activity of a value with everything in it that can be active."""
    if has_shadows(found):
        return "mixed" if has_numbers(found) else "duplicated"
    return "active" if has_numbers(found) else "const"


def shadow_type(found: Any) -> Any:
    """The type of a new shadow: that of its primal, arrays writable."""
    if isinstance(found, types.BaseTuple):
        return _mapped(found, shadow_type)
    return found.copy(readonly=False) if isinstance(found, types.Array) else found


def gradient_type(found: types.Type) -> types.Type:
    """The type of the gradient by a value: values for numbers, new arrays for arrays, else None."""
    if isinstance(found, types.BaseTuple):
        return _mapped(found, gradient_type)
    if has_shadow(found):
        return shadow_type(found)
    return found if is_number(found) else types.none


def _mapped(found: Any, function: Callable[[Any], types.Type]) -> Any:
    """A tuple type with a function applied to the types of its items."""
    entries = tuple(map(function, items_of(found)))
    return types.BaseTuple.from_types(entries, getattr(found, "instance_class", None))

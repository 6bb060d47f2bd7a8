"""Lists, dictionaries, dataclasses and Numba's objects, as values and tangents in checks.

Needs       a value
Gives       `is_tree`, `entries`, `rebuilt`: for lists, dictionaries and dataclasses, whose tangents
            have None for parts without one; `is_object`, `contents`, `holding`, `zero_of`,
            `keys_of`, `rand_object`: the same for records and Numba's objects, whose tangents are
            such objects; `opened`: a StructRef that interpreted code can use; `shown`: a value as
            text
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numba
import numpy as np

from activerules.annotations.containers import is_dict, is_list
from activerules.annotations.values import make_zero
from activerules.rules.written import function_from

_LONGEST = 400


def shown(x: Any) -> str:
    """A value for an error: long arrays as NumPy summarises them, anything else cut off."""
    with np.printoptions(threshold=12, edgeitems=3):
        fields = _fields_of(x)
        text = str(x) if fields is None else str(dict(zip(fields, contents(x), strict=True)))
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"


def is_tree(x: Any) -> bool:
    """Whether `x` is a Python list or dictionary, or an instance of a dataclass."""
    return is_list(x) or is_dict(x) or (dataclasses.is_dataclass(x) and not isinstance(x, type))


def entries(x: Any) -> list[Any]:
    """The entries of a tree or a tuple; for a dictionary, its values."""
    if is_dict(x):
        return list(x.values())
    if dataclasses.is_dataclass(x):
        return [getattr(x, field.name) for field in dataclasses.fields(x) if field.init]
    return list(x)


def rebuilt(x: Any, new: Sequence[Any]) -> Any:
    """A tree like `x` with other entries."""
    if is_dict(x):
        return dict(zip(x, new, strict=True))
    if is_list(x):
        return list(new)
    names = [field.name for field in dataclasses.fields(x) if field.init]
    return dataclasses.replace(x, **dict(zip(names, new, strict=True)))


def is_object(x: Any) -> bool:
    """Whether `x` is a record, an array of records, or an object of Numba whose fields or items can
    be set: an instance of a jitclass, a StructRef, a typed list or a typed dictionary.
    """
    has_items = hasattr(x, "_numba_type_") and hasattr(x, "__setitem__")
    return has_items or _fields_of(x) is not None


def _fields_of(x: Any) -> Sequence[str] | None:
    """The names of the fields of a record, an array of records, an instance or a StructRef; None
    for everything else.
    """
    if isinstance(x, np.void | np.ndarray):
        return None if x.dtype.names is None else [*x.dtype.names]
    fields = getattr(getattr(x, "_numba_type_", None), "struct", None)
    return [*fields] if fields is not None else _fields_of_struct_ref(x) or None


def contents(x: Any) -> list[Any]:
    """The contents of an object: its fields, its items, or the values of a dictionary."""
    fields = _fields_of(x)
    if fields is not None:
        return [_field(opened(x), name) for name in fields]
    return list(x.values()) if hasattr(x, "keys") else list(x)


def holding(x: Any, new: Sequence[Any]) -> Any:
    """A new object like `x` with other contents; None: the content of a shadow of `x`."""
    result = zero_of(x)
    for key, value in zip(keys_of(x), new, strict=True):
        if value is not None:
            _set(result, key, value)
    return result


def zero_of(x: Any) -> Any:
    """A zero shadow, one that interpreted code can use."""
    return opened(make_zero(x))


def rand_object(x: Any, rng: np.random.Generator) -> Any:
    """A random tangent of a record or an object."""
    tangent = zero_of(x)
    if not is_object(tangent):
        raise TypeError(
            f"a random tangent of a {type(x).__name__}: its fields cannot be set from Python; "
            "pass a tangent that compiled code made"
        )
    for key, zero in zip(keys_of(tangent), contents(tangent), strict=True):
        _set(tangent, key, _random_like(zero, rng))
    return tangent


def keys_of(x: Any) -> Sequence[Any]:
    """What the contents of an object are found by."""
    fields = _fields_of(x)
    if fields is not None:
        return fields
    return list(x) if hasattr(x, "keys") else range(len(x))


def _field(x: Any, name: str) -> Any:
    return x[name] if isinstance(x, np.void | np.ndarray) else getattr(x, name)


def _set(x: Any, key: Any, value: Any) -> None:
    if isinstance(x, np.void | np.ndarray) or _fields_of(x) is None:
        x[key] = value
    else:
        setattr(x, key, value)


def _random_like(zero: Any, rng: np.random.Generator) -> Any:
    """A random value of the type of `zero`; anything but numbers and arrays stays unchanged."""
    if is_object(zero) or hasattr(zero, "_numba_type_"):
        return rand_object(zero, rng)
    if isinstance(zero, np.ndarray):
        if np.issubdtype(zero.dtype, np.inexact):
            zero[...] = rand_numbers(zero, rng)
        return zero
    if isinstance(zero, (float, complex, np.inexact)):
        return type(zero)(rand_numbers(zero, rng))
    return zero


def rand_numbers(like: Any, rng: np.random.Generator) -> Any:
    """Random numbers in the shape of a number or an array, complex where it is."""
    sample = rng.standard_normal(np.shape(like))
    return sample + 1j * rng.standard_normal(np.shape(like)) if np.iscomplexobj(like) else sample


# --- objects whose fields Python code reads and sets, as compiled code does ---


def opened(x: Any) -> Any:
    """A StructRef as one whose class has a property per field, a record as a `np.record`, an array
    of records as one of these; anything else unchanged.
    """
    if isinstance(x, np.ndarray):
        return x.view(np.recarray) if type(x) is np.ndarray and x.dtype.names else x
    if isinstance(x, np.void):
        return x.view((np.record, x.dtype)) if type(x) is np.void and x.dtype.names else x
    fields = _fields_of_struct_ref(x)
    if not fields or isinstance(x, _Opened):
        return x
    kind = x._numba_type_
    if kind not in _opened_classes:
        properties = {name: property(*_accessors(name)) for name in fields}
        _opened_classes[kind] = type(type(x).__name__, (_Opened, type(x)), properties)
    return _opened_classes[kind]._numba_box_(kind, x._meminfo)


class _Opened:
    """The mark of the classes that `opened` makes."""

    __slots__ = ()


_opened_classes: dict[Any, Any] = {}


def _fields_of_struct_ref(x: Any) -> Sequence[str]:
    return list(getattr(getattr(x, "_numba_type_", None), "field_dict", ()))


def _accessors(name: str) -> list[Any]:
    """The compiled functions that get and set a field."""
    source = f"def get(x): return x.{name}\ndef put(x, value): x.{name} = value\n"
    return [numba.njit(function_from(source, each, {}, module=__name__)) for each in ("get", "put")]

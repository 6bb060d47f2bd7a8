"""Lists, dictionaries, dataclasses and Numba's objects, as values and tangents in checks.

Needs       a value
Gives       `is_tree`, `entries`, `rebuilt`: for lists, dictionaries and dataclasses, whose tangents
            have None for parts without one; `is_object`, `contents`, `holding`, `rand_object`: the
            same for Numba's objects, whose tangents are such objects; `shown`: a value as text
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from activerules.annotations.containers import is_dict, is_list
from activerules.annotations.values import make_zero

_LONGEST = 400


def shown(x: Any) -> str:
    """A value for an error: long arrays as NumPy summarises them, anything else cut off."""
    with np.printoptions(threshold=12, edgeitems=3):
        text = str(x)
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
    """Whether `x` is a Numba object whose fields or items can be set from Python: an instance of a
    jitclass, a typed list or a typed dictionary.
    """
    numba_type = getattr(x, "_numba_type_", None)
    return numba_type is not None and (hasattr(numba_type, "struct") or hasattr(x, "__setitem__"))


def contents(x: Any) -> list[Any]:
    """The contents of an object: its fields, its items, or the values of a dictionary."""
    fields = getattr(x._numba_type_, "struct", None)
    if fields is not None:
        return [getattr(x, name) for name in fields]
    return list(x.values()) if hasattr(x, "keys") else list(x)


def holding(x: Any, new: Sequence[Any]) -> Any:
    """A new object like `x` with other contents; None: the content of a shadow of `x`."""
    made = make_zero(x)
    fields = getattr(x._numba_type_, "struct", None)
    if fields is not None:
        for name, value in zip(fields, new, strict=True):
            if value is not None:
                setattr(made, name, value)
        return made
    keys = list(x) if hasattr(x, "keys") else range(len(x))
    for key, value in zip(keys, new, strict=True):
        if value is not None:
            made[key] = value
    return made


def rand_object(x: Any, rng: np.random.Generator) -> Any:
    """A random tangent of an instance of a jitclass, a typed list or a typed dictionary."""
    tangent = make_zero(x)
    fields = getattr(x._numba_type_, "struct", None)
    if fields is not None:
        for name in fields:
            setattr(tangent, name, _random_like(getattr(tangent, name), rng))
        return tangent
    if not hasattr(tangent, "__setitem__"):
        raise TypeError(
            f"a random tangent of a {type(x).__name__}: its fields cannot be set from Python; "
            "pass a tangent that compiled code made"
        )
    keys = list(tangent) if hasattr(tangent, "keys") else range(len(tangent))
    for key in keys:
        tangent[key] = _random_like(tangent[key], rng)
    return tangent


def _random_like(zero: Any, rng: np.random.Generator) -> Any:
    """A random value of the type of `zero`; anything but numbers and arrays stays unchanged."""
    if hasattr(zero, "_numba_type_"):
        return rand_object(zero, rng)
    if isinstance(zero, np.ndarray):
        if np.issubdtype(zero.dtype, np.inexact):
            zero[...] = _sample(zero, rng)
        return zero
    if isinstance(zero, (float, complex, np.inexact)):
        return type(zero)(_sample(zero, rng))
    return zero


def _sample(like: Any, rng: np.random.Generator) -> Any:
    sample = rng.standard_normal(np.shape(like))
    return sample + 1j * rng.standard_normal(np.shape(like)) if np.iscomplexobj(like) else sample

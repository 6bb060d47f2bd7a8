"""`Tangent[P]`: the tangent of a value with fields, given by those that are not zero.

    Tangent[Point](x=1.0)          of a class: fields by name; `t.y` is ZeroTangent()
    Tangent[tuple](1.0, dy)        of a tuple: fields by position
    Tangent[dict](a=1.0)           of a dict: by key

It can be added to tangents of the same type and to primals, scaled, and iterated over. The fields
of named tuples and dataclasses are known; for these any other name is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from activerules.annotations.containers import is_dict, is_tuple, like_tuple
from activerules.annotations.tangents import AbstractTangent, ZeroTangent, conjugate

Key = int | str


class Tangent(AbstractTangent):
    """The tangent of a value of the class `primal`; `backing` holds the fields that were given.

    Immutable; made by `Tangent[P](…)`. A field that was not given is `ZeroTangent()`.
    """

    __slots__ = ("backing", "primal")

    backing: dict[Key, Any]
    primal: type[Any]

    def __init__(self, *args: Any, **fields: Any) -> None:
        raise TypeError("a tangent belongs to a type: Tangent[P](...)")

    def __class_getitem__(cls, primal: type) -> TangentOf:
        """The constructor of tangents of `primal`."""
        return TangentOf(primal)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_numba_type_":  # which Numba asks for
            raise AttributeError(name)
        return self._field(name)

    def __getitem__(self, key: Key) -> Any:
        names = names_of(self.primal)
        if isinstance(key, int) and names is not None:
            key = names[key]
        elif isinstance(key, int) and key < 0:
            key += len(self)
        if issubclass(self.primal, tuple) and names is None and key not in self.backing:
            raise IndexError(f"{self!r} has no entry {key}")
        return self._field(key)

    def _field(self, key: Key) -> Any:
        names = names_of(self.primal)
        if key not in self.backing and names is not None and key not in names:
            raise AttributeError(f"{self.primal.__name__} has no field {key!r}")
        return self.backing.get(key, ZeroTangent())

    def keys(self) -> tuple[Key, ...]:
        """The fields, in the order of the primal where it has one."""
        names = names_of(self.primal)
        return tuple(self.backing) if names is None else names

    def __iter__(self) -> Iterator[Any]:
        """The tangents of the fields, in order."""
        return iter([self._field(key) for key in self.keys()])

    def __len__(self) -> int:
        return len(self.keys())

    def map(self, function: Callable[[Any], Any]) -> Tangent:
        """A tangent with `function` applied to the fields that were given."""
        return tangent_of(self.primal, {key: function(v) for key, v in self.backing.items()})

    def conjugate(self) -> Tangent:
        """Conjugate every field."""
        return self.map(conjugate)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, Tangent):
            return self._plus(other)
        if isinstance(other, AbstractTangent):
            return other.__radd__(self)  # type: ignore[attr-defined]
        return add_to_primal(other, self)

    def __radd__(self, other: Any) -> Any:
        return add_to_primal(other, self)

    def _plus(self, other: Tangent) -> Tangent:
        if other.primal is not self.primal:
            raise TypeError(f"cannot add {other!r} to {self!r}: tangents of different types")
        total = dict(self.backing)
        for key, value in other.backing.items():
            total[key] = plus(total[key], value) if key in total else value
        return tangent_of(self.primal, total)

    def __mul__(self, factor: Any) -> Any:
        if isinstance(factor, AbstractTangent):
            return factor.__rmul__(self)  # type: ignore[attr-defined]
        return self.map(lambda value: times(value, factor))

    __rmul__ = __mul__

    def __truediv__(self, factor: Any) -> Tangent:
        return self.map(lambda value: over(value, factor))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tangent) or other.primal is not self.primal:
            return False
        return self._nonzero_fields() == other._nonzero_fields()

    def _nonzero_fields(self) -> dict[Key, Any]:
        """The fields that are not symbolically zero."""
        return {k: v for k, v in self.backing.items() if not isinstance(v, ZeroTangent)}

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = (f"{k}={v!r}" if isinstance(k, str) else repr(v) for k, v in self.backing.items())
        return f"Tangent[{self.primal.__name__}]({', '.join(fields)})"

    def __reduce__(self) -> Any:
        return tangent_of, (self.primal, self.backing)


class TangentOf:
    """The constructor of the tangents of a class, which `Tangent[P]` returns."""

    def __init__(self, primal: type[Any]) -> None:
        self.primal = primal
        self.__name__ = self.__qualname__ = f"Tangent[{primal.__name__}]"

    def __call__(self, /, *args: Any, **fields: Any) -> Tangent:
        """The tangent with these fields."""
        return tangent_of(self.primal, self.backing(args, fields))

    def backing(self, args: tuple[Any, ...], fields: Mapping[str, Any]) -> dict[Key, Any]:
        """The given tangents by field. Raises `TypeError` for a field the class does not have."""
        return _backing(self.primal, args, fields)

    def __repr__(self) -> str:
        return self.__name__


def plus(x: Any, y: Any) -> Any:
    """The sum of two tangents of one field; tuples are added entry by entry."""
    if is_tuple(x) and is_tuple(y):
        if len(x) != len(y):
            raise TypeError(f"tangents of {len(x)} and {len(y)} entries")
        return like_tuple(type(x), map(plus, x, y))
    return x + y


def times(x: Any, factor: Any) -> Any:
    """The tangent of a field times a factor; tuples are scaled entry by entry."""
    return like_tuple(type(x), [times(v, factor) for v in x]) if is_tuple(x) else x * factor


def over(x: Any, divisor: Any) -> Any:
    """The tangent of a field divided by a number; tuples are divided entry by entry."""
    return like_tuple(type(x), [over(v, divisor) for v in x]) if is_tuple(x) else x / divisor


def canonicalize(tangent: Tangent) -> Tangent:
    """The tangent with every field of its primal filled in: `ZeroTangent()` where none was given.

    If the fields of the primal are not known, the tangent is returned unchanged. Raises `TypeError`
    for what is not a `Tangent`.
    """
    if not isinstance(tangent, Tangent):
        raise TypeError(f"canonicalize takes a Tangent, not {tangent!r}")
    return tangent_of(tangent.primal, dict(zip(tangent.keys(), tangent, strict=True)))


def add_to_primal(x: Any, tangent: Tangent) -> Any:
    """`x` plus a tangent: a new value of the type of `x`, made by its constructor.

    Raises `TypeError` if `x` is not of the tangent's type.
    """
    if not isinstance(x, tangent.primal):
        raise TypeError(f"cannot add {tangent!r} to {x!r}: it is not a {tangent.primal.__name__}")
    names = tuple(x) if is_dict(x) else names_of(tangent.primal)
    keys: Any = range(len(x)) if names is None and is_tuple(x) else names or tuple(x.__dict__)
    if not tangent.backing.keys() <= set(keys):
        raise TypeError(f"cannot add {tangent!r} to {x!r}: it has no such entries")
    entries = map(tangent.backing.get, keys)
    if is_tuple(x):
        return like_tuple(type(x), map(_moved, x, entries))
    values = (x[key] if is_dict(x) else getattr(x, key) for key in keys)
    moved = dict(zip(keys, map(_moved, values, entries), strict=True))
    return moved if is_dict(x) else type(x)(**moved)


def _moved(value: Any, tangent: Any) -> Any:
    if tangent is None:
        return value
    if is_tuple(value) and is_tuple(tangent):
        if len(value) != len(tangent):
            raise TypeError(f"a tangent of {len(tangent)} entries of a tuple of {len(value)}")
        return like_tuple(type(value), map(_moved, value, tangent))
    return value + (np.asarray(tangent) if isinstance(value, np.ndarray) else tangent)


def tangent_of(primal: type, backing: Mapping[Key, Any]) -> Tangent:
    """The tangent, of a value of the class `primal`, with these fields."""
    tangent = object.__new__(Tangent)
    tangent.primal = primal
    tangent.backing = dict(backing)
    return tangent


def names_of(primal: Any) -> tuple[str, ...] | None:
    """The names of the fields of a class; None if they are not known."""
    named: Any = getattr(primal, "_fields", None)
    if named is not None:
        return tuple(named)
    if dataclasses.is_dataclass(primal):
        return tuple(field.name for field in dataclasses.fields(primal))
    struct = getattr(getattr(primal, "class_type", None), "struct", None)  # of a jitclass
    return None if struct is None else tuple(struct)


def _backing(primal: type[Any], args: tuple[Any, ...], fields: Mapping[str, Any]) -> dict[Key, Any]:
    names = names_of(primal)
    if names is None:
        if args and not issubclass(primal, tuple):
            raise TypeError(f"the fields of Tangent[{primal.__name__}] are given by name")
        return {**dict(enumerate(args)), **fields}
    if len(args) > len(names):
        raise TypeError(f"{primal.__name__} has {len(names)} fields, not {len(args)}")
    twice = [name for name in names[: len(args)] if name in fields]
    if twice:
        raise TypeError(f"Tangent[{primal.__name__}] gets the field {twice[0]!r} twice")
    entries = {**dict(zip(names, args, strict=False)), **fields}
    unknown = [name for name in entries if name not in names]
    if unknown:
        raise TypeError(f"{primal.__name__} has no field {unknown[0]!r}")
    return {**entries}

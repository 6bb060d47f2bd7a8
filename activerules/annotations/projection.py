"""`ProjectTo(x)`: brings a cotangent into the tangent space of `x`.

A rule may return a cotangent that its argument cannot hold: a complex one for a real number, a
double for a number of single precision, a number for an array without dimensions.
`ProjectTo(x)(dx)` is the projection of such a `dx` onto the tangent space of `x`, with the type of
`x`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from activerules.annotations.containers import is_array, is_dict, is_list, is_tuple, like_tuple
from activerules.annotations.structural import Key, Tangent, names_of, tangent_of
from activerules.annotations.tangents import (
    AbstractTangent,
    NoTangent,
    NotImplementedTangent,
    One,
    ZeroTangent,
)
from activerules.annotations.tangents import is_zero as _is_zero
from activerules.annotations.thunks import AbstractThunk, Thunk
from activerules.errors import TangentMismatch


class ProjectTo:
    """The projection onto the tangent space of `x`; it remembers types and shapes, not values.

    Floats and complex numbers keep their type, arrays their dtype and shape; tuples, lists and
    dictionaries keep their structure, and the projection for a dataclass `P` is a `Tangent[P]`. For
    what has no derivative (integers, strings) the projection is `NoTangent()`. A symbolic zero
    stays one; a thunk is projected when it is computed.

    Raises `TangentMismatch` for an array of a different shape, a tuple of a different length, or a
    field that the primal does not have.
    """

    def __init__(self, x: Any) -> None:
        self.kind: Any = type(x)
        self.parts: dict[Key, ProjectTo] = {k: ProjectTo(v) for k, v in _entries(x).items()}
        self.shape: tuple[int, ...] | None = None
        self.dtype: np.dtype[Any] | None = None
        if is_array(x):
            self.shape = x.shape
        if self.shape is not None or isinstance(x, np.generic | float | complex):
            dtype = np.asarray(x).dtype
            self.dtype = dtype if np.issubdtype(dtype, np.inexact) else None

    @property
    def has_tangent(self) -> bool:
        """Whether the tangent space holds anything but `NoTangent()`."""
        return self.dtype is not None or any(p.has_tangent for p in self.parts.values())

    def __repr__(self) -> str:
        if self.parts:
            named = (f"{k}={v!r}" if isinstance(k, str) else repr(v) for k, v in self.parts.items())
            return f"ProjectTo({', '.join(named)})"
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"ProjectTo({self.kind.__name__}{shape}, dtype={self.dtype})"

    def __call__(self, dx: Any) -> Any:
        """Return the projection of `dx`."""
        if isinstance(dx, NotImplementedTangent):
            return dx
        if not self.has_tangent:
            return NoTangent()
        if isinstance(dx, AbstractThunk):
            return Thunk(lambda: self(dx()))
        if dx is None:
            return NoTangent()
        if _is_zero(dx):
            return dx
        return self._structure(dx) if self.parts else self._numbers(dx)

    def _structure(self, dx: Any) -> Any:
        """Project entry by entry; the entries that `dx` does not give are zero."""
        given = self._given(dx)
        items = {k: part(given.get(k, ZeroTangent())) for k, part in self.parts.items()}
        if self._is(tuple):
            return like_tuple(self.kind, items.values())
        if self._is(list):
            return [*items.values()]
        return items if self._is(dict) else tangent_of(self.kind, items)

    def _is(self, *kinds: type) -> bool:
        return issubclass(self.kind, kinds)

    def _given(self, dx: Any) -> dict[Key, Any]:
        """The entries of `dx` by the keys of `parts`."""
        if self._is(tuple, list):
            has_entries = is_tuple(dx) or is_list(dx) or isinstance(dx, Tangent)
            names, own = (getattr(each, "_fields", None) for each in (dx, self.kind))
            other_names = is_tuple(dx) and None not in (names, own) and names != own
            if not has_entries or len(dx) != len(self.parts) or other_names:
                raise TangentMismatch(f"a tangent of {len(self.parts)} entries, not {dx!r}")
            return dict(enumerate(dx))
        is_field_wise = is_dict(dx) or isinstance(dx, self.kind)
        given = dx.backing if isinstance(dx, Tangent) else _entries(dx) if is_field_wise else None
        if given is None or not given.keys() <= self.parts.keys():
            raise TangentMismatch(f"a tangent with the fields {[*self.parts]}, not {dx!r}")
        return given

    def _numbers(self, dx: Any) -> Any:
        if isinstance(dx, One):
            dx = 1.0
        if isinstance(dx, AbstractTangent) or not np.issubdtype(np.asarray(dx).dtype, np.number):
            raise TangentMismatch(f"{dx!r} is not a tangent of {self.kind.__name__}")
        array: Any = np.asarray(dx)
        if array.shape != (self.shape or ()):
            raise TangentMismatch(
                f"a tangent of shape {array.shape} where the primal has {self.shape or ()}",
                why="a cotangent has the shape of its primal; broadcasting hides a missing sum",
            )
        assert self.dtype is not None
        if np.iscomplexobj(array) and not np.issubdtype(self.dtype, np.complexfloating):
            array = array.real
        array = array.astype(self.dtype, copy=False)
        if self.shape is not None:
            return dx if array is dx else array
        return self.kind(array.item()) if issubclass(self.kind, float | complex) else array[()]


def _entries(x: Any) -> dict[Key, Any]:
    """The entries of a tuple or list by position, of a dictionary by key, of a dataclass by name;
    those of other values are none.
    """
    if is_tuple(x) or is_list(x):
        return dict(enumerate(x))
    if is_dict(x):
        return dict(x)
    is_dataclass = dataclasses.is_dataclass(x) and not isinstance(x, type)
    return {name: getattr(x, name) for name in names_of(type(x)) or ()} if is_dataclass else {}

"""Derivatives that are computed when they are used.

    Thunk(f)                 `f()`, computed each time it is unthunked.
    InplaceableThunk(add, t) a thunk that can also add itself to memory: `add(x)` does `x += f()`
                             without allocating `f()`.
    unthunk(x)               the value of a thunk; anything else is returned as it is.
    extern(x)                the same through tuples, lists, dicts and tangents: plain values only.
    add_inplace(x, y)        x + y, in the memory of `x` where that is possible.

Computing with a thunk unthunks it; only negation, conjugation and scaling by a number stay lazy.

In a rule that is converted for compiled code (`rules.closures.convert`), a thunk becomes a branch
on the activity of its argument, and costs nothing where the derivative is not used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from activerules.annotations.containers import is_array, is_dict, is_list, is_tuple, like_tuple
from activerules.annotations.structural import Tangent
from activerules.annotations.tangents import AbstractTangent, conjugate, is_zero
from activerules.errors import TangentMismatch


class AbstractThunk(AbstractTangent):
    """A tangent that is computed when it is needed."""

    __slots__ = ()

    def __call__(self) -> Any:
        """Return the derivative, which may be another thunk."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return unthunk(self) + unthunk(other)

    def __radd__(self, other: Any) -> Any:
        return unthunk(other) + unthunk(self)

    def __mul__(self, other: Any) -> Any:
        return Thunk(lambda: unthunk(self) * unthunk(other))

    def __rmul__(self, other: Any) -> Any:
        return Thunk(lambda: unthunk(other) * unthunk(self))

    def __truediv__(self, other: Any) -> Any:
        return Thunk(lambda: unthunk(self) / unthunk(other))

    def __matmul__(self, other: Any) -> Any:
        return unthunk(self) @ unthunk(other)

    def __rmatmul__(self, other: Any) -> Any:
        return unthunk(other) @ unthunk(self)

    def __neg__(self) -> Any:
        return Thunk(lambda: -unthunk(self))

    def conjugate(self) -> Any:
        """The conjugate, which is lazy as well."""
        return Thunk(lambda: conjugate(unthunk(self)))

    def __getitem__(self, index: Any) -> Any:
        return unthunk(self)[index]

    def __iter__(self) -> Any:
        return iter(unthunk(self))

    def __float__(self) -> float:
        return float(unthunk(self))

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
        return np.array(unthunk(self), dtype=dtype)


class Thunk(AbstractThunk):
    """`Thunk(f)`: the derivative `f()`, computed each time it is unthunked."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute

    def __call__(self) -> Any:
        """Return `f()`."""
        return self._compute()

    def __repr__(self) -> str:
        return f"Thunk({getattr(self._compute, '__qualname__', self._compute)})"


class InplaceableThunk(AbstractThunk):
    """A thunk with a function that adds it to memory.

    `add(x)` adds the derivative to the array `x` in place; `value`, a Thunk or a function without
    parameters, computes the derivative itself.
    """

    __slots__ = ("add", "value")

    def __init__(self, add: Callable[[Any], Any], value: Thunk | Callable[[], Any]) -> None:
        self.add = add
        self.value = value if isinstance(value, AbstractThunk) else Thunk(value)

    def __call__(self) -> Any:
        """Return the derivative as a new value."""
        return self.value()

    def __repr__(self) -> str:
        return f"InplaceableThunk({self.value!r})"


def unthunk(x: Any) -> Any:
    """The value of a thunk, which may be another thunk; anything else is returned as it is."""
    return x() if isinstance(x, AbstractThunk) else x


def extern(x: Any) -> Any:
    """Return `x` with every thunk in it computed, through tuples, lists, dicts and `Tangent`s."""
    if isinstance(x, AbstractThunk):
        return extern(x())
    if isinstance(x, Tangent):
        return x.map(extern)
    if is_dict(x):
        return {key: extern(value) for key, value in x.items()}
    if is_list(x):
        return [extern(value) for value in x]
    if is_tuple(x):
        return like_tuple(type(x), map(extern, x))
    return x


def is_inplaceable_destination(x: Any) -> bool:
    """Return whether `add_inplace` may add to the memory of `x`: a writable array of floats."""
    return is_array(x) and x.flags.writeable and np.issubdtype(x.dtype, np.inexact)


def add_inplace(x: Any, y: Any) -> Any:
    """Return x + y, in the memory of `x` if it is a writable array of floats that can hold the sum.

    Use what is returned: `x` may or may not have changed. The shapes must agree; `y` is not
    broadcast. Tuples are added item by item.
    """
    if is_zero(y):
        return x
    if isinstance(y, InplaceableThunk) and is_inplaceable_destination(x):
        y.add(x)
        return x
    y = unthunk(y)
    if is_tuple(x):
        if not hasattr(y, "__len__") or len(x) != len(y):
            what = "a tuple of a different length" if is_tuple(y) else f"{y!r}, and no such tuple"
            raise TangentMismatch(f"add_inplace: the tangent is {what}")
        return like_tuple(type(x), map(add_inplace, x, y))
    addend = np.asarray(y)
    if is_array(x) and addend.dtype != object:
        if addend.shape != x.shape:
            raise TangentMismatch("add_inplace: the tangent has a different shape")
        if is_inplaceable_destination(x) and np.can_cast(addend.dtype, x.dtype, "same_kind"):
            x += addend
            return x
    return x + y

"""Type guards for containers with entries of any type, and tuples rebuilt in their own class.

`is_array(x)` is `isinstance(x, np.ndarray)`, declared so that a type checker takes the entries to
be `Any` (they are unknown to it otherwise). Likewise the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import numpy as np


def is_array(x: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Whether `x` is an array, of any dtype."""
    return isinstance(x, np.ndarray)


def is_tuple(x: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether `x` is a tuple, of any entries."""
    return isinstance(x, tuple)


def is_list(x: object) -> TypeGuard[list[Any]]:
    """Whether `x` is a list, of any entries."""
    return isinstance(x, list)


def is_dict(x: object) -> TypeGuard[dict[Any, Any]]:
    """Whether `x` is a dict, of any keys and values."""
    return isinstance(x, dict)


def like_tuple(kind: type, items: Iterable[Any]) -> Any:
    """A tuple of the class `kind`, which may be a named tuple, with these items."""
    make: Callable[[Iterable[Any]], Any] = getattr(kind, "_make", kind)
    return make(items)

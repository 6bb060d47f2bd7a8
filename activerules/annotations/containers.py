"""Arrays, tuples, lists and dicts of whatever entries: what they are, and tuples made again.

`is_array(x)` is `isinstance(x, np.ndarray)`, in words from which a type checker takes that the
entries may be anything (it calls them unknown otherwise). Likewise the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

import numpy as np


def is_array(x: object) -> TypeGuard[np.ndarray[Any, Any]]:
    """Whether `x` is an array, of whatever dtype."""
    return isinstance(x, np.ndarray)


def is_tuple(x: object) -> TypeGuard[tuple[Any, ...]]:
    """Whether `x` is a tuple, of whatever entries."""
    return isinstance(x, tuple)


def is_list(x: object) -> TypeGuard[list[Any]]:
    """Whether `x` is a list, of whatever entries."""
    return isinstance(x, list)


def is_dict(x: object) -> TypeGuard[dict[Any, Any]]:
    """Whether `x` is a dict, of whatever entries."""
    return isinstance(x, dict)


def like_tuple(kind: type, items: Iterable[Any]) -> Any:
    """`items` in a tuple of the class `kind`, which may be a named one."""
    make: Callable[[Iterable[Any]], Any] = getattr(kind, "_make", kind)
    return make(items)

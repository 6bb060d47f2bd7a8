"""Whether tangents that were passed to a check fit the values that they are of.

Needs       values, and a tangent for each
Gives       `require_fitting`: raises `TangentMismatch`, so that nothing is compared along a tangent
            that is broadcast, rounded to an integer, or left out
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from activerules.annotations.containers import is_dict, is_list
from activerules.errors import TangentMismatch
from activerules.testing.trees import contents, entries, is_object, is_tree, keys_of


def require_fitting(what: str, x: Any, tangent: Any) -> None:
    """Raise `TangentMismatch` unless `tangent` is a tangent of `x`, or None, also in parts of it.

    what   the tangent, for the error
    """
    if tangent is None:
        return
    if isinstance(x, tuple):
        is_tuple = isinstance(tangent, tuple | list | np.ndarray) and len(tangent) == len(x)
        _require(is_tuple, what, tangent, f"a tuple of {len(x)} entries")
        _require_each(what, x, list(tangent))
    elif is_tree(x):
        _require(_is_alike(x, tangent), what, tangent, f"a {type(x).__name__} as its argument is")
        _require_each(what, entries(x), entries(tangent))
    elif is_object(x):
        _require(_is_same_kind(x, tangent), what, tangent, f"a {type(x).__name__} of the same type")
        for part, own in zip(contents(x), contents(tangent), strict=True):
            if _has_tangent(part):
                require_fitting(what, part, own)
    elif not _has_tangent(x):
        raise TangentMismatch(
            f"{what} is {_told(tangent)}; its argument, {_told(x)}, has no derivative",
            instead=["None in its place"],
        )
    else:
        _require_numbers(what, x, tangent)


def _require(fits: bool, what: str, tangent: Any, expected: str) -> None:
    if not fits:
        raise TangentMismatch(f"{what} is {_told(tangent)}, expected {expected}")


def _require_each(what: str, x: Sequence[Any], tangents: Sequence[Any]) -> None:
    for k, (part, own) in enumerate(zip(x, tangents, strict=True)):
        require_fitting(f"entry {k} of {what}", part, own)


def _is_alike(x: Any, tangent: Any) -> bool:
    """Whether two trees have the same entries; dictionaries have them in the same order."""
    if is_dict(x):
        return is_dict(tangent) and list(x) == list(tangent)
    if is_list(x):
        return is_list(tangent) and len(x) == len(tangent)
    return isinstance(tangent, type(x))


def _is_same_kind(x: Any, tangent: Any) -> bool:
    """Whether two objects have the same type and hold their parts under the same keys."""
    kinds = [getattr(each, "_numba_type_", None) for each in (x, tangent)]
    return is_object(tangent) and kinds[0] == kinds[1] and [*keys_of(x)] == [*keys_of(tangent)]


def _has_tangent(x: Any) -> bool:
    """Whether `x` is more than an integer, a truth value, a string, or an array of such."""
    if isinstance(x, tuple) or is_tree(x) or is_object(x):
        return True
    return np.issubdtype(np.asarray(x).dtype, np.inexact)


def _require_numbers(what: str, x: Any, tangent: Any) -> None:
    """Raise unless there is a number for each number of `x`, which is complex only if that is."""
    try:
        given = np.asarray(tangent)
    except ValueError:  # a list of lists of different lengths
        given = np.asarray(None)
    _require(given.dtype.kind in "biufc", what, tangent, "numbers")
    if given.shape != np.shape(x):
        raise TangentMismatch(f"{what} has the shape {given.shape}, the argument {np.shape(x)}")
    is_real = not np.iscomplexobj(x) and np.iscomplexobj(given)
    _require(not is_real, what, tangent, "real numbers, as its argument is real")


def _told(x: Any) -> str:
    if isinstance(x, np.ndarray):
        return f"an array of {x.dtype}"
    return f"of type {type(x).__name__}"

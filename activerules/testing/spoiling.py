"""Overwriting memory between the two halves of a rule.

Gives       `spoil`: overwrites an array with other plausible values
Invariants  S1  the new values are valid wherever the old ones are: integers, and floats that are
                converted to integers, may be indices, which compiled code does not check
            S2  the new values differ, if any others are possible: only zeros of unsigned
                integers stay
"""

from __future__ import annotations

from typing import Any

import numpy as np


def spoil(array: np.ndarray[Any, Any]) -> None:
    """Overwrite an array; one of neither numbers nor booleans is overwritten with zeros."""
    kind = array.dtype.kind
    if array.size:
        array[...] = _OTHERS[kind](array) if kind in _OTHERS else np.zeros((), array.dtype)


def _integers(array: np.ndarray[Any, Any]) -> Any:
    """The smallest entry everywhere: valid as an index, a range or the end mark of a chain."""
    low = array.min()
    if low != array.max():
        return low
    return low * 0 if low else -1 if array.dtype.kind == "i" else low


def _floats(array: np.ndarray[Any, Any]) -> Any:
    """The entries, shifted by one position and moved towards the smallest."""
    finite = array[np.isfinite(array)]
    low = finite.min() if finite.size else array.dtype.type(0)
    if finite.size and low == finite.max():
        return np.full_like(array, 0.4 * low if low else 0.4)
    return low + 0.4 * (np.roll(array, 1) - low)


_OTHERS = {
    "b": np.logical_not,
    "i": _integers,
    "u": _integers,
    "f": _floats,
    "c": lambda array: np.roll(array, 1) * -3 + 1,
}

"""What memory is overwritten with between the two halves of a rule.

Gives       `spoil`: other values that could be there as well
Invariants  S1  a value is valid where the old ones were: integers, and floats that become integers,
                may be indices, and code that Numba compiled does not check them
            S2  values are other ones, in an array that has any: only zeros without a sign stay
"""

from __future__ import annotations

from typing import Any

import numpy as np


def spoil(array: np.ndarray[Any, Any]) -> None:
    """Overwrite an array; what holds neither numbers nor truth values, by zeros."""
    kind = array.dtype.kind
    if array.size:
        array[...] = _OTHERS[kind](array) if kind in _OTHERS else np.zeros((), array.dtype)


def _integers(array: np.ndarray[Any, Any]) -> Any:
    """The smallest of them everywhere: an index, an empty range, the mark where a chain ends."""
    low = array.min()
    if low != array.max():
        return low
    return low * 0 if low else -1 if array.dtype.kind == "i" else low


def _floats(array: np.ndarray[Any, Any]) -> Any:
    """Moved on by one place, and towards the smallest."""
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

"""Small compiled functions that wrappers of rules call: copies, zeros, and the check of aliases.

All of them are compiled for the CPU, by the types of their arguments, and linked with the wrapper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from numba.core import types
from numba.extending import register_jitable

from activerules.annotations.values import make_zero
from activerules.errors import RuleReturnError
from activerules.numba_ext.overwriting import overwrite


def make_zero_of(x: Any) -> Any:
    """Make a scratch shadow."""
    return make_zero(x)


def copy_of(x: Any) -> Any:
    """Keep what an array holds."""
    return x.copy()


def restore(x: Any, saved: Any) -> None:
    """Put back what was kept."""
    overwrite(x, saved)


def owned(found: Any) -> types.Array:
    """The type of a copy of an array."""
    layout = "C" if found.layout == "A" else found.layout
    return found.copy(layout=layout, readonly=False)


@register_jitable
def _extent(x):
    low = x.ctypes.data
    high = low + x.itemsize
    for axis in range(x.ndim):
        reach = (x.shape[axis] - 1) * x.strides[axis]
        if reach < 0:
            low += reach
        else:
            high += reach
    return low, high


@cache
def apart(message: str, error: type[Exception] = RuleReturnError) -> Callable[[Any, Any], None]:
    """The function that raises `error(message)` if two arrays share memory.

    The engine takes an array that a rule returns for new memory: a result that is an argument, or a
    part of one, would carry the cotangents of both.
    """

    def check(result, other):
        if result.size > 0 and other.size > 0:
            low, high = _extent(result)
            other_low, other_high = _extent(other)
            if low < other_high and other_low < high:
                raise error(message)

    return check

"""Types of values with respect to which no derivative can be taken.

Gives       `refuse_kind`: raises for them, and says what to write instead
"""

from __future__ import annotations

from typing import Any

from numba.core import types

from activerules.errors import ActivityError, NotYetSupported
from activerules.rules.pattern import type_name
from activerules.values.layout import layout_of


def refuse_kind(name: str, ty: Any) -> None:
    """Refuse a derivative with respect to an optional value, or to memory that is no NumPy array: a
    `memoryview`, an `array.array`, or an array of another library that Numba can access.
    """
    if isinstance(ty, types.Optional) and layout_of(ty).numbers.any:
        raise NotYetSupported(
            f"`{name}` may be None: it is {type_name(ty)}",
            why="whether a value that may be None has a derivative is known only when it runs",
            instead=[
                "an array without items, or of zeros, in place of None, and a flag beside it",
                "two derivatives in the two branches of an `if`: of the function with a value, "
                "and of one without it",
            ],
        )
    if isinstance(ty, types.Buffer) and not isinstance(ty, types.Array):
        raise ActivityError(
            f"`{name}` is not an array of NumPy (to Numba it is {ty})",
            why="what is added to, or returned, is an array of NumPy",
            instead=[f"np.asarray({name})"],
        )

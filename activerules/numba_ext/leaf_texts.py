"""Values taken apart into their leaves, and tuples put together again, in source text.

Numba compiles no loop over a tuple of several types, so code for a call is written out leaf by
leaf: `x0[1]` is a leaf of `x0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from numba.core import types

from activerules.numba_ext.fields import items_of
from activerules.numba_ext.kinds import is_number, is_number_array

T = TypeVar("T")


@dataclass(frozen=True)
class Leaf:
    """One leaf of a value.

    root    the text of the value
    place   how the leaf is reached from it: `[0][1]`
    found   its type
    """

    root: str
    place: str
    found: Any

    @property
    def text(self) -> str:
        """What it is read by."""
        return self.root + self.place

    @property
    def name(self) -> str:
        """An identifier of its own."""
        return self.text.replace("][", "_").replace("[", "_").replace("]", "")

    @property
    def is_array(self) -> bool:
        """Whether it is an array of float or complex numbers."""
        return is_number_array(self.found)

    @property
    def carries(self) -> bool:
        """Whether it has a derivative: a number, or an array of them."""
        return is_number(self.found) or self.is_array

    @property
    def number(self) -> Any:
        """The type of its numbers."""
        return self.found.dtype if self.is_array else self.found


def leaves_at(root: str, found: Any, place: str = "") -> Iterator[Leaf]:
    """The leaves of the value `root`, in order."""
    if not isinstance(found, types.BaseTuple):
        yield Leaf(root, place, found)
        return
    for i, item in enumerate(items_of(found)):
        yield from leaves_at(root, item, f"{place}[{i}]")


class TupleTexts:
    """Writes tuples of the form of a type; `classes` has the named ones, by the names used."""

    def __init__(self) -> None:
        self.classes: dict[str, Any] = {}

    def rebuilt(self, found: Any, text: Callable[[Leaf], str], root: str = "") -> str:
        """A value of the form of `found`, with `text` for each of its leaves."""
        return self.put_together(found, leaves_at(root, found), text)

    def put_together(self, found: Any, leaves: Iterator[T], text: Callable[[T], str]) -> str:
        """As `rebuilt`, of leaves that are told otherwise."""
        if not isinstance(found, types.BaseTuple):
            return text(next(leaves))
        items = "".join(self.put_together(item, leaves, text) + ", " for item in items_of(found))
        named = getattr(found, "instance_class", None)
        if named is None:
            return f"({items})"
        name = f"_Named{len(self.classes)}"
        self.classes[name] = named
        return f"{name}({items})"

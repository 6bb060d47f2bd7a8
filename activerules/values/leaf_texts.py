"""Flattening values into leaves, and rebuilding tuples, in generated source text.

Numba compiles no loop over a tuple of mixed types, so code for a call is written out leaf by leaf:
`x0[1]` is a leaf of `x0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from activerules.rules.written import tuple_of
from activerules.values.kinds import is_number, is_number_array
from activerules.values.layout import Node, fold, layout_of, show

T = TypeVar("T")


@dataclass(frozen=True)
class LeafText:
    """One leaf of a value.

    root        the expression of the value
    path        the subscripts that lead to the leaf: `[0][1]`
    numba_type  the leaf's type
    """

    root: str
    path: str
    numba_type: Any

    @property
    def text(self) -> str:
        """The expression that reads the leaf."""
        return self.root + self.path

    @property
    def name(self) -> str:
        """The expression as an identifier."""
        return self.text.replace("][", "_").replace("[", "_").replace("]", "")

    @property
    def is_array(self) -> bool:
        """Whether it is an array of float or complex numbers."""
        return is_number_array(self.numba_type)

    @property
    def carries(self) -> bool:
        """Whether it has a derivative: a number, or an array of them."""
        return is_number(self.numba_type) or self.is_array

    @property
    def number(self) -> Any:
        """The Numba type of the number, or of an array's items."""
        return self.numba_type.dtype if self.is_array else self.numba_type


def leaves_at(root: str, ty: Any) -> Iterator[LeafText]:
    """The leaves of the value `root`, in order."""
    for path, leaf in layout_of(ty).leaf_paths:
        yield LeafText(root, show(path), leaf.numba_type)


class TupleTexts:
    """Writes tuples with the structure of a type; `classes` maps the names used to classes of named
    tuples.
    """

    def __init__(self) -> None:
        self.classes: dict[str, Any] = {}

    def rebuilt(self, ty: Any, text: Callable[[LeafText], str], root: str = "") -> str:
        """A value with the structure of `ty`, with `text` for each of its leaves."""
        return self.unflattened(ty, leaves_at(root, ty), text)

    def unflattened(self, ty: Any, leaves: Iterator[T], text: Callable[[T], str]) -> str:
        """Like `rebuilt`, but from the leaves themselves, in order."""
        return fold(layout_of(ty), lambda leaf: text(next(leaves)), self._tuple)

    def _tuple(self, node: Node, items: list[str]) -> str:
        text = tuple_of(items)
        named = getattr(node.numba_type, "instance_class", None)
        if named is None:
            return text
        name = f"_Named{len(self.classes)}"
        self.classes[name] = named
        return name + text

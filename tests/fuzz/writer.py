"""What the writers of random programs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st


class Writer:
    """Draws one program of `least` to `largest` statements; `draw(k)` gives a number below k."""

    least = 1

    def __init__(self, draw: Callable[[int], int], largest: int) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.names = 0
        self.budget = self.least + draw(largest - self.least + 1)

    def pick(self, items: Sequence[str]) -> str:
        """One of several."""
        return items[self.draw(len(items))]

    def emit(self, depth: int, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * depth + text)


@st.composite
def programs_of(draw: st.DrawFn, writer: Any, largest: int) -> str:
    """Texts of programs of up to `largest` statements, by a class of writers."""
    return writer(lambda k: draw(st.integers(0, k - 1)) if k > 1 else 0, largest).program()

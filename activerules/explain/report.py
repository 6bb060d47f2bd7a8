"""Reports on derivatives, as plain data that can be printed.

`print(report)` writes text, a notebook shows HTML; programs read the attributes. A report does not
refer to the engine, so it can be stored, compared and pickled.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from activerules.explain import html, text


@dataclass(frozen=True)
class SourceLine:
    """A line of source: `text` is the line itself, "" if the source is not available."""

    file: str = ""
    line: int = 0
    text: str = ""

    def __str__(self) -> str:
        """Return `file.py:12`."""
        return f"{self.file}:{self.line}" if self.file else "unknown place"


@dataclass(frozen=True)
class Line:
    """A line of the function, or of one it calls (`called`).

    values    floats computed on the line that carry a derivative
    writes    stores, copies and calls with rules that the reverse sweep undoes
    tape      bytes that the line leaves on the tape in one pass
    work      what one pass costs without its derivative: an estimate, in units of one addition
    depth     of the innermost loop around it
    """

    location: SourceLine
    values: int
    writes: int
    called: bool = False
    tape: int = 0
    work: float = 0.0
    depth: int = 0

    @property
    def is_active(self) -> bool:
        """Whether the reverse sweep does anything for the line."""
        return self.values + self.writes > 0


@dataclass(frozen=True)
class LoopLength:
    """A loop: whether its length is known when it begins, and whether the reverse sweep runs it.

    row_bytes    bytes that the tape keeps per iteration, without inner loops
    """

    location: SourceLine
    depth: int
    known: bool
    undone: bool
    row_bytes: int


@dataclass(frozen=True)
class Kept:
    """A value on the tape: `bytes` per iteration of `loop`, or per call if that is None.

    read_in   if not None, the values of an array that the loop there reads: `bytes` for each entry
              of the array between the first and the last that it may read
    """

    what: str
    location: SourceLine
    bytes: int
    loop: SourceLine | None
    reason: str
    read_in: SourceLine | None


@dataclass(frozen=True)
class Recomputed:
    """Values of a line that the reverse sweep recomputes, and their number."""

    what: str
    location: SourceLine
    count: int


@dataclass(frozen=True)
class RuleCall:
    """A call of a function that has rules.

    rule      the rule that serves it and where it is defined; None if none does
    reason    why none was needed, or why the body is differentiated
    followed  whether the body is differentiated
    """

    name: str
    location: SourceLine
    activities: tuple[str, ...]
    rule: str | None
    reason: str
    followed: bool = False


@dataclass(frozen=True, repr=False)
class Report:
    """The result of `explain`.

    lines         the lines of the function in order, then those of functions it calls; `Line`
    cached        values on the tape; `Kept`
    recomputed    values that are recomputed instead; `Recomputed`
    retained      arrays of the primal that the tape keeps alive, by the line that makes them
    rules         calls of functions with rules; `RuleCall`
    loops         the loops of the function; `LoopLength`
    frame_bytes   bytes kept per call: values outside loops, local memory and its shadow
    overlap       what happens if arguments overlap
    fallbacks     (what was done instead, what had been refused) for each fallback
    stages        seconds per stage of the compilation
    forward       whether it is about forward mode, which has no tape
    """

    function: str
    signature: str
    location: SourceLine
    lines: tuple[Line, ...]
    loops: tuple[LoopLength, ...]
    cached: tuple[Kept, ...]
    recomputed: tuple[Recomputed, ...]
    retained: tuple[SourceLine, ...]
    rules: tuple[RuleCall, ...]
    frame_bytes: int
    overlap: str
    stages: Mapping[str, float]
    forward: bool = False
    fallbacks: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """Return the report as text."""
        return text.render(self)

    __repr__ = __str__

    def show(self, file: TextIO | None = None) -> None:
        """Print the report, in colour if the file is a terminal and `rich` is installed."""
        text.show(self, file or sys.stdout)

    def _repr_html_(self) -> str:
        """Return the report as HTML."""
        return html.render(self)

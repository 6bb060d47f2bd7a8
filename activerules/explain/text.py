"""A report as text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from activerules.explain.sections import sections, timings, where

if TYPE_CHECKING:
    from activerules.explain.report import Line, Report


def render(report: Report) -> str:
    """The whole report; the first line is the function with its activities."""
    paragraphs = [f"{report.function}{report.signature}   {report.location}", _lines(report)]
    for title, empty, rows in sections(report):
        body = columns(rows) or [f"  {empty}"]
        paragraphs.append("\n".join([title, *body]))
    paragraphs.append(f"overlap of arguments\n  {report.overlap}")
    paragraphs.append(f"stages\n  {timings(report)}")
    return "\n\n".join(paragraphs)


def _lines(report: Report) -> str:
    title = "activity: * marks a line that carries derivatives; how many values, how many writes"
    own = [_line(line, report.location.file) for line in report.lines if not line.called]
    called = [_line(line, report.location.file) for line in report.lines if line.called]
    heading = ["  in functions it calls"] if called else []
    return "\n".join([title, *own, *heading, *called])


def _line(line: Line, here: str) -> str:
    counts = f"{line.values or '':>3} {line.writes or '':>3}"
    number = (
        f"{line.location.line:>5}" if line.location.file == here else where(line.location, here)
    )
    marker = "*" if line.is_active else " "
    return f"  {marker} {counts}  {number}  {line.location.text}".rstrip()


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned, indented lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        ("  " + "   ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]

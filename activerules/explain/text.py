"""A report as text for a terminal, in colour where `rich` is installed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, TextIO

from activerules.explain.sections import sections, timings, where

if TYPE_CHECKING:
    from activerules.explain.report import Line, Report

_TITLE = "bold"
_HEAD = "activity: * marks a line that carries derivatives; how many values, how many writes"
_TAPE = ", how many bytes on the tape in each pass"
INACTIVE = (
    "no line carries derivatives: no result depends on anything that is active; "
    "Active(x) and Duplicated(x, dx) mark what is"
)


def show(report: Report, file: TextIO) -> None:
    """Print a report: plain unless the file is a terminal and `rich` is installed."""
    if not file.isatty() or find_spec("rich") is None:
        print(render(report), file=file)
        return
    from rich.console import Console  # pyright: ignore[reportMissingImports]
    from rich.text import Text  # pyright: ignore[reportMissingImports]

    console = Console(file=file, highlight=False)
    for line, style in _lines(report):
        console.print(Text(line, style), soft_wrap=True)


def render(report: Report) -> str:
    """The whole report; the first line is the function with its activities."""
    return "\n".join(line for line, _ in _lines(report))


def _lines(report: Report) -> Iterator[tuple[str, str]]:
    """The lines of the report, each with its style on a terminal."""
    yield f"{report.function}{report.signature}   {report.location}", _TITLE
    yield "", ""
    yield _HEAD + ("" if report.forward else _TAPE), _TITLE
    if not any(line.is_active for line in report.lines):
        yield f"  {INACTIVE}", ""
    for called in (False, True):
        chosen = [line for line in report.lines if line.called is called]
        if called and chosen:
            yield "  in functions it calls", ""
        yield from ((_line(line, report.location.file), _style(line)) for line in chosen)
    for title, empty, rows in sections(report):
        yield from _section(title, columns(rows) or [f"  {empty}"])
    yield from _section("overlap of arguments", [f"  {report.overlap}"])
    yield from _section("stages", [f"  {timings(report)}"])


def _section(title: str, lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "", ""
    yield title, _TITLE
    yield from ((line, "") for line in lines)


def _line(line: Line, here: str) -> str:
    counts = f"{line.values or '':>3} {line.writes or '':>3} {line.tape or '':>4}"
    number = (
        f"{line.location.line:>5}" if line.location.file == here else where(line.location, here)
    )
    marker = "*" if line.is_active else " "
    return f"  {marker} {counts}  {number}  {line.location.text}".rstrip()


def _style(line: Line) -> str:
    if line.tape:
        return "red"
    return "yellow" if line.is_active else ""


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as aligned, indented lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        ("  " + "   ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True))).rstrip()
        for row in rows
    ]

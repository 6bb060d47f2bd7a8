"""A report as HTML for a notebook: readable in light and dark themes, no script, no style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from activerules.explain.sections import sections, timings, where

if TYPE_CHECKING:
    from activerules.explain.report import Line, Report

_ACTIVE = "background: rgba(255, 165, 0, 0.18)"
_CODE = "text-align: left; font-family: monospace; white-space: pre"
_CELL = "text-align: left"


def render(report: Report) -> str:
    """The report as one `<div>`; every word of the user's source is escaped."""
    here = report.location.file
    headline = f"{report.function}{report.signature}"
    parts = [
        f"<p><code>{escape(headline)}</code> {escape(str(report.location))}</p>",
        _table(_line(line, here) for line in report.lines if not line.called),
    ]
    if any(line.called for line in report.lines):
        parts.append("<p>in functions it calls</p>")
        parts.append(_table(_line(line, here) for line in report.lines if line.called))
    for title, empty, rows in sections(report):
        parts.append(f"<p><b>{escape(title)}</b>{'' if rows else ': ' + escape(empty)}</p>")
        if rows:
            parts.append(_table(_row(row, _CELL) for row in rows))
    parts.append(f"<p><b>overlap of arguments</b>: {escape(report.overlap)}</p>")
    parts.append(f"<p><b>stages</b>: {escape(timings(report))}</p>")
    return "<div>" + "\n".join(parts) + "</div>"


def _line(line: Line, here: str) -> str:
    values = f"{line.values} active" if line.values else ""
    writes = f"{line.writes} undone" if line.writes else ""
    cells = (where(line.location, here), line.location.text, values, writes)
    return _row(cells, _CODE, _ACTIVE if line.is_active else "")


def _row(cells: Sequence[str], cell_style: str, row_style: str = "") -> str:
    inside = "".join(f'<td style="{cell_style}">{escape(cell)}</td>' for cell in cells)
    return f'<tr style="{row_style}">{inside}</tr>' if row_style else f"<tr>{inside}</tr>"


def _table(rows: Iterable[str]) -> str:
    return "<table>" + "".join(rows) + "</table>"

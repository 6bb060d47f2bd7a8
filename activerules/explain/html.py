"""A report as HTML, for a notebook (`render`) or as a file (`page`): no script, nothing loaded."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from activerules.explain.sections import bytes_of, facts, sections, where
from activerules.explain.style import STAGE_COLOURS, STYLE

if TYPE_CHECKING:
    from activerules.explain.report import Line, Report

_HOTTEST = 0.7
_LEGEND = (
    "The bar marks lines that carry derivatives. Active: how many floats of the line do, and how "
    "many writes the reverse sweep undoes. {}Work: one pass without its derivative, estimated in "
    "additions. Colours take a loop for ten passes."
)
_ON_TAPE = "Tape: what one pass leaves on it. "


def page(report: Report) -> str:
    """The report as a document of its own."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(report.function)}: how its derivative comes about</title>\n"
        "<style>body { margin: 0; } "
        "@media (prefers-color-scheme: dark) { body { background: #14171a; } }</style>\n"
        f"</head>\n<body>\n{render(report)}\n</body>\n</html>\n"
    )


def render(report: Report) -> str:
    """The report as one `<div>`; every word of the user's source is escaped."""
    own = [line for line in report.lines if not line.called]
    called = [line for line in report.lines if line.called]
    parts = [
        f"<style>{STYLE}</style>",
        f'<p class="title"><code>{escape(report.function + report.signature)}</code></p>',
        f'<p class="muted">{escape(str(report.location))}</p>',
        f'<ul class="facts">{"".join(f"<li>{escape(fact)}</li>" for fact in facts(report))}</ul>',
        _section("source"),
        _source(report, own),
        f'<p class="muted">{escape(_LEGEND.format("" if report.forward else _ON_TAPE))}</p>',
    ]
    if called:
        parts += [_section("in functions it calls"), _source(report, called)]
    for title, empty, rows in sections(report):
        parts.append(_section(title, "" if rows else empty))
        if rows:
            parts.append(_wide("rows", map(_row, rows)))
    parts.append(_section("overlap of arguments", report.overlap))
    parts += [_section("stages", f"{1e3 * sum(report.stages.values()):.1f} ms"), _stages(report)]
    return '<div class="activerules-report">' + "\n".join(parts) + "</div>"


def _section(title: str, text: str = "") -> str:
    behind = f": <span>{escape(text)}</span>" if text else ""
    return f'<p class="section">{escape(title)}{behind}</p>'


def _wide(kind: str, rows: Iterable[str], head: str = "") -> str:
    return f'<div class="wide"><table class="{kind}">{head}{"".join(rows)}</table></div>'


def _row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


# --- the lines, as a heat map ---


def _source(report: Report, lines: Sequence[Line]) -> str:
    names = ["line", "active", *([] if report.forward else ["tape"]), "work", "source"]
    head = "".join(f"<th>{name}</th>" for name in names)
    tape = _Heat([line.tape * 10**line.depth for line in report.lines])
    work = _Heat([line.work * 10**line.depth for line in report.lines])
    rows = (_line(line, report, tape, work) for line in lines)
    return _wide("source", rows, f"<thead><tr>{head}</tr></thead>")


class _Heat:
    """How warm a number is among others, on a logarithmic scale."""

    def __init__(self, numbers: Sequence[float]) -> None:
        self._most = math.log1p(max(numbers, default=0.0))

    def __call__(self, number: float) -> float:
        return _HOTTEST * math.log1p(number) / self._most if self._most else 0.0


def _line(line: Line, report: Report, tape: _Heat, work: _Heat) -> str:
    here = report.location.file
    number = str(line.location.line) if line.location.file == here else where(line.location, here)
    active = ", ".join(
        [f"{line.values}"] * bool(line.values) + [f"{line.writes} undone"] * bool(line.writes)
    )
    scale = 10**line.depth
    cells = [
        ("number", number, None),
        ("number", active, None),
        ("number tape", bytes_of(line.tape) if line.tape else "", tape(line.tape * scale)),
        ("number work", f"{line.work:.0f}" if line.work else "", work(line.work * scale)),
        ("code", line.location.text or " ", None),
    ]
    if report.forward:
        del cells[2]
    inside = "".join(_cell(*cell) for cell in cells)
    return f'<tr class="{"active" if line.is_active else "idle"}">{inside}</tr>'


def _cell(kind: str, text: str, heat: float | None) -> str:
    style = f' style="--heat: {heat:.2f}"' if heat else ""
    return f'<td class="{kind}"{style}>{escape(text)}</td>'


# --- stages, as a bar ---


def _stages(report: Report) -> str:
    timed = [(name, 1e3 * seconds) for name, seconds in report.stages.items()]
    bars, legend = "", ""
    for k, (name, ms) in enumerate(timed):
        colour = f"background: {STAGE_COLOURS[k % len(STAGE_COLOURS)]}"
        label = escape(f"{name} {ms:.1f} ms")
        bars += f'<i title="{label}" style="flex: {max(ms, 0.0):.3f}; {colour}"></i>'
        legend += f'<li><i style="{colour}"></i>{label}</li>'
    return f'<div class="bar">{bars}</div><ul class="legend">{legend}</ul>'

"""The sections of a report as rows of text cells, shared by text and HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from activerules.explain.report import Kept, LoopLength, Report, RuleCall, SourceLine

Row = Sequence[str]


def sections(report: Report) -> list[tuple[str, str, list[Row]]]:
    """(title, text if there are no rows, rows) of every section after the lines."""
    here = report.location.file
    calls = _counted([_call(call, here) for call in report.rules])
    rules = ("calls with rules", "none", calls)
    rows: list[Row] = [*report.fallbacks]
    tried = [("refused at first, then done differently", "", rows)] if rows else []
    if report.forward:
        return [rules, *tried]
    return [
        ("loops", "none", _counted([_loop(loop, here) for loop in report.loops])),
        (
            f"kept on the tape; {bytes_of(report.frame_bytes)} of it per call, local memory too",
            "nothing",
            _counted(
                [
                    (where(k.location, here), k.what, _amount(k, here), k.reason)
                    for k in report.cached
                ]
            ),
        ),
        (
            "computed again in the reverse sweep, which costs less than keeping it",
            "nothing",
            [(where(r.location, here), _times(r.what, r.count)) for r in report.recomputed],
        ),
        (
            "arrays kept alive until the reverse sweep",
            "none",
            [(where(p, here), p.text.strip()) for p in report.retained],
        ),
        rules,
        *tried,
    ]


def facts(report: Report) -> list[str]:
    """The report in a few words each."""
    active = sum(line.is_active for line in report.lines)
    phrases = [f"{active} of {len(report.lines)} lines carry derivatives"]
    if not report.forward:
        per_iteration = sum(loop.row_bytes for loop in report.loops)
        phrases.append(
            f"tape: {bytes_of(report.frame_bytes)} per call, "
            f"{bytes_of(per_iteration)} per iteration of {_plural(len(report.loops), 'loop')}"
        )
    fired = sum(call.rule is not None for call in report.rules)
    phrases.append(f"{_plural(fired, 'call')} served by rules")
    phrases.append(f"compiled to IR in {1e3 * sum(report.stages.values()):.0f} ms")
    return phrases


def _plural(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _times(what: str, count: int) -> str:
    return f"{what}, {count} times" if count > 1 else what


def _counted(rows: Sequence[Row]) -> list[Row]:
    """The rows without repetitions, with the number of times added to the second cell."""
    return [
        (location, _times(what, count), *rest)
        for (location, what, *rest), count in Counter(map(tuple, rows)).items()
    ]


def where(location: SourceLine, here: str) -> str:
    """`line 12`, or `file.py:12` for another file than `here`."""
    if location.file == here and location.line:
        return f"line {location.line}"
    return str(location)


def timings(report: Report) -> str:
    """`capture 120.3 ms, normalise 8.1 ms, total 128.4 ms`."""
    total = {"total": sum(report.stages.values())}
    return ", ".join(
        f"{name} {1e3 * seconds:.1f} ms" for name, seconds in {**report.stages, **total}.items()
    )


def _loop(loop: LoopLength, here: str) -> Row:
    length = "length known when it begins" if loop.known else "length unknown until it ends"
    work = f"{bytes_of(loop.row_bytes)} per iteration" if loop.undone else "nothing to undo"
    return where(loop.location, here), f"depth {loop.depth}", length, work


def _call(call: RuleCall, here: str) -> Row:
    written = f"{call.name}({', '.join(call.activities)})" if call.activities else call.name
    without = "its body is differentiated" if call.followed else "no rule needed"
    return where(call.location, here), written, call.rule or f"{without}: {call.reason}"


def _amount(value: Kept, here: str) -> str:
    per = "call" if value.loop is None else f"iteration of the loop at {where(value.loop, here)}"
    if value.read_in is not None:
        per = f"entry that the loop at {where(value.read_in, here)} reads, per {per}"
    return f"{bytes_of(value.bytes)} per {per}"


def bytes_of(size: int) -> str:
    """`1 byte`, `8 bytes`."""
    return _plural(size, "byte")

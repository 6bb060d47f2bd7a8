"""Assignments of whole records become copies of bytes.

Needs       the text of a module before LLVM's passes
Gives       `as_copies`: loads of `[n x i8]` that the next instruction stores are `llvm.memmove`
Invariants  B1  the same bytes are copied; no instruction runs between load and store

Numba assigns a record as one value, an array of bytes. LLVM would split it into loads and stores of
single bytes, among which floats are no longer recognised; in a copy they are.
"""

from __future__ import annotations

import re

_MOVED = re.compile(
    r"^  (?P<value>%\S+) = load \[(?P<size>\d+) x i8\], ptr (?P<source>[%@][^\s,]+)"
    r"(?P<read>, align \d+)?(?:, !dbg !\d+)?\n"
    r"  store \[(?P=size) x i8\] (?P=value), ptr (?P<target>[%@][^\s,]+)"
    r"(?P<write>, align \d+)?(?P<debug>, !dbg !\d+)?\n",
    re.MULTILINE,
)
_DECLARED = "declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1 immarg)"


def as_copies(text: str) -> str:
    """The text with assignments of whole records replaced by `llvm.memmove`."""
    if " x i8], ptr " not in text:
        return text
    changed = _MOVED.sub(_copy, text)
    if changed == text or "@llvm.memmove.p0.p0.i64(" in text:
        return changed
    return f"{changed}\n{_DECLARED}\n"


def _copy(match: re.Match[str]) -> str:
    """The load, whose value may have other uses, followed by the copy."""
    target, source = (
        f"ptr{(match[side] or '').replace(',', '')} {match[name]}"
        for side, name in (("write", "target"), ("read", "source"))
    )
    copy = (
        f"  call void @llvm.memmove.p0.p0.i64({target}, {source}, i64 {match['size']}, i1 false)"
        f"{match['debug'] or ''}\n"
    )
    load = match[0].partition("\n")[0] + "\n"
    return load + copy

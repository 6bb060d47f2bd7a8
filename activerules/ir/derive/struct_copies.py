"""Copies whose length is known at run time alone: the text of functions that undo those of structs,
and tell where one ended inside of a float.

Their names tell what they do: `activerules.undo_rows.24.0d.8d.20f` is for structs of 24 bytes with
a double at offsets 0 and 8 and a float at 20. What a copy ends inside of is not moved; there
`activerules.cut_row.24.0d.8d.20f` puts NaN into shadow memory, since no derivative is right.
"""

from __future__ import annotations

from activerules.ir.analysis.copies import Rows
from activerules.ir.types import DOUBLE

UNDO_ROWS = "activerules.undo_rows."
CUT_ROW = "activerules.cut_row."
_TYPES = {"d": ("double", 8), "f": ("float", 4)}

_LOOP = """
; shadow of a copy undone: what was written to %to is added to %from, and %to is cleared; the ranges
; may overlap, by whole structs
define internal void @NAME(ptr %to, ptr %from, i64 %bytes) nounwind {
entry:
  %more = add i64 %bytes, LESS
  %count = udiv i64 %more, PERIOD
  %to.int = ptrtoint ptr %to to i64
  %from.int = ptrtoint ptr %from to i64
  %up = icmp ule i64 %to.int, %from.int
  %none = icmp eq i64 %count, 0
  br i1 %none, label %end, label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %next ]
  %k.next = add i64 %k, 1
  %down = sub i64 %count, %k.next
  %row = select i1 %up, i64 %down, i64 %k
  %start = mul i64 %row, PERIOD
  br label %field0
FIELDS
next:
  %on = icmp ne i64 %k.next, %count
  br i1 %on, label %loop, label %end
end:
  ret void
}
"""

_FIELD = """
fieldK:
  %at.K = add i64 %start, OFFSET
  %end.K = add i64 %at.K, SIZE
  %inside.K = icmp ule i64 %end.K, %bytes
  br i1 %inside.K, label %moved.K, label %FOLLOWING
moved.K:
  %p.K = getelementptr i8, ptr %to, i64 %at.K
  %g.K = load TYPE, ptr %p.K, align 1
  store TYPE 0.0, ptr %p.K, align 1
  %q.K = getelementptr i8, ptr %from, i64 %at.K
  %old.K = load TYPE, ptr %q.K, align 1
  %new.K = fadd TYPE %old.K, %g.K
  store TYPE %new.K, ptr %q.K, align 1
  br label %FOLLOWING
"""


_CUT = """
; shadow memory of which %bytes bytes were copied or cleared: a float that they end inside of
; becomes NaN
define internal void @NAME(ptr %place, i64 %bytes) nounwind {
entry:
  %rest = urem i64 %bytes, PERIOD
  %row = sub i64 %bytes, %rest
  br label %field0
FIELDS
next:
  ret void
}
"""

_CUT_FIELD = """
fieldK:
  %behind.K = sub i64 %rest, FIRST
  %cut.K = icmp ult i64 %behind.K, LAST
  br i1 %cut.K, label %set.K, label %FOLLOWING
set.K:
  %at.K = add i64 %row, OFFSET
  %p.K = getelementptr i8, ptr %place, i64 %at.K
  store TYPE 0x7FF8000000000000, ptr %p.K, align 1
  br label %FOLLOWING
"""


def undo_rows_name(rows: Rows) -> str:
    """The name of the function that undoes a copy."""
    return UNDO_ROWS + _described(rows)


def cut_name(rows: Rows) -> str:
    """The name of the function that tells where a copy ended inside of a float."""
    return CUT_ROW + _described(rows)


def _described(rows: Rows) -> str:
    fields = (f"{p.offset}{'d' if p.type == DOUBLE else 'f'}" for p in rows.floats)
    return ".".join([str(rows.period), *fields])


def rows_function(name: str) -> str:
    """The text of a function by its name; "" if it is none of these."""
    if name.startswith(UNDO_ROWS):
        return _text(name, name.removeprefix(UNDO_ROWS), _LOOP, _FIELD)
    if name.startswith(CUT_ROW):
        return _text(name, name.removeprefix(CUT_ROW), _CUT, _CUT_FIELD)
    return ""


def _text(name: str, described: str, whole: str, part: str) -> str:
    """Without a period there is one struct, longer than all that is copied."""
    period, *fields = described.split(".")
    texts: list[str] = []
    for k, field in enumerate(fields):
        t, size = _TYPES[field[-1]]
        changes = {
            "FOLLOWING": f"field{k + 1}" if k + 1 < len(fields) else "next",
            "FIRST": str(int(field[:-1]) + 1),
            "LAST": str(size - 1),
            "OFFSET": field[:-1],
            "SIZE": str(size),
            "TYPE": t,
            ".K": f".{k}",
            "fieldK": f"field{k}",
        }
        text = part
        for old, new in changes.items():
            text = text.replace(old, new)
        texts.append(text)
    step = int(period) or 1 << 62
    text = whole.replace("NAME", name).replace("FIELDS", "".join(texts))
    return text.replace("LESS", str(step - 1)).replace("PERIOD", str(step))

"""Copies whose length is known only at run time: the text of functions that reverse copies of
floats or structs, and mark floats that a copy has cut with NaN.

Their names encode the layout: `activerules.undo_rows.24.0d.8d.20f` is for structs of 24 bytes with
a double at offsets 0 and 8 and a float at 20, `activerules.undo_rows.8.0d` for doubles side by
side. The cotangent of a float inside which a copy ends is not moved;
`activerules.cut_row.24.0d.8d.20f` stores NaN in its shadow, since it has no derivative.
`activerules.cut_ends.double` does the same for copies that may begin anywhere among floats, each of
which is at a multiple of its size: if source or target begins inside a float, every float of the
target consists of parts of two.
"""

from __future__ import annotations

from activerules.ir.analysis.types.copies import PeriodicCopy
from activerules.ir.llvm.types import DOUBLE, Type

UNDO_ROWS = "activerules.undo_rows."
CUT_ROW = "activerules.cut_row."
CUT_ENDS = "activerules.cut_ends."
_TYPES = {"d": ("double", 8), "f": ("float", 4)}

_LOOP = """
; shadow of a copy undone: what was written to %to is added to %from, and %to is cleared; the ranges
; may overlap, by whole structs; the sum of two zeros is +0.0 if both are, else -0.0, which in some
; arrays says that a float was used
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
CHECK  %p.K = getelementptr i8, ptr %to, i64 %at.K
  %g.K = load TYPE, ptr %p.K, align 1
  store TYPE 0.0, ptr %p.K, align 1
  %q.K = getelementptr i8, ptr %from, i64 %at.K
  %old.K = load TYPE, ptr %q.K, align 1
  %negated.K = fneg TYPE %old.K
  %sum.K = fsub TYPE %negated.K, %g.K
  %new.K = fneg TYPE %sum.K
  store TYPE %new.K, ptr %q.K, align 1
  br label %FOLLOWING
"""

_CHECK = """\
  %end.K = add i64 %at.K, SIZE
  %inside.K = icmp ule i64 %end.K, %bytes
  br i1 %inside.K, label %moved.K, label %FOLLOWING
moved.K:
"""

_CUT = """
; shadow memory of which %bytes bytes were copied or cleared: a float that they end inside of
; becomes NaN
define internal void @NAME(ptr %shadow, ptr %other, i64 %bytes) nounwind {
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
  %p.K = getelementptr i8, ptr %shadow, i64 %at.K
  store TYPE 0x7FF8000000000000, ptr %p.K, align 1
  br label %FOLLOWING
"""

_ENDS = """
; shadow memory of which %bytes bytes were copied or cleared, of the target or source of a copy;
; %other is that of the other one: floats that were cut become NaN
define internal void @NAME(ptr %shadow, ptr %other, i64 %bytes) nounwind {
entry:
  %shadow.int = ptrtoint ptr %shadow to i64
  %other.int = ptrtoint ptr %other to i64
  %both = or i64 %shadow.int, %other.int
  %off = and i64 %both, LESS
  %inside = icmp ne i64 %off, 0
  %end = add i64 %shadow.int, %bytes
  %below = and i64 %shadow.int, -SIZE
  %up = add i64 %end, LESS
  %above = and i64 %up, -SIZE
  %cut = icmp ne i64 %end, %above
  %last = sub i64 %above, SIZE
  %since = select i1 %cut, i64 %last, i64 %above
  %start = select i1 %inside, i64 %below, i64 %since
  %any = icmp ne i64 %bytes, 0
  %some = icmp ne i64 %start, %above
  %enter = and i1 %any, %some
  br i1 %enter, label %loop, label %done
loop:
  %at = phi i64 [ %start, %entry ], [ %next, %loop ]
  %ahead = sub i64 %at, %shadow.int
  %p = getelementptr i8, ptr %shadow, i64 %ahead
  store TYPE 0x7FF8000000000000, ptr %p, align 1
  %next = add i64 %at, SIZE
  %more = icmp ne i64 %next, %above
  br i1 %more, label %loop, label %done
done:
  ret void
}
"""


def undo_name(moved: Type | PeriodicCopy) -> str:
    """The name of the function that reverses a copy of floats of one type, or of structs.

    It takes the shadows of target and source, and the length.
    """
    if isinstance(moved, PeriodicCopy):
        return UNDO_ROWS + _described(moved)
    return UNDO_ROWS + ("8.0d" if moved == DOUBLE else "4.0f")


def cut_name(cut: Type | PeriodicCopy) -> str:
    """The name of the function that marks those of these floats with NaN that a copy has cut.

    It takes the shadow of one end, that of the other, and the length.
    """
    return CUT_ROW + _described(cut) if isinstance(cut, PeriodicCopy) else f"{CUT_ENDS}{cut}"


def _described(rows: PeriodicCopy) -> str:
    fields = (f"{p.offset}{'d' if p.type == DOUBLE else 'f'}" for p in rows.floats)
    return ".".join([str(rows.period), *fields])


def rows_function(name: str) -> str:
    """The text of a function by its name; "" for any other name."""
    if name.startswith(UNDO_ROWS):
        return _text(name, name.removeprefix(UNDO_ROWS), _LOOP, _FIELD)
    if name.startswith(CUT_ROW):
        return _text(name, name.removeprefix(CUT_ROW), _CUT, _CUT_FIELD)
    if name.startswith(CUT_ENDS):
        kind = name.removeprefix(CUT_ENDS)
        size = 8 if kind == str(DOUBLE) else 4
        text = _ENDS.replace("NAME", name).replace("TYPE", kind)
        return text.replace("LESS", str(size - 1)).replace("SIZE", str(size))
    return ""


def _text(name: str, described: str, whole: str, part: str) -> str:
    """The text for a layout; without a period it is one struct, longer than any copy."""
    period, *fields = described.split(".")
    # a float that fills the period is never cut: the number of bytes is rounded down
    is_filled = described in ("8.0d", "4.0f")
    texts: list[str] = []
    for k, field in enumerate(fields):
        t, size = _TYPES[field[-1]]
        changes = {
            "CHECK": "" if is_filled else _CHECK,
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
    return text.replace("LESS", str(0 if is_filled else step - 1)).replace("PERIOD", str(step))

"""Bounds of integers: the names of the values end in the bounds they have, or in `open`."""

from activerules.ir.analysis.memory.bounds import bounds_of, most_repeats
from activerules.ir.llvm.parser import parse_module

COUNTED = """
define void @f(ptr %a, i64 %n, i1 %c) {
entry:
  br label %loop
loop:
  %k.0.2 = phi i64 [ 0, %entry ], [ %k.next.1.3, %loop ]
  %j.5.9 = phi i32 [ %j.next.7.11, %loop ], [ 5, %entry ]
  %free.open = phi i64 [ 0, %entry ], [ %free.next.open, %loop ]
  %p = phi ptr [ %a, %entry ], [ %p.next, %loop ]
  %k.next.1.3 = add i64 %k.0.2, 1
  %j.next.7.11 = add i32 2, %j.5.9
  %free.next.open = add i64 %free.open, 1
  %p.next = getelementptr i8, ptr %p, i64 8
  %wide.5.9 = sext i32 %j.5.9 to i64
  %bytes.0.48 = mul i64 %k.0.2, 24
  %back.-2.0 = mul i64 %k.0.2, -1
  %bits.40.72 = shl i64 %wide.5.9, 3
  %both.5.11 = add i64 %wide.5.9, %k.0.2
  %sum.open = add i64 %k.0.2, %n
  %wraps.open = mul i32 %j.5.9, 300000000
  %out = icmp LEFT
  br i1 %out, label %TO, label %ELSE
end:
  ret void
}
"""


def loops(left, to="end", other="loop"):
    text = COUNTED.replace("LEFT", left).replace("%TO", f"%{to}").replace("%ELSE", f"%{other}")
    return [i for i in parse_module(text).functions["f"].instructions() if i.name]


def is_counter(i, name):
    return i.name.startswith(f"{name}.")


def named_bounds(i):
    ends = i.name.rsplit(".", 2)
    return None if ends[-1] == "open" else (int(ends[-2]), int(ends[-1]))


def test_b1_values_that_are_counted_to_a_constant():
    by_k = loops("eq i64 %k.next.1.3, 3")
    for i in (i for i in by_k if is_counter(i, "k") or i.name[:4] in {"byte", "back"}):
        assert bounds_of(i) == named_bounds(i), i
    by_j = loops("ne i32 %j.next.7.11, 11", "loop", "end")
    for i in (i for i in by_j if is_counter(i, "j") or i.name[:4] in {"wide", "bits", "wrap"}):
        assert bounds_of(i) == named_bounds(i), i
    for i in (*by_k, *by_j):
        if i.name.endswith("open"):
            assert bounds_of(i) is None, i


def test_b1_other_loops_bound_nothing():
    for left, *blocks in (
        ("eq i64 %k.next.1.3, %n",),
        ("eq i64 %k.next.1.3, 0",),
        ("eq i64 %k.next.1.3, -1",),
        ("eq i64 %k.next.1.3, 3", "loop", "end"),
        ("ne i64 %k.next.1.3, 3",),
        ("eq i32 %j.next.7.11, 10",),
        ("eq i64 %k.0.2, 3",),
        ("ugt i64 %k.next.1.3, 3",),
    ):
        found = loops(left, *blocks)
        assert not [i for i in found if is_counter(i, "k") and bounds_of(i)], left
        assert not [i for i in found if is_counter(i, "j") and bounds_of(i)], left


def test_b2_repeats_of_the_loop_of_a_pointer():
    pointers = [i for i in loops("eq i64 %k.next.1.3, 3") if i.name == "p"]
    assert [most_repeats(p) for p in pointers] == [2]
    pointers = [i for i in loops("eq i64 %k.next.1.3, %n") if i.name == "p"]
    assert [most_repeats(p) for p in pointers] == [None]

"""What loops only carry along until a select replaces it leaves them, where nothing can tell."""

import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.carried import uncarry
from tests.ir.interpreter import Interpreter

NEST = """
define void @f(ptr %a, i64 %n, i64 %m) {{
entry:
  {outside}
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %next, %end.row ]
  %row = phi i64 [ {start}, %entry ], [ %left, %end.row ]
  {between}
  br label %columns
columns:
  %j = phi i64 [ 0, %rows ], [ %next.j, %columns ]
  %old = phi i64 [ %row, %rows ], [ %k, %columns ]
  {inside}
  %k = select i1 %c, i64 {values}
  %p = getelementptr double, ptr %a, i64 %k
  %again = select i1 %c, i64 {values}
  %q = getelementptr double, ptr %a, i64 %again
  %x = load double, ptr %p
  %y = fadd double %x, 1.0
  store double %y, ptr %q
  %next.j = add nuw nsw i64 %j, 1
  %done.j = icmp eq i64 %next.j, 3
  br i1 %done.j, label %end.row, label %columns
end.row:
  %left = phi i64 [ {left}, %columns ]
  %next = add nuw nsw i64 %i, 1
  %done = icmp eq i64 %next, 4
  br i1 %done, label %end, label %rows
end:
  ret void
}}
"""
PLAIN = {
    "outside": "%c = icmp ugt i64 %n, 1",
    "start": "7",
    "between": "",
    "inside": "",
    "values": "%j, i64 %old",
    "left": "%k",
}


def left_by(function, n, m):
    run = Interpreter(function)
    assert run.run([("a", 0), n, m])
    return run.memory


def rewritten(changes):
    """The function after the rewrite, which must leave the same in memory."""
    text = NEST.format(**{**PLAIN, **changes})
    module = parse_module(text)
    uncarry(module)
    function = module.functions["f"]
    for n in (0, 1, 2):
        for m in (0, 1, 2):
            before = left_by(parse_module(text).functions["f"], n, m)
            assert left_by(function, n, m) == before
    return function


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"values": "%old, i64 %j"},
        {"inside": "%other = select i1 %c, i64 %i, i64 %old", "values": "%j, i64 %other"},
        {"left": "7"},
        {"start": "%m"},
    ],
)
def test_u1_what_is_carried_from_one_start_is_that_start(changes):
    function = rewritten(changes)
    names = {i.name for i in function.instructions()}
    assert names.isdisjoint({"row", "old", "left", "again", "q"})
    assert {"i", "j", "k", "p"} <= names


@pytest.mark.parametrize(
    "changes",
    [
        {"left": "%i"},
        {"left": "8"},
        {"outside": "", "between": "%c = icmp ugt i64 %i, 1"},
        {"outside": "", "inside": "%c = icmp ugt i64 %j, 1"},
        {
            "outside": "%c = icmp ugt i64 %n, 1\n  %d = icmp ugt i64 %m, 1",
            "inside": "%other = select i1 %d, i64 %i, i64 %old",
            "values": "%j, i64 %other",
        },
        {
            "inside": "%other = select i1 %c, i64 %old, i64 %i",
            "values": "%j, i64 %other",
        },
    ],
)
def test_u1_other_carried_values_stay(changes):
    assert {"row", "old", "left", "k"} <= {i.name for i in rewritten(changes).instructions()}

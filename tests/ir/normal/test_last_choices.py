"""What a loop only compares until it ends is computed after it, with the same bits."""

import ctypes
import struct

import numpy as np
import pytest

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.last_choices import compute_after
from tests.ir.harness import Const, Duplicated, check_gradient, compile_text

# the greatest of a[i] * a[i] - a[i]
LOOP = """
define double @f(ptr %a, i64 %n) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %best = phi double [ {start}, %entry ], [ %next, %latch ]
  %p = getelementptr double, ptr %a, i64 %i
  %x = load double, ptr %p
  %square = fmul {flags} double %x, %x
  %v = fsub double %square, %x
  {more}
  %better = fcmp {compare} double %v, %best
  {choice}
latch:
  {next}
  {use}
  %i.next = add nuw nsw i64 %i, 1
  %on = icmp slt i64 %i.next, %n
  br i1 %on, label %loop, label %end
end:
  %r = phi double [ %next, %latch ]
  ret double %r
}}
declare double @sin(double)
"""
SELECT = {
    "start": "0xFFF0000000000000",
    "flags": "",
    "more": "",
    "compare": "ogt",
    "choice": "br label %latch",
    "next": "%next = select i1 %better, double %v, double %best",
    "use": "",
}
BRANCH = {
    "choice": "br i1 %better, label %take, label %latch\ntake:\n  br label %latch",
    "next": "%next = phi double [ %best, %loop ], [ %v, %take ]",
}
# the smallest entry of a matrix with rows of 3, and a way out at the first entry above 9
NEST = """
define double @f(ptr %a, i64 %n) {
entry:
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %end.row ]
  %best = phi double [ 8.0, %entry ], [ %row, %end.row ]
  %first = mul i64 %i, 3
  br label %columns
columns:
  %j = phi i64 [ 0, %rows ], [ %j.next, %go.on ]
  %least = phi double [ %best, %rows ], [ %next, %go.on ]
  %k = add i64 %first, %j
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
  %stop = fcmp ogt double %x, 9.0
  br i1 %stop, label %out, label %go.on
go.on:
  %less = fcmp olt double %x, %least
  %next = select i1 %less, double %x, double %least
  %j.next = add nuw nsw i64 %j, 1
  %more = icmp slt i64 %j.next, 3
  br i1 %more, label %columns, label %end.row
end.row:
  %row = phi double [ %next, %go.on ]
  %i.next = add nuw nsw i64 %i, 1
  %again = icmp slt i64 %i.next, %n
  br i1 %again, label %rows, label %end
out:
  %early = phi double [ %least, %columns ]
  %negative = fneg double %early
  ret double %negative
end:
  %r = phi double [ %row, %end.row ]
  ret double %r
}
"""
# the greatest sum of the squares of a row; rows that begin with a negative number are passed over
SUMS = """
define double @f(ptr %a, i64 %n) {{
entry:
  %none = icmp eq i64 %n, 0
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %best = phi double [ -1.0, %entry ], [ %next, %latch ]
  %first = mul i64 %i, 3
  %q = getelementptr double, ptr %a, i64 %first
  %y = load double, ptr %q
  %negative = fcmp olt double %y, 0.0
  br i1 %negative, label %latch, label %row
row:
  br i1 %none, label %merge, label %columns
columns:
  %j = phi i64 [ 0, %row ], [ %j.next, %columns.latch ]
  %sum = phi double [ %y, %row ], [ %sum.next, %columns.latch ]
  %k = add i64 %first, %j
  %p = getelementptr double, ptr %a, i64 %k
  %x = load double, ptr %p
  {inner}
columns.latch:
  %term = phi double {terms}
  %sum.next = fadd double %sum, %term
  %j.next = add nuw nsw i64 %j, 1
  %more = icmp slt i64 %j.next, %n
  br i1 %more, label %columns, label %end.row
end.row:
  %whole = phi double [ %sum.next, %columns.latch ]
  br label %merge
merge:
  %v = phi double [ 0.5, %row ], [ %whole, %end.row ]
  %better = fcmp ogt double %v, %best
  %chosen = select i1 %better, double %v, double %best
  br label %latch
latch:
  %next = phi double [ %best, %rows ], [ %chosen, %merge ]
  %i.next = add nuw nsw i64 %i, 1
  %on = icmp slt i64 %i.next, %n
  br i1 %on, label %rows, label %end
end:
  %r = phi double [ %next, %latch ]
  ret double %r
}}
"""
SQUARE = "%square = fmul double %x, %x\n  br label %columns.latch"
SQUARES = SUMS.format(inner=SQUARE, terms="[ %square, %columns ]")
BRANCHES = SUMS.format(
    inner="""%positive = fcmp ogt double %x, 0.0
  br i1 %positive, label %take, label %leave
take:
  %square = fmul double %x, %x
  br label %columns.latch
leave:
  br label %columns.latch""",
    terms="[ %square, %take ], [ %x, %leave ]",
)
SWITCH = SUMS.format(
    inner="""%square = fmul double %x, %x
  switch i64 %j, label %columns.latch [
    i64 1, label %second
    i64 2, label %third
  ]
second:
  br label %columns.latch
third:
  %cube = fmul double %square, %x
  br label %columns.latch""",
    terms="[ %square, %columns ], [ %x, %second ], [ %cube, %third ]",
)
ARRAYS = [
    [0.5] * 9,
    [3.0, -2.0, 3.0, -2.0, 1.0, 0.0, 5.0, 5.0, -4.0],
    [np.nan, 1.0, np.nan, 2.0, -0.0, 0.0, 7.0, -7.0, np.nan],
    [-0.0, 0.0, 1.0, 1e308, -1e308, np.inf, 8.0, 8.5, 2.0],
    [1.0, 2.0, -3.0, 4.0, 9.5, -5.0, -6.0, -7.0, -8.0],
]


def of_loop(**changes):
    return LOOP.format(**{**SELECT, **changes})


def rewritten(text):
    """The function after the rewrite, or None where it is not done; it must compute the same."""
    module = parse_module(text)
    compute_after(module)
    changed = print_module(module) != print_module(parse_module(text))
    before, after = (compile_text(t, None).function("f") for t in (text, print_module(module)))
    for numbers in ARRAYS:
        a = np.array(numbers)
        for n in (1, 2, 3):
            results = [f(a.ctypes.data, ctypes.c_int64(n)) for f in (before, after)]
            assert struct.pack("d", results[0]) == struct.pack("d", results[1])
    return module.functions["f"] if changed else None


def floats_that_leave(function):
    """Floats of loops that are used outside."""
    flow = control_flow(function)
    inside = {i for loop in flow.loops for b in loop.blocks for i in b.instructions}
    return [i for i in inside if i.type.is_float and not inside.issuperset(flow.users.get(i, ()))]


@pytest.mark.parametrize("compare", ["ogt", "olt", "ugt", "ult", "oge", "une"])
@pytest.mark.parametrize("choice", [{}, BRANCH], ids=["select", "branch"])
@pytest.mark.parametrize("start", ["0xFFF0000000000000", "0.0", "-0.0"])
def test_the_candidate_chosen_last_is_computed_after_the_loop(compare, choice, start):
    function = rewritten(of_loop(compare=compare, start=start, **choice))
    assert function is not None
    [end] = [b for b in function.blocks if b.terminator.opcode == "ret"]
    [result] = [p for p in end.phis]
    assert [getattr(o, "opcode", "start") for o in result.operands] == ["start", "fsub"]


def test_the_choice_may_be_the_other_way_round():
    kept = "%next = select i1 %better, double %best, double %v"
    assert rewritten(of_loop(compare="ult", next=kept)) is not None


def test_known_functions_are_computed_again():
    more = "%w = call double @sin(double %v)"
    kept = "%next = select i1 %better, double %w, double %best"
    assert rewritten(of_loop(more=more, next=kept)) is not None


def test_the_least_and_the_greatest():
    more = "%least = phi double [ 1.0, %entry ], [ %less, %latch ]"
    text = of_loop(
        next="%next = select i1 %better, double %v, double %best\n"
        "  %smaller = fcmp olt double %v, %least\n"
        "  %less = select i1 %smaller, double %v, double %least"
    )
    text = text.replace("%best = phi", f"{more}\n  %best = phi").replace(
        "ret double %r",
        "%l = phi double [ %less, %latch ]\n  %d = fsub double %r, %l\n  ret double %d",
    )
    function = rewritten(text)
    assert function is not None
    assert floats_that_leave(function) == []


def test_nested_loops_and_other_exits():
    function = rewritten(NEST)
    assert function is not None
    assert floats_that_leave(function) == []


@pytest.mark.parametrize("text", [SQUARES, BRANCHES, SWITCH], ids=["sums", "branches", "switch"])
def test_a_candidate_that_is_the_result_of_a_loop(text):
    function = rewritten(text)
    assert function is not None
    [search] = [loop for loop in control_flow(function).loops if "rows" in loop.header.name]
    inside = {i for block in search.blocks for i in block.instructions}
    users = control_flow(function).users
    leaving = [i for i in inside if not inside.issuperset(users.get(i, ()))]
    assert leaving
    assert not any(i.type.is_float for i in leaving)


@pytest.mark.parametrize(
    "text",
    [of_loop(), of_loop(**BRANCH), NEST, SQUARES, BRANCHES, SWITCH],
    ids=["select", "branch", "nest", "sums", "branches", "switch"],
)
@pytest.mark.parametrize("far", [0.0, 9.5])
def test_k1_the_gradient_is_that_of_finite_differences(text, far):
    a = np.random.default_rng(3).normal(size=9)
    a[4] += far
    check_gradient(text, "f", [Duplicated, Const], [a, 3])


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"use": "store double %x, ptr %a"}, id="the loop writes memory"),
        pytest.param({"use": "store volatile double 1.0, ptr %a"}, id="volatile"),
        pytest.param({"more": "%w = call double @unknown(double %x)"}, id="unknown call"),
        pytest.param({"flags": "contract"}, id="may be fused with the difference"),
        pytest.param({"compare": "nnan ogt"}, id="vectorised"),
        pytest.param({"more": "%w = fadd double %best, %x"}, id="the best is used"),
        pytest.param(
            {
                "next": "%w = fmul double %best, 0.5\n"
                "  %next = select i1 %better, double %v, double %w"
            },
            id="the best fades",
        ),
        pytest.param(
            {
                "next": "%half = select i1 %better, double %v, double %best\n"
                "  %far = icmp eq i64 %i, 4\n"
                "  %next = select i1 %far, double %x, double %half"
            },
            id="two candidates",
        ),
    ],
)  # fmt: skip
def test_where_it_is_not_sure_or_does_not_pay_nothing_changes(changes):
    text = of_loop(**changes) + "declare double @unknown(double)\n"
    module = parse_module(text)
    compute_after(module)
    assert print_module(module) == print_module(parse_module(text))


def test_sums_that_end_where_they_can_no_longer_be_the_best_stay():
    """Which terms they have depends on the candidates before."""
    inner = "%square = fmul double %x, %x\n  %less = fcmp olt double %sum, %best\n"
    branch = "  br i1 %less, label %merge, label %columns.latch"
    text = SUMS.format(inner=inner + branch, terms="[ %square, %columns ]")
    text = text.replace("[ %whole, %end.row ]", "[ %whole, %end.row ], [ %sum, %columns ]")
    assert rewritten(text) is None

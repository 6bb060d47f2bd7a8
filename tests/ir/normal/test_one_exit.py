"""Loops that are left by two equal tests are left by one, and compute what they computed."""

import ctypes

import numpy as np
import pytest

from activerules.ir.analysis.loops.trip_counts import analyse_loops
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.one_exit import leave_once
from activerules.ir.text.normalise import simple_loops
from tests.ir.harness import compile_text

PROGRAM = """
define double @f(ptr %a, i64 %n, i64 %m) {{
entry:
  %c = icmp sgt i64 %m, 4
  br label %begin
begin:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %s = phi double [ 0.0, %entry ], [ %s.next, %latch ]
  %p = getelementptr double, ptr %a, i64 %i
  %x = load double, ptr %p
  {condition}
  br i1 %cond, label %left, label %right
left:
  %u = fadd double %s, %x
  %l.next = add nuw nsw i64 %i, 1
  %l.test = icmp {predicate} i64 %l.next, %n
  br i1 %l.test, label {left_targets}
right:
  %t = fmul double %x, %x
  %v = fsub double %s, %t
  {right_test}
  br i1 %r.test, label {right_targets}
latch:
  %i.next = phi i64 [ %l.next, %left ], [ %r.next, %right ]
  %s.next = phi double [ %u, %left ], [ %v, %right ]
  br label %begin
one:
  %u.out = phi double [ %u, %left ]
  %i.out = phi i64 [ %l.next, %left ]
  store double 7.0, ptr %a
  %k = sitofp i64 %i.out to double
  %first = fadd double %u.out, %k
  br label %end
other:
  %v.out = phi double [ %v, %right ]
  %j.out = phi i64 [ %i, %right ]
  %j = sitofp i64 %j.out to double
  %second = fadd double %v.out, %j
  br label %end
end:
  %result = phi double [ %first, %one ], [ %second, %other ]
  ret double %result
}}
"""
OUT_FIRST = {
    "predicate": "eq",
    "left_targets": "%one, label %latch",
    "right_targets": "%other, label %latch",
}
OUT_LAST = {
    "predicate": "ult",
    "left_targets": "%latch, label %one",
    "right_targets": "%latch, label %other",
}
INVARIANT = "%cond = and i1 %c, true"
VARYING = "%cond = fcmp ogt double %x, %s"
EQUAL = "%r.next = add nuw nsw i64 %i, 1\n  %r.test = icmp {predicate} i64 %r.next, %n"


def text_of(ends, condition=INVARIANT, right=EQUAL):
    right_test = right.format(**ends)
    return PROGRAM.format(condition=condition, right_test=right_test, **ends)


def values_of(text):
    """Bits of the result and of the array, for several sizes and both conditions."""
    function = compile_text(text, None).function("f")
    found = []
    for n in (1, 2, 7):
        for m in (3, 5):
            a = np.random.default_rng(n).normal(size=8)
            result = function(a.ctypes.data, ctypes.c_int64(n), ctypes.c_int64(m))
            found.append((np.float64(result).tobytes(), a.tobytes()))
    return found


@pytest.mark.parametrize("condition", [INVARIANT, VARYING])
@pytest.mark.parametrize("ends", [OUT_FIRST, OUT_LAST])
def test_l1_what_is_computed_keeps_its_bits_and_the_length_is_known(ends, condition):
    text = text_of(ends, condition)
    module = parse_module(text)
    assert leave_once(module)
    after = simple_loops(print_module(module))
    assert values_of(after) == values_of(text)
    function = parse_module(after).functions["f"]
    flow = control_flow(function)
    loops = analyse_loops(flow, analyse_returns(function, flow, status=False))
    assert [facts.trip_count is not None for facts in loops.values()] == [True]


@pytest.mark.parametrize(
    "right",
    [
        "%r.next = add nuw nsw i64 %i, 2\n  %r.test = icmp {predicate} i64 %r.next, %n",
        "%r.next = add i64 %i, 1\n  %r.test = icmp {predicate} i64 %r.next, %n",
        "%r.next = add nuw nsw i64 %i, 1\n  %r.test = icmp sge i64 %r.next, %n",
        "%r.next = add nuw nsw i64 %i, 1\n  %r.test = icmp {predicate} i64 %r.next, %m",
        "%r.next = add nuw nsw i64 %i, 1\n  %r.test = fcmp olt double %t, 3.0",
    ],
)
def test_tests_that_are_not_equal_stay(right):
    assert not leave_once(parse_module(text_of(OUT_FIRST, right=right)))


def test_opposite_tests_stay():
    ends = {**OUT_FIRST, "right_targets": "%latch, label %other"}
    assert not leave_once(parse_module(text_of(ends)))


def test_branches_outside_of_loops_stay():
    text = text_of(OUT_FIRST).replace("br label %begin\none:", "br label %end\none:")
    text = text.replace("[ %second, %other ]", "[ %second, %other ], [ %s.next, %latch ]")
    text = text.replace("[ 0, %entry ], [ %i.next, %latch ]", "[ 0, %entry ]")
    text = text.replace("[ 0.0, %entry ], [ %s.next, %latch ]", "[ 0.0, %entry ]")
    assert not leave_once(parse_module(text))

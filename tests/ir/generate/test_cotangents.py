"""Cotangents of values that are used on several paths, anew in each iteration, or not at all."""

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Active, Const, check_gradient, compile_text

# `y` is used on either side of a branch, or on both, and made again in each iteration
PATHS = """
define double @f(double %x, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %s = phi double [ %x, %entry ], [ %t, %latch ]
  %y = fmul double %s, %x
  %odd = and i64 %i, 1
  %is.odd = icmp eq i64 %odd, 1
  br i1 %is.odd, label %one, label %other
one:
  %a = fmul double %y, %y
  br label %latch
other:
  %b = fadd double %s, 1.0
  br label %latch
latch:
  %t = phi double [ %a, %one ], [ %b, %other ]
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  %r = phi double [ %t, %latch ]
  %z = phi double [ %y, %latch ]
  %u = fadd double %r, %z
  ret double %u
}
"""
SPECULATED = """
define double @f(double %x) {
  %root = call double @llvm.sqrt.f64(double %x)
  %scaled = fmul double %root, 2.0
  %positive = fcmp POSITIVE double %x, 0.0
  %r = select i1 %positive, double %scaled, double 3.0
  ret double %r
}
declare double @llvm.sqrt.f64(double)
"""
CALL = """
define double @slope(double %x) {
  %s = call { double } @f.gradient(double %x, double 1.0)
  %d = extractvalue { double } %s, 0
  ret double %d
}
"""


@pytest.mark.parametrize("n", [1, 2, 5])
def test_b1_b2_cotangents_are_taken_once_on_every_path(n):
    for opt in (0, 2):
        check_gradient(PATHS, "f", [Active, Const], [0.8, n], opt=opt)


def test_b3_a_slope_the_program_did_not_ask_for_is_left_out():
    for predicate, at_zero in (("ogt", 0.0), ("oge", np.inf)):
        text = SPECULATED.replace("POSITIVE", predicate)
        slope = compile_text(differentiate(text, "f", [Active]) + CALL).function("slope")
        assert slope(0.0) == at_zero
        assert slope(4.0) == 0.5


# two inner loops add to the cotangent of `y`, one of them not at all where `n` is odd
SEVERAL_LOOPS = """
define double @f(double %x, i64 %n) {
entry:
  %y = fmul double %x, %x
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i.next, %latch ]
  %s = phi double [ 0.0, %entry ], [ %w, %latch ]
  br label %first
first:
  %j = phi i64 [ 0, %outer ], [ %j.next, %first ]
  %t = phi double [ %s, %outer ], [ %t.next, %first ]
  %a = fmul double %y, 0.3
  %b = fmul double %t, %a
  %t.next = fadd double %b, %y
  %j.next = add i64 %j, 1
  %j.more = icmp slt i64 %j.next, 3
  br i1 %j.more, label %first, label %between
between:
  %odd = and i64 %i, 1
  %is.odd = icmp eq i64 %odd, 1
  br i1 %is.odd, label %latch, label %start
start:
  br label %second
second:
  %k = phi i64 [ 0, %start ], [ %k.next, %second ]
  %u = phi double [ %y, %start ], [ %u.next, %second ]
  %u.next = fmul double %u, %y
  %k.next = add i64 %k, 1
  %k.more = icmp slt i64 %k.next, 2
  br i1 %k.more, label %second, label %latch
latch:
  %v = phi double [ 1.0, %between ], [ %u.next, %second ]
  %w = fmul double %t.next, %v
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %n
  br i1 %more, label %outer, label %end
end:
  %r = fadd double %w, %y
  ret double %r
}
"""


@pytest.mark.parametrize("n", [1, 2, 5])
def test_b4_what_inner_loops_sum_is_added_behind_them(n):
    for opt in (0, 2):
        check_gradient(SEVERAL_LOOPS, "f", [Active, Const], [0.9, n], opt=opt)

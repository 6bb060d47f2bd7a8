"""Speculation: which values a program may not have asked for, and what becomes of their slopes."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.analysis.speculation import speculated
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.parser import parse_module

CHOSEN = """
define double @f(double %x, double %y) {
entry:
  %kept = fmul double %x, %y
  %inverse = fdiv double 1.000000e+00, %x
  %scaled = fmul double %inverse, %kept
  %infinite = fmul double %x, 0x7FF0000000000000
  %either = fadd double %scaled, %infinite
  %twice = fmul double %either, 2.000000e+00
  %test = fdiv double %x, %y
  %c = fcmp une double %test, 0.000000e+00
  %r = select i1 %c, double %twice, double 0.000000e+00
  %s = fadd double %r, %kept
  ret double %s
}
"""

MOVED = """
define double @f(double %x, i64 %n, ptr %a) {
entry:
  %inverse = fdiv double 1.000000e+00, %x
  %square = fmul double %x, %x
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %s = phi double [ %square, %entry ], [ %t, %latch ]
  %p = getelementptr double, ptr %a, i64 %i
  %v = load double, ptr %p
  %w = fmul double %v, %v
  %c = fcmp ogt double %v, 0.000000e+00
  br i1 %c, label %then, label %latch
then:
  %part = fmul double %inverse, %v
  %u = fadd double %s, %part
  br label %latch
latch:
  %t = phi double [ %s, %loop ], [ %u, %then ]
  %next = add i64 %i, 1
  store double %w, ptr %p
  %again = icmp slt i64 %next, %n
  br i1 %again, label %loop, label %done
done:
  ret double %t
}
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (CHOSEN, {"inverse", "scaled", "infinite", "either", "twice", "test"}),
        (MOVED, {"inverse"}),
    ],
)
def test_s1_what_may_be_speculation(text, names):
    function = parse_module(text).functions["f"]
    returns = analyse_returns(function, control_flow(function), status=False)
    assert {i.name for i in speculated(returns)} == names


@njit
def inverse_or_zero(x):
    return 1.0 / x if x != 0.0 else 0.0


@njit
def log_of_positive(x):
    return np.log(x) * x if x > 0.0 else x


@njit
def by_case(a, out):
    if a[0] != 0.0:
        out[0] = 1.0 / a[0] + (np.sqrt(a[1]) if a[1] > 0.0 else 2.0 * a[1])
    out[1] = max(np.log(a[2]), -1.0) * a[2] + (np.sqrt(a[2]) if a[2] >= 0.0 else 1.0) ** 2 * a[0]


@njit
def product_of_known(a):
    product = 1.0
    for v in a:
        if not np.isnan(v):
            product *= v
    return product


def test_a_slope_that_was_not_asked_for_is_no_part_of_the_derivative():
    assert ar.grad(inverse_or_zero)(0.0) == 0.0
    assert ar.grad(log_of_positive)(-1.0) == 1.0
    assert ar.grad(product_of_known)(np.array([2.0, np.nan, 3.0])).tolist() == [3.0, 0.0, 2.0]


def test_two_cotangents_share_what_the_program_used():
    a, out = np.array([1.0, 0.0, 4.0]), np.zeros(2)
    bars = np.zeros((2, 3))
    seeds = np.array([[1.0, 0.0], [0.0, 1.0]])
    shadowed = ar.BatchDuplicated(a, tuple(bars))
    ar.autodiff(ar.Reverse, by_case, shadowed, ar.BatchDuplicated(out, tuple(seeds)))
    np.testing.assert_allclose(bars, [[-1.0, 2.0, 0.0], [4.0, 0.0, math.log(4.0) + 2.0]])
    a[:] = 0.0
    bars[:], seeds[:] = 0.0, 1.0
    ar.autodiff(ar.Reverse, by_case, shadowed, ar.BatchDuplicated(out, tuple(seeds)))
    # the root is used, and multiplied with zero
    np.testing.assert_array_equal(bars, [[0.0, 0.0, -1.0]] * 2)


def test_a_slope_of_zero_does_not_hide_what_the_program_used():
    """The exponential overflows where it is used; its slope is no pole (`slopes.is_steep`)."""
    zero = njit(lambda x: (np.exp(x) if x >= 0.0 else 0.0) * 0.0)
    assert math.isnan(ar.grad(zero)(800.0))
    assert ar.grad(zero)(-1.0) == 0.0

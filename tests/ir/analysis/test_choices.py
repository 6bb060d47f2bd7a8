"""What the sweep may pass over where it was not chosen, and that this changes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import read, read_request
from activerules.ir.generate.assemble import assemble, generate
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.text.normalise import canonical
from tests.ir.harness import Const, Duplicated, check_gradient, compile_text

# the sum, over rows of p, of the least of the products with rows of c; `s` begins with a value
NEAREST = """
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr noalias %p, ptr noalias %c, ptr noalias %r, i64 %n, i64 %m) {
entry:
  br label %rows
rows:
  %i = phi i64 [ 0, %entry ], [ %i.next, %rows.latch ]
  %sum = phi double [ 0.0, %entry ], [ %sum.next, %rows.latch ]
  br label %candidates
candidates:
  %j = phi i64 [ 0, %rows ], [ %j.next, %chosen ]
  %best = phi double [ 1.0e9, %rows ], [ %better, %chosen ]
  br label %product
product:
  %l = phi i64 [ 0, %candidates ], [ %l.next, %product ]
  %s = phi double [ 0.0, %candidates ], [ %s.next, %product ]
  %p.row = mul nsw i64 %i, %m
  %p.index = add nsw i64 %p.row, %l
  %p.at = getelementptr double, ptr %p, i64 %p.index
  %x = load double, ptr %p.at
  %c.row = mul nsw i64 %j, %m
  %c.index = add nsw i64 %c.row, %l
  %c.at = getelementptr double, ptr %c, i64 %c.index
  %y = load double, ptr %c.at
  %xy = fmul double %x, %y
  %s.next = fadd double %s, %xy
  ;inside
  %l.next = add nsw i64 %l, 1
  %l.more = icmp slt i64 %l.next, %m
  br i1 %l.more, label %product, label %compare
compare:
  %end = phi double [ %s.next, %product ]
  %less = fcmp olt double %end, %best
  %better = select i1 %less, double %end, double %best
  ;after
  br label %chosen
chosen:
  %j.next = add nsw i64 %j, 1
  %j.more = icmp slt i64 %j.next, 3
  br i1 %j.more, label %candidates, label %rows.latch
rows.latch:
  %least = phi double [ %better, %chosen ]
  %sum.next = fadd double %sum, %least
  %i.next = add nsw i64 %i, 1
  %i.more = icmp slt i64 %i.next, %n
  br i1 %i.more, label %rows, label %done
done:
  store double %sum.next, ptr %r
  ret void
}
"""
BY_BRANCH = NEAREST.replace(
    "  %better = select i1 %less, double %end, double %best\n  ;after\n  br label %chosen\nchosen:",
    "  br i1 %less, label %other, label %chosen\nother:\n  store i64 %j, ptr %q\n"
    "  br label %chosen\nchosen:\n"
    "  %better = phi double [ %best, %compare ], [ %end, %other ]",
).replace("ptr noalias %r,", "ptr noalias %r, ptr noalias %q,")
ACTIVITIES = [Duplicated, Duplicated, Duplicated, Const, Const]
REFUSED = {
    "its result is added up as well": (
        ";after",
        "%q = getelementptr double, ptr %r, i64 1\n  %old = load double, ptr %q\n"
        "  %new = fadd double %old, %end\n  store double %new, ptr %q",
    ),
    "it stores": (
        ";inside",
        "%q = getelementptr double, ptr %r, i64 %l\n  store double %xy, ptr %q",
    ),
    "it copies": (";inside", "call void @llvm.memcpy.p0.p0.i64(ptr %r, ptr %p, i64 %n, i1 false)"),
    "its result is carried to the next": ("[ %better, %chosen ]\n  br", "[ %end, %chosen ]\n  br"),
}


def plan_of(text: str) -> Plan:
    module, symbol = read(canonical(text), "f")
    activities = [Duplicated] * (4 if "%q," in text else 3) + [Const] * 2
    return make_plan(read_request(module, symbol, activities, None, symbol))


def with_sums(plan: Plan, **changes: Any) -> Plan:
    return replace(plan, sums=replace(plan.sums, **changes))


def gradient(plan: Plan, args: list[np.ndarray], bars: list[np.ndarray]) -> list[np.ndarray]:
    functions, declarations, _ = generate(plan)
    text = assemble(plan.request.module, functions, declarations, whole=True)
    shadows = [bar.copy() for bar in bars]
    pointers = [a.ctypes.data for pair in zip(args, shadows, strict=True) for a in pair]
    compile_text(text).function("f.gradient")(*pointers, 5, 2, None, None)
    return shadows


@pytest.mark.parametrize("text", [NEAREST, BY_BRANCH], ids=["select", "branch"])
def test_h1_passing_over_changes_nothing(text):
    plan = plan_of(text)
    assert len(plan.sums.passed_over) == 1
    rng = np.random.default_rng(4)
    args = [rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), np.zeros(2), np.zeros(2)]
    args = args[: len(plan.request.parameters) - 2]
    bars = [rng.normal(size=a.shape) for a in args]
    found = gradient(plan, args, bars)
    for one, other in zip(
        found, gradient(with_sums(plan, passed_over={}), args, bars), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [1, 4])
def test_h1_the_gradient_is_that_of_finite_differences(n):
    rng = np.random.default_rng(5)
    args = [rng.normal(size=8), rng.normal(size=6), np.zeros(1), n, 2]
    check_gradient(NEAREST, "f", ACTIVITIES, args)


def test_h1_what_was_not_chosen_adds_nothing_though_its_slope_is_infinite():
    args = [np.ones((5, 2)), np.array([[1.0, 1.0], [np.inf, 1.0], [2.0, 2.0]]), np.zeros(2)]
    bars = [np.zeros((5, 2)), np.zeros((3, 2)), np.ones(2)]
    p_bar, c_bar, _ = gradient(plan_of(NEAREST), args, bars)
    np.testing.assert_array_equal(p_bar, np.ones((5, 2)))
    np.testing.assert_array_equal(c_bar, [[5.0, 5.0], [0.0, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize("why", REFUSED)
def test_h1_h2_no_loop_is_passed_over_where(why):
    old, new = REFUSED[why]
    assert old in NEAREST
    found = plan_of(NEAREST.replace(old, new)).sums.passed_over
    assert [loop for loop in found if not loop.children] == []


# a[i, j] = min(a[i, j], a[i, k] + a[k, j]) for one i and k, where rows i and k may be the same
SHORTER = """
define void @f(ptr %a, ptr %c, ptr %r, i64 %n, i64 %m) {
entry:
  %kept = getelementptr double, ptr %a, i64 2
  br label %next
next:
  %j = phi i64 [ 0, %entry ], [ %j.next, %met ]
  %old.at = getelementptr double, ptr %a, i64 %j
  %old = load double, ptr %old.at
  %x = load double, ptr %kept
  %y.at = getelementptr double, ptr %c, i64 %j
  %y = load double, ptr %y.at
  %xy = fadd double %x, %y
  %less = fcmp olt double %xy, %old
  %new = select i1 %less, double %xy, double %old
  store double %new, ptr %old.at
  ;after
  br label %met
met:
  %j.next = add nsw i64 %j, 1
  %j.more = icmp slt i64 %j.next, %n
  br i1 %j.more, label %next, label %done
done:
  ret void
}
"""
STORED_IF_LESS = SHORTER.replace(
    "  %new = select i1 %less, double %xy, double %old\n  store double %new, ptr %old.at\n"
    "  ;after\n  br label %met\n",
    "  br i1 %less, label %then, label %met\nthen:\n  store double %xy, ptr %old.at\n"
    "  br label %met\n",
)


@pytest.mark.parametrize("text", [SHORTER, STORED_IF_LESS], ids=["select", "branch"])
def test_what_was_not_chosen_is_not_added_and_the_rest_is(text):
    plan = plan_of(text)
    assert {i.ref for i in plan.sums.added_if_chosen} == {"%x", "%y"}
    rng = np.random.default_rng(6)
    args = [rng.normal(size=5), rng.normal(size=5), np.zeros(2)]
    bars = [rng.normal(size=a.shape) for a in args]
    found = gradient(plan, [a.copy() for a in args], bars)
    always = gradient(with_sums(plan, added_if_chosen=frozenset()), [a.copy() for a in args], bars)
    for one, other in zip(found, always, strict=True):
        np.testing.assert_array_equal(one, other)
    numbers = [rng.normal(size=5), rng.normal(size=5), np.zeros(2), 5, 2]
    check_gradient(text, "f", ACTIVITIES, numbers)


@pytest.mark.parametrize(
    ("old", "new"),
    [(";after", "store double %xy, ptr %r"), ("ptr %a, i64 2", "ptr %r, i64 0")],
    ids=["it is stored as well", "the loop does not write what it reads"],
)
def test_cotangents_are_added_without_a_comparison_where(old, new):
    text = SHORTER.replace("%a, ptr %c, ptr %r", "noalias %a, ptr %c, ptr noalias %r")
    assert plan_of(text).sums.added_if_chosen
    assert not plan_of(text.replace(old, new)).sums.added_if_chosen

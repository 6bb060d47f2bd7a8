"""Rows: which addresses are found, and what the sweep makes of them."""

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Const, Duplicated, check_gradient
from tests.ir.plan.planned import plan_of

# for i from 1 to n - 2, for j to m - 1: b[i, j] = a[i - 1, j] * a[i + OTHER, j]
ROWS = """
define void @f(ptr %a, ptr %b, i64 %n, i64 %m) {
entry:
  %last = add i64 %n, -2
  br label %outer
outer:
  %i = phi i64 [ 1, %entry ], [ %i.next, %outer.latch ]
  %below = add i64 %i, -1
  %above = add i64 %i, OTHER
  %x.at = mul i64 %below, %m
  %y.at = mul i64 %above, %m
  %z.at = mul i64 %i, %m
  %x.row = getelementptr double, ptr %a, i64 %x.at
  %y.row = getelementptr double, ptr %a, i64 %y.at
  %z.row = getelementptr double, ptr %b, i64 %z.at
  br label %inner
inner:
  %j = phi i64 [ 0, %outer ], [ %j.next, %inner ]
  %x.p = getelementptr double, ptr %x.row, i64 %j
  %y.p = getelementptr double, ptr %y.row, i64 %j
  %z.p = getelementptr double, ptr %z.row, i64 %j
  %x = load double, ptr %x.p
  %y = load double, ptr %y.p
  %z = fmul double %x, %y
  store double %z, ptr %z.p
  %j.next = add nuw nsw i64 %j, 1
  %j.more = icmp slt i64 %j.next, %m
  br i1 %j.more, label %inner, label %outer.latch
outer.latch:
  %i.next = add nuw nsw i64 %i, 1
  %i.more = icmp slt i64 %i, %last
  br i1 %i.more, label %outer, label %end
end:
  ret void
}
"""
ACTIVITIES = [Duplicated, Duplicated, Const, Const]


def test_t1_rows_of_one_array_are_found():
    plan = plan_of(ROWS.replace("OTHER", "1"), ACTIVITIES)
    assert {row.name for row in plan.sums.hidden_rows} == {"x.row", "y.row"}


def test_a_row_alone_in_its_array_is_none():
    assert not plan_of(ROWS.replace("OTHER", "-1"), ACTIVITIES).sums.hidden_rows


def test_the_sweep_hides_how_rows_change():
    text = differentiate(ROWS.replace("OTHER", "1"), "f", ACTIVITIES)
    assert text.count("call ptr @llvm.strip.invariant.group.p0") == 2


@pytest.mark.parametrize("other", ["1", "0", "-1"])
def test_rows_that_overlap_or_not(other):
    a, b = np.random.default_rng(0).normal(size=(2, 6, 21))
    check_gradient(ROWS.replace("OTHER", other), "f", ACTIVITIES, [a, b, 6, 21])

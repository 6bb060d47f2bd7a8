"""Loops in which the tangents of several lanes are scalars."""

from dataclasses import replace

import pytest

from activerules.ir.plan.request import Optimiser
from activerules.ir.plan.vectorised_loops import vectorised_loops
from tests.ir.harness import Active, Const, Duplicated
from tests.ir.plan.planned import plan_of

LOOP = """
declare double @llvm.sqrt.f64(double)
declare double @llvm.sin.f64(double)
declare double @other(double)
define double @f(ptr noalias %x, ptr noalias %y, i64 %n, i64 %m, double %z) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  SUM
  %next = add nuw nsw i64 %i, 1
  %scaled = mul i64 %i, %m
  %at = getelementptr double, ptr %x, i64 %i
  %far = getelementptr double, ptr %x, i64 %scaled
  %to = getelementptr double, ptr %y, i64 %i
  %to.next = getelementptr double, ptr %y, i64 %next
  %a = load double, ptr %at
  BODY
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %end
end:
  ret double RESULT
}
"""
SQUARE = "%b = fmul double %a, %a\n store double %b, ptr %to\n"
SUM = "%t = fadd double %s, %a\n"


def is_chosen(body, width=4, **allowed):
    has_sum = "%t =" in body
    text = LOOP.replace("BODY", body)
    text = text.replace("SUM", "%s = phi double [ %z, %entry ], [ %t, %loop ]" if has_sum else "")
    text = text.replace("RESULT", "%t" if has_sum else "%z")
    plan = plan_of(text, [Duplicated, Duplicated, Const, Const, Active])
    request = replace(plan.request, width=width, optimiser=Optimiser(**allowed))
    return bool(vectorised_loops(replace(plan, request=request)))


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        (SQUARE, True),
        (SQUARE + SUM, False),
        ("%o = load double, ptr %to\n %b = fmul double %a, %o\n store double %b, ptr %to\n", True),
        ("%b = fmul double %a, %a\n store double %b, ptr %at\n", True),
        (
            "%o = load double, ptr %to\n %b = fmul double %a, %o\n store double %b, ptr %to.next\n",
            False,
        ),
        ("%o = load double, ptr %y\n %b = fmul double %a, %o\n store double %b, ptr %y\n", False),
    ],
)
def test_o1_no_iteration_waits_for_another(body, chosen):
    assert is_chosen(body) == chosen


def test_o1_sums_may_be_reordered():
    assert is_chosen(SQUARE + SUM, reassociate=True)
    assert not is_chosen(SQUARE + "%t = fmul double %s, %a\n", reassociate=True)
    seen = "%t = fadd double %s, %a\n store double %s, ptr %to\n"
    assert not is_chosen(seen, reassociate=True)


@pytest.mark.parametrize(
    ("body", "chosen"),
    [
        ("%b = call double @llvm.sqrt.f64(double %a)\n", True),
        ("%b = call double @llvm.sin.f64(double %a)\n", False),
        ("%o = load double, ptr %far\n %b = fmul double %a, %o\n", False),
    ],
)
def test_o2_what_is_called_and_read(body, chosen):
    assert is_chosen(body + "store double %b, ptr %to\n") == chosen


def test_o2_functions_with_vector_forms():
    body = "%b = call double @llvm.sin.f64(double %a)\n store double %b, ptr %to\n"
    assert is_chosen(body, vector_math=True)


def test_one_lane_is_a_scalar():
    assert not is_chosen(SQUARE, width=1)

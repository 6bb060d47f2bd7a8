"""Loops of one iteration, before and after they become straight code."""

import re

import numpy as np
import pytest

import activerules as ar
from activerules.ir.text.single_runs import as_straight_code
from tests.ir.harness import compile_text

LOOP = """
define void @f(ptr %x) {
entry:
  br label %head

head:                                             ; preds = %body, %entry
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, 1
  br i1 %more, label %body, label %end

body:                                             ; preds = %head
  %place = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %place
  %twice = fadd double %v, %v
  store double %twice, ptr %place
  %next = add nsw i64 %i, 1
  br label %head

end:                                              ; preds = %head
  store double 7.0, ptr %x
  ret void
}
"""


def test_l1_the_same_instructions_run():
    straight = as_straight_code(LOOP)
    assert straight.count("br label %head") == 1
    assert as_straight_code(straight) == straight
    text = LOOP.replace("store double 7.0, ptr %x\n  ", "")
    for one in (text, as_straight_code(text)):
        x = np.array([3.0, 5.0])
        compile_text(one, None).function("f")(x.ctypes.data)
        assert x.tolist() == [6.0, 5.0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("icmp slt i64 %i, 1", "icmp slt i64 %i, 10"),
        ("add nsw i64 %i, 1", "add nsw i64 %i, -1"),
        ("  store double 7.0", "  %k = phi i64 [ %i, %head ]\n  store double 7.0"),
    ],
)
def test_l1_other_loops_stay(old, new):
    text = LOOP.replace(old, new)
    assert text != LOOP
    assert as_straight_code(text) == text


def test_l2_a_ufunc_of_numbers_is_reported_at_its_line():
    def program(x):
        y = 3.0 * x
        z = np.sin(y)
        return z * z

    line = program.__code__.co_firstlineno + 2
    report = str(ar.explain(program, ar.Active(0.4)))
    assert re.search(rf"^ +line {line} +the result of sin ", report, re.MULTILINE)

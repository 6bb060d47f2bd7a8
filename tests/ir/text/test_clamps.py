"""Branches that clamp a number lose their weights, and nothing else changes."""

import re

import pytest

from activerules.ir.text.clamps import as_choices
from activerules.ir.text.normalise import normalise

PROGRAM = """
define i64 @f(ptr %p, i64 %i, i64 %n) {
entry:
  %end = alloca { i64, i64 }, align 8
  store i64 %i, ptr %end, align 8
  %over = icmp sge i64 %i, %n
  br i1 %over, label %entry.if, label %entry.endif, !prof !0

entry.if:                                         ; preds = %entry
  %first = getelementptr inbounds { i64, i64 }, ptr %end, i32 0, i32 0
  store i64 %n, ptr %first, align 8
  br label %entry.endif

entry.endif:                                      ; preds = %entry.if, %entry
  %found = load i64, ptr %end, align 8
  %wrong = icmp slt i64 %found, 0
  br i1 %wrong, label %failed, label %fine, !prof !0

failed:                                           ; preds = %entry.endif
  store i64 1, ptr %p, align 8
  br label %leave

fine:                                             ; preds = %entry.endif
  br label %leave

leave:                                            ; preds = %fine, %failed
  ret i64 %found
}

!0 = !{!"branch_weights", i32 1, i32 99}
"""


def test_k1_only_weights_of_clamps_are_removed():
    text = as_choices(PROGRAM)
    assert text == PROGRAM.replace(", !prof !0", "", 1)
    assert text.count("!prof") == 1


def test_ends_of_slices_are_minima():
    assert re.search(r"= .*call i64 @llvm.smin.i64\(i64 %i, i64 %n\)", normalise(PROGRAM, "f"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("store i64 %n, ptr %first", "store double 0.0, ptr %first"),
        ("  store i64 %n, ptr %first, align 8\n", "  call void @g()\n"),
        ("br label %entry.endif", "br label %leave"),
    ],
)
def test_k1_other_branches_keep_theirs(before, after):
    text = PROGRAM.replace(before, after)
    assert as_choices(text) == text

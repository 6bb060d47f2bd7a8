"""Structs of integers, floats and pointers that are copied as a whole, before parts of the copies
are changed and passed on: several copies of one.
"""

import numpy as np
import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.forward_harness import check_forward
from tests.ir.harness import Duplicated, Struct, check_gradient

WINDOW = np.dtype([("first", "i8"), ("last", "i8"), ("data", "u8"), ("scale", "f8")])
HALVES = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define double @window(ptr %w) {
entry:
  %first = load i64, ptr %w
  %last.at = getelementptr i8, ptr %w, i64 8
  %last = load i64, ptr %last.at
  %n = sub i64 %last, %first
  %large = icmp sgt i64 %n, 2
  br i1 %large, label %halves, label %start
halves:
  %one = call ptr @malloc(i64 32)
  %other = call ptr @malloc(i64 32)
  call void @llvm.memcpy.p0.p0.i64(ptr %one, ptr %w, i64 32, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %other, ptr %w, i64 32, i1 false)
  %half = sdiv i64 %n, 2
  %middle = add i64 %first, %half
  %end.at = getelementptr i8, ptr %one, i64 8
  store i64 %middle, ptr %end.at
  store i64 %middle, ptr %other
  %scale.of.other = getelementptr i8, ptr %other, i64 24
  %s = load double, ptr %scale.of.other
  %s.square = fmul double %s, %s
  store double %s.square, ptr %scale.of.other
  %a = call double @window(ptr %one)
  %b = call double @window(ptr %other)
  call void @free(ptr %one)
  call void @free(ptr %other)
  %sum.of.both = fadd double %a, %b
  ret double %sum.of.both
start:
  %scale.at = getelementptr i8, ptr %w, i64 24
  %scale = load double, ptr %scale.at
  %data.at = getelementptr i8, ptr %w, i64 16
  %data = load ptr, ptr %data.at
  br label %loop
loop:
  %i = phi i64 [ %first, %start ], [ %i.next, %loop ]
  %sum = phi double [ 0.0, %start ], [ %sum.next, %loop ]
  %p = getelementptr double, ptr %data, i64 %i
  %x = load double, ptr %p
  %square = fmul double %x, %x
  %term = fmul double %square, %scale
  %sum.next = fadd double %sum, %term
  %i.next = add i64 %i, 1
  %more = icmp slt i64 %i.next, %last
  br i1 %more, label %loop, label %end
end:
  ret double %sum.next
}
define double @f(ptr %w) {
  %y = call double @window(ptr %w)
  ret double %y
}
"""


def _window():
    data = np.random.default_rng(3).normal(size=7)
    array = np.zeros(1, WINDOW)
    array["last"], array["scale"] = 7, 0.9
    return Struct(array, {"data": data})


def test_a_struct_that_is_copied_twice():
    check_gradient(HALVES, "f", [Duplicated], [_window()])


def test_a_struct_that_is_copied_twice_in_forward_mode():
    check_forward(HALVES, "f", [Duplicated], [_window()])


def test_copies_to_other_offsets_are_refused():
    """What is a float in the one is not where it is one in the other."""
    copy = "memcpy.p0.p0.i64(ptr %other, ptr %w, i64 32"
    assert copy in HALVES
    shifted = HALVES.replace(copy, "memcpy.p0.p0.i64(ptr %other, ptr %last.at, i64 24")
    with pytest.raises(UnsupportedIR, match="mixes types"):
        differentiate(shifted, "f", [Duplicated])

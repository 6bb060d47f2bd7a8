"""Allocators of other languages, and resizing of memory, by malloc and free."""

import numpy as np
import pytest

from activerules.ir.foreign.allocators import by_malloc
from tests.ir.harness import Active, Const, Duplicated, check_gradient

OWN = """
define ptr @realloc(ptr %p, i64 %size) {
  ret ptr %p
}
define ptr @f(ptr %p) {
  %q = call ptr @realloc(ptr %p, i64 8)
  ret ptr %q
}
"""
# Three numbers, one changed behind each resizing; the sizes are in bytes
RESIZED = """
declare ptr @realloc(ptr, i64)
declare noalias ptr @malloc(i64)
declare void @free(ptr)
define double @f(ptr %x) {
  %a = load double, ptr %x
  %x1 = getelementptr double, ptr %x, i64 1
  %b = load double, ptr %x1
  %old = call ptr @malloc(i64 FIRST)
  store double %a, ptr %old
  %old1 = getelementptr double, ptr %old, i64 1
  store double %b, ptr %old1
  %new = call ptr @realloc(ptr %old, i64 SECOND)
  %u = load double, ptr %new
  %uu = fmul double %u, %b
  store double %uu, ptr %new
  %last = call ptr @realloc(ptr %new, i64 THIRD)
  %v = load double, ptr %last
  %vv = fmul double %v, %v
  %r = fmul double %vv, %u
  call void @free(ptr %last)
  ret double %r
}
"""

# An array of n numbers, which cannot be made if n is too large
ARRAY = """
declare ptr @reallocarray(ptr, i64, i64)
declare void @free(ptr)
define double @f(double %x, i64 %n) {
  %p = call ptr @reallocarray(ptr null, i64 %n, i64 8)
  %none = icmp eq ptr %p, null
  br i1 %none, label %failed, label %fine
failed:
  %a = fmul double %x, 3.0
  ret double %a
fine:
  store double 5.0, ptr %p
  %v = load volatile double, ptr %p
  %b = fmul double %v, %x
  call void @free(ptr %p)
  ret double %b
}
"""


def test_a1_a_function_that_the_module_defines_is_not_touched():
    assert by_malloc(OWN).strip() == OWN.strip()


@pytest.mark.parametrize("sizes", [(16, 64, 8), (16, 8, 640), (24, 24, 24)])
def test_a2_a3_resized_memory_is_new_and_its_shadow_has_what_there_is(sizes):
    """What is overwritten after the resizing is in the old memory, for the reverse sweep."""
    text = RESIZED
    for name, size in zip(("FIRST", "SECOND", "THIRD"), sizes, strict=True):
        text = text.replace(name, str(size))
    assert "activerules.copy_resized" in by_malloc(text)
    for opt in (0, 2):
        check_gradient(text, "f", [Duplicated], [np.array([0.7, -1.3])], opt=opt)


@pytest.mark.parametrize("n", [4, 1 << 61])
def test_an_array_whose_size_wraps_around_is_not_made(n):
    check_gradient(ARRAY, "f", [Active, Const], [1.7, n])

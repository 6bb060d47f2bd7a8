"""Whether clearing memory cuts a float."""

import numpy as np
import pytest

from activerules.errors import FloatBitsInInteger
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Const, Duplicated, check_gradient

# 20 bytes, with doubles from byte 4 on
CLEARED = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define double @f(ptr %x, i64 %k) {
  %m = call ptr @malloc(i64 20)
  %doubles = getelementptr i8, ptr %m, i64 4
  %at = getelementptr double, ptr %doubles, i64 %k
  %u = load double, ptr %x
  store double %u, ptr %at, align 1
  %from = getelementptr i8, ptr %m, i64 BEGIN
  call void @llvm.memset.p0.i64(ptr %from, i8 0, i64 LENGTH, i1 false)
  %next = getelementptr double, ptr %x, i64 1
  %v = load double, ptr %next
  store double %v, ptr %doubles, align 1
  %w = load double, ptr %at, align 1
  %r = fmul double %w, %w
  call void @free(ptr %m)
  ret double %r
}
"""


def cleared(begin, length):
    return CLEARED.replace("BEGIN", str(begin)).replace("LENGTH", str(length))


@pytest.mark.parametrize("k", [0, 1])
def test_c1_new_memory_is_cleared_as_a_whole(k):
    check_gradient(cleared(0, 20), "f", [Duplicated, Const], [np.array([0.7, 1.3]), k])


@pytest.mark.parametrize(("begin", "length"), [(0, 16), (2, 18), (14, 6)])
def test_part_of_a_float_is_not_cleared(begin, length):
    with pytest.raises(FloatBitsInInteger, match="cleared"):
        differentiate(cleared(begin, length), "f", [Duplicated, Const])

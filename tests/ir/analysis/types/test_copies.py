"""What is known of memory that is copied."""

import numpy as np
import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Const, Duplicated, check_gradient, compile_text

HEAD = """
declare noalias ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
"""
# From `x` by way of a buffer of which nothing else is known; read as doubles at the end
THROUGH = (
    HEAD
    + """
define double @f(ptr %x, i64 %n) {
  %m = call ptr @malloc(i64 32)
  %y = call ptr @malloc(i64 32)
  call void @llvm.memcpy.p0.p0.i64(ptr %m, ptr %x, i64 32, i1 false)
  CHANGE
  %bytes = mul i64 %n, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %m, i64 %bytes, i1 false)
  %u = load double, ptr %y
  %at = getelementptr double, ptr %y, i64 1
  %v = load double, ptr %at
  %r = fmul double %u, %v
  call void @free(ptr %m)
  call void @free(ptr %y)
  ret double %r
}
"""
)
CUT = (
    HEAD
    + """
define double @f(ptr %x, ptr %y) {
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 BYTES, i1 false)
  %u = load double, ptr %y
  %v = load double, ptr %x
  %r = fmul double %u, %v
  ret double %r
}
"""
)
CUT_AT_RUN_TIME = CUT.replace("i64 BYTES", "i64 %n").replace("ptr %y) {", "ptr %y, i64 %n) {")
MIXED_TO_RUN_TIME_LENGTH = (
    HEAD
    + """
define double @f(ptr noalias %x, ptr noalias %y, i64 %n) {
  %a = load double, ptr %x
  %at = getelementptr i8, ptr %x, i64 8
  %k = load i64, ptr %at
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %x, i64 %n, i1 false)
  %b = load double, ptr %y
  %float = sitofp i64 %k to double
  %ab = fmul double %a, %b
  %r = fmul double %ab, %float
  ret double %r
}
"""
)
ONLY_COPIED = (
    HEAD
    + """
define void @f(ptr %x, ptr %y) {
  %m = call ptr @malloc(i64 32)
  call void @llvm.memcpy.p0.p0.i64(ptr %m, ptr %x, i64 32, i1 false)
  call void @llvm.memcpy.p0.p0.i64(ptr %y, ptr %m, i64 32, i1 false)
  END
  call void @free(ptr %m)
  ret void
}
"""
)


def test_c1_facts_about_memory_hold_for_its_copies():
    for opt in (0, 2):
        text = THROUGH.replace("CHANGE", "")
        check_gradient(
            text, "f", [Duplicated, Const], [np.array([0.7, -1.3, 2.0, 3.0]), 3], opt=opt
        )


def test_c2_bytes_that_may_be_floats_among_others_are_refused():
    changed = THROUGH.replace("CHANGE", "store i64 %n, ptr %m")
    with pytest.raises(UnsupportedIR, match="copy"):
        differentiate(changed, "f", [Duplicated, Const])


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_c2_a_double_and_an_integer_repeat_by_no_known_period(mode):
    with pytest.raises(UnsupportedIR, match="mixes types"):
        differentiate(MIXED_TO_RUN_TIME_LENGTH, "f", [Duplicated, Duplicated, Const], mode)


def test_c3_a_copy_that_ends_inside_of_a_float_is_refused_or_nan():
    differentiate(CUT.replace("BYTES", "16"), "f", [Duplicated, Duplicated])
    with pytest.raises(UnsupportedIR):
        differentiate(CUT.replace("BYTES", "12"), "f", [Duplicated, Duplicated])
    compiled = compile_text(differentiate(CUT_AT_RUN_TIME, "f", [Duplicated, Duplicated, Const]))
    for count, is_known in ((8, True), (16, True), (12, False)):
        arrays = [np.array(row) for row in ([0.7, -1.3], [0, 0.0], [2.0, 3.0], [0, 0.0])]
        compiled.function("f.gradient")(*(a.ctypes.data for a in arrays), count, 1.0)
        assert np.isfinite(np.concatenate(arrays[1::2])).all() == is_known, count


def test_c4_memory_that_is_only_copied_has_floats_where_copies_begin():
    """Doubles, if the caller has doubles there: the shadow moves as the memory does."""
    with pytest.raises(UnsupportedIR):
        differentiate(ONLY_COPIED.replace("END", "store i8 1, ptr %m"), "f", [Duplicated] * 2)
    text = ONLY_COPIED.replace("END", "%v = load double, ptr %y\n  store double %v, ptr %x")
    x = np.array([0.7, -1.3, 2.0, 3.0])
    check_gradient(text, "f", [Duplicated] * 2, [x, np.zeros(4)])

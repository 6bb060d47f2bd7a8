"""Accesses of one array that may share a part of a float."""

import pytest

from activerules.errors import FloatBitsInInteger
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Const, Duplicated

TWICE = """
define double @f(ptr %p, i64 %k) {
  %q = ADDRESS
  %v = load double, ptr %q, align ALIGN
  %w = load double, ptr %p
  %r = fmul double %v, %w
  ret double %r
}
"""
FLOAT_AND_DOUBLE = """
define double @f(ptr %p, i64 %k) {
  %q = getelementptr SOURCE, ptr %p, i64 %k
  %half = load float, ptr %q
  %wide = fpext float %half to double
  %other = getelementptr DOUBLE, ptr %p, i64 %k, i32 1
  %v = load double, ptr %other
  %r = fmul double %v, %wide
  ret double %r
}
"""


def differentiated(text):
    return differentiate(text, "f", [Duplicated, Const])


@pytest.mark.parametrize(
    ("address", "alignment"),
    [
        ("getelementptr double, ptr %p, i64 %k", 8),
        ("getelementptr double, ptr %p, i64 %k", 1),
        ("getelementptr i8, ptr %p, i64 %k", 8),
    ],
)
def test_o1_offsets_and_alignments_that_keep_floats_apart(address, alignment):
    text = TWICE.replace("ADDRESS", address).replace("ALIGN", str(alignment))
    assert "f.gradient" in differentiated(text)


def test_o1_nothing_is_assumed_of_variables_in_offsets():
    text = TWICE.replace("ADDRESS", "getelementptr i8, ptr %p, i64 %k").replace("ALIGN", "1")
    with pytest.raises(FloatBitsInInteger):
        differentiated(text)
    record = FLOAT_AND_DOUBLE.replace("SOURCE", "{ float, double }")
    assert "f.gradient" in differentiated(record.replace("DOUBLE", "{ float, double }"))
    with pytest.raises(FloatBitsInInteger):
        differentiated(
            record.replace("DOUBLE", "double").replace("i64 %k, i32 1", "i64 %k")
            .replace("{ float, double }", "float")
        )  # fmt: skip

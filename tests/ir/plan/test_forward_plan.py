"""What forward mode refuses, for it has no tangent of it."""

import pytest

from activerules.errors import ActiverulesError, MixedActivity, UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.analysis.types.test_copies import CUT
from tests.ir.harness import Const, Duplicated

WRITTEN = """
define double @f(ptr %p, ptr %q, double %x, i1 %c) {
  %r = select i1 %c, ptr %p, ptr %q
  store double %x, ptr %r
  %y = load double, ptr %r
  ret double %y
}
"""


def forward(text, *activities):
    return differentiate(text, "f", list(activities), "forward")


def test_w1_arithmetic_without_a_row_is_refused():
    text = "define TYPE @f(TYPE %x) {\n  %y = fmul TYPE %x, %x\n  ret TYPE %y\n}\n"
    assert "f.forward" in forward(text.replace("TYPE", "double"), Duplicated)
    with pytest.raises(ActiverulesError):
        forward(text.replace("TYPE", "x86_fp80"), Duplicated)


def test_w2_bytes_that_may_be_floats_among_others_are_not_copied():
    whole, cut = (CUT.replace("BYTES", size) for size in ("16", "12"))
    assert "f.forward" in forward(whole, Duplicated, Duplicated)
    with pytest.raises(UnsupportedIR, match="a copy of memory"):
        forward(cut, Duplicated, Duplicated)


def test_w3_a_pointer_has_a_shadow_in_all_it_may_point_to():
    assert "f.forward" in forward(WRITTEN, Duplicated, Duplicated, Duplicated, Const)
    with pytest.raises(MixedActivity):
        forward(WRITTEN, Duplicated, Const, Duplicated, Const)

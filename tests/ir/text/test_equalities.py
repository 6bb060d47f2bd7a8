"""Comparisons of floats that LLVM does not see while it optimises."""

from activerules.ir.llvm.parser import parse_module
from activerules.ir.text.equalities import (
    ALL,
    has_new_equality,
    hide_comparisons,
)
from activerules.ir.text.normalise import canonical

COMPARED = canonical("""
define i1 @f(double %x, float %y, <2 x double> %v) {
  %two = fcmp oeq double %x, 2.0
  %not = fcmp nnan une float 1.5, %y
  %zero = fcmp oeq double %x, 0.0
  %minus = fcmp une float %y, -0.0
  %less = fcmp olt double %x, 2.0
  %each = fcmp ueq <2 x double> %v, splat (double 3.0)
  %a = and i1 %two, %not
  %b = and i1 %zero, %minus
  %c = and i1 %a, %b
  %d = and i1 %c, %less
  %e = extractelement <2 x i1> %each, i64 0
  %r = and i1 %d, %e
  ret i1 %r
}
""")


def comparisons(text):
    found = parse_module(text).functions["f"].instructions()
    return {i.name: i for i in found if i.opcode == "fcmp"}


def test_q1_equalities_with_constants_but_zero_are_hidden():
    assert has_new_equality(COMPARED)
    hidden = hide_comparisons(COMPARED)
    assert not has_new_equality(hidden)
    assert comparisons(hidden).keys() == {"zero", "minus", "less"}
    assert comparisons(hide_comparisons(COMPARED, ALL)).keys() == {"zero", "minus"}

"""Comparisons of floats while LLVM optimises: what it does not see, and what it is given back."""

import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal.equalities import (
    ALL,
    EQUALITIES,
    has_new_equality,
    hide_comparisons,
    restore_comparisons,
)
from activerules.ir.normal.normalise import canonical

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


@pytest.mark.parametrize("predicates", [EQUALITIES, ALL])
def test_q2_what_was_hidden_is_restored_without_flags(predicates):
    module = parse_module(hide_comparisons(COMPARED, predicates))
    restore_comparisons(module)
    for i in module.functions["f"].instructions():
        if i.name in comparisons(COMPARED):
            before = comparisons(COMPARED)[i.name]
            assert (i.opcode, i.type) == ("fcmp", before.type)
            assert i.attributes["predicate"] == before.attributes["predicate"]
            assert [o.ref for o in i.operands] == [o.ref for o in before.operands]
    assert comparisons(COMPARED)["not"].flags == ("nnan",)
    assert next(i for i in module.functions["f"].instructions() if i.name == "not").flags == ()

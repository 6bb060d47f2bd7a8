"""Shadows of constant tables that a pointer may lead to instead of active memory."""

from dataclasses import replace

import numpy as np
import pytest

from activerules.errors import MixedActivity
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.facts import analyse
from tests.ir.harness import Const, Duplicated, check_gradient
from tests.ir.plan.planned import analyses_of

CHOSEN = """
@table = internal constant [2 x double] [double 2.0, double 3.0]
@unused = internal constant [2 x double] [double 4.0, double 5.0]
define double @f(ptr %p, i1 %c, i64 %k) {
  %from = select i1 %c, ptr %p, ptr @table
  %at = getelementptr double, ptr %from, i64 %k
  %x = load double, ptr %at
  %other = getelementptr double, ptr @unused, i64 %k
  %y = load double, ptr %other
  %xx = fmul double %x, %x
  %r = fmul double %xx, %y
  ret double %r
}
"""


def test_c1_constant_tables_beside_active_memory_have_a_shadow():
    before = parse_module(CHOSEN).globals.keys()
    module = parse_module(differentiate(CHOSEN, "f", [Duplicated, Const, Const]))
    made = {name: line for name, line in module.globals.items() if name not in before}
    assert len(made) == 1
    (shadow,) = made.values()
    assert "[2 x double] zeroinitializer" in shadow
    for c in (False, True):
        check_gradient(CHOSEN, "f", [Duplicated, Const, Const], [np.array([0.7, -1.3]), c, 1])


def test_c2_tables_that_may_be_returned_have_no_shadow():
    returning = CHOSEN.replace("@f(ptr %p", "@f(ptr %ret, ptr %p").replace(
        "  %at = ", "  store ptr %from, ptr %ret\n  %at = ", 1
    )
    known = analyses_of(returning, {})
    ret, *others = known.request.parameters
    parameters = (replace(ret, passed=replace(ret.passed, written_only=True)), *others)
    known.request = replace(known.request, parameters=parameters)
    with pytest.raises(MixedActivity, match="table"):
        analyse(known)

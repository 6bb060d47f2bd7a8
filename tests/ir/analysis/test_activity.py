"""Activity: on random programs, and where memory is reached on paths nobody can tell apart."""

from __future__ import annotations

import itertools
import random

import pytest

from activerules.errors import ActiverulesError, MixedActivity, UnknownCall
from activerules.ir.foreign.differentiate import differentiate
from activerules.ir.llvm.parser import parse_module
from activerules.ir.plan.plan import Plan
from activerules.ir.plan.planning import make_plan
from activerules.ir.plan.request import Parameter, Request, Returned
from activerules.ir.text.normalise import canonical, exposed, normalise
from tests.ir.harness import Active, Const, Duplicated
from tests.ir.random_programs import Generator, lower


def _plan(text: str, active: frozenset[str]) -> Plan | None:
    """The plan with some of x, y (Active) and a, b (Duplicated); None if it is refused."""
    module = parse_module(text)
    function = module.functions["f"]
    kinds = {"x": "active", "y": "active", "a": "duplicated", "b": "duplicated"}
    parameters = tuple(
        Parameter(a, kinds[a.name] if a.name in active else "const", group=a.name)  # type: ignore[arg-type]
        for a in function.arguments
    )
    try:
        return make_plan(Request(module, function, "f", parameters, Returned("active")))
    except ActiverulesError:
        return None


def _active_names(plan: Plan) -> set[str]:
    values = [*plan.request.function.arguments, *plan.request.function.instructions()]
    return {v.name for v in values if v.name and plan.activity.is_active(v)}


@pytest.mark.parametrize("number", range(40))
def test_a1_a2_only_floats_are_active_and_more_independents_never_make_fewer(number: int) -> None:
    program = Generator(random.Random(number)).program(12)
    text = normalise(exposed(canonical(lower(program))), "f")
    choices = [frozenset(c) for k in range(5) for c in itertools.combinations("xyab", k)]
    plans = {choice: plan for choice in choices if (plan := _plan(text, choice)) is not None}
    assert frozenset() in plans
    for smaller, larger in itertools.product(plans, plans):
        if smaller < larger:
            assert _active_names(plans[smaller]) <= _active_names(plans[larger])
    for plan in plans.values():
        for i in plan.request.function.instructions():
            assert not (plan.activity.is_active(i) and not i.type.is_float)


def test_nothing_is_active_without_independents() -> None:
    text = normalise(canonical(lower(([], ("x",)))), "f")
    plan = _plan(text, frozenset())
    assert plan is not None
    assert not _active_names(plan)


MAY_ALIAS = """
define double @f(ptr %a, ptr %b, ptr %index, i64 %n, double %x, double %y) {
  %at = getelementptr double, ptr %a, i64 %n
  store double %x, ptr %at
  %first = load double, ptr %a
  %other = load double, ptr %b
  %s = fadd double %first, %other
  ret double %s
}
"""
UNKNOWN = """
declare double @unknown(double)
define double @f(double %x) {
  %y = call double @unknown(double %x)
  ret double %y
}
"""
CHOSEN = """
define double @f(ptr %p, ptr %q, i1 %c) {
  %r = select i1 %c, ptr %p, ptr %q
  %x = load double, ptr %r
  ret double %x
}
"""


def test_a3_memory_that_may_hold_an_active_value_is_active_or_refused() -> None:
    plan = _plan(normalise(exposed(canonical(MAY_ALIAS)), "f"), frozenset("xa"))
    assert plan is not None
    active = _active_names(plan)
    assert "first" in active, "the store may have gone there"
    assert "other" not in active
    with pytest.raises(UnknownCall):
        differentiate(UNKNOWN, "f", [Active])


def test_a4_a_pointer_to_memory_with_and_without_a_shadow_is_refused() -> None:
    differentiate(CHOSEN, "f", [Duplicated, Duplicated, Const])
    with pytest.raises(MixedActivity):
        differentiate(CHOSEN, "f", [Duplicated, Const, Const])

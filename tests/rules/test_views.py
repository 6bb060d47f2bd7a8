"""What the modes, and reports, see of the rules."""

import pytest
from numba import float64, njit

import activerules as ar
from activerules.rules import views
from activerules.rules.registry import RULES

pytestmark = pytest.mark.usefixtures("rules_of_this_test")
NUMBER = (float64,)


@pytest.mark.parametrize("forward", [False, True])
def test_w1_a_report_sees_more_calls_and_treats_them_alike(forward):
    @njit
    def with_forward(x):
        return x * x

    @ar.forward(with_forward)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return x.val * x.val, 2.0 * x.val * x.dval

    @njit
    def with_pair(x):
        return x * x

    @ar.augmented_primal(with_pair)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(x.val * x.val, None, x.val)

    @ar.reverse(with_pair)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 2.0 * tape * dret.val

    report = views.FORWARD_REPORT_VIEW if forward else views.REVERSE_REPORT_VIEW
    plain = views.FORWARD_VIEW if forward else views.View(RULES)
    served, followed = (with_forward, with_pair) if forward else (with_pair, with_forward)
    reason = views.WITHOUT_FORWARD if forward else views.WITHOUT_REVERSE
    for function, kept in ((served, True), (followed, False)):
        assert report.carries_rule(function)
        treatment = report.treatment(function, ("x",), NUMBER)
        assert treatment.kept is kept
        if plain.carries_rule(function):
            assert treatment == plain.treatment(function, ("x",), NUMBER)
    assert report.treatment(followed, ("x",), NUMBER).reason == reason

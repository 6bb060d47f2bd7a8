"""Reports on forward and split mode: which rules fire, and why not."""

import pytest
from numba import float64, njit

import activerules as ar


@njit
def squared(x):
    return x * x


@ar.forward(squared)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return squared(x.val), 2 * x.val * x.dval


@njit
def cubed(x):
    return x * x * x


@ar.augmented_primal(cubed)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(cubed(x.val), None, None)


@ar.reverse(cubed)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 3 * x.val * x.val * dret.val


@njit
def program(x, n):
    s = squared(2.0)
    for _ in range(n):
        s += squared(x) * cubed(x)
    return s


def test_a_forward_report_says_which_rules_fire():
    report = ar.explain(program, ar.BatchDuplicated(2.0, (1.0, 0.5)), 3, mode=ar.Forward)
    calls = {(call.name, call.location.line): call for call in report.rules}
    lines = sorted({line for _, line in calls})
    unused, used = calls["squared", lines[0]], calls["squared", lines[1]]
    assert unused.reason == "nothing active goes in and comes out"
    assert used.activities == ("Duplicated",)
    assert used.rule.endswith("for one tangent: it runs once per lane")
    body = calls["cubed", lines[1]]
    assert (body.followed, body.reason) == (True, "it has a reverse rule, and no forward rule")
    active = [line.location.line for line in report.lines if line.is_active]
    assert lines[1] in active
    text = str(report)
    assert "calls with rules" in text
    assert "tape" not in text
    assert "calls with rules" in report._repr_html_()


@pytest.mark.parametrize(
    "result", [ar.Duplicated, ar.DuplicatedNoNeed, ar.BatchDuplicated, ar.BatchDuplicatedNoNeed]
)
def test_the_activity_of_the_result_is_one_of_forward_mode(result):
    lanes = ar.BatchDuplicated(2.0, (1.0, 0.5))
    for argument in (lanes, ar.BatchDuplicated[float64]):
        report = ar.explain(program, result, argument, 3, mode=ar.Forward)
        assert report.signature.endswith("-> Duplicated")
    with pytest.raises(ar.ActivityError, match="a return marked Active is for reverse mode"):
        ar.explain(program, lanes, 3, return_activity=ar.Active, mode=ar.Forward)


@pytest.mark.parametrize("mode", [ar.Reverse, ar.Forward])
def test_the_activity_of_the_result_is_a_class(mode):
    with pytest.raises(ar.ActivityError, match="an annotation class, not 'Const'"):
        ar.explain(program, ar.Duplicated(2.0, 1.0), 3, return_activity="Const", mode=mode)


def test_the_mode_is_one():
    with pytest.raises(ar.ActivityError, match="the mode of a report is one such as Forward"):
        ar.explain(program, ar.Active(2.0), 3, mode="forward")


def test_a_split_report_has_a_tape():
    split = ar.explain(program, ar.Active(2.0), 3, mode=ar.ReverseSplitNoPrimal)
    assert not split.forward
    assert {call.name for call in split.rules if call.rule} == {"cubed"}


def test_a_reverse_report_says_whose_rule_is_for_forward_mode():
    calls = ar.explain(program, ar.Active(2.0), 3).rules
    bodies = {(call.name, call.reason) for call in calls if call.followed}
    assert bodies == {("squared", "it has a forward rule, and no reverse rule")}

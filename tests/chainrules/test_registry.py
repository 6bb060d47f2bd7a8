"""Which rule a direct call uses, and which rules the engine knows."""

import math

import numba
import numpy as np
import pytest

import activerules as ar
from activerules.chainrules import (
    HasReverseMode,
    NoTangent,
    RuleConfig,
    frule,
    non_differentiable,
    rrule,
)
from activerules.errors import RuleDefinitionError


def test_t1_a_rule_is_one_of_the_engine_too_unless_it_says_no():
    @numba.njit
    def doubled(x):
        return 2.0 * x

    @numba.njit
    def halved(x):
        return 0.5 * x

    rrule.register(doubled)(lambda f, x: (2.0 * x, lambda dy: (NoTangent(), 7.0 * dy)))
    rrule.register(halved, compiled=False)(lambda f, x: (x, lambda dy: (NoTangent(), 7.0 * dy)))
    assert rrule(doubled, 1.0)[1](1.0)[1] == rrule(halved, 1.0)[1](1.0)[1] == 7.0
    assert ar.grad(doubled)(1.0) == 7.0
    assert ar.grad(halved)(1.0) == 0.5


def test_t2_the_most_specific_rule_then_a_pair_then_a_declaration_then_the_table():
    @numba.njit
    def level(x):
        return math.floor(x) + x

    def slope():
        """The derivative that a direct call gets: each rule has one of its own."""
        answer = rrule(level, 2.5)
        return None if answer is None else answer[1](1.0)[1]

    assert slope() is None
    non_differentiable(level)
    assert slope() is NoTangent()

    @ar.augmented_primal(level)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(level(x.val), None, None)

    @ar.reverse(level)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 3.0 * dret.val

    assert slope() == 3.0

    @rrule.register(level)
    def _(f, x: float):
        return f(x), lambda dy: (NoTangent(), 5.0 * dy)

    assert slope() == 5.0
    assert rrule(level, np.float32(2.5))[1](1.0)[1] == 3.0
    assert rrule(math.sin, 0.0)[1](1.0)[1] == 1.0


def _define(function, style, slope):
    """A rule of `function` for all activities, in one of the styles; its derivative is `slope`."""
    if style == "pair":

        @ar.augmented_primal(function)
        def _(config, ret, x):
            return ar.AugmentedReturn(function(x.val), None, None)

        @ar.reverse(function)
        def _(config, dret, tape, x):
            return (slope * dret.val,)

    elif style == "rrule":

        @rrule.register(function)
        def _(f, x):
            return function(x), lambda dy: (NoTangent(), slope * dy)

    elif style == "forward":

        @ar.forward(function)
        def _(config, ret, x):
            return function(x.val), slope * x.dval

    else:

        @frule.register(function)
        def _(deltas, f, x):
            return function(x), slope * deltas[1]


@pytest.mark.parametrize("styles", [("pair", "rrule"), ("forward", "frule")], ids=str)
def test_the_later_of_two_rules_for_all_activities_serves(styles):
    @numba.njit
    def square(x):
        return x * x

    @numba.njit
    def use(x):
        return 2.0 * square(x)

    slope = 3.0
    for style in (*styles, *styles):
        slope += 1.0
        _define(square, style, slope)
        if "rrule" in styles:
            assert ar.grad(use)(0.5) == 2.0 * slope
            assert rrule(square, 0.5)[1](1.0)[1] == slope
        else:
            assert ar.jvp(use, (0.5,), (1.0,))[1] == 2.0 * slope
            assert frule((NoTangent(), 1.0), square, 0.5)[1] == slope
    _define(square, "pair", 11.0)
    assert ar.grad(use)(0.5) == 22.0


def test_a_rule_for_all_activities_replaces_that_of_another_module_if_it_says_so():
    @numba.njit
    def square(x):
        return x * x

    _define(square, "pair", 3.0)

    def rule(f, x):
        return square(x), lambda dy: (NoTangent(), 5.0 * dy)

    rule.__module__ = "another.package"
    with pytest.raises(ar.errors.AmbiguousRule, match="another module"):
        rrule.register(square)(rule)
    assert ar.grad(square)(0.5) == 3.0
    rrule.register(square, replace=True)(rule)
    assert ar.grad(square)(0.5) == 5.0


@pytest.mark.parametrize(
    ("rule", "words"),
    [(len, "decorates a Python function"), (lambda f, x: x, "is not a type of Numba")],
)
def test_what_is_no_rule(rule, words):
    if rule is not len:
        rule.__annotations__ = {"x": [1, 2]}
    with pytest.raises(RuleDefinitionError, match=words):
        rrule.register(numba.njit(lambda x: x))(rule)


def test_configurations_are_compared_by_what_they_can_do():
    reverse = RuleConfig(HasReverseMode)
    assert reverse == RuleConfig(HasReverseMode) != RuleConfig()
    assert len({reverse, RuleConfig(HasReverseMode)}) == 1
    assert repr(reverse) == "RuleConfig(HasReverseMode)"


def test_frule_after_an_opt_out():
    squared = numba.njit(lambda x: x * x)
    frule.register(squared)(lambda deltas, f, x: (f(x), 2.0 * x * deltas[1]))
    assert frule((NoTangent(), 1.0), squared, 3.0) == (9.0, 6.0)
    ar.opt_out(squared, ar.Active[float])
    assert frule((NoTangent(), 1.0), squared, 3.0) is None

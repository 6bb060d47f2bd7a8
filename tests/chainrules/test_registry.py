"""Which rule a direct call uses, and which rules the engine knows."""

import math

import numba
import numpy as np

import activerules as ar
from activerules.chainrules import NoTangent, non_differentiable, rrule


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

"""Draws: what their derivatives are, and where they have none."""

import random
import re

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.rules.registry import RULES


@njit
def scaled(scale):
    np.random.seed(3)
    draws = np.random.gamma(2.5, scale, 4)
    return draws[0] * draws[3] + scale * np.random.gamma(scale=scale, shape=0.7)


@njit
def draw(scale):
    random.seed(3)
    return random.gammavariate(2.5, scale) * random.betavariate(2.5, 3.5)


def test_a_draw_is_a_multiple_of_its_scale():
    """The first program is of second degree in the scale: x f'(x) = 2 f(x)."""
    assert ar.grad(scaled)(1.3) == pytest.approx(2 * scaled(1.3) / 1.3, rel=1e-14)
    _, tangent = ar.jvp(draw, (1.3,), (0.5,))
    assert tangent == pytest.approx(0.5 * draw(1.3) / 1.3, rel=1e-14)
    assert ar.grad(draw)(np.float32(2.0)) == np.float32(draw(2.0) / 2.0)


REFUSED = {
    np.random.gamma: 2, np.random.standard_gamma: 1, np.random.chisquare: 1, np.random.f: 2,
    np.random.beta: 2, np.random.standard_t: 1, np.random.wald: 2, np.random.vonmises: 2,
    np.random.noncentral_chisquare: 2, random.gammavariate: 2, random.betavariate: 2,
    random.vonmisesvariate: 2,
}  # fmt: skip


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_parameters_that_decide_what_is_drawn(function):
    """Both modes refuse them by name, and say why."""
    count = REFUSED[function]
    for find, kind in ((RULES.find, "active"), (RULES.find_forward, "duplicated")):
        kinds = [kind, *["const"] * (count - 1)]
        with pytest.raises(ar.NoRuleForActivity, match=rf"random\.{function.__name__}\(") as caught:
            find(function, [float64] * (count + 1), (*kinds, kind))
        assert "which candidate becomes the draw" in str(caught.value)


@njit
def of_discrete_draws(p):
    np.random.seed(3)
    few = np.random.poisson(p) + np.random.binomial(9, p) + np.random.geometric(p)
    return few + np.random.negative_binomial(5, p) + np.random.poisson(9.0 * p, 4).sum()


@njit
def weighed_by_draws(p):
    return of_discrete_draws(p) * p


def test_discrete_draws_are_constants():
    draws = of_discrete_draws(0.4)
    assert ar.grad(weighed_by_draws)(0.4) == draws > 0
    assert ar.jvp(weighed_by_draws, (0.4,), (2.0,)) == (draws * 0.4, draws * 2.0)


@njit
def of_generator(rng, df):
    return np.log(rng.chisquare(df))


@njit
def of_array(alpha):
    return np.random.dirichlet(alpha)[0]


@njit
def of_shape(shape):
    return np.random.gamma(shape, 2.0)


def test_rejection_samplers_are_refused_at_the_call():
    with pytest.raises(ar.NoRuleForActivity, match=r", which rng\.chisquare calls") as caught:
        ar.grad(of_generator, argnums=1)(np.random.default_rng(1), 3.0)
    text, line = str(caught.value), of_generator.py_func.__code__.co_firstlineno + 2
    assert re.search(rf"at the call +rng\.chisquare +\S*test_random\.py:{line}\n", text)
    assert "into an @njit function of your own" in text
    assert "numba/" not in text
    with pytest.raises(ar.NoRuleForActivity, match=r"np\.random\.dirichlet"):
        ar.grad(of_array)(np.array([1.0, 2.0]))
    with pytest.raises(ar.NoRuleForActivity, match=r"test_random\.py:\d+"):
        ar.jvp(of_shape, (1.5,), (1.0,))


def test_a_users_rule_replaces_a_refused_sampler(rules_of_this_test):
    @ar.augmented_primal(np.random.chisquare)
    def _(config, ret: ar.Active, df: ar.Active):
        return ar.AugmentedReturn(np.random.chisquare(df.val), None, None)

    @ar.reverse(np.random.chisquare)
    def _(config, dret: ar.Active, tape, df: ar.Active):
        return 7.0 * dret.val

    assert ar.grad(njit(lambda df: np.random.chisquare(df)))(3.0) == 7.0

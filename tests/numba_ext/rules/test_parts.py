"""Rules of functions of tuples with arrays: the engine sees the items, the rule the tuple."""

import math
from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba.core.runtime import rtsys

import activerules as ar
from activerules.chainrules import NoTangent, frule, rrule
from activerules.errors import (
    NoRuleForActivity,
    RuleCheckError,
    RuleReturnError,
    RuleViolation,
)
from activerules.testing import check_gradient, check_rule

Active, Const, Duplicated, MixedDuplicated = ar.Active, ar.Const, ar.Duplicated, ar.MixedDuplicated
Result = ar.AugmentedReturn

RNG = np.random.default_rng(7)
W, B, X = RNG.normal(size=(3, 3)), RNG.normal(size=3), RNG.normal(size=3)


@numba.njit
def layer(params, x):
    w, b = params
    y = b.copy()
    for i in range(y.size):
        for j in range(x.size):
            y[i] += w[i, j] * x[j]
        y[i] = math.tanh(y[i])
    return y


@numba.njit
def dense(params, x):
    return layer(params, x)


@ar.augmented_primal(dense)
def _(config, ret: Duplicated, params: Duplicated, x: Duplicated):
    y = layer(params.val, x.val)
    return Result(y, np.zeros_like(y), (y.copy(), params.val[0].copy(), x.val.copy()))


@ar.reverse(dense)
def _(config, dret: Duplicated, tape, params: Duplicated, x: Duplicated):
    y, w, before = tape
    w_bar, b_bar = params.dval
    for i in range(y.size):
        bar = dret.dval[i] * (1.0 - y[i] * y[i])
        b_bar[i] += bar
        for j in range(before.size):
            w_bar[i, j] += bar * before[j]
            x.dval[j] += bar * w[i, j]


def network(function):
    def run(w, b, x):
        for _ in range(3):
            x = function((w, b), x)
            b = x
        return x[0] * x[1] + x[2]

    return numba.njit(run)


with_rule = network(dense)


@numba.njit
def constant_bias(w, x):
    return dense((w, np.ones(3)), x)[1]


@numba.njit
def of_the_tuple(params, x):
    return dense(params, x)[0]


def test_p1_a_rule_takes_a_tuple_of_arrays():
    """In a loop, with one part constant, and as the argument that is differentiated."""
    check_gradient(with_rule, (W, B, X))
    check_gradient(constant_bias, (W, X))
    check_gradient(of_the_tuple, ((W, B), X))
    check_rule(dense, (W, B), X)
    params = Duplicated((W, B), (np.zeros_like(W), np.zeros_like(B)))
    explained = str(ar.explain(of_the_tuple, params, Const(X)))
    assert "dense(params: Duplicated, x: Duplicated) -> Duplicated" in explained


class Scaled(NamedTuple):
    """A number of times, a factor, and arrays beside a number."""

    times: int
    factor: float
    inner: tuple[np.ndarray, float]


@numba.njit
def plain_scaled(p, x):
    return p.times * p.factor * p.inner[1] * np.dot(p.inner[0], x)


def with_pair(wrong):
    """The function with a rule whose derivatives are `wrong` times what they should be."""

    @numba.njit
    def function(p, x):
        return plain_scaled(p, x)

    @ar.augmented_primal(function)
    def _(config, ret: Active, p: MixedDuplicated, x: Duplicated):
        return Result(plain_scaled(p.val, x.val), None, None)

    @ar.reverse(function, saves=("p", "x"))
    def _(config, dret: Active, tape, p: MixedDuplicated, x: Duplicated):
        times, factor, (a, k) = p.val
        bar = wrong * dret.val * times
        a_bar = p.dval.inner[0]
        a_bar += bar * factor * k * x.val
        ar.accumulate(x, bar * factor * k * a)
        total = bar * np.dot(a, x.val)
        return (None, total * k, (None, total * factor)), None

    return function


scaled, wrongly_scaled = with_pair(1.0), with_pair(1.5)


@ar.forward(scaled)
def _(config, ret: Duplicated, p: Duplicated, x: Duplicated):
    times, factor, (a, k) = p.val
    t = p.dval
    product = np.dot(a, x.val)
    tangent = (t.factor * k + factor * t.inner[1]) * product
    tangent += factor * k * (np.dot(t.inner[0], x.val) + np.dot(a, x.dval))
    return plain_scaled(p.val, x.val), times * tangent


def over_steps(function):
    """Arrays that are overwritten before the reverse, in items of a tuple made here."""

    def run(factor, a, k, x):
        total, a = 0.0, a.copy()
        for i in range(3):
            total += function(Scaled(i + 1, factor * i, (a, k)), x) ** 2
            total += function(Scaled(i, 2.0, (a, 0.5)), x)
            a *= a
        return total

    return numba.njit(run)


steps, plain_steps = over_steps(scaled), over_steps(plain_scaled)


@numba.njit
def of_wrong(p, x):
    return wrongly_scaled(p, x)


def test_a_rule_takes_a_named_tuple_of_numbers_and_arrays():
    """Nested, with an integer, with constant numbers; against no rule, and forward mode."""
    args = (1.3, B, 0.7, X)
    check_gradient(steps, args)
    found, expected = (ar.grad(f, argnums=(0, 1, 2, 3))(*args) for f in (steps, plain_steps))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    tangents = (0.3, RNG.normal(size=3), -0.4, RNG.normal(size=3))
    pushed = ar.jvp(steps, args, tangents)[1]
    np.testing.assert_allclose(
        pushed, sum(np.sum(g * t) for g, t in zip(found, tangents, strict=True))
    )
    check_rule(scaled, Scaled(2, 1.3, (B, 0.7)), X)


@numba.njit
def plain_weighed(p, x):
    return p[0] * np.sum(p[1]) * x


@numba.njit
def weighed(p, x):
    return plain_weighed(p, x)


@ar.forward(weighed)
def _(config, ret: ar.BatchDuplicated, p: ar.BatchDuplicated, x: Const):
    (k, a), (k0, a0), (k1, a1) = p.val, p.dval[0], p.dval[1]
    first, second = (k0 * np.sum(a) + k * np.sum(a0)), (k1 * np.sum(a) + k * np.sum(a1))
    return plain_weighed(p.val, x.val), (first * x.val, second * x.val)


@numba.njit
def of_weighed(k, a):
    return weighed((k, a), 3.0) + weighed((4.0, a), 2.0)


def test_a_rule_for_batches_takes_a_tuple_of_tangents_per_lane():
    lanes = np.array([1.0, -2.0]), np.array([0.5, 4.0])
    found = ar.autodiff(
        ar.Forward,
        of_weighed,
        ar.BatchDuplicated(1.5, (1.0, -0.5)),
        ar.BatchDuplicated(np.array([2.0, 5.0]), lanes),
    )
    expected = [
        3.0 * (k * 7.0 + 1.5 * lane.sum()) + 8.0 * lane.sum()
        for k, lane in zip((1.0, -0.5), lanes, strict=True)
    ]
    np.testing.assert_allclose(found, expected)


@numba.njit
def multiple(p):
    return p[0] * np.sum(p[1]) * p[2]


@ar.forward(multiple)
def _(config, ret: Duplicated, p: Duplicated):
    (x, a, n), (dx, da, dn) = p.val, p.dval
    s, ds = np.sum(a), np.sum(da)
    return x * s * n, dx * s * n + x * ds * n + x * s * dn


@numba.njit
def pair(p):
    return p[0] * p[1]


@ar.forward(pair)
def _(config, ret: Duplicated, p: Duplicated):
    return pair(p.val), p.dval[0] * p.val[1] + p.val[0] * p.dval[1]


@numba.njit
def of_integers(x):
    return multiple((x, np.array([x, 2.0]), 3)) * pair((x, 2)) + pair((x, True))


def test_an_integer_in_a_tuple_has_a_tangent_of_zero():
    """6 x^2 (x + 2) + x at 1.5: once, in lanes, twice, and where a rule runs directly."""
    value, slope, curvature = 6 * 1.5**2 * 3.5 + 1.5, 18 * 1.5**2 + 24 * 1.5 + 1, 36 * 1.5 + 24
    assert ar.jvp(of_integers, (1.5,), (1.0,)) == pytest.approx((value, slope))
    both = ar.autodiff(ar.Forward, of_integers, ar.BatchDuplicated(1.5, (1.0, -2.0)))
    assert both == pytest.approx((slope, -2 * slope))
    assert ar.hvp(of_integers)(1.5, 1.0) == pytest.approx(curvature)
    assert ar.jvp(pair, ((1.5, 3),), ((1.0, 3),)) == (4.5, 3.0)
    assert frule((None, (1.0, None)), pair, (1.5, 3)) == (4.5, 3.0)
    check_rule(multiple, (1.5, np.array([1.5, 2.0]), 3))


def test_debug_mode_and_check_rule_find_a_wrong_derivative_by_a_tuple():
    point = (Scaled(2, 1.3, (B, 0.7)), X)
    with ar.debug_mode(), pytest.raises(RuleViolation, match="differs from finite differences"):
        ar.grad(of_wrong)(*point)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(wrongly_scaled, MixedDuplicated(point[0], None), Const(X))


def test_nothing_of_the_items_is_leaked():
    ar.grad(with_rule)(W, B, X)
    ar.grad(steps)(1.3, B, 0.7, X)
    before = rtsys.get_allocation_stats()
    ar.grad(with_rule)(W, B, X)
    ar.grad(steps)(1.3, B, 0.7, X)
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free
    assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


# --- what is refused ---


@numba.njit
def first_times(params, x):
    return params[0][0] * x


@ar.augmented_primal(first_times)
def _(config, ret: Active, params: Const, x: Active):
    return Result(first_times(params.val, x.val), None, None)


@ar.reverse(first_times)
def _(config, dret: Active, tape, params: Const, x: Active):
    return None, dret.val * params.val[0][0]


@numba.njit
def constant_tuple(x):
    return first_times((np.array([2.0]), np.ones(2)), x)


@numba.njit
def active_tuple(x):
    return first_times((np.array([x]), np.ones(2)), x)


@numba.njit
def summed(params):
    return params[0] * np.sum(params[1])


@ar.augmented_primal(summed)
def _(config, ret: Active, params: MixedDuplicated):
    return Result(summed(params.val), None, None)


@ar.reverse(summed)
def _(config, dret: Active, tape, params: MixedDuplicated):
    return None


@numba.njit
def of_summed(params):
    return summed(params)


def test_what_a_rule_does_not_say_of_a_tuple_is_refused():
    assert ar.grad(constant_tuple)(3.0) == 2.0
    with pytest.raises(NoRuleForActivity, match=r"`params` is Duplicated\[\(float64\[::1\]"):
        ar.grad(active_tuple)(3.0)
    with pytest.raises(RuleReturnError, match=r"expected \(\(float64, None\),\)"):
        ar.grad(of_summed)((2.0, B))


class Layer(NamedTuple):
    """An integer, a number and an array, and a number deeper."""

    times: int
    scale: float
    w: np.ndarray
    inner: tuple[float, int]


@numba.njit
def mixed(p, x):
    return p.times * p.scale * p.inner[0] * np.dot(p.w, x)


@rrule.register(mixed)
def _(f, p, x):
    factor = p.times * p.inner[0]
    product = np.dot(p.w, x)

    def pullback(dy):
        w_bar = dy * factor * p.scale * x
        inner_bar = (dy * p.times * p.scale * product, None)
        x_bar = dy * factor * p.scale * p.w
        return NoTangent(), (NoTangent(), dy * factor * product, w_bar, inner_bar), x_bar

    return factor * p.scale * product, pullback


@frule.register(mixed)
def _(deltas, f, p, x):
    _, (_, scale_dot, w_dot, inner_dot), x_dot = deltas
    y = mixed(p, x)
    by_numbers = scale_dot * (y / p.scale) + inner_dot[0] * (y / p.inner[0])
    factor = p.times * p.scale * p.inner[0]
    return y, by_numbers + factor * (w_dot @ x + x_dot @ p.w)


@numba.njit
def of_mixed(scale, w, x):
    w = w.copy()
    y = mixed(Layer(2, scale, w, (scale * scale, 3)), x)
    w *= 0.5  # the rule needs it as it was
    return y + mixed(Layer(2, scale, w, (scale, 3)), x)


@numba.njit
def accumulating(params, x):
    return layer(params, x)


@ar.augmented_primal(accumulating)
def _(config, ret: Duplicated, params: Duplicated, x: Const):
    y = layer(params.val, x.val)
    return Result(y, np.zeros_like(y), (y.copy(), x.val.copy()))


@ar.reverse(accumulating)
def _(config, dret: Duplicated, tape, params: Duplicated, x: Const):
    y, x_before = tape
    b_bar = dret.dval * (1.0 - y * y)
    ar.accumulate(params, (np.outer(b_bar, x_before), b_bar))


@numba.njit
def of_accumulating(w, b):
    return accumulating((w, b), np.ones(3))[1]


@numba.njit
def short(params):
    return np.sum(params[0]) + np.sum(params[1])


@rrule.register(short)
def _(f, params):
    def pullback(dy):
        return NoTangent(), (dy * np.ones(3),)

    return np.sum(params[0]) + np.sum(params[1]), pullback


@numba.njit
def of_short(x):
    return short((x, 2.0 * x))


def test_an_rrule_takes_tuples_of_arrays():
    """Numbers and arrays, overwritten; and `accumulate` does a tuple at once."""
    check_gradient(of_mixed, (1.5, B, X))
    check_rule(mixed, Layer(2, 1.5, B, (0.7, 3)), X, compiled=False)
    check_gradient(of_accumulating, (W, B))
    with pytest.raises(RuleReturnError, match="as the tangent or cotangent of"):
        ar.grad(of_short)(X)
    with pytest.raises(RuleReturnError, match="does not have the length"):
        ar.accumulate(Duplicated((B, X), (B.copy(), X.copy())), (B,))

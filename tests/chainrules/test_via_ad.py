"""Rules that call back into AD, and derivatives by the engine where there is no rule."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit, typed

import activerules as ar
from activerules.chainrules import (
    HasReverseMode,
    NoTangent,
    NotImplementedTangent,
    RuleConfig,
    Tangent,
    ZeroTangent,
    frule,
    frule_via_ad,
    rrule,
    rrule_via_ad,
)
from activerules.errors import (
    ArityError,
    NotYetSupported,
    RuleDefinitionError,
    TangentNotImplemented,
)
from activerules.testing import check_gradient, check_grads

X = np.array([0.3, 0.7])
ITEMS = typed.List([1.0, 2.0])


@njit
def twice(g, x):
    return g(g(x))


def test_in_compiled_code_the_engine_is_named_in_its_place():
    def through(g, x):
        return rrule_via_ad(g, x)[0]

    with pytest.raises(RuleDefinitionError, match=r"(?s)is for Python.*ar\.vjp"):
        njit(through)(twice, 1.0)


@rrule.register(twice)
def _(f, g, x):
    y, first = ar.vjp(g, x)
    z, second = ar.vjp(g, y)

    def pullback(dz):
        (dy,) = second(dz)
        (dx,) = first(dy)
        return NoTangent(), NoTangent(), dx

    return z, pullback


@njit
def wave(x):
    return math.sin(x) * x


@njit
def of_wave(x):
    return twice(wave, x) ** 2


@njit
def weighted(x, n):
    return x * n


@njit
def scaled_sum(x, scale):
    return scale * np.sum(x * x)


def test_a_captured_pullback_is_a_tape():
    check_gradient(of_wave, (0.3,))


def test_reverse_via_ad():
    y, pullback = rrule_via_ad(weighted, X, 3)
    assert np.array_equal(y, 3 * X)
    for _ in range(2):
        own, x_bar, n_bar = pullback(X)
        assert (own, n_bar) == (NoTangent(), NoTangent())
        assert np.array_equal(x_bar, 3 * X)
    assert np.array_equal(pullback(ZeroTangent())[1], 0 * X)
    assert rrule_via_ad(math.sin, 0.3)[1](1.0)[1] == math.cos(0.3)


def test_forward_via_ad():
    y, dy = frule_via_ad((NoTangent(), X, NoTangent()), weighted, X, 3)
    assert np.array_equal(y, dy)
    y, dy = frule_via_ad((NoTangent(), ZeroTangent(), 2.0), scaled_sum, X, 3.0)
    assert dy == pytest.approx(2.0 * np.sum(X * X))
    assert frule_via_ad((NoTangent(), 1.0), math.sin, 0.3)[1] == math.cos(0.3)


def test_the_tangents_of_objects_are_passed_on():
    @njit
    def product(x):
        return x[0] * x[1]

    numbers = typed.List([2.0, 3.0])
    assert frule_via_ad((NoTangent(), typed.List([1.0, 0.0])), product, numbers) == (6.0, 3.0)
    assert frule_via_ad((NoTangent(), ZeroTangent()), product, numbers) == (6.0, 0.0)


def test_objects_are_constants_of_direct_calls_of_rules_for_the_engine():
    @njit
    def product(x, k):
        return x[0] * x[1] * k

    @ar.augmented_primal(product)
    def _(config, ret: ar.Active, x: ar.Duplicated, k: ar.Active):
        return ar.AugmentedReturn(product(x.val, k.val), None, None)

    @ar.reverse(product, saves="x")
    def _(config, dret: ar.Active, tape, x: ar.Duplicated, k: ar.Active):
        x.dval[0] += x.val[1] * k.val * dret.val
        x.dval[1] += x.val[0] * k.val * dret.val
        return None, x.val[0] * x.val[1] * dret.val

    @ar.forward(product)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated, k: ar.Duplicated):
        value = x.val[0] * x.val[1]
        slope = x.dval[0] * x.val[1] + x.val[0] * x.dval[1]
        return value * k.val, slope * k.val + value * k.dval

    numbers, direction = typed.List([2.0, 3.0]), typed.List([1.0, 0.0])
    _, x_bar, k_bar = rrule(product, numbers, 5.0)[1](1.0)
    assert (type(x_bar), k_bar) == (NotImplementedTangent, 6.0)
    _, x_bar, k_bar = rrule_via_ad(product, numbers, 5.0)[1](1.0)
    assert (list(x_bar), k_bar) == ([15.0, 10.0], 6.0)
    assert frule((NoTangent(), ZeroTangent(), 1.0), product, numbers, 5.0) == (30.0, 6.0)
    with pytest.raises(NotYetSupported, match="frule_via_ad"):
        frule((NoTangent(), direction, 1.0), product, numbers, 5.0)
    assert frule_via_ad((NoTangent(), direction, 1.0), product, numbers, 5.0) == (30.0, 21.0)


def test_requirements_choose_the_rule():
    @njit
    def plain(x):
        return x

    rrule.register(plain)(lambda f, x: (x, lambda dy: (NoTangent(), dy)))

    @rrule.register(plain, requires=HasReverseMode, compiled=False)
    def _(f, x):
        return x, lambda dy: (NoTangent(), 2.0 * dy)

    assert rrule(plain, 1.0)[1](1.0)[1] == 1.0
    assert rrule(plain, 1.0, config=RuleConfig(HasReverseMode))[1](1.0)[1] == 2.0
    with pytest.raises(TypeError, match="HasReverseMode"):
        RuleConfig("reverse")


def test_a_compiled_rule_that_requires_a_capability():
    """The engine has it, a direct call only by its configuration."""

    @njit
    def doubled(x):
        return 2.0 * x

    @rrule.register(doubled, requires=HasReverseMode)
    def _(f, x):
        return f(x), lambda dy: (NoTangent(), 2.0 * dy)

    assert ar.grad(doubled)(1.0) == 2.0
    assert rrule(doubled, 1.0) is None
    assert rrule(doubled, 1.0, config=RuleConfig(HasReverseMode))[1](1.0)[1] == 2.0


def test_check_grads_of_both_orders():
    check_grads(scaled_sum, (X, 0.4))
    check_grads(weighted, (0.4, 2), order=1)
    with pytest.raises(ValueError, match="order 3"):
        check_grads(scaled_sum, (X, 0.4), order=3)


@pytest.mark.parametrize("dot", [{"w": 1.0}, Tangent[dict](w=1.0)], ids=repr)
def test_a_tangent_of_a_dictionary_may_leave_out_zeros(dot):
    def product(p):
        return p["w"] ** 2 * p["x"].sum()

    assert frule_via_ad((NoTangent(), dot), product, {"w": 2.0, "x": X}) == (4.0, 4.0)


def area(sides):
    return sides[0] * sides[1]


def test_tuples_have_tangents_of_any_form():
    for dot in ((1.0, 2.0), Tangent[tuple](1.0, 2.0)):
        assert frule_via_ad((NoTangent(), dot), area, (2.0, 3.0)) == (6.0, 7.0)
    assert frule_via_ad((NoTangent(), (1.0, ZeroTangent())), area, (2.0, 3.0)) == (6.0, 3.0)


@dataclass
class Sides:
    a: float
    b: np.ndarray


def test_objects_have_tangents_of_any_form():
    def product(sides):
        return sides.a * sides.b.sum()

    at = Sides(2.0, X)
    for dot in (Sides(1.0, 0.0 * X), Tangent[Sides](a=1.0)):
        assert frule_via_ad((NoTangent(), dot), product, at) == (2.0, 1.0)


def test_a_derivative_that_a_rule_does_not_have():
    missing = NotImplementedTangent("see issue 4")
    with pytest.raises(TangentNotImplemented, match="see issue 4"):
        frule_via_ad((NoTangent(), missing), area, (2.0, 3.0))
    with pytest.raises(TangentNotImplemented, match="see issue 4"):
        rrule_via_ad(area, (2.0, 3.0))[1](missing)


def test_compiled_code_cannot_call_it():
    @njit
    def pushed(x):
        return frule_via_ad((None, 1.0), twice, x)

    with pytest.raises(RuleDefinitionError, match=r"frule_via_ad is for Python[\s\S]*ar\.jvp"):
        pushed(1.0)


@njit
def doubled_first(items):
    return items[0] * 2.0


@pytest.mark.parametrize("tangents", [(), (None,), (None, ITEMS, ITEMS), None, 2.0, ZeroTangent()])
def test_another_number_of_tangents(tangents):
    with pytest.raises(ArityError, match=r"frule_via_ad of doubled_first.*expected"):
        frule_via_ad(tangents, doubled_first, ITEMS)
    with pytest.raises(ArityError, match="tangents"):
        frule(tangents, wave, 1.0)

"""`scalar_rule`: rules made of partial derivatives, in direct calls and in the engine."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import NoTangent, ZeroTangent, frule, rrule, scalar_rule
from activerules.errors import RuleDefinitionError, TangentMismatch
from activerules.testing import central_fdm


@njit
def distance(x, y):
    return math.sqrt(x * x + y * y)


@njit
def tangent_of(x):
    return math.sin(x) / math.cos(x)


@njit
def cubed(z):
    return z * z * z


@njit
def turned(x):
    return math.sin(x), math.cos(x)


scalar_rule(distance, lambda Ω, x, y: (x / Ω, y / Ω))
scalar_rule(tangent_of, lambda Ω, x, s: s, setup=lambda Ω, x: 1 + Ω * Ω)  # without a tuple
scalar_rule(cubed, lambda Ω, z: (3 * z * z,))
scalar_rule(turned, lambda Ω, x: ((Ω[1],), (-Ω[0],)))


@njit
def uses_scalar_rules(x, y):
    total = 0.0
    for k in range(1, 4):
        total += distance(x * k, y) * tangent_of(y / k) + cubed(x)
    return total


def test_scalar_rules_serve_the_engine():
    found = ar.grad(uses_scalar_rules, (0, 1))(0.7, 0.4)
    plain = njit(uses_scalar_rules.py_func)
    for slope, along, at in zip(
        found, (lambda x: plain(x, 0.4), lambda y: plain(0.7, y)), (0.7, 0.4), strict=True
    ):
        expected, error = central_fdm(5).estimate(along, at, step=0.01)
        assert abs(slope - expected) < 1e-9 + 10 * error


def test_scalar_rules_answer_direct_calls():
    assert rrule(distance, 3.0, 4.0)[1](5.0) == (NoTangent(), 3.0, 4.0)
    assert frule((NoTangent(), ZeroTangent(), 1.0), distance, 3.0, 4.0) == (5.0, 0.8)
    y, pullback = rrule(tangent_of, 0.3)
    assert pullback(1.0)[1] == 1 + y * y
    assert rrule(cubed, 1 + 1j)[1](1.0)[1] == (3 * (1 + 1j) ** 2).conjugate()
    assert frule((NoTangent(), 1.0), cubed, 1 + 1j)[1] == 3 * (1 + 1j) ** 2


def test_scalar_rules_of_several_outputs():
    _, pullback = rrule(turned, 0.3)
    assert pullback((2.0, ZeroTangent()))[1] == 2.0 * math.cos(0.3)
    assert pullback((1.0, 1.0))[1] == math.cos(0.3) - math.sin(0.3)
    _, dots = frule((NoTangent(), 1.0), turned, 0.3)
    assert dots == (math.cos(0.3), -math.sin(0.3))


def test_a_cotangent_has_an_entry_per_output():
    @njit
    def both(x):
        return math.sin(x), math.cos(x)

    scalar_rule(both, lambda Ω, x: ((Ω[1],), (-Ω[0],)), compiled=False)
    for function in (turned, both):
        _, pullback = rrule(function, 0.3)
        for bars in ((1.0,), (1.0, 1.0, 1.0)):
            with pytest.raises(TangentMismatch, match="a tangent of 2 entries"):
                pullback(bars)


def test_partials_of_another_arity_are_refused():
    with pytest.raises(RuleDefinitionError, match="partials"):
        scalar_rule(distance, lambda Ω, x: (x,), setup=lambda Ω, x, y: x)
    with pytest.raises(RuleDefinitionError, match="partials"):
        scalar_rule(distance, lambda Ω: (1.0,))
    with pytest.raises(RuleDefinitionError, match="takes 2 arguments, and its partials take 1"):
        scalar_rule(distance, lambda Ω, x: (1.0,))


@pytest.mark.parametrize(
    ("found", "partials"),
    [
        (1, lambda Ω, x, y: (y,)),
        (1, lambda Ω, x, y: -math.sin(x) * y),
        (1, lambda Ω, x, y: (np.exp(x) / Ω,)),
        (1, lambda Ω, x, y: ((y,), (x, y))),
        (3, lambda Ω, x, y: (x, y if x > 0.0 else ZeroTangent(), 2.0)),
        (3, lambda Ω, x, y: (1.0, 2.0, 3.0)),
    ],
)
def test_partials_q1_partials_that_are_not_one_per_argument_are_refused(found, partials):
    with pytest.raises(RuleDefinitionError, match=f"found {found}, expected 2"):
        scalar_rule(distance, partials)


@njit
def row_of(x):
    return (x,)


@njit
def product(x, y):
    return x * y


scalar_rule(product, lambda Ω, x, y: row_of(y))


def test_partials_of_which_the_code_does_not_say_how_many_are_refused_at_the_derivative():
    wrong = "per argument: found 1, expected 2"
    with pytest.raises(RuleDefinitionError, match=wrong):
        ar.jvp(product, (2.0, 3.0), (0.0, 1.0))
    with pytest.raises(RuleDefinitionError, match=wrong):
        ar.grad(product)(2.0, 3.0)
    with pytest.raises(RuleDefinitionError, match=wrong):
        rrule(product, 2.0, 3.0)[1](1.0)
    with pytest.raises(RuleDefinitionError, match=wrong):
        frule((NoTangent(), 0.0, 1.0), product, 2.0, 3.0)


@njit
def pair_of(x):
    return x * x, x


scalar_rule(pair_of, lambda Ω, x: (2.0 * x,))


@njit
def sum_of_pair(x):
    return sum(pair_of(x))


def test_rows_that_are_not_one_per_output_are_refused_at_the_derivative():
    with pytest.raises(RuleDefinitionError, match="row of partials per output: found 1"):
        ar.grad(sum_of_pair)(2.0)
    with pytest.raises(RuleDefinitionError, match="row of partials per output: found 1"):
        rrule(pair_of, 2.0)[1]((1.0, 1.0))


def test_scalar_rules_push_in_forward_mode():
    derivative = ar.autodiff(ar.Forward, uses_scalar_rules, ar.Duplicated(0.7, 1.0), ar.Const(0.4))
    assert derivative == pytest.approx(ar.grad(uses_scalar_rules)(0.7, 0.4), rel=1e-13)


@pytest.mark.parametrize("wrong", [None, "a", np.array(["a"])])
def test_tangents_that_are_no_numbers(wrong):
    with pytest.raises(TangentMismatch, match="expected numbers"):
        rrule(math.sin, 1.0)[1](wrong)
    with pytest.raises(TangentMismatch, match="expected numbers"):
        frule((None, wrong), math.sin, 1.0)


@pytest.mark.parametrize("wrong", [(1.0,), (1.0, 2.0)])
def test_a_tuple_is_no_cotangent_of_a_number(wrong):
    with pytest.raises(TangentMismatch, match="the cotangent of a number is a number, not"):
        rrule(math.sin, 1.0)[1](wrong)


def test_partials_that_are_no_function():
    with pytest.raises(RuleDefinitionError, match="`partials` is not a Python function"):
        scalar_rule(njit(lambda x: x), None)

"""Functions with rules that return truth values, integers and optional values beside numbers."""

import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import NoTangent, rrule
from activerules.errors import NotYetSupported
from activerules.testing import check_gradient


@njit
def doubled_with_facts(x, k):
    return 2.0 * x, (1, True), k if k > 0 else None


@rrule.register(doubled_with_facts)
def doubled_with_facts_rule(f, x, k):
    def pullback(y_bar):
        return NoTangent(), 2.0 * y_bar[0], NoTangent()

    return (2.0 * x, (1, True), k if k > 0 else None), pullback


ar.opt_out(doubled_with_facts, mode="forward")


@njit
def uses_the_number(x, k):
    y, (count, _), _ = doubled_with_facts(x, k)
    return count * x * y


@njit
def uses_the_facts(x, k):
    y, (count, is_known), factor = doubled_with_facts(x, k)
    total = count * x * y if is_known else 0.0
    return total if factor is None else total * factor * y


@pytest.mark.parametrize("k", [3, -3])
@pytest.mark.parametrize("function", [uses_the_number, uses_the_facts])
def test_truth_values_and_integers_that_may_be_none_stand_beside_numbers(function, k):
    check_gradient(function, (1.3, k))


@njit
def doubled_or_none(x, k):
    return 2.0 * x, x if k > 0 else None


@rrule.register(doubled_or_none)
def doubled_or_none_rule(f, x, k):
    def pullback(y_bar):
        return NoTangent(), 2.0 * y_bar[0], NoTangent()

    return (2.0 * x, x if k > 0 else None), pullback


@njit
def uses_what_may_be_none(x, k):
    y, z = doubled_or_none(x, k)
    return y if z is None else y * z


def test_a_float_that_may_be_none_is_refused():
    with pytest.raises(NotYetSupported, match="no cotangent for a number that may be None"):
        ar.grad(uses_what_may_be_none)(1.3, 2)

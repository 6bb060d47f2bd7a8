"""What a division by zero in a rule gives: an infinite slope, or the exception of the function."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import NoTangent, frule, rrule

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated


@njit
def root(x):
    return math.sqrt(x)


@ar.augmented_primal(root)
def _(config, ret: Active, x: Active):
    return ar.AugmentedReturn(math.sqrt(x.val), None, None)


@ar.reverse(root)
def _(config, dret: Active, tape, x: Active):
    return dret.val * 0.5 / math.sqrt(x.val)


@ar.forward(root)
def _(config, ret: Duplicated, x: Duplicated):
    y = math.sqrt(x.val)
    return y, x.dval * 0.5 / y


@njit
def root_by_chainrules(x):
    return math.sqrt(x)


@rrule.register(root_by_chainrules)
def _(f, x):
    slope = 0.5 / math.sqrt(x)

    def pullback(dy):
        return NoTangent(), slope * dy

    return math.sqrt(x), pullback


@frule.register(root_by_chainrules)
def _(deltas, f, x):
    y = math.sqrt(x)
    return y, 0.5 / y * deltas[1]


@njit
def twice(x):
    return 2.0 * root(x)


@njit
def twice_by_chainrules(x):
    return 2.0 * root_by_chainrules(x)


@pytest.mark.parametrize("function", [twice, twice_by_chainrules])
def test_functions_e1_a_slope_without_bound_is_infinite_in_both_modes(function):
    assert ar.grad(function)(0.0) == math.inf
    assert ar.jvp(function, (0.0,), (1.0,)) == (0.0, math.inf)
    np.testing.assert_allclose(ar.grad(ar.grad(function))(4.0), -0.0625)


def quotient(x, n):
    return 1.0 / x + 1 // n


shared = njit(quotient)
by_numpy = njit(error_model="numpy")(quotient)


@ar.augmented_primal(shared)
def _(config, ret: Active, x: Active, n: Const):
    return ar.AugmentedReturn(1.0 / x.val + 1 // n.val, None, None)


@ar.reverse(shared)
def _(config, dret: Active, tape, x: Active, n: Const):
    return -dret.val / x.val**2, None


@njit
def of_python(x, n):
    return shared(x, n)


@njit(error_model="numpy")
def of_numpy(x, n):
    return by_numpy(x, n)


@pytest.mark.parametrize(("x", "n"), [(0.0, 1), (2.0, 0)])
def test_functions_e1_an_augmented_primal_divides_as_its_function_does(x, n):
    """Two dispatchers of one function share the rule, which is compiled for each."""
    with pytest.raises(ZeroDivisionError):
        of_python(x, n)
    with pytest.raises(ZeroDivisionError):
        ar.value_and_grad(of_python)(x, n)
    value, slope = ar.value_and_grad(of_numpy)(x, n)
    assert value == of_numpy(x, n)
    assert slope == (-math.inf if x == 0 else -0.25)


@njit
def whole_parts(x, n):
    return x * (4 // n)


@ar.augmented_primal(whole_parts)
def _(config, ret: Active, x: Active, n: Const):
    return ar.AugmentedReturn(whole_parts(x.val, n.val), None, None)


@ar.reverse(whole_parts)
def _(config, dret: Active, tape, x: Active, n: Const):
    return 4 // n.val * dret.val, None


def test_pair_rules_t2_flags_of_the_caller_do_not_reach_the_rule():
    @njit(error_model="numpy")
    def caller(x, n):
        return whole_parts(x, n) + 4 // n

    assert ar.value_and_grad(caller)(1.0, 2) == (4.0, 2.0)
    with pytest.raises(ZeroDivisionError):
        ar.value_and_grad(caller)(1.0, 0)


def test_functions_e1_options_of_the_rule_itself_come_first():
    @njit
    def strict(x):
        return math.sqrt(x)

    @ar.augmented_primal(strict)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(math.sqrt(x.val), None, None)

    @ar.reverse(strict)
    @njit(error_model="python")
    def _(config, dret: Active, tape, x: Active):
        return dret.val * 0.5 / math.sqrt(x.val)

    @njit
    def caller(x):
        return strict(x)

    assert ar.grad(caller)(4.0) == 0.25
    with pytest.raises(ZeroDivisionError):
        ar.grad(caller)(0.0)


def test_bounds_are_checked_where_the_function_checks_them():
    @njit(boundscheck=True)
    def entry(x, i):
        return x[i]

    @ar.augmented_primal(entry)
    def _(config, ret: Active, x: Duplicated, i: Const):
        return ar.AugmentedReturn(x.val[i.val], None, None)

    @ar.reverse(entry)
    def _(config, dret: Active, tape, x: Duplicated, i: Const):
        x.dval[i.val] += dret.val

    @njit
    def caller(x, i):
        return entry(x, i)

    np.testing.assert_array_equal(ar.grad(caller)(np.ones(3), 1), [0.0, 1.0, 0.0])
    with pytest.raises(IndexError):
        ar.grad(caller)(np.ones(3), 3)


def test_bounds_are_checked_in_the_reverse_and_in_a_forward_rule():
    @njit(boundscheck=True)
    def first(x):
        return x[0]

    @ar.augmented_primal(first)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(x.val[0], None, None)

    @ar.reverse(first)
    def _(config, dret: Active, tape, x: Duplicated):
        x.dval[3] += dret.val

    @ar.forward(first)
    def _(config, ret: Duplicated, x: Duplicated):
        return x.val[0], x.dval[3]

    calling = njit(lambda x: first(x))
    for derivative in (
        ar.grad(calling),
        lambda x: ar.jvp(calling, (x,), (x,)),
        lambda x: ar.hvp(calling, x, x),
    ):
        with pytest.raises(IndexError):
            derivative(np.ones(3))

"""`scalar_rule` at points where a partial derivative is infinite."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import NoTangent, frule, rrule, scalar_rule


@njit
def root(x):
    return math.sqrt(x)


@njit
def root_and_product(x, y):
    return math.sqrt(x), x * y


@njit
def weighted(w, x):
    return w * root(x)


@njit
def weighted_pair(w, x):
    r, p = root_and_product(x, 3.0)
    return w * r + p


def root_of_numpy(x):
    return np.sqrt(x)


scalar_rule(root, lambda Ω, x: 0.5 / Ω)
scalar_rule(root_and_product, lambda Ω, x, y: ((0.5 / Ω[0], 0.0), (y, x)))
scalar_rule(root_of_numpy, lambda Ω, x: 0.5 / Ω, compiled=False)


def test_a_pole_is_an_infinite_slope():
    assert ar.grad(weighted, argnums=1)(2.0, 0.0) == math.inf
    assert ar.jvp(weighted, (2.0, 0.0), (0.0, 1.0)) == (0.0, math.inf)


@pytest.mark.parametrize(("function", "slope"), [(weighted, 0.0), (weighted_pair, 3.0)])
def test_zero_times_an_infinite_slope_is_zero_in_both_modes(function, slope):
    assert ar.grad(function, argnums=(0, 1))(0.0, 0.0) == (0.0, slope)
    assert ar.jvp(function, (2.0, 0.0), (1.0, 0.0)) == (0.0, 0.0)


def test_second_derivatives_pass_through_the_product():
    """w²√x: the second derivative by w and x is w/√x, also where its factor w is 0."""

    @njit
    def scaled_root(w, x):
        return w * (w * root(x))

    second = ar.grad(ar.grad(scaled_root, argnums=1), argnums=0)
    np.testing.assert_allclose([second(0.7, 4.0), second(0.0, 4.0)], [0.35, 0.0], atol=1e-15)
    np.testing.assert_allclose(ar.grad(ar.grad(weighted, argnums=1), argnums=0)(0.0, 4.0), 0.25)


@pytest.mark.parametrize("number", [np.float64, np.float32, np.complex64, np.complex128])
def test_a_direct_call_has_the_same_convention(number):
    point = number(0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        _, pull = rrule(root_of_numpy, point)
        assert pull(point) == (NoTangent(), 0.0)
        assert frule((NoTangent(), point), root_of_numpy, point)[1] == 0.0
        if not np.iscomplexobj(point):
            assert pull(number(1.0)) == (NoTangent(), math.inf)


def test_a_truth_value_is_a_constant_argument():
    @njit
    def product(x, y):
        return x * y

    scalar_rule(product, lambda Ω, x, y: (7.0 * y, x))
    assert ar.grad(njit(lambda x: product(x, True)))(2.0) == 7.0
    assert ar.jvp(njit(lambda x: product(x, True)), (2.0,), (1.0,)) == (2.0, 7.0)

"""Gradients that are ordinary code: which they are, and that they can be differentiated again."""

import math

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.reverse import derive

ARRAY = float64[::1]


def derived(f, *activities):
    """The gradient, made to be differentiated again, of a function of arrays and numbers."""
    argtypes = tuple(float64 if a == "active" else ARRAY for a in activities)
    spec = DerivativeSpec(argtypes, activities, again=True)
    return derive(f, spec).gradient


@njit
def squared_distance(x, y):
    total = 0.0
    for i in range(len(x)):
        total += (x[i] - y[i]) ** 2 / math.sqrt(x[i])
    return total


@njit
def by_a_temporary(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = x[i] * x[i]
    return y[0] * y[-1]


@njit
def product(x):
    total = 1.0
    for i in range(len(x)):
        total *= x[i]
    return total


@njit
def with_a_rule(x):
    return np.linalg.norm(x)


@njit
def into(x, y):
    for i in range(len(x)):
        y[i] *= 2.0
    return y[0] * x[0]


@njit
def cubed(x):
    return x * x * x if x > 0.0 else x


def test_o1_no_tape_and_no_calls_but_of_mathematical_functions():
    assert derived(squared_distance, "duplicated", "const").ordinary
    assert derived(cubed, "active").ordinary
    for one in (by_a_temporary, product, with_a_rule):
        assert not derived(one, "duplicated").ordinary


@njit
def root(x):
    """A zero slope of the square at x = 1 meets that of the root."""
    return (math.sqrt(x[0]) - 1.0) ** 2


@njit
def nearest(x):
    """A sum whose cotangent is zero where it is 2: the sweep may pass over the loop."""
    total = 0.0
    for i in range(len(x)):
        total += x[i]
    return (min(total, 5.0) - 2.0) ** 2


@pytest.mark.parametrize(
    ("f", "x", "slope"),
    [(root, np.ones(1), [0.5]), (nearest, np.array([3.0, -1.5, 0.5]), [1.0, 1.0, 1.0])],
    ids=["root", "nearest"],
)
def test_o2_the_derivative_where_a_cotangent_is_zero(f, x, slope):
    """Of the square of what is zero: its Hessian is twice the outer product of the slope."""
    assert derived(f, "duplicated").ordinary
    slope, v = np.array(slope), np.arange(1.0, len(x) + 1.0)

    @njit
    def along(x, v):
        return np.sum(ar.grad(f)(x) * v)

    expected = 2.0 * slope * (slope @ v)
    np.testing.assert_allclose(ar.grad(along)(x, v), expected, rtol=1e-14)
    _, found = ar.jvp(along, (x, v), (v, None))
    np.testing.assert_allclose(found, expected @ v, rtol=1e-14)


@njit
def gradients_of_one_array(x):
    by_x, by_y = ar.grad(squared_product, (0, 1))(x, x)
    return np.sum(by_x * by_y)


@njit
def squared_product(x, y):
    total = 0.0
    for i in range(len(x)):
        total += (x[i] * y[i]) ** 2
    return total


def test_o3_arguments_may_be_the_same_memory():
    x = np.array([0.5, -2.0])
    np.testing.assert_allclose(ar.grad(gradients_of_one_array)(x), 24.0 * x**5, rtol=1e-14)
    assert not derived(into, "duplicated", "duplicated").ordinary

"""Gradients that are ordinary code: which they are, and that they can be differentiated again."""

import math

import numpy as np
import pytest
from numba import boolean, float64, int64, njit

import activerules as ar
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.reverse import derive

ARRAY = float64[::1]


def derived(f, *activities):
    """The gradient, made to be differentiated again, of a function of arrays and numbers."""
    argtypes = tuple(float64 if a == "active" else ARRAY for a in activities)
    return derive(f, DerivativeSpec(argtypes, activities, again=True)).gradient


@njit
def squared_distance(x, y):
    total = 0.0
    for i in range(len(x)):
        total += (x[i] - y[i]) ** 2 / math.sqrt(x[i])
    return total


@njit
def summed(x):
    total = 0.0
    for i in range(len(x)):
        total += x[i] * x[i]
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


@njit
def of_pairs(x):
    """A triangle of pairs; a value of each i, and one of each pair, are kept."""
    total = 0.0
    for i in range(len(x)):
        weight = math.exp(-x[i] * x[i])
        for j in range(i):
            total += weight * math.sin(x[i] * x[j]) / (1.0 + x[j] * x[j])
    return total


@njit
def by_branches(x):
    """Which branch was taken is kept, too."""
    total = 1.0
    for i in range(len(x)):
        if total * x[i] > 0.0:
            total = math.sin(total)
            total += x[i]
        else:
            total -= math.exp(x[i]) * total
    return total


@njit
def checked(x):
    total = 1.0
    for i in range(len(x)):
        if x[i] > 5.0:
            raise ValueError("too large")
        total = math.cos(total * x[i])
    return total


@njit
def by_expressions(x):
    return np.sum(np.sin(x[:-1]) * np.exp(x[1:]))


@njit
def until_small(x):
    """A loop that ends when it has converged."""
    y = x[0]
    while abs(y * y - x[1]) > 1e-12:
        y = 0.5 * (y + x[1] / y)
    return y * x[0]


@njit
def ragged(x):
    """How often the inner loop runs is computed in the outer one."""
    total = 1.0
    for i in range(len(x)):
        for _ in range(int(10.0 * abs(x[i])) % 3):
            total = math.sin(total + x[i])
    return total


@njit
def new_each_time(x):
    total = 0.0
    for i in range(len(x)):
        y = np.exp(x * x[i])
        total += y[0] * y[-1]
    return total


IN_ARRAYS = [product, by_a_temporary, of_pairs, by_branches, checked, by_expressions]
ON_A_TAPE = [with_a_rule, until_small, ragged, new_each_time]


def test_o1_no_tape_and_no_rules():
    assert derived(squared_distance, "duplicated", "const").again.ordinary
    assert derived(cubed, "active").again.ordinary
    assert all(derived(f, "duplicated").again.ordinary for f in IN_ARRAYS)
    assert not any(derived(f, "duplicated").again.ordinary for f in ON_A_TAPE)


def test_what_several_tangents_can_share():
    """Arrays, or mathematical functions in a loop."""
    for f in (product, of_pairs, by_branches, checked, by_expressions):
        assert derived(f, "duplicated").again.expensive
    assert derived(squared_distance, "duplicated", "const").again.expensive
    assert not derived(cubed, "active").again.expensive
    assert not derived(summed, "duplicated").again.expensive


@pytest.mark.parametrize(
    "f", [of_pairs, by_branches, checked, by_expressions], ids=lambda f: f.__name__
)
def test_second_derivatives(f, unfreed):
    """Hessians against differences of gradients, gradients of gradients against Hessians."""
    x, v = np.array([0.72, 1.33, -0.41, 0.94, -1.13]), np.linspace(0.5, -1.0, 5)
    gradient, hessian = ar.grad(f), ar.hessian(f)
    coarse, fine = ((gradient(x + h * v) - gradient(x - h * v)) / (2 * h) for h in (2e-4, 1e-4))
    error = np.abs(coarse - fine).max() + 1e-10

    @njit
    def squared(x):
        return 0.5 * np.sum(gradient(x) ** 2)

    matrix = hessian(x)
    np.testing.assert_allclose(matrix @ v, (4 * fine - coarse) / 3, atol=error)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(ar.grad(squared)(x), matrix @ gradient(x), rtol=1e-9)
    assert unfreed(lambda: (hessian(x), ar.grad(squared)(x))) == 0
    assert hessian(x[:1]).shape == (1, 1)


def test_a_hessian_of_a_function_that_raises():
    hessian = ar.hessian(checked)
    with pytest.raises(ValueError, match="too large"):
        hessian(np.array([0.5, 6.0]))
    assert np.all(np.isfinite(hessian(np.array([0.5, 0.6]))))


@njit
def never_so_often(x, n, runs):
    total = 1.0
    for i in range(len(x)):
        if runs:
            for _ in range(n):
                total = math.sin(total * x[i])
        total *= math.exp(x[i])
    return total


def test_arrays_have_no_room_for_loops_that_are_too_long():
    """Where such a loop does not run, nothing is missing."""
    x, hessian = np.array([0.5, 0.25]), ar.hessian(never_so_often)
    activities = ("duplicated", "const", "const")
    spec = DerivativeSpec((ARRAY, int64, boolean), activities, again=True)
    assert derive(never_so_often, spec).gradient.again.ordinary
    expected = np.full((2, 2), math.exp(0.75))  # of exp(x[0] + x[1])
    np.testing.assert_allclose(hessian(x, 1 << 60, False), expected, rtol=1e-14)
    with pytest.raises(MemoryError):
        hessian(x, 1 << 60, True)
    np.testing.assert_allclose(hessian(x, 0, True), expected, rtol=1e-14)


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
    assert derived(f, "duplicated").again.ordinary
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
    assert not derived(into, "duplicated", "duplicated").again.ordinary

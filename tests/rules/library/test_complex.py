"""Rules and complex numbers: linear algebra, and rules of users for complex and tuple arguments."""

import cmath
import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient, well_conditioned


def matrix(seed=0, n=3):
    rng = np.random.default_rng(seed)
    return well_conditioned(n, rng) + 1j * rng.normal(size=(n, n))


@njit
def products(A, x):
    y = A @ x
    return np.abs(np.linalg.solve(A, y)).sum() + np.dot(x, y).imag


def test_products():
    check_gradient(products, (matrix(1), matrix(3)[0]), trials=1)


@njit
def twirled(z, pair):
    return cmath.exp(1j * z) * pair[1] + pair[0]


@ar.augmented_primal(twirled)
def _(config, ret: ar.Active, z: ar.Active, pair: ar.Active):
    return ar.AugmentedReturn(twirled(z.val, pair.val), None, None)


@ar.reverse(twirled)
def _(config, dret: ar.Active, tape, z: ar.Active, pair: ar.Active):
    turn = cmath.exp(1j * z.val)
    g = dret.val
    n_bar, w_bar = g, g * turn.conjugate()
    return (1j * turn * pair.val[1]).conjugate() * g, (n_bar.real, w_bar)


@njit
def calls_twirled(z, a, n):
    w = twirled(z, (a, z * z)) * twirled(z, (a * n, 1j))
    return w.real + abs(w)


def test_a_rule_takes_complex_numbers_and_tuples():
    check_gradient(calls_twirled, (0.3 + 0.4j, 1.2, 3))


@njit
def sincos(x):
    return math.sin(x), math.cos(x), 7


@ar.augmented_primal(sincos)
def _(config, ret: ar.Active, x: ar.Active):
    y = sincos(x.val)
    return ar.AugmentedReturn(y, None, y)


@ar.reverse(sincos)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return tape[1] * dret.val[0] - tape[0] * dret.val[1]


@njit
def calls_sincos(x):
    total = 0.0
    for k in range(3):
        s, c, n = sincos(x * (k + 1))
        total += s * c * n + s
    return total


def test_a_rule_returns_a_tuple():
    check_gradient(calls_sincos, (0.7,))


@njit
def weighted(pair):
    return pair[0] * 2.0 + pair[1]


@ar.augmented_primal(weighted)
def _(config, ret: ar.Active, pair: ar.Active):
    return ar.AugmentedReturn(weighted(pair.val), None, None)


@ar.reverse(weighted)
def _(config, dret: ar.Active, tape, pair: ar.Active):
    return ((2.0 * dret.val, 0.5),)


def test_the_derivative_of_an_integer_in_a_tuple_is_none():
    """`weighted` gives a float for one."""
    f = njit(lambda x, n: weighted((x, n)))
    with pytest.raises(ar.RuleReturnError, match=r"float64, None"):
        ar.autodiff(ar.Reverse, f, ar.Active(1.0), 3)

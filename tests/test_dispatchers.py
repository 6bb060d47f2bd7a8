"""What may be differentiated, beside `@njit` functions: what Numba knows by itself."""

import functools
import math
import operator

import numpy as np
import pytest
from numba import cfunc, njit, vectorize

import activerules as ar


@vectorize
def cube(x):
    return x**3


@njit
def scaled(x, /, n, *, factor):
    return factor * x**n


@njit
def of_sine(x):
    return ar.grad(math.sin)(x)


class Spring:
    def energy(self, x):
        return x * x


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (math.sin, (1.0,), math.cos(1.0)),
        (math.hypot, (3.0, 4.0), 0.6),
        (np.exp, (0.5,), math.exp(0.5)),
        (operator.mul, (2.0, 3.0), 3.0),
        (abs, (-2.0,), -1.0),
        (np.sum, (np.ones(3),), np.ones(3)),
        (cube, (2.0,), 12.0),
    ],
)
def test_functions_numba_knows(function, args, expected):
    np.testing.assert_allclose(ar.grad(function)(*args), expected)


def test_inside_njit():
    assert of_sine(1.0) == pytest.approx(math.cos(1.0))


def test_parameters_by_position_or_keyword_only():
    assert ar.grad(scaled)(2.0, 3, factor=0.5) == 6.0
    assert ar.grad(scaled, argnums=2)(2.0, n=3, factor=0.5) == 8.0
    assert ar.autodiff(ar.Reverse, scaled, ar.Active(2.0), 3, ar.Active(0.5)) == (6.0, None, 8.0)


@pytest.mark.parametrize(
    ("thing", "message"),
    [
        (Spring().energy, "bound to it are unknown to compiled code"),
        (functools.partial(math.pow, 2.0), "bound to it are unknown to compiled code"),
        (cfunc("float64(float64)")(lambda x: x), "an @njit function that calls"),
        (float, "an @njit function that calls float"),
        (print, "an @njit function that calls print"),
        (5, "an @njit function"),
    ],
)
def test_what_has_no_code(thing, message):
    with pytest.raises(ar.NotCompilable, match=message):
        ar.grad(thing)


def test_a_variable_number_of_arguments():
    with pytest.raises(ar.NotYetSupported, match="a function of a tuple"):
        ar.grad(njit(lambda *xs: xs[0]))(2.0)
    with pytest.raises(ar.NotYetSupported, match="variable number"):
        ar.autodiff(ar.Reverse, njit(lambda *xs: xs[0]), ar.Active(2.0))

"""`grad`, `hessian` and the other makers of functions, called inside `@njit`."""

import math

import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

import activerules as ar


@njit
def bump(x, y):
    return x * y * y + math.sin(x)


@njit
def cubes(x):
    return (x * x * x).sum()


@njit
def everything(x):
    slope = ar.grad(cubes)
    return slope(x), ar.value_and_grad(cubes)(x), ar.hessian(cubes)(x)


@njit
def of_vectors(x):
    slope = ar.grad(cubes)
    return ar.jacobian(slope, mode="forward")(x)


@njit
def of_its_own(x):
    def inner(z):
        return z**3

    return ar.grad(inner)(x) + ar.grad(lambda u: math.exp(u))(x)


@njit
def of_an_argument(function, x):
    return ar.grad(function, argnums=-1)(x, 2.0)


@njit
def checkpointed(x):
    return ar.grad(ar.checkpoint(bump))(x, 2.0)


X = np.array([0.5, -1.0, 2.0])


def test_gradients_and_hessians_of_arrays():
    slope, (value, again), second = everything(X)
    assert value == cubes(X)
    for found in (slope, again):
        np.testing.assert_allclose(found, 3 * X**2)
    np.testing.assert_allclose(second, np.diag(6 * X))


def test_jacobians_of_gradients():
    for found in (of_vectors(X), ar.jacfwd(ar.grad(cubes))(X)):
        np.testing.assert_allclose(found, np.diag(6 * X))


def test_literals_choose_the_arguments():
    by_number = njit(lambda x: ar.value_and_grad(bump, argnums=(0, 1))(x, 2.0))
    by_name = njit(lambda x: ar.value_and_grad(bump, argnums=("x", "y"))(x, 2.0))
    for both in (by_number, by_name, lambda x: ar.value_and_grad(bump, ("x", 1))(x, 2.0)):
        value, (by_x, by_y) = both(1.0)
        assert value == bump(1.0, 2.0)
        assert (by_x, by_y) == pytest.approx((4 + math.cos(1.0), 4.0))
    assert ar.grad(bump, "y")(1.0, 2.0) == pytest.approx(4.0)
    assert of_an_argument(bump, 1.5) == pytest.approx(2 * 1.5 * 2.0)


def test_factories_of_functions_made_inside_njit():
    expected = 3 * 4.0 + math.exp(2.0)
    assert of_its_own(2.0) == pytest.approx(expected)
    assert ar.grad(of_its_own)(2.0) == pytest.approx(12.0 + math.exp(2.0))


def test_factories_of_checkpoints():
    assert checkpointed(1.0) == pytest.approx(4 + math.cos(1.0))


def test_factories_refuse_wrong_arguments():
    with pytest.raises(TypingError, match="argnums and mode must be literals inside @njit"):
        njit(lambda x, n: ar.grad(bump, n)(x, 2.0))(1.0, 1)
    with pytest.raises(ar.ArityError, match="argnums has 7"):
        njit(lambda x: ar.grad(bump, 7)(x, 2.0))(1.0)
    with pytest.raises(ar.ActivityError, match="only an @njit function has a derivative"):
        njit(lambda x: ar.grad(x)(x, 2.0))(1.0)
    with pytest.raises(TypeError, match="grad inside @njit: got an unexpected keyword argument"):
        njit(lambda x: ar.grad(bump, cache=True)(x, 2.0))(1.0)
    with pytest.raises(ar.UnknownOption, match="no mode 'sideways'"):
        njit(lambda x: ar.jacobian(bump, mode="sideways")(x, 2.0))(1.0)

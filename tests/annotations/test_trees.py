"""Parameters in dictionaries with fixed keys and in dataclasses: gradients have their structure."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numba import njit

import activerules as ar


@dataclass(frozen=True)
class Layer:
    weights: Any
    bias: Any

    def __post_init__(self):
        assert self.bias is None or self.bias > 0.0, "not called for gradients"


@dataclass
class Model:
    layer: Layer
    rates: dict
    steps: Any = 2


def misfit(model, x):
    """s · r · (b - w·x)², s = steps."""
    total = 0.0
    for _ in range(model.steps):
        rest = model.layer.bias - np.sum(model.layer.weights * x)
        total += model.rates["decay rate"] * rest**2
    return total


X, WEIGHTS, BIAS, RATE = np.array([0.5, -1.0]), np.array([2.0, 0.25]), 1.5, 0.3
MODEL = Model(Layer(WEIGHTS, BIAS), {"decay rate": RATE, "unused": np.ones(3)})
REST = BIAS - WEIGHTS @ X


def require_gradient(found, scale=1.0):
    assert (type(found), type(found.layer), found.steps) == (Model, Layer, None)
    np.testing.assert_allclose(found.layer.weights, -4.0 * RATE * REST * X * scale, rtol=1e-13)
    np.testing.assert_allclose(found.layer.bias, 4.0 * RATE * REST * scale, rtol=1e-13)
    np.testing.assert_allclose(found.rates["decay rate"], 2.0 * REST**2 * scale, rtol=1e-13)
    np.testing.assert_array_equal(found.rates["unused"], np.zeros(3))


def test_gradients_have_the_structure_of_the_parameters():
    value, gradient = ar.value_and_grad(misfit, "model")(MODEL, x=X)
    assert value == pytest.approx(misfit(MODEL, X), rel=1e-14)
    require_gradient(gradient)
    np.testing.assert_array_equal(MODEL.layer.weights, [2.0, 0.25])


def test_directions_and_pullbacks():
    value, pullback = ar.vjp(misfit, MODEL, X)
    by_model, by_x = pullback(3.0)
    assert value == pytest.approx(misfit(MODEL, X), rel=1e-14)
    require_gradient(by_model, scale=3.0)
    np.testing.assert_allclose(by_x, -12.0 * RATE * REST * WEIGHTS, rtol=1e-13)
    towards = Model(Layer(np.zeros(2), 1.0), {"decay rate": 2.0, "unused": np.zeros(3)})
    _, tangent = ar.jvp(misfit, (MODEL, X), (towards, None))
    assert tangent == pytest.approx(4.0 * RATE * REST + 4.0 * REST**2, rel=1e-13)


def test_second_derivatives():
    product = ar.hvp(lambda p, c: c * p["a"] ** 2 * p["b"])
    found = product({"b": 5.0, "a": 3.0}, {"a": 1.0, "b": 0.0}, 2.0)
    assert found == {"a": pytest.approx(20.0), "b": pytest.approx(12.0)}


def test_inside_compiled_functions():
    """A result of compiled code that is a parameter comes back as one."""
    cubes = ar.grad(njit(lambda p: p["a"] ** 3 * p["b"]))
    moved = njit(lambda p: (cubes(p), p["a"]))
    gradient, a = ar.vjp(moved, {"a": 2.0, "b": 5.0})[0]
    assert (gradient, a) == ({"a": 60.0, "b": 8.0}, 2.0)


def test_empty_dictionaries_are_kept():
    """As of layers without parameters."""
    found = ar.grad(lambda p, x: p["dense"]["w"] * x)({"dense": {"w": 2.0}, "relu": {}}, 3.0)
    assert found == {"dense": {"w": 3.0}, "relu": {}}
    assert ar.grad(lambda options, x: x * x, 1)({}, 3.0) == 6.0


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({1: 2.0}, "has the key 1, which is not a string"),
        ({"a": [1.0]}, "'a' of a parameter is a list"),
        ({"a": {"b": [1.0]}}, "'b' of a parameter is a list"),
        ({"a": object()}, "Numba has no type"),
        ({}, "`p` is dict, which has no derivative"),
        ({"a": 1}, "`p` is dict, which has no derivative"),
    ],
)
def test_what_is_no_parameter(parameters, message):
    with pytest.raises(ar.ActivityError, match=message):
        ar.grad(lambda p: p["a"])(parameters)


def iterates(p):
    total = 0.0
    for _ in p:
        total += p["a"]
    return total


@pytest.mark.parametrize(
    "function",
    [lambda p: p["a"] if "b" in p else 0.0, iterates, lambda p: p["a"] if p == p else 0.0],
)
def test_what_reads_the_keys_is_refused(function):
    with pytest.raises(ar.NotYetSupported, match="of a parameter that is a dictionary"):
        ar.grad(function)({"a": 1.0, "b": 2.0})
    with pytest.raises(ar.NotCompilable, match="Unknown attribute 'items'") as refused:
        ar.grad(lambda p: p.items())({"a": 1.0, "b": 2.0})
    assert 'Instead  of a dictionary, p["key"] to read one value' in str(refused.value)


def test_a_key_that_a_parameter_does_not_have_is_named():
    with pytest.raises(ar.NotCompilable, match="has no key 'c'") as refused:
        ar.grad(lambda p: p["c"])({"a": 1.0, "b": 2.0})
    assert "one of its keys: 'a', 'b'" in str(refused.value)
    with pytest.raises(ar.NotYetSupported, match="known only when the program runs"):
        ar.grad(lambda p, key: p[key])({"a": 1.0, "b": 2.0}, "a")

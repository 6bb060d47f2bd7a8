"""Tuples as arguments: what comes back, what is refused, and what is released."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit

import activerules as ar

Layer = namedtuple("Layer", "weights bias size name")


@njit
def affine(layer, x):
    s = 0.0
    for i in range(len(x)):
        if x[i] > 10.0:
            raise ValueError("too large")
        s += layer.weights[i] * x[i] * layer.size + layer.bias
    return s


@njit
def product(pair):
    return np.sum(pair[0] * pair[1])


@njit
def from_compiled_code(layer, x):
    shadow = ar.make_zero(layer)
    entries = ar.autodiff(ar.Reverse, affine, ar.Active, ar.MixedDuplicated(layer, shadow), x)
    return entries[0].bias, shadow.weights


def layer():
    return Layer(np.array([1.0, 2.0]), 0.5, 3, "first")


X = np.array([4.0, 5.0])


def test_floats_are_returned_and_arrays_added_to():
    shadow = Layer(np.ones(2), 7.0, 3, "first")
    entries, value = ar.autodiff(
        ar.ReverseWithPrimal, affine, ar.MixedDuplicated(layer(), shadow), X
    )
    assert entries == (Layer(None, 2.0, None, None), None)
    assert value == pytest.approx(3 * 14 + 1)
    np.testing.assert_array_equal(shadow.weights, 1 + 3 * X)
    assert shadow.bias == 7.0


def test_the_gradient_of_a_tuple_is_a_tuple():
    gradient = ar.grad(affine)(layer(), X)
    np.testing.assert_array_equal(gradient.weights, 3 * X)
    assert gradient[1:] == (2.0, None, None)
    value, (of_pair,) = ar.value_and_grad(product, argnums=(0,))((X, 2 * X))
    assert value == pytest.approx(2 * X @ X)
    np.testing.assert_array_equal(of_pair, (2 * X, X))


def test_forward_mode_carries_the_tangents_of_all_items():
    @njit
    def total(t):
        return t[0].sum() * t[1] * t[2][0]

    t, t_dot = (X, 2.0, np.array([4, 5])), (np.ones(2), 1.0, np.array([7, 7]))
    assert ar.autodiff(ar.Forward, total, ar.Duplicated(t, t_dot)) == 2 * 2 * 4 + 9 * 4
    assert ar.autodiff(ar.Forward, total, ar.Duplicated(t, (t_dot[0], 1.0, None))) == 52


def test_inside_njit():
    bias, weights = from_compiled_code(layer(), X)
    assert bias == 2.0
    np.testing.assert_array_equal(weights, 3 * X)


def test_shadows_are_released_on_success_and_on_errors(unfreed):
    gradient = ar.grad(affine)

    def fails():
        with pytest.raises(ValueError, match="too large"):
            gradient(layer(), 10 * X)

    assert unfreed(lambda: gradient(layer(), X)) == 0
    assert unfreed(fails) == 0


PAIR = (X, X.copy())
REFUSED = {
    "Duplicated with a number": (affine, ar.Duplicated(layer(), layer()), "MixedDuplicated"),
    "Active with an array": (affine, ar.Active(layer()), "MixedDuplicated"),
    "Mixed without numbers": (product, ar.MixedDuplicated(PAIR, PAIR), r"Duplicated\(pair"),
    "a shadow of other length": (product, ar.Duplicated(PAIR, PAIR[:1]), "shadow of `pair` is"),
    "a shadow of another type": (
        product,
        ar.Duplicated(PAIR, (np.zeros(2), np.zeros(2, np.float32))),
        r"shadow of `pair\[1\]`",
    ),
    "one shadow for two items": (
        product,
        ar.Duplicated(PAIR, (np.zeros(2),) * 2),
        r"shadows of `pair\[0\]` and `pair\[1\]` overlap",
    ),
    "a shadow that is a primal": (product, ar.Duplicated(PAIR, PAIR), "overlaps its primal"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    function, annotated, message = REFUSED[name]
    rest = (X,) if function is affine else ()
    with pytest.raises((ar.ActivityError, ar.ShadowMismatch), match=message):
        ar.autodiff(ar.Reverse, function, annotated, *rest)


def test_a_tuple_without_floats_has_no_gradient():
    with pytest.raises(ar.ActivityError, match="no derivative"):
        ar.grad(product)((np.arange(2), np.arange(2)))

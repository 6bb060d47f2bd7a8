"""Typed lists of floats as arguments with a shadow: another list of the same length."""

import numpy as np
import pytest
from numba import njit
from numba.typed import List

import activerules as ar
from activerules.testing import central_fdm


@njit
def smoothed(values, x):
    s = 0.0
    for i in range(len(values) - 1):
        values[i] = values[i] * values[i + 1] * x
        s += values[i]
    for v in values:
        s += v * v
    return s * values.pop()


@njit
def grows(values):
    values.append(values[0])
    return values[1]


def typed(items):
    made = List()
    for item in items:
        made.append(float(item))
    return made


def gradient(function, *args):
    return ar.autodiff(ar.Reverse, function, ar.Active, *args)


def test_gradient_and_tangent(unfreed):
    start, direction, x = np.array([1.0, 2.0, 0.5, -1.5]), np.array([0.3, -1.0, 2.0, 0.7]), 0.6
    expected = central_fdm(5, 1)(lambda t: smoothed(typed(start + t * direction), x + t), 0.0)
    values, shadow = typed(start), typed([0.0] * 4)
    (_, x_bar) = gradient(smoothed, ar.Duplicated(values, shadow), ar.Active(x))
    assert len(values) == 3  # the primal took one
    assert np.array(shadow) @ direction + x_bar == pytest.approx(expected, rel=1e-9)
    _, tangent = ar.jvp(smoothed, (typed(start), x), (typed(direction), 1.0))
    assert tangent == pytest.approx(expected, rel=1e-9)
    assert list(ar.grad(smoothed)(typed(start), x)) == list(shadow)

    def run():
        again = typed(start)
        gradient(smoothed, ar.Duplicated(again, ar.make_zero(again)), ar.Active(x))

    assert unfreed(run) == 0


def test_refused():
    values = typed([1.0, 2.0])
    for shadow in (values, typed([0.0])):
        with pytest.raises(ar.ShadowMismatch, match="`values`"):
            gradient(smoothed, ar.Duplicated(values, shadow), ar.Active(0.5))
    assert list(values) == [1.0, 2.0]
    with pytest.raises(
        ar.NotYetSupported, match=r"dictionary grows[\s\S]*test_values_lists.py:\d+"
    ):
        gradient(grows, ar.Duplicated(values, typed([0.0, 0.0])))
    with pytest.raises(ar.NotYetSupported, match=r"instead|Either[\s\S]*numba\.typed\.List"):
        gradient(grows, ar.Duplicated([1.0], [0.0]))

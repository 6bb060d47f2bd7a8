"""The memory of arguments that a call compares, and what it leaves alone."""

import numpy as np
import pytest
from numba import njit
from numba.typed import List

import activerules as ar
from activerules import Active, Duplicated


@njit
def picked(items, weights):
    total = 0.0
    for x, places in items:
        total += x[places[0]] * x[places[1]] * weights[places[0]]
    items[0][0][0] = total
    return total * total


def items_of(rows):
    return List([(row.copy(), np.array([k, 1])) for k, row in enumerate(rows)])


def test_integers_beside_floats_in_the_items_of_a_list():
    """They are neither cleared nor compared with the integers of the shadow."""
    x = np.array([[0.3, 0.5], [0.7, 1.1]])
    weights = np.array([2.0, 3.0])
    shadow, by_weights = items_of(np.zeros((2, 2))), np.zeros(2)
    args = Duplicated(items_of(x), shadow), Duplicated(weights, by_weights)
    ar.autodiff(ar.Reverse, picked, Active, *args)
    total = x[0, 0] * x[0, 1] * weights[0] + x[1, 1] ** 2 * weights[1]
    expected = [
        [x[0, 1] * weights[0], x[0, 0] * weights[0]],
        [0.0, 2.0 * x[1, 1] * weights[1]],
    ]
    for (found, places), row, k in zip(shadow, expected, (0, 1), strict=True):
        assert found == pytest.approx(2.0 * total * np.array(row), rel=1e-14)
        assert places.tolist() == [k, 1]
    products = np.array([x[0, 0] * x[0, 1], x[1, 1] ** 2])
    assert by_weights == pytest.approx(2.0 * total * products, rel=1e-14)

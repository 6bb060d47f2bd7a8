"""The memory of arguments that a call compares, and what it leaves alone."""

import numpy as np
import pytest
from numba import float64, int64, njit
from numba.experimental import jitclass
from numba.typed import Dict, List

import activerules as ar
from activerules import Active, Const, Duplicated


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


@jitclass([("values", float64[::1])])
class Holder:
    def __init__(self, values):
        self.values = values


def dictionary_of(x):
    found = Dict.empty(int64, float64[::1])
    found[0] = x
    return found


@njit
def written_inside(items, x):
    items[0][0] = 5.0 * x[1]
    return np.sum(x * x)


@njit
def written_in_field(holder, x):
    holder.values[0] = 5.0 * x[1]
    return np.sum(x * x)


@njit
def written_in_tuple(items, x):
    items[0][0][0] = 5.0 * x[1]
    return np.sum(x * x)


@njit
def read_in_field(holder, x):
    x[0] = 5.0 * x[1]
    return holder.values[0] ** 2


@pytest.mark.parametrize(
    ("f", "container_of"),
    [
        (written_inside, lambda x: List([x])),
        (written_inside, dictionary_of),
        (written_in_field, Holder),
        (written_in_tuple, lambda x: List([(x, 1)])),
        (written_in_tuple, lambda x: (List([x]), 1)),
        (read_in_field, Holder),
    ],
    ids=["list", "dict", "object", "tuple in list", "list in tuple", "object, read"],
)
def test_active_memory_that_a_const_container_leads_to(f, container_of):
    """Where it is written, its derivative would be lost; apart from it, all is well."""
    x = np.array([0.3, 0.5])
    match = "overlap, one is written, and not both have a shadow"
    with pytest.raises(ar.ShadowMismatch, match=match):
        ar.grad(f, argnums=1)(container_of(x), x)
    with pytest.raises(ar.ShadowMismatch, match=match):
        ar.autodiff(ar.Forward, f, Const(container_of(x)), Duplicated(x, np.ones(2)))
    expected = np.zeros(2) if f is read_in_field else 2.0 * x
    assert ar.grad(f, argnums=1)(container_of(np.ones(2)), x) == pytest.approx(expected)


def test_a_const_list_of_numbers_that_is_the_active_one():
    @njit
    def copied(kept, x):
        x[0] = 5.0 * x[1]
        return kept[0] ** 2

    x = List([0.3, 0.5])
    with pytest.raises(ar.ShadowMismatch, match="not both have a shadow"):
        ar.autodiff(ar.Reverse, copied, Active, Const(x), Duplicated(x, List([0.0, 0.0])))
    args = Const(List([2.0])), Duplicated(x, List([0.0, 0.0]))
    assert ar.autodiff(ar.ReverseWithPrimal, copied, Active, *args)[1] == 4.0


def test_a_const_container_that_nothing_writes_may_lead_to_active_memory():
    @njit
    def weighted(items, x):
        return np.sum(items[0] * x)

    x = np.array([0.3, 0.5])
    assert ar.grad(weighted, argnums=1)(List([x]), x) == pytest.approx(x)

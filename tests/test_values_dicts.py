"""Typed dictionaries at the edges of a differentiated function: arguments, results, exceptions."""

import pytest
from numba import njit
from numba.typed import Dict

import activerules as ar
from activerules.testing import central_fdm


@njit
def read_and_changed(x, d):
    s = 0.0
    for key, value in d.items():
        s += value * x**key
    d[1] = d[1] * 2.0
    for key in range(60, 90):
        d[key] = 1.0
    return s * d.get(3, 0.5) + d[1] * x * len(d)


@njit
def missing(x, key):
    d = Dict()
    d["x"] = x * x
    return d[key] * x


@njit
def result(x):
    d = Dict()
    for key in range(9):
        d[key] = x * key
    return d


@njit
def keys(x):
    d = Dict()
    d[x] = 1.0
    s = 0.0
    for key in d:
        s += key
    return s


@njit
def items(x):
    s = 0.0
    for value in {x, 2.0 * x}:
        s += value
    return s


@njit
def stored(x, d):
    d[1] = x
    return x * d[1]


def typed():
    d = Dict()
    for key in range(1, 20):
        d[key % 7] = 0.1 * key
    return d


def test_a_const_dictionary_is_read_and_written():
    d, changed = typed(), typed()
    (x_bar, _) = ar.autodiff(ar.Reverse, read_and_changed, ar.Active, ar.Active(0.6), ar.Const(d))
    expected = central_fdm(5, 1)(lambda x: read_and_changed(x, typed()), 0.6)
    assert x_bar == pytest.approx(expected, rel=1e-9)
    read_and_changed(0.6, changed)
    assert list(d.items()) == list(changed.items())
    del d[70]
    d[70] = 2.0
    assert list(d)[-1] == 70


def test_a_result_is_a_dictionary_of_numba():
    _, d = ar.autodiff(ar.ReverseWithPrimal, result, ar.Const, ar.Active(2.0))
    for key in range(9, 40):
        d[key] = 2.0 * key
    assert dict(d) == {key: 2.0 * key for key in range(40)}


def test_a_missing_key_is_an_error_of_the_primal():
    gradient = ar.grad(missing)
    assert gradient(2.0, "x") == pytest.approx(12.0)
    with pytest.raises(KeyError):
        gradient(2.0, "y")


@pytest.mark.parametrize("function", [keys, items])
def test_floats_that_are_hashed_are_refused(function):
    with pytest.raises(ar.UnknownCall, match=r"items of a set, or keys[\s\S]*typed\.List"):
        ar.grad(function)(2.0)


def test_active_values_are_not_stored_in_a_const_dictionary():
    with pytest.raises((ar.MixedActivity, ar.ActiveMemoryInConst)):
        ar.autodiff(ar.Reverse, stored, ar.Active, ar.Active(2.0), ar.Const(typed()))

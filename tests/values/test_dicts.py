"""Typed dictionaries at the edges of a differentiated function: arguments, results, exceptions."""

import math

import numpy as np
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
    for key in range(85, 80, -1):
        del d[key]
    last, value = d.popitem()
    return s * d.get(3, 0.5) + d[1] * x * len(d) + d.pop(2) * x * value * last


@njit
def in_a_list(x):
    dicts = []
    for i in range(3):
        d = {i: x * 2.0}
        d[i + 1] = d[i] * 3.0
        dicts.append(d)
    dicts[1][1] = x * x
    s = 0.0
    for d in dicts:
        for row in d.values():
            s += row[0] * row[1]
    return s


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
def remembered(n, x, memo):
    if n in memo:
        return memo[n]
    memo[n] = remembered(n - 1, x, memo) * x + n
    return memo[n]


@njit
def with_memory(x):
    memo = Dict()
    memo[0] = x
    return remembered(5, x, memo)


@njit
def items(x):
    s = 0.0
    for value in {x, 2.0 * x}:
        s += value
    return s


@njit
def behind(a, k):
    if len({k, 1, 2}) < 3:
        raise ValueError("repeated")
    return a[k:]


@njit
def constant_items(x):
    s = 0.0
    for value in {1.5, 2.0}:
        s += value * x
    return s


@njit
def stored(x, d):
    d[1] = x
    return x * d[1]


@njit
def loss(d, x):
    s = 0.0
    for key, value in d.items():
        s += value * value * x * len(key)
    return s * d.get("z", 0.5) + d["b"] * d["c"]


@njit
def both(d, e):
    copied = d.copy()
    copied[1] *= e[2]
    s = 0.0
    for key in copied:
        s += copied[key] * e[key]
    return s


@njit
def written(d, x):
    d["a"] = x
    return d["b"]


def of(values, keys="abc"):
    d = Dict()
    for key, value in zip(keys, values, strict=True):
        d[key] = value
    return d


def typed():
    d = Dict()
    for key in range(1, 20):
        d[key % 7] = 0.1 * key
    return d


def test_typed_dicts_d1_a_const_dictionary_is_read_and_written():
    d, changed = typed(), typed()
    (x_bar, _) = ar.autodiff(ar.Reverse, read_and_changed, ar.Active, ar.Active(0.6), ar.Const(d))
    expected = central_fdm(5, 1)(lambda x: read_and_changed(x, typed()), 0.6)
    assert x_bar == pytest.approx(expected, rel=1e-9)
    read_and_changed(0.6, changed)
    assert list(d.items()) == list(changed.items())
    del d[70]
    d[70] = 2.0
    assert list(d)[-1] == 70


@njit
def rows_removed(x, rows):
    rows[1] = rows[0] + 1.0
    del rows[0]
    gone = rows.pop(2)
    _, last = rows.popitem()
    return (x * gone * last * rows[1]).sum()


def test_typed_dicts_d1_rows_that_are_replaced_and_removed(unfreed):
    """Of a caller's dictionary: references to the rows that go are dropped."""

    def gradient():
        rows = Dict()
        for key in range(4):
            rows[key] = np.full(2, key + 1.0)
        found = ar.grad(rows_removed)(np.ones(2), rows)
        assert [*rows] == [1]
        return found

    np.testing.assert_array_equal(gradient(), [24.0, 24.0])
    assert unfreed(gradient) == 0


def test_arrays_in_dictionaries_in_a_list_are_replaced(unfreed):
    x = np.array([1.5, -0.5])
    # 2 * 4 + 3 * 36 for the rows that stay, and (x[0] x[1])**2
    slope = 116.0 + 2.0 * x[0] * x[1]
    gradient = ar.grad(in_a_list)
    assert np.allclose(gradient(x), slope * x[::-1], rtol=1e-12)
    assert ar.jvp(in_a_list, (x,), (np.ones(2),))[1] == pytest.approx(slope * x.sum(), rel=1e-12)
    assert unfreed(lambda: gradient(x)) == 0


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


def test_a_set_of_constants():
    assert ar.grad(constant_items)(2.0) == 3.5
    assert ar.jvp(constant_items, (2.0,), (1.0,)) == (7.0, 3.5)
    a = np.arange(6.0)
    part, pullback = ar.vjp(behind, a, 4)
    assert part.tolist() == [4.0, 5.0]
    assert pullback(np.array([2.0, 3.0]))[0].tolist() == [0.0, 0.0, 0.0, 0.0, 2.0, 3.0]


@pytest.mark.parametrize("function", [keys, items])
def test_typed_dicts_d2_floats_that_are_hashed_are_refused(function):
    with pytest.raises(ar.UnknownCall, match=r"items of a set, or keys[\s\S]*typed\.List"):
        ar.grad(function)(2.0)


def test_a_dictionary_that_a_recursion_writes(unfreed):
    slope = central_fdm(5, 1)(with_memory, 0.5)
    assert ar.grad(with_memory)(0.5) == pytest.approx(slope)
    assert ar.jvp(with_memory, (0.5,), (1.0,))[1] == pytest.approx(slope)
    assert unfreed(lambda: ar.grad(with_memory)(0.5)) == 0


def test_active_values_are_not_stored_in_a_const_dictionary():
    with pytest.raises(ar.NotYetSupported, match="active data may be in `d`"):
        ar.autodiff(ar.Reverse, stored, ar.Active, ar.Active(2.0), ar.Const(typed()))


def test_gradient_and_tangent_by_a_dictionary(unfreed):
    start, direction, x = np.array([1.0, 2.0, -0.5]), np.array([0.3, 0.2, 0.9]), 0.7
    expected = central_fdm(5, 1)(lambda t: loss(of(start + t * direction), x + t), 0.0)
    d, shadow = of(start), of([7.0, 8.0, 9.0, 10.0], "czab")
    del shadow["z"]  # the same keys, at other places
    for times in (1, 2):
        (_, x_bar) = ar.autodiff(
            ar.Reverse, loss, ar.Active, ar.Duplicated(d, shadow), ar.Active(x)
        )
        found = np.array([shadow[key] for key in "abc"]) - [9.0, 10.0, 7.0]
        assert found @ direction / times + x_bar == pytest.approx(expected, rel=1e-9)
    assert dict(d) == dict(zip("abc", start, strict=True))
    tangent = of(direction[::-1], "cba")
    assert ar.jvp(loss, (d, x), (tangent, 1.0))[1] == pytest.approx(expected, rel=1e-9)
    gradient = ar.grad(loss)(d, x)
    assert [gradient[key] * times for key in "abc"] == pytest.approx(list(found))
    del shadow["a"]
    shadow["new"] = 1.0
    assert list(shadow) == ["b", "c", "new"]
    assert unfreed(lambda: ar.grad(loss)(d, x)) == 0
    assert unfreed(lambda: ar.jvp(loss, (d, x), (of(direction[::-1], "cba"), 1.0))) == 0


# --- values that are arrays and dictionaries ---


@njit
def network(params, x):
    s = x
    for number in params:
        layer = params[number]
        s = math.tanh((layer[0][1] * layer[1][0]).sum() * s + number)
    params[7][1][0, 1] *= s * x
    if x > 1.0:
        raise ValueError("above")
    return s * params[7][1][0, 1]


def nested(z, order=1):
    """Two dictionaries in one, with the entries of a vector in them; or in the order -1."""
    params = Dict()
    for number, row in [*zip((7, 3), np.reshape(z, (2, 6)), strict=True)][::order]:
        inner = Dict()
        for key, value in [(5, row), (0, row[:4]), (1, row[4:])][::order]:
            inner[key] = value.copy().reshape(-1, 2)
        del inner[5]
        params[number] = inner
    return params


def entries(params):
    return np.concatenate([params[number][key].ravel() for number in (7, 3) for key in (0, 1)])


def test_values_that_are_arrays_and_dictionaries(unfreed):
    """Shadows start as cotangents of what the dictionaries hold at the end."""
    start, direction, after = np.random.default_rng(3).normal(size=(3, 12))

    def phi(t):
        at = nested(start + t * direction)
        return network(at, 0.6 + t) + after @ entries(at)

    def reverse(shadow, x=0.6):
        given = ar.Duplicated(nested(start), shadow)
        return ar.autodiff(ar.Reverse, network, ar.Active, given, ar.Active(x))[-1]

    expected = central_fdm(5, 1)(phi, 0.0)
    shadow, tangent = nested(after, -1), nested(direction, -1)
    x_bar = reverse(shadow)
    assert entries(shadow) @ direction + x_bar == pytest.approx(expected, rel=1e-9)
    _, along = ar.jvp(network, (nested(start), 0.6), (tangent, 1.0))
    assert along + after @ entries(tangent) == pytest.approx(expected, rel=1e-9)

    def refused(error, text, x, key, value):
        wrong = nested(after)
        wrong[7][key] = value
        with pytest.raises(error, match=text):
            reverse(wrong, x)

    one, two = np.zeros((1, 2)), np.zeros((2, 3))
    for run in (
        lambda: reverse(nested(after, -1)),
        lambda: refused(ValueError, "above", 2.0, 1, one),
        lambda: refused(ar.ShadowMismatch, r"`params\[…\]` has different keys", 0.6, 2, one),
        lambda: refused(ar.ShadowMismatch, "has a different shape", 0.6, 0, two),
    ):
        assert unfreed(run) == 0


def test_one_dictionary_in_two_arguments():
    d = of([1.0, 2.0, 3.0], range(3))
    shadows = of([0.0] * 3, range(3)), of([1.0] * 3, range(3))
    ar.autodiff(ar.Reverse, both, ar.Active, *(ar.Duplicated(d, one) for one in shadows))
    # d0 e0 + d1 e2 e1 + d2 e2
    assert dict(shadows[0]) == {0: 1.0, 1: 6.0, 2: 3.0}
    assert dict(shadows[1]) == {0: 2.0, 1: 7.0, 2: 1.0 + 3.0 + 4.0}


def test_shadows_of_dictionaries_that_are_refused():
    d = of([1.0, 2.0, 3.0])
    for shadow in (d, of([0.0] * 3, "abz"), of([0.0] * 2, "ab")):
        with pytest.raises(ar.ShadowMismatch, match="`d`"):
            ar.autodiff(ar.Reverse, loss, ar.Active, ar.Duplicated(d, shadow), ar.Const(1.0))
    with pytest.raises(ar.NotYetSupported, match=r"dictionary grows[\s\S]*copy"):
        ar.grad(written)(d, 1.0)
    assert dict(d) == {"a": 1.0, "b": 2.0, "c": 3.0}


def test_lists_of_python_are_refused():
    with pytest.raises(ar.NotYetSupported, match=r"numba\.typed\.List\(d\)"):
        ar.grad(written)([1.0, 2.0], 1.0)

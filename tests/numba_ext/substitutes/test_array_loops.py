"""Sums of whole arrays, `np.ndindex` and `np.ndenumerate`: the values and indices of Numba, and
nothing on the tape that only counts.
"""

import numpy as np
import pytest
from numba import njit, pndindex

import activerules as ar
from activerules.testing import check_gradient


@njit
def by_shape(a, b):
    total = 0.0
    for index in np.ndindex(a.shape):
        total += np.sin(a[index]) * b[index]
    return total


@njit
def items(a):
    total = 1.0
    for index, value in np.ndenumerate(a):
        total = 0.5 * total + value * value * (1 + index[0] - 2 * index[-1])
    return total


@njit
def by_lengths(a, n, m):
    total, order = 0.0, 0.0
    for i, j in np.ndindex(n, m):
        order = 2.0 * order + i + 3 * j + 1
        total += np.sin(order + a[i, j]) * a[i, j]
    return total


@njit
def one_axis(a):
    total = 0.0
    for (i,) in np.ndindex(len(a)):
        total += a[i] ** 2
    for (i,), value in np.ndenumerate(a):
        total += value * i
    return total


@njit
def leaves_early(a, limit):
    total = 0.0
    for i, j in np.ndindex(a.shape):
        if total > limit:
            break
        if j == 1:
            continue
        total += a[i, j] ** 2
    return total


@njit
def within_another(a, b):
    total = 0.0
    for i, j in np.ndindex(a.shape):
        inner = 0.0
        for k, m in np.ndindex(b.shape):
            inner += b[k, m] * a[i, j]
            b[k, m] += 0.1 * a[i, j]
        total += inner * inner
    return total


@njit
def returns_within(a, limit):
    for i, j in np.ndindex(a.shape):
        a[i, j] = a[i, j] ** 2
        if a[i, j] > limit:
            return a[i, j] + a[0, 0]
    return a[-1, -1]


@njit
def carried_unchanged(a, x):
    last, first = x, x
    for i, j in np.ndindex(a.shape):
        first, last = last, first
        last = last * 0.9 + a[i, j] * first
    return first + 2.0 * last


@njit
def in_parallel_form(a):
    total = 0.0
    for i, j in pndindex(a.shape):
        total += a[i, j] ** 3
    return total


@njit
def clipped(a, low, high):
    return np.sum(np.clip(a, low, high) ** 2) + np.sum(np.clip(a, low, None))


LAYOUTS = {
    "C": np.copy,
    "F": np.asfortranarray,
    "slices": lambda a: np.repeat(a, 2, -1)[..., ::2],
    "backwards": lambda a: np.flip(np.flip(a).copy()),
}
SHAPES = [(3, 4), (1, 4), (4, 1), (1, 1), (2, 3, 4), (2, 1, 3), (2, 2, 2, 3), (5,)]
EMPTY = [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3), (2, 3, 0), (0,)]


def values(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def check(f, *args):
    """The value of Numba, bit for bit, and the gradient."""
    copies = [x.copy(order="K") if isinstance(x, np.ndarray) else x for x in args]
    assert ar.value_and_grad(f)(*copies)[0] == f(*args)
    check_gradient(f, args)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_w2_indices_and_items_in_order(shape, layout):
    a = LAYOUTS[layout](values(*shape))
    check(by_shape, a, LAYOUTS[layout](values(*shape) + 1.0))
    check(items, a)


@pytest.mark.parametrize("shape", EMPTY, ids=str)
def test_w2_no_index_where_an_axis_is_empty(shape):
    a = np.zeros(shape)
    assert ar.value_and_grad(by_shape)(a, a.copy())[0] == 0.0
    value, gradient = ar.value_and_grad(items)(a)
    assert value == 1.0
    assert gradient.shape == shape


@pytest.mark.parametrize(("n", "m"), [(3, 4), (2, 1), (0, 4), (3, 0), (-1, 2), (2, -3), (-1, 0)])
def test_w2_lengths_that_are_no_lengths(n, m):
    check(by_lengths, values(3, 4), n, m)


@pytest.mark.parametrize("limit", [-1.0, 0.5, 2.0, 100.0])
def test_loops_that_are_left_early(limit):
    check(leaves_early, values(3, 4), limit)
    check(returns_within, values(3, 4), limit)


def test_one_axis():
    check(one_axis, values(5))


def test_loops_within_loops():
    check(within_another, values(2, 3), values(3, 2))


def test_values_that_are_only_carried_along():
    check(carried_unchanged, values(2, 3), 0.7)
    check(carried_unchanged, values(1, 1), 0.7)


def test_the_form_for_prange():
    check(in_parallel_form, values(3, 2))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_clip(layout):
    check(clipped, LAYOUTS[layout](values(4, 5)), -0.5, 0.8)


@njit
def asks_once_more(a):
    indices = np.ndindex(a.shape)
    count = 0.0
    for _ in range(2):
        for index in indices:
            count += a[index]
    return count


def test_w2_nothing_follows_the_last_index():
    for a in (values(2, 3), np.zeros((2, 0)), np.zeros((0, 2))):
        assert ar.value_and_grad(asks_once_more)(a)[0] == asks_once_more(a)


@pytest.mark.parametrize("f", [by_shape, items])
def test_there_is_no_index_on_the_tape(f):
    def tape(*shape):
        n = len(f.py_func.__code__.co_varnames[: f.py_func.__code__.co_argcount])
        arrays = [ar.Duplicated(np.ones(shape), np.zeros(shape)) for _ in range(n)]
        return ar.tape_bytes(f, *arrays)

    per_item = (tape(32, 64) - tape(16, 32)) / (32 * 64 - 16 * 32)
    assert per_item <= (8.0 if f is by_shape else 0.0) + 0.2  # `sin` is not computed again


def test_products_with_the_hessian():
    a, b, v = values(2, 3), values(3, 2).T.copy(), values(3, 2).T.copy()
    along = ar.hvp(by_shape)(a, v, b)
    h = 1e-6
    up, down = (ar.grad(by_shape)(a + s * h * v, b) for s in (1, -1))
    np.testing.assert_allclose(along, (up - down) / (2 * h), rtol=1e-6, atol=1e-8)


@njit
def sums(a):
    return np.sum(a * a) + a.sum() * np.sum(a > 0.0)


@pytest.mark.parametrize(
    "layout", [np.ravel, np.copy, np.asfortranarray, lambda a: a[::2, ::-1], lambda a: a[0, ::2]]
)
def test_w1_sums_of_arrays_of_any_layout(layout):
    a = layout(np.random.default_rng(0).normal(size=(4, 6)))
    assert ar.value_and_grad(sums)(a)[0] == sums(a)
    check_gradient(sums, (a,))


def test_the_tape_of_a_sum_does_not_grow_with_the_array():
    def tape(n):
        return ar.tape_bytes(sums, ar.Duplicated(np.ones(n), np.zeros(n)))

    assert tape(4096) == tape(64)

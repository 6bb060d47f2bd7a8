"""Sums of whole arrays, `np.ndindex` and `np.ndenumerate`: the values and indices of Numba, and
nothing on the tape that only counts.
"""

import numpy as np
import pytest
from numba import njit, pndindex, version_info

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
FEW_SHAPES = [(3, 4), (2, 3, 4), (5,)]
EMPTY = [(0, 3), (3, 0), (0, 0), (2, 0, 3), (0, 2, 3), (2, 3, 0), (0,)]


def values(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def check(f, *args):
    """The value of Numba, bit for bit, and the gradient."""
    check_gradient(f, args)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_w2_indices_and_items_in_order(shape, layout):
    a = LAYOUTS[layout](values(*shape))
    check(by_shape, a, LAYOUTS[layout](values(*shape) + 1.0))
    check(items, a)


@njit
def without_axes(a):
    for value in np.nditer(a):
        value[()] = value.item() ** 2
    total = 0.0
    for index in np.ndindex(a.shape):
        total += a[index] ** 3
    return total * a.flat[0]


@njit
def numbered(a):
    total = 0.0
    for index, value in np.ndenumerate(a):
        total += value * a[index]
    return total


def test_w2_one_item_without_axes():
    check(without_axes, np.array(1.3))


@pytest.mark.skipif(version_info.short < (0, 63), reason="Numba 0.62 does not compile the function")
def test_w2_one_item_without_axes_and_its_index():
    check(numbered, np.array(1.3))


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
    check_gradient(sums, (a,))


def test_the_tape_of_a_sum_does_not_grow_with_the_array():
    def tape(n):
        return ar.tape_bytes(sums, ar.Duplicated(np.ones(n), np.zeros(n)))

    assert tape(4096) == tape(64)


@njit
def extremes(a):
    return np.max(a) ** 2 + np.amax(a) * np.min(a) + a.max() - 3.0 * a.min() * np.amin(np.sin(a))


@njit
def maximum(a):
    return np.max(a)


@njit
def least(a):
    return a.min()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", FEW_SHAPES, ids=str)
def test_w1_extremes_of_arrays_of_any_layout(shape, layout):
    check(extremes, LAYOUTS[layout](values(*shape)))


def test_second_derivatives_of_extremes():
    """Quadratic in two items, but for the sine of one."""
    shape = 3, 4
    a, v = values(*shape), values(*shape)[::-1].copy()
    high, low = (np.unravel_index(k, shape) for k in (np.argmax(a), np.argmin(np.sin(a))))
    least_at = np.unravel_index(np.argmin(a), shape)
    expected = np.zeros(shape)
    expected[high] += 2.0 * v[high] + v[least_at]
    expected[least_at] += v[high] - 3.0 * np.cos(a[low]) * v[low]
    expected[low] += 3.0 * (np.sin(a[low]) * a[least_at] * v[low] - np.cos(a[low]) * v[least_at])
    np.testing.assert_allclose(ar.hvp(extremes)(a, v), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("f", [maximum, least])
@pytest.mark.parametrize("layout", [np.copy, np.asfortranarray])
def test_w1_of_equal_items_the_first_is_the_extreme(f, layout):
    """The sign of a zero tells which one Numba returns."""
    for signs in ([[1.0, -1.0, -1.0], [-1.0, 1.0, 1.0]], [[-1.0, 1.0, 1.0], [1.0, -1.0, -1.0]]):
        a = layout(0.0 * np.array(signs))
        value, slopes = ar.value_and_grad(f)(a)
        assert np.signbit(value) == np.signbit(f(a)) == np.signbit(a[slopes == 1.0])[0]
        assert slopes[0, 0] == np.sum(np.abs(slopes)) == 1.0


def test_w1_the_first_nan_is_the_extreme():
    a = np.array([1.0, 3.0, np.nan, 5.0, np.nan])
    for f in (maximum, least):
        value, slopes = ar.value_and_grad(f)(a)
        assert np.isnan(value)
        np.testing.assert_array_equal(slopes, [0.0, 0.0, 1.0, 0.0, 0.0])


def test_w1_extremes_of_other_numbers_are_those_of_numba():
    single = values(7).astype(np.float32)
    value, slopes = ar.value_and_grad(maximum)(single)
    assert value == maximum(single)
    assert slopes.dtype == np.float32
    np.testing.assert_array_equal(slopes, single == single.max())

    @njit
    def scaled(x, counts, truths, z):
        return x * counts.max() + np.min(truths) + np.max(z).imag

    z = np.array([1 + 2j, 4 + 3j, 0.5 + 9j])
    check(scaled, 2.0, np.array([3, 7, 5]), np.array([True, True]), z)


@pytest.mark.parametrize("f", [maximum, least])
def test_there_is_no_extreme_of_no_items(f):
    for shape in ((0,), (0, 3)):
        with pytest.raises(ValueError, match="zero-size array") as of_numba:
            f(np.zeros(shape))
        with pytest.raises(ValueError, match="zero-size array") as ours:
            ar.grad(f)(np.zeros(shape))
        assert str(ours.value) == str(of_numba.value)


def test_the_tape_of_an_extreme_does_not_grow_with_the_array():
    def tape(n):
        return ar.tape_bytes(maximum, ar.Duplicated(np.ones(n), np.zeros(n)))

    assert tape(4096) == tape(64)


@njit
def moments(a):
    return np.mean(a) * np.std(a) + a.var() ** 2 + np.prod(1.0 + 0.1 * a) + np.nansum(a * a)


@njit
def spread(a):
    return np.ptp(a) ** 2


@njit
def pairs(a, b):
    total = 0.0
    for x, y in np.nditer((a, b)):
        total += np.sin(x.item()) * y.item() ** 2
    return total


@njit
def statistics(a, b):
    return moments(a) + spread(a) * pairs(a, b)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", FEW_SHAPES, ids=str)
def test_w2_items_of_nditer(shape, layout):
    a = LAYOUTS[layout](values(*shape))
    check(statistics, a, LAYOUTS[layout](values(*shape[::-1]).reshape(shape)))


def test_nditer_of_arrays_that_are_broadcast():
    check(pairs, values(3, 4), values(4))


def test_w2_nditer_of_no_items():
    for shape in ((0,), (0, 3), (2, 0)):
        value, slopes = ar.value_and_grad(pairs)(np.zeros(shape), np.zeros(shape))
        assert value == 0.0
        assert slopes.shape == shape


def test_w1_the_range_of_values_is_that_of_numba():
    for a in (np.array([1.0, np.nan, 3.0]), np.array([-0.0, 0.0]), np.array([2.0])):
        assert str(ar.value_and_grad(spread)(a)[0]) == str(spread(a))
    with pytest.raises(ValueError, match="zero-size array reduction not possible"):
        ar.grad(spread)(np.zeros(0))


@pytest.mark.parametrize("f", [moments, spread])
def test_the_tape_of_statistics_does_not_grow_with_the_array(f):
    def tape(n):
        return ar.tape_bytes(f, ar.Duplicated(np.ones(n), np.zeros(n)))

    per_item = (tape(4096) - tape(64)) / (4096 - 64)
    assert per_item <= (8.0 if f is moments else 0.0)  # the product's values


@njit
def filtered(a, b):
    total = 0.0
    for c in (np.convolve(a, b), np.convolve(a, b, "same"), np.correlate(a, b, "valid")):
        total += np.sum(c * c * np.arange(1, len(c) + 1))
    return total


@njit
def filtered_complex(a, b):
    c = np.convolve(a, b, "same")
    return np.sum(np.abs(np.correlate(c, b, mode="full")) ** 2)


@pytest.mark.parametrize("lengths", [(7, 3), (3, 7), (4, 4), (6, 1), (1, 1)], ids=str)
def test_w1_convolutions_are_those_of_numba(lengths):
    a, b = map(values, lengths)
    check(filtered, a, b)
    if lengths == (7, 3):
        check(filtered, a[::-2], b)
        check(filtered_complex, a, b + 1j * b[::-1])


def test_w1_convolutions_of_other_numbers_are_those_of_numba():
    a, b = values(6).astype(np.float32), values(3)
    assert ar.value_and_grad(filtered)(a, b)[0] == filtered(a, b)
    counts = np.array([1, -2, 3])
    check_gradient(filtered, (values(6), counts))


def test_convolutions_that_numba_refuses():
    @njit
    def by_mode(a, mode):
        return np.sum(np.convolve(a, a, mode))

    for args in ((values(3), "some"), (np.zeros(0), "full")):
        with pytest.raises(ValueError, match=r"mode|empty") as of_numba:
            by_mode(*args)
        with pytest.raises(ValueError, match=r"mode|empty") as ours:
            ar.grad(by_mode)(*args)
        assert str(ours.value) == str(of_numba.value)


def test_the_tape_of_a_convolution_has_no_copies():
    def tape(n):
        a, b = np.ones(n), np.ones(16)
        pairs = [ar.Duplicated(x, np.zeros_like(x)) for x in (a, b)]
        return ar.tape_bytes(filtered, *pairs)

    assert (tape(1024) - tape(512)) / 512 <= 3 * 3 * 8  # of three results: itself, twice its square

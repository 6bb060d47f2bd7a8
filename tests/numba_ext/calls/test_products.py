"""Products added in place are those of NumPy, for every order of entries in memory."""

import itertools

import numpy as np
import pytest
from numba import njit, typeof, types

import activerules as ar
import activerules.numba_ext.rules.rule_compiler
from activerules.numba_ext.calls.products import ADJOINT, PLAIN, add_product

# how a matrix lies in a larger one, and whether BLAS takes it so
SERVED = {
    "by rows": lambda x, m, n: x.ravel()[: m * n].reshape(m, n),
    "by columns": lambda x, m, n: x.ravel()[: m * n].reshape(n, m).T,
    "rows of a block": lambda x, m, n: x[1 : m + 1, 2 : n + 2],
    "columns of a block": lambda x, m, n: x[1 : n + 1, 2 : m + 2].T,
    "every second row": lambda x, m, n: x[: 2 * m : 2, :n],
}
NOT_SERVED = {
    "every second column": lambda x, m, n: x[:m, : 2 * n : 2],
    "rows backwards": lambda x, m, n: x[m:0:-1, :n],
    "rows of records": lambda x, m, n: np.ndarray((m, n), x.dtype, x, strides=(8 * n + 4, 8)),
    "columns of records": lambda x, m, n: np.ndarray((m, n), x.dtype, x, strides=(8, 8 * m + 4)),
    "one row again and again": lambda x, m, n: np.broadcast_to(x[0, :n], (m, n)),
}
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)


@njit
def added(C, factor, A, of_A, B, of_B):
    return add_product(C, factor, A, of_A, B, of_B)


def added_in_any_order(dtype):
    """`added`, compiled once for matrices of any order."""
    matrix = typeof(np.ones((4, 4), dtype)[:, ::2])
    number = types.int64
    return njit((matrix, number, matrix, number, matrix, number))(added.py_func)


def storage(random, dtype):
    x = random.normal(size=(16, 16)) + 1j * random.normal(size=(16, 16))
    return (x if np.issubdtype(dtype, np.complexfloating) else x.real).astype(dtype)


def add(random, dtype, views, adjoint, added=added):
    """Add a product of random size; return whether that was done, after comparing all memory."""
    m, n, k = random.integers(2, 7, 3)
    memory = storage(random, dtype)
    expected = memory.copy()
    C, A, B = (views[name] for name in ("C", "A", "B"))
    shape_A, shape_B = (
        ((k, m) if adjoint == "A" else (m, k)),
        ((n, k) if adjoint == "B" else (k, n)),
    )
    a, b = A(storage(random, dtype), *shape_A), B(storage(random, dtype), *shape_B)
    left = a.conj().T if adjoint == "A" else a
    right = b.conj().T if adjoint == "B" else b
    of_A, of_B = (ADJOINT if adjoint == name else PLAIN for name in "AB")
    done = added(C(memory, m, n), -2, a, of_A, b, of_B)
    if done:
        C(expected, m, n)[...] -= 2 * (left @ right)
    np.testing.assert_allclose(memory, expected, 0, 500 * np.finfo(dtype).eps)
    return done


@pytest.mark.parametrize("dtype", DTYPES)
def test_b1_operands_of_any_order_are_multiplied_in_place(dtype):
    random = np.random.default_rng(3)
    compiled = added if dtype == np.float64 else added_in_any_order(dtype)
    for orders in itertools.product(SERVED.values(), repeat=3):
        views = dict(zip("CAB", orders, strict=True))
        for adjoint in ("", "A", "B"):
            done = add(random, dtype, views, adjoint, compiled)
            assert done or (np.issubdtype(dtype, np.complexfloating) and adjoint)


@pytest.mark.parametrize("order", NOT_SERVED)
def test_b1_what_blas_would_refuse_is_left_alone(order):
    random = np.random.default_rng(4)
    plain = SERVED["by rows"]
    for name in "CAB" if order != "one row again and again" else "AB":
        views = {"C": plain, "A": plain, "B": plain, name: NOT_SERVED[order]}
        assert not add(random, np.float64, views, "")


def test_b1_one_row_and_one_column_of_views_with_any_stride():
    random = np.random.default_rng(5)
    x, y = random.normal(size=(12, 12)), random.normal(size=(12, 12))
    # NumPy calls a single row contiguous whatever the distance to the next one
    for row in (x[3:4], x[::5][:1], x[::-1][:1]):
        C = np.ones((1, 12))
        expected = C + row @ y
        if added(C, 1, row, PLAIN, y, PLAIN):
            np.testing.assert_allclose(C, expected, 1e-13)
    for empty in (0, 1):
        C = np.ones((3, empty))
        assert added(C, 1, np.ones((3, 1 - empty)), PLAIN, np.ones((1 - empty, empty)), PLAIN)
        assert (C == 1).all()


def test_b1_types_that_differ_are_left_to_numpy():
    C = np.ones((2, 2), np.float32)
    assert not added(C, 1, np.ones((2, 2)), PLAIN, np.ones((2, 2)), PLAIN)


@njit
def layer(x, w):
    y = x @ w
    return (y * y).sum()


def test_b1_matrices_in_records_have_rows_at_any_distance():
    records, shadows = np.zeros((2, 20), [("x", np.float64, 20), ("id", np.int32)])
    x, x_bar = records["x"], shadows["x"]
    w, w_bar = np.random.default_rng(8).normal(size=(2, 20, 20))
    x[...] = w[::-1] - 1
    x_bar[...], expected_w = 2, w_bar.copy()
    ar.autodiff(ar.Reverse, layer, ar.Active, ar.Duplicated(x, x_bar), ar.Duplicated(w, w_bar))
    np.testing.assert_allclose(x_bar, 2 + 2 * (x @ w) @ w.T, 1e-12)
    np.testing.assert_allclose(w_bar, expected_w + 2 * x.T @ (x @ w), 1e-12)
    assert not shadows["id"].any()


@pytest.mark.parametrize("factor", [1.5, 1.5 - 0.5j])
def test_b2_second_derivatives_of_products_too_large_for_loops(factor):
    random = np.random.default_rng(6)
    x, w = random.normal(size=(9, 20)), random.normal(size=(20, 11))

    @njit
    def real_layer(x, w):
        y = (factor * x) @ (factor * w)
        return np.abs(y.sum()) + (y * np.conj(y)).sum().real

    v = random.normal(size=x.shape)
    exact = ar.hvp(real_layer)(x, v, w)
    step = 1e-5
    ahead, behind = (ar.grad(real_layer)(x + s * v, w) for s in (step, -step))
    np.testing.assert_allclose(exact, (ahead - behind) / (2 * step), 1e-6, 1e-5)


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_shadow_of_any_order_is_added_to(order):
    random = np.random.default_rng(7)
    x = np.array(random.normal(size=(8, 40)), order=order)
    w = np.array(random.normal(size=(40, 30)), order=order)
    start = random.normal(size=w.shape)
    x_bar, w_bar = np.zeros_like(x), np.array(start, order=order)
    ar.autodiff(ar.Reverse, layer, ar.Active, ar.Duplicated(x, x_bar), ar.Duplicated(w, w_bar))
    np.testing.assert_allclose(x_bar, 2 * (x @ w) @ w.T, 1e-12)
    np.testing.assert_allclose(w_bar, start + 2 * x.T @ (x @ w), 1e-12)

"""The product of two real vectors: the value of BLAS, the derivative of a loop."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.rules.library.linalg import dot_value
from activerules.testing import check_gradient

Matrix = ar.Duplicated[float64[:, :]]


@njit
def factorised(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j] = (a[i, j] - np.dot(a[i, :j], a[j, :j])) / a[j, j]
        a[i, i] = np.sqrt(a[i, i] - np.dot(a[i, :i], a[i, :i]))
    return a[-1, -1]


def test_rows_that_stay_as_they_are_are_not_kept():
    """Bytes by the square of the size, not by its cube."""

    def used(n):
        a = np.eye(n) * n + 1.0
        return ar.tape_bytes(factorised, ar.Duplicated(a, np.zeros_like(a)))

    small, large = used(16), used(32)
    assert 0 < small < 20 * 16**2
    assert large < 5 * small


@njit
def solved(rows, x, b):
    for i in range(len(x)):
        x[i] = (b[i] - np.dot(rows[i, :i], x[:i])) / rows[i, i]
    return np.sum(x)


def test_entries_that_are_final_are_not_kept():
    """Of a solution that is found entry by entry: bytes by its size, not by the square of it."""

    def used(n):
        arrays = np.eye(n) * n + 1.0, np.ones(n), np.ones(n)
        return ar.tape_bytes(solved, *[ar.Duplicated(x, np.zeros_like(x)) for x in arrays])

    assert used(64) < 40 * 64
    rng = np.random.default_rng(3)
    rows, b = rng.normal(size=(5, 5)) + 5.0 * np.eye(5), rng.normal(size=5)
    check_gradient(solved, (rows, np.zeros(5), b))


@njit
def product(x, y):
    return np.dot(x, y)


def test_implementations_i1_the_value_is_that_of_blas_bit_by_bit():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=1001), rng.normal(size=1001)
    value, (x_bar, y_bar) = ar.value_and_grad(product, argnums=(0, 1))(x, y)
    assert value == product(x, y)
    assert np.array_equal(x_bar, y)
    assert np.array_equal(y_bar, x)


@pytest.mark.filterwarnings("ignore::numba.NumbaPerformanceWarning")  # as of the function itself
def test_columns():
    a = np.random.default_rng(2).normal(size=(3, 2))
    own = njit(lambda a: a[:, 0] @ a[:, 1])
    assert np.array_equal(ar.grad(own)(a), a[:, ::-1])


def test_single_precision_and_forward_mode():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, 7)).astype(np.float32)
    assert np.array_equal(ar.grad(product)(x, y), y)
    value, tangent = ar.jvp(product, (x, y), (y, x))
    assert value == product(x, y)
    assert tangent == pytest.approx(float(x @ x + y @ y), rel=1e-6)


def test_implementations_i1_lengths_that_differ_are_numbas_error():
    with pytest.raises(ValueError, match=r"incompatible array sizes for np.dot"):
        ar.grad(product)(np.ones(3), np.ones(4))


def test_no_length_at_all():
    value, gradient = ar.value_and_grad(product)(np.ones(0), np.ones(0))
    assert value == 0.0
    assert gradient.shape == (0,)


def test_a_rule_of_the_user_wins(rules_of_this_test):
    @ar.augmented_primal(np.dot)
    def _dot(config, ret: ar.Active, x: ar.Duplicated, y: ar.Duplicated | ar.Const):
        return ar.AugmentedReturn(np.dot(x.val, y.val), None, None)

    @ar.reverse(np.dot)
    def _dot_reverse(config, dret: ar.Active, tape, x: ar.Duplicated, y: ar.Duplicated | ar.Const):
        ar.accumulate(x, 2.0 * dret.val * np.ones_like(x.val))

    own = njit(lambda x: np.dot(x, np.ones(3)))
    assert np.array_equal(ar.grad(own)(np.arange(3.0)), np.full(3, 2.0))


def test_what_is_declared_about_matrices_leaves_vectors_alone(rules_of_this_test):
    rows, shadow = np.eye(3), np.zeros((3, 3))

    @ar.augmented_primal(np.dot)
    def _dot(config, ret: ar.Duplicated, a: Matrix, x: ar.Const):
        y = np.dot(a.val, x.val)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(np.dot, saves="x")
    def _dot_reverse(config, dret: ar.Duplicated, tape, a: Matrix, x: ar.Const):
        ar.accumulate(a, 10.0 * np.outer(dret.dval, x.val))

    own = njit(lambda a: np.dot(a, np.ones(3))[0] + np.dot(a[1], a[2]))
    calls = ar.explain(own, ar.Duplicated(rows, shadow)).rules
    assert [call.reason for call in calls if call.followed] == ["a loop costs less than its rule"]
    expected = np.zeros((3, 3))
    expected[0], expected[1], expected[2] = 10.0, rows[2], rows[1]
    assert np.array_equal(ar.grad(own)(rows), expected)


def test_a_product_that_is_declared_inactive_is_a_constant(rules_of_this_test):
    ar.inactive(np.dot, replace=True)
    own = njit(lambda x: np.dot(x, x) + x[0])
    assert np.array_equal(ar.grad(own)(np.arange(3.0)), [1.0, 0.0, 0.0])


def test_its_value_alone_has_no_derivative():
    own = njit(lambda x: dot_value(x, x) + x[0])
    assert np.array_equal(ar.grad(own)(np.arange(3.0)), [1.0, 0.0, 0.0])


def test_derivatives_of_second_order():
    """Of x.x squared: 8 x x' + 4 (x.x), by a gradient in a differentiated function and directly."""
    square = njit(lambda x: np.dot(x, x) ** 2)
    row = njit(lambda x: ar.grad(square)(x)[0])
    x = np.array([1.0, 2.0, 3.0])
    expected = 8.0 * np.outer(x, x) + 4.0 * (x @ x) * np.eye(3)
    assert np.allclose(ar.grad(row)(x), expected[0], rtol=1e-14)
    assert np.allclose(ar.hvp(square)(x, np.eye(3)[1]), expected[1], rtol=1e-14)
    assert np.allclose(ar.hessian(square)(x), expected, rtol=1e-14)


@njit
def squares_of_outer(x, y):
    return np.sum(np.abs(np.outer(x, y)) ** 2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_implementations_i1_the_outer_product_is_numbas_bit_by_bit(dtype):
    rng = np.random.default_rng(3)
    x, y = (rng.normal(size=n) + 1j * rng.normal(size=n) for n in (3, 4))
    x, y = ((z if dtype[0] == "c" else z.real).astype(dtype) for z in (x, y))
    value, (x_bar, y_bar) = ar.value_and_grad(squares_of_outer, argnums=(0, 1))(x, y)
    assert value == squares_of_outer(x, y)
    rtol = 1e-5 if dtype in ("f4", "c8") else 1e-13
    np.testing.assert_allclose(x_bar, 2 * x * np.sum(np.abs(y) ** 2), rtol=rtol)
    np.testing.assert_allclose(y_bar, 2 * y * np.sum(np.abs(x) ** 2), rtol=rtol)


@njit
def outer_by_numba(x, single):
    into = np.zeros((2, 2))
    np.outer(x, x, into)
    return np.sum(into) + np.sum(np.outer(single, x))


@pytest.mark.filterwarnings("error")
def test_implementations_i2_the_outer_product_into_an_array_and_of_two_types():
    x, single = np.array([2.0, 0.1]), np.array([0.5, 0.1], np.float32)
    value, gradient = ar.value_and_grad(outer_by_numba)(x, single)
    assert value == outer_by_numba(x, single)
    np.testing.assert_allclose(gradient, 4.2 + single.astype(float).sum(), rtol=1e-15)


@njit
def into(a, b, out):
    np.dot(a, b, out)
    return out.sum()


def test_implementations_i2_a_product_into_an_array_of_another_type_is_numbas_error():
    with pytest.raises(ar.NotCompilable):
        ar.grad(into)(np.ones((2, 2)), np.ones((2, 2)), np.zeros((2, 2), np.float32))

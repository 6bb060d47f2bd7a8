"""Programs that call functions of matrices and norms, against finite differences."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing.gradient import check_gradient

W = np.array([[0.3, -1.1, 0.7], [1.9, 0.2, -0.4], [-0.8, 0.6, 1.3]])


def matrix(n, real=np.float64):
    return (np.random.default_rng(n).normal(size=(n, n)) + n * np.eye(n)).astype(real)


def vector(n, real=np.float64):
    return np.random.default_rng(n).normal(size=n).astype(real)


def strided(a):
    """The same values in memory that is contiguous in no order."""
    wide = np.zeros(tuple(2 * n for n in a.shape), a.dtype)
    view = wide[(slice(None, None, 2),) * a.ndim]
    view[...] = a
    return view


@njit
def of_each(a, w):
    """Each part is of the size of the others: an error in one is seen in the sum."""
    inverse = np.sum(w * np.linalg.inv(a) ** 2) * 0.5
    lower = np.sum(w * np.linalg.cholesky(a) ** 2)
    norms = np.linalg.norm(a) * w[1, 0] + np.linalg.norm(a * w)
    return inverse + lower + norms + np.linalg.det(a) * w[0, 1] * 0.2


def positive_definite(real):
    a = matrix(3) / 2.0
    return (a @ a.T).astype(real)


# C-contiguous matrices of float64 are those of `overwritten_in_a_loop`.
LAYOUTS = {
    "C": (np.ascontiguousarray, np.float32),
    "F": (np.asfortranarray, np.float64),
    "strided": (strided, np.float64),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_and_precisions(layout):
    arranged, real = LAYOUTS[layout]
    args = (arranged(positive_definite(real)), W.astype(real))
    check_gradient(of_each, args, (ar.Duplicated, ar.Const))


@njit
def overwritten_in_a_loop(a, n):
    total = 0.0
    for k in range(n):
        inverse = np.linalg.inv(a)
        lower = np.linalg.cholesky(a @ a.T)
        total += np.linalg.det(a) * 0.01 + np.linalg.norm(a) + np.linalg.norm(a[k])
        a[:] = 0.3 * inverse + lower
        inverse[:] = 0.0
        lower *= inverse
    return total + np.sum(a)


def test_overwritten_in_a_loop():
    check_gradient(overwritten_in_a_loop, (matrix(3), 3))
    # cotangents of products this large are made by BLAS
    check_gradient(overwritten_in_a_loop, (matrix(8) / 8, 2))


@njit
def of_constants(a, x):
    scale = np.linalg.det(a) + np.linalg.norm(a) + np.linalg.norm(a[0], 1)
    return scale * np.vdot(np.linalg.inv(a) @ x, np.linalg.cholesky(a @ a.T) @ x)


def test_constant_matrix():
    for n in (3, 17):
        check_gradient(of_constants, (matrix(n) / n, vector(n)), (ar.Const, ar.Duplicated))


determinant = njit(lambda a: np.linalg.det(a))


@pytest.mark.parametrize(
    "a",
    [
        np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [0.5, -1.0, 0.3]]),
        np.zeros((3, 3)),
        np.zeros((1, 1)),
        np.array([[2.5]]),
    ],
    ids=["rank 2", "zero", "zero 1x1", "1x1"],
)
def test_determinant_of_singular_and_small_matrices(a):
    check_gradient(determinant, (a,))


def test_the_norm_of_zero_has_gradient_zero():
    norm = njit(lambda x: np.linalg.norm(x))
    for zero in (np.zeros(3), np.zeros((2, 2)), np.zeros(0)):
        np.testing.assert_array_equal(ar.grad(norm)(zero), zero)


@njit
def of_norms(x, p):
    r = np.linalg.norm(x, p)
    x[0] = r * x[1]
    return r * x[2] + np.linalg.norm(x)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 1.5, -1, np.inf, -np.inf])
def test_norms_of_vectors(order):
    check_gradient(of_norms, (vector(4), order), (ar.Duplicated, ar.Const))


@pytest.mark.parametrize("order", [np.int32(2), np.uint8(1), np.float32(2.0)])
def test_orders_of_other_types(order):
    norm = njit(lambda x, p: np.linalg.norm(x, p))
    for x in (vector(4), matrix(3)):
        check_gradient(norm, (x, order), (ar.Duplicated, ar.Const))


def test_order_written_in_the_call():
    @njit
    def program(x):
        return np.linalg.norm(x, 1) * np.linalg.norm(x, ord=2) * np.linalg.norm(x, np.inf)

    check_gradient(program, (vector(4),))


def test_norm_of_a_strided_vector_and_of_order_at_zero():
    @njit
    def program(a):
        return np.linalg.norm(a[:, 1]) * np.linalg.norm(a[::2, 0])

    check_gradient(program, (matrix(4),))
    third = njit(lambda x: np.linalg.norm(x, 3))
    for x in (np.zeros(2), np.full(2, 1e-200)):
        np.testing.assert_array_equal(ar.grad(third)(x), np.zeros(2))


def test_norms_of_empty_matrices_are_constant():
    norm = njit(lambda x, p: np.linalg.norm(x, p))
    for order in (1.0, -1.0, 2.0, np.inf):
        for x in (np.zeros((0, 3)), np.zeros((3, 0))):
            if norm(x, order) == 0.0:
                assert ar.grad(norm)(x, order).shape == x.shape
                assert ar.jvp(norm, (x, order), (x, None)) == (0.0, 0.0)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_vdot(real):
    @njit
    def program(x, y):
        product = np.vdot(x, y)
        x[:] = 2 * y
        return product * product + np.vdot(x, x)

    check_gradient(program, (vector(4, real), vector(4, real) + real(1.0)))


@njit
def named_in_another_order(a, b):
    return np.sum(np.linalg.solve(b=b, a=a) * b)


def test_arguments_named_in_another_order():
    """Both are matrices: a rule that took them as they are named would take one for the other."""
    check_gradient(named_in_another_order, (matrix(3), W))

"""The compiled forms give what the formulas of `rules.library.triangular` give, run by Python."""

import numpy as np
import pytest
from numba import njit

import activerules.numba_ext.rules.rule_compiler  # noqa: F401  (the compiled forms)
from activerules.rules.library import triangular

# around one block of 16 rows, two, and none
SIZES = (0, 1, 2, 15, 16, 17, 33, 50)
DTYPES = (np.float64, np.complex64)


@njit
def solve_lower(L, B):
    return triangular.solve_lower(L, B)


@njit
def solve_adjoint(L, B):
    return triangular.solve_adjoint(L, B)


@njit
def times_half_lower(L, P):
    return triangular.times_half_lower(L, P)


@njit
def cholesky_cotangent(L, L_bar):
    return triangular.cholesky_cotangent(L, L_bar)


@njit
def solve_and_factor(A, b):
    return triangular.solve_and_factor(A, b)


@njit
def numba_solve(A, b):
    return np.linalg.solve(A, b)


@njit
def solve_factored_adjoint(factors, pivots, g):
    return triangular.solve_factored_adjoint(factors, pivots, g)


@njit
def det_and_factor(A):
    return triangular.det_and_factor(A)


@njit
def slogdet_and_factor(A):
    return triangular.slogdet_and_factor(A)


@njit
def inverse_of_factored(factors, pivots):
    return triangular.inverse_of_factored(factors, pivots)


def normal(random, shape, dtype):
    x = random.normal(size=shape) + 1j * random.normal(size=shape)
    return (x if np.issubdtype(dtype, np.complexfloating) else x.real).astype(dtype)


def lower(random, n, dtype):
    """A well-conditioned factor: its diagonal dominates, and is real as that of a Cholesky factor;
    what is above the diagonal must not be read.
    """
    L = normal(random, (n, n), dtype) / max(n, 1)
    L[np.diag_indices(n)] = 1 + random.random(n)
    return L


def tolerance(dtype):
    return 200 * np.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [solve_lower, solve_adjoint, times_half_lower])
def test_systems_and_products_are_those_of_the_loops(function, dtype):
    random = np.random.default_rng(3)
    for n in SIZES:
        L, B = lower(random, n, dtype), normal(random, (n, n), dtype)
        plain = getattr(triangular, function.__name__)
        kept = L.copy(), B.copy()
        found = function(L, B)
        np.testing.assert_allclose(found, plain(L, B), rtol=0, atol=tolerance(dtype) * (1 + n))
        assert found.flags.c_contiguous
        np.testing.assert_array_equal(L, kept[0])
        np.testing.assert_array_equal(B, kept[1])


@pytest.mark.parametrize("dtype", [*DTYPES, np.float32, np.complex128])
def test_cholesky_cotangent_is_that_of_the_formula(dtype):
    random = np.random.default_rng(4)
    for n in SIZES:
        L, L_bar = np.tril(lower(random, n, dtype)), normal(random, (n, n), dtype)
        expected = triangular.cholesky_cotangent(L, L_bar)
        found = cholesky_cotangent(L, L_bar)
        np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance(dtype) * (1 + n))
        assert not np.triu(found, 1).any()


@pytest.mark.parametrize("layout", ["F", "A"])
def test_b1_matrices_of_any_layout_are_taken(layout):
    random = np.random.default_rng(5)
    n = 20
    big_L, big_B = lower(random, 2 * n, np.float64), random.normal(size=(2 * n, 2 * n))
    cut = (slice(None, None, 2),) * 2
    L, B = big_L[cut], big_B[cut]
    if layout == "F":
        L, B = np.asfortranarray(L), np.asfortranarray(B)
    L_c, B_c = np.ascontiguousarray(L), np.ascontiguousarray(B)
    for function in (solve_lower, solve_adjoint, times_half_lower, cholesky_cotangent):
        np.testing.assert_allclose(function(L, B), function(L_c, B_c), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_factored_system_is_solved_again_with_the_adjoint(dtype):
    random = np.random.default_rng(6)
    for n in SIZES:
        A = normal(random, (n, n), dtype)
        A[np.diag_indices(n)] *= 0.01  # rows are interchanged
        for shape in ((n,), (n, 3)):
            b, g = normal(random, shape, dtype), normal(random, shape, dtype)
            x, factors, pivots = solve_and_factor(A, b)
            y = solve_factored_adjoint(factors, pivots, g)
            scale = tolerance(dtype) * (1 + n) * (np.linalg.cond(A) if n else 1)
            np.testing.assert_allclose(A @ x, b, rtol=0, atol=scale)
            np.testing.assert_allclose(A.conj().T @ y, g, rtol=0, atol=scale)


def test_the_solution_is_that_of_numba_to_the_last_bit():
    random = np.random.default_rng(7)
    for n in (3, 40):
        for A in (random.normal(size=(n, n)), np.asfortranarray(random.normal(size=(n, n)))):
            for b in (random.normal(size=n), random.normal(size=(n, 3))):
                expected, found = numba_solve(A, b), solve_and_factor(A, b)[0]
                np.testing.assert_array_equal(found, expected)
                assert found.strides == expected.strides


@pytest.mark.parametrize(
    ("A", "b"),
    [
        (np.zeros((2, 2)), np.ones(2)),
        (np.full((2, 2), np.nan), np.ones(2)),
        (np.eye(2), np.array([1.0, np.inf])),
        (np.eye(3), np.ones(2)),
    ],
)
def test_what_numba_refuses_is_refused_with_its_words(A, b):
    with pytest.raises((np.linalg.LinAlgError, ValueError)) as expected:
        numba_solve(A, b)
    with pytest.raises(expected.type) as found:
        solve_and_factor(A, b)
    assert str(found.value) == str(expected.value)


@pytest.mark.parametrize(("A", "b"), [(np.ones((3, 2)), np.ones(3)), (np.ones((2, 3)), np.ones(2))])
def test_matrices_that_are_not_square_are_refused(A, b):
    # Numba's words for a tall one are of its copy of b, and with a wide one it reads past b
    with pytest.raises(np.linalg.LinAlgError, match="must be square"):
        solve_and_factor(A, b)


@pytest.mark.parametrize("dtype", [*DTYPES, np.float32, np.complex128])
def test_determinants_are_those_of_numba_and_their_factors_give_the_inverse(dtype):
    random = np.random.default_rng(8)
    numba_det = njit(lambda A: np.linalg.det(A))
    numba_slogdet = njit(lambda A: np.linalg.slogdet(A))
    for n in SIZES:
        for A in (normal(random, (n, n), dtype), np.asfortranarray(normal(random, (n, n), dtype))):
            kept = A.copy()
            determinant, factors, pivots = det_and_factor(A)
            assert determinant == numba_det(A)
            assert slogdet_and_factor(A)[0] == numba_slogdet(A)
            np.testing.assert_array_equal(A, kept)
            scale = tolerance(dtype) * (1 + n) * (np.linalg.cond(A) if n else 1)
            for _ in range(2):  # the factors stay
                inverse = inverse_of_factored(factors, pivots)
                np.testing.assert_allclose(A @ inverse, np.eye(n), rtol=0, atol=scale)


def test_a_singular_matrix_has_a_determinant_and_no_inverse():
    A = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert det_and_factor(A)[0] == 0.0
    parts, *factored = slogdet_and_factor(A)
    assert parts == (0.0, -np.inf)
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        inverse_of_factored(*factored)
    for function in (det_and_factor, slogdet_and_factor):
        with pytest.raises(np.linalg.LinAlgError, match="must be square"):
            function(np.ones((2, 3)))
        with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
            function(np.full((2, 2), np.nan))

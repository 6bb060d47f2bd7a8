"""Forward rules of linear algebra: tangents against finite differences of the function itself."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing.schemes import central_fdm


def matrix(rng, n=3, dtype=np.float64):
    a = rng.normal(size=(n, n)) + n * np.eye(n)
    if np.dtype(dtype).kind == "c":
        a = a + 1j * rng.normal(size=(n, n))
    return a.astype(dtype)


def vector(rng, dtype=np.float64):
    return matrix(rng, dtype=dtype)[0].copy()


def spd(rng, dtype=np.float64):
    a = matrix(rng, dtype=dtype)
    return (a @ a.conj().T + np.eye(3)).astype(dtype)


FUNCTIONS = {
    "matrix @ matrix": (lambda a, b: a @ b, (matrix, matrix)),
    "vdot": (lambda a, b: np.vdot(a, b), (vector, vector)),
    "solve matrix": (lambda a, b: np.linalg.solve(a, b), (matrix, matrix)),
    "inv": (lambda a: np.linalg.inv(a), (matrix,)),
    "det": (lambda a: np.linalg.det(a), (matrix,)),
    "cholesky": (lambda a: np.linalg.cholesky(a), (spd,)),
    "norm of a matrix": (lambda a: np.linalg.norm(a), (matrix,)),
    "norm of order 3": (lambda a: np.linalg.norm(a, 3), (vector,)),
}
COMPLEX = {"matrix @ matrix", "vdot", "cholesky"}
CASES = [(name, np.float64) for name in FUNCTIONS] + [(name, np.complex128) for name in COMPLEX]


@pytest.mark.parametrize(("name", "dtype"), sorted(CASES, key=str))
def test_tangent(name, dtype):
    function, makers = FUNCTIONS[name]
    rng = np.random.default_rng(len(name))
    primals = [make(rng, dtype=dtype) for make in makers]
    tangents = [0.01 * make(rng, dtype=dtype) for make in makers]
    out, tangent = ar.jvp(njit(function), tuple(primals), tuple(tangents))
    np.testing.assert_allclose(out, function(*primals), rtol=1e-12)

    def along(t):
        moved = function(*(x + t * dx for x, dx in zip(primals, tangents, strict=True)))
        return np.stack([np.real(moved), np.imag(moved)])

    expected = central_fdm(5)(along, 0.0)
    np.testing.assert_allclose(
        np.stack([np.real(tangent), np.imag(tangent)]), expected, rtol=1e-6, atol=1e-7
    )


def test_one_active_argument_and_several_lanes():
    active = 0

    @njit
    def f(a, b):
        return np.linalg.solve(a, b) @ (a @ b)

    rng = np.random.default_rng(5)
    args = [matrix(rng), vector(rng)]
    lanes = tuple(rng.normal(size=args[active].shape) for _ in range(3))
    annotated = list(args)
    annotated[active] = ar.BatchDuplicated(args[active], lanes)
    tangents = ar.autodiff(ar.Forward, f, *annotated)
    for lane, tangent in zip(lanes, tangents, strict=True):

        def along(t):
            moved = list(args)
            moved[active] = args[active] + t * lane
            return f(*moved)

        assert tangent == pytest.approx(central_fdm(5)(along, 0.0), rel=1e-8)


def test_determinant_of_a_singular_matrix():
    a = np.array([[1.0, 2.0], [2.0, 4.0]])
    _, tangent = ar.jvp(njit(lambda a: np.linalg.det(a)), (a,), (np.eye(2),))
    assert tangent == pytest.approx(5.0)

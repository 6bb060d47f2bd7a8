"""Rules of linear algebra: products, linear systems, functions of one matrix, norms.

A cotangent of a complex number holds ∂/∂Re + i ∂/∂Im: where the real formula has a transpose, the
complex one has the conjugate transpose, written ᴴ here. For real arrays they are the same.

Source of the matrix derivatives: Giles (2008), "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation".
"""

from __future__ import annotations

import operator

import numpy as np
from numba import complex64, complex128, float32, float64, njit, types
from numba.extending import overload, register_jitable

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.rules.define import augmented_primal, inactive, reverse
from activerules.rules.library.matrices import adjoint, conj
from activerules.rules.library.triangular import (
    cholesky_cotangent,
    det_and_factor,
    inverse_of_factored,
    solve_and_factor,
    solve_factored_adjoint,
)
from activerules.rules.protocol import (
    AugmentedReturn,
    accumulate,
    accumulate_adjoint_product,
    accumulate_outer,
    accumulate_product,
    accumulate_product_adjoint,
    accumulate_scaled,
)

# Of any layout.
VectorResult = (
    Duplicated[float64[:]]
    | Duplicated[float32[:]]
    | Duplicated[complex128[:]]
    | Duplicated[complex64[:]]
)
MatrixResult = (
    Duplicated[float64[:, :]]
    | Duplicated[float32[:, :]]
    | Duplicated[complex128[:, :]]
    | Duplicated[complex64[:, :]]
)
Vector = (
    VectorResult
    | Const[float64[:]]
    | Const[float32[:]]
    | Const[complex128[:]]
    | Const[complex64[:]]
)
Matrix = (
    MatrixResult
    | Const[float64[:, :]]
    | Const[float32[:, :]]
    | Const[complex128[:, :]]
    | Const[complex64[:, :]]
)
Number = Const[types.Integer] | Const[types.Float]


# --- products: np.dot, and @ ---


def _dot_vector_vector(config, ret: Active, x: Vector, y: Vector):
    return AugmentedReturn(primal=np.dot(x.val, y.val), shadow=None, tape=None)


def _dot_vector_vector_reverse(config, dret: Active, tape, x: Vector, y: Vector):
    """x̄ = r̄ conj(y),  ȳ = r̄ conj(x)."""
    accumulate_scaled(x, dret.val, conj(y.val))
    accumulate_scaled(y, dret.val, conj(x.val))


def _product_matrix_vector(config, ret: VectorResult, A: Matrix, x: Vector):
    primal = np.dot(A.val, x.val)
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=None)


def _product_matrix_vector_reverse(config, dret: VectorResult, tape, A: Matrix, x: Vector):
    """Ā = ȳ xᴴ,  x̄ = Aᴴ ȳ."""
    accumulate_outer(A, dret.dval, conj(x.val))
    accumulate_adjoint_product(x, A.val, dret.dval)


def _product_vector_matrix(config, ret: VectorResult, x: Vector, A: Matrix):
    primal = np.dot(x.val, A.val)
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=None)


def _product_vector_matrix_reverse(config, dret: VectorResult, tape, x: Vector, A: Matrix):
    """x̄ = conj(A) ȳ,  Ā = conj(x) ȳᵀ."""
    accumulate_adjoint_product(x, A.val.T, dret.dval)
    accumulate_outer(A, conj(x.val), dret.dval)


def _product_matrix_matrix(config, ret: MatrixResult, A: Matrix, B: Matrix):
    primal = np.dot(A.val, B.val)
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=None)


def _product_matrix_matrix_reverse(config, dret: MatrixResult, tape, A: Matrix, B: Matrix):
    """Ā = C̄ Bᴴ,  B̄ = Aᴴ C̄."""
    accumulate_product_adjoint(A, dret.dval, B.val)
    accumulate_adjoint_product(B, A.val, dret.dval)


for _product in (np.dot, operator.matmul):
    augmented_primal(_product, keeps_shadow=False, saves=("x", "y"))(_dot_vector_vector)
    reverse(_product, saves=("x", "y"))(_dot_vector_vector_reverse)
    augmented_primal(_product, keeps_shadow=False, saves=("A", "x"))(_product_matrix_vector)
    reverse(_product, saves=("A", "x"))(_product_matrix_vector_reverse)
    augmented_primal(_product, keeps_shadow=False, saves=("x", "A"))(_product_vector_matrix)
    reverse(_product, saves=("x", "A"))(_product_vector_matrix_reverse)
    augmented_primal(_product, keeps_shadow=False, saves=("A", "B"))(_product_matrix_matrix)
    reverse(_product, saves=("A", "B"))(_product_matrix_matrix_reverse)


@njit
def dot_value(x, y):
    """Return `np.dot(x, y)`, without derivative."""
    return np.dot(x, y)


inactive(dot_value)


@augmented_primal(np.vdot, keeps_shadow=False, saves=("x", "y"))
def _vdot(config, ret: Active, x: Vector, y: Vector):
    return AugmentedReturn(primal=np.vdot(x.val, y.val), shadow=None, tape=None)


@reverse(np.vdot, saves=("x", "y"))
def _vdot_reverse(config, dret: Active, tape, x: Vector, y: Vector):
    """x̄ = conj(r̄) y,  ȳ = r̄ x: the product conjugates x."""
    accumulate_scaled(x, conj(dret.val), y.val)
    accumulate_scaled(y, dret.val, x.val)


# --- linear systems ---


def _add_times_adjoint(A, B, X):
    """Add B Xᴴ to the shadow of A, for two vectors their outer product."""
    if B.ndim == 1:
        accumulate_outer(A, B, conj(X))
    else:
        accumulate_product_adjoint(A, B, X)


@overload(_add_times_adjoint)
def _add_times_adjoint_compiled(A, B, X):
    if B.ndim == 1:
        return lambda A, B, X: accumulate_outer(A, B, conj(X))
    return lambda A, B, X: accumulate_product_adjoint(A, B, X)


@augmented_primal(np.linalg.solve, keeps_shadow=False)
def _solve(config, ret: VectorResult | MatrixResult, A: Matrix, b: Vector | Matrix):
    x, factors, pivots = solve_and_factor(A.val, b.val)
    # The program may change its result: the reverse keeps its own.
    tape = (factors, pivots, x.copy())
    return AugmentedReturn(primal=x, shadow=np.zeros_like(x), tape=tape)


@reverse(np.linalg.solve)
def _solve_reverse(config, dret: VectorResult | MatrixResult, tape, A: Matrix, b: Vector | Matrix):
    """b̄ = A⁻ᴴ x̄,  Ā = -b̄ xᴴ."""
    factors, pivots, x = tape
    b_bar = solve_factored_adjoint(factors, pivots, dret.dval)
    accumulate(b, b_bar)
    _add_times_adjoint(A, -b_bar, x)


# --- functions of one matrix ---


@augmented_primal(np.linalg.inv, keeps_shadow=False)
def _inv(config, ret: MatrixResult, A: Matrix):
    C = np.linalg.inv(A.val)
    return AugmentedReturn(primal=C, shadow=np.zeros_like(C), tape=C.copy())


@reverse(np.linalg.inv)
def _inv_reverse(config, dret: MatrixResult, tape, A: Matrix):
    """Ā = -Cᴴ C̄ Cᴴ."""
    C_h = adjoint(tape)
    accumulate_product(A, -np.dot(C_h, np.ascontiguousarray(dret.dval)), C_h)


@register_jitable
def cofactors(A):
    """Return ∂ det(A) / ∂A by minors; for singular matrices, where `det(A) A⁻ᵀ` is not defined."""
    n = A.shape[0]
    slopes = np.empty((n, n), A.dtype)
    minor = np.empty((n - 1, n - 1), A.dtype)
    for i in range(n):
        for j in range(n):
            for k in range(n - 1):
                for m in range(n - 1):
                    minor[k, m] = A[k + (k >= i), m + (m >= j)]
            sign = -1.0 if (i + j) % 2 else 1.0
            slopes[i, j] = sign * np.linalg.det(minor)
    return slopes


@augmented_primal(np.linalg.det, keeps_shadow=False, saves="A")
def _det(config, ret: Active, A: Matrix):
    c, factors, pivots = det_and_factor(A.val)
    return AugmentedReturn(primal=c, shadow=None, tape=(c, factors, pivots))


@reverse(np.linalg.det, saves="A")
def _det_reverse(config, dret: Active, tape, A: Matrix):
    """Ā = c̄ conj(c) A⁻ᴴ."""
    c, factors, pivots = tape
    if c == 0.0:
        accumulate(A, dret.val * conj(cofactors(np.ascontiguousarray(A.val))))
    else:
        accumulate(A, (dret.val * conj(c)) * adjoint(inverse_of_factored(factors, pivots)))


@augmented_primal(np.linalg.cholesky, keeps_shadow=False)
def _cholesky(config, ret: MatrixResult, A: Matrix):
    L = np.linalg.cholesky(A.val)
    return AugmentedReturn(primal=L, shadow=np.zeros_like(L), tape=L.copy())


@reverse(np.linalg.cholesky)
def _cholesky_reverse(config, dret: MatrixResult, tape, A: Matrix):
    """Ā: see `cholesky_cotangent`. The function reads the lower triangle of A alone."""
    accumulate(A, cholesky_cotangent(tape, dret.dval))


# --- norms ---


@augmented_primal(np.linalg.norm, keeps_shadow=False, saves="x")
def _norm(config, ret: Active, x: Vector | Matrix):
    r = np.linalg.norm(x.val)
    return AugmentedReturn(primal=r, shadow=None, tape=r)


@reverse(np.linalg.norm, saves="x")
def _norm_reverse(config, dret: Active, tape, x: Vector | Matrix):
    """x̄ = r̄ x / r, where the tape is r, and the subgradient 0 at x = 0."""
    if tape != 0.0:
        accumulate_scaled(x, dret.val / tape, x.val)


@register_jitable
def norm_slopes(x, p, r):
    """Return the derivatives of r = (Σ |xᵢ|ᵖ)^(1/p): xᵢ / |xᵢ| (|xᵢ| / r)ᵖ⁻¹; 0 where xᵢ or r is 0.

    The largest and the smallest entry (p = ±∞) is the first that is.
    """
    slopes = np.zeros(x.shape[0], x.dtype)
    if np.isinf(p):
        chosen = 0
        for i in range(1, x.shape[0]):
            further = abs(x[i]) > abs(x[chosen]) if p > 0 else abs(x[i]) < abs(x[chosen])
            if further:
                chosen = i
        if x.shape[0] > 0 and abs(x[chosen]) != 0.0:
            slopes[chosen] = x[chosen] / abs(x[chosen])
        return slopes
    for i in range(x.shape[0]):
        size = abs(x[i])
        if size != 0.0 and p != 0 and r != 0.0:  # r is 0 if all powers underflow
            slopes[i] = x[i] / size * (size / r) ** (p - 1)
    return slopes


@augmented_primal(np.linalg.norm, keeps_shadow=False, saves="x")
def _norm_of_order(config, ret: Active, x: Vector, ord: Number):
    r = np.linalg.norm(x.val, ord.val)
    return AugmentedReturn(primal=r, shadow=None, tape=r)


@reverse(np.linalg.norm, saves="x")
def _norm_of_order_reverse(config, dret: Active, tape, x: Vector, ord: Number):
    """x̄ = r̄ ∂r/∂x."""
    accumulate_scaled(x, dret.val, norm_slopes(x.val, ord.val, tape))

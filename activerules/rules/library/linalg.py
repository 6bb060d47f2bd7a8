"""Rules of linear algebra: products and linear systems.

Source of the matrix derivatives: Giles (2008), "Collected matrix derivative results for forward and
reverse mode algorithmic differentiation".
"""

from __future__ import annotations

import operator

import numpy as np
from numba import float32, float64
from numba.extending import register_jitable

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.rules.define import augmented_primal, reverse
from activerules.rules.protocol import AugmentedReturn, accumulate, active

# Of any layout; the rules are not for complex numbers.
VectorResult = Duplicated[float64[:]] | Duplicated[float32[:]]
MatrixResult = Duplicated[float64[:, :]] | Duplicated[float32[:, :]]
Vector = VectorResult | Const[float64[:]] | Const[float32[:]]
Matrix = MatrixResult | Const[float64[:, :]] | Const[float32[:, :]]


@register_jitable
def _outer(scale, u, v):
    """Return `scale * u vᵀ`; as a loop, which compiles ten times faster than `np.outer`."""
    product = np.empty((u.shape[0], v.shape[0]), u.dtype)
    for i in range(u.shape[0]):
        for j in range(v.shape[0]):
            product[i, j] = scale * u[i] * v[j]
    return product


# --- products: np.dot, and @ ---


def _dot_vector_vector(config, ret: Active, x: Vector, y: Vector):
    primal = np.dot(x.val, y.val)
    x_tape = x.val.copy() if config.overwritten[0] else x.val
    y_tape = y.val.copy() if config.overwritten[1] else y.val
    return AugmentedReturn(primal=primal, shadow=None, tape=(x_tape, y_tape))


def _dot_vector_vector_reverse(config, dret: Active, tape, x: Vector, y: Vector):
    """x̄ = r̄ y,  ȳ = r̄ x."""
    x_tape, y_tape = tape
    accumulate(x, dret.val * y_tape)
    accumulate(y, dret.val * x_tape)


def _product_matrix_vector(config, ret: VectorResult, A: Matrix, x: Vector):
    primal = np.dot(A.val, x.val)
    A_tape = A.val.copy() if config.overwritten[0] else A.val
    x_tape = x.val.copy() if config.overwritten[1] else x.val
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=(A_tape, x_tape))


def _product_matrix_vector_reverse(config, dret: VectorResult, tape, A: Matrix, x: Vector):
    """Ā = ȳ xᵀ,  x̄ = Aᵀ ȳ."""
    A_tape, x_tape = tape
    if active(A):
        accumulate(A, _outer(1.0, dret.dval, x_tape))
    if active(x):
        accumulate(x, np.dot(A_tape.T, dret.dval))


def _product_vector_matrix(config, ret: VectorResult, x: Vector, A: Matrix):
    primal = np.dot(x.val, A.val)
    x_tape = x.val.copy() if config.overwritten[0] else x.val
    A_tape = A.val.copy() if config.overwritten[1] else A.val
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=(x_tape, A_tape))


def _product_vector_matrix_reverse(config, dret: VectorResult, tape, x: Vector, A: Matrix):
    """x̄ = A ȳ,  Ā = x ȳᵀ."""
    x_tape, A_tape = tape
    if active(x):
        accumulate(x, np.dot(A_tape, dret.dval))
    if active(A):
        accumulate(A, _outer(1.0, x_tape, dret.dval))


def _product_matrix_matrix(config, ret: MatrixResult, A: Matrix, B: Matrix):
    primal = np.dot(A.val, B.val)
    A_tape = A.val.copy() if config.overwritten[0] else A.val
    B_tape = B.val.copy() if config.overwritten[1] else B.val
    return AugmentedReturn(primal=primal, shadow=np.zeros_like(primal), tape=(A_tape, B_tape))


def _product_matrix_matrix_reverse(config, dret: MatrixResult, tape, A: Matrix, B: Matrix):
    """Ā = C̄ Bᵀ,  B̄ = Aᵀ C̄."""
    A_tape, B_tape = tape
    if active(A):
        accumulate(A, np.dot(dret.dval, B_tape.T))
    if active(B):
        accumulate(B, np.dot(A_tape.T, dret.dval))


for _product in (np.dot, operator.matmul):
    augmented_primal(_product)(_dot_vector_vector)
    reverse(_product)(_dot_vector_vector_reverse)
    augmented_primal(_product)(_product_matrix_vector)
    reverse(_product)(_product_matrix_vector_reverse)
    augmented_primal(_product)(_product_vector_matrix)
    reverse(_product)(_product_vector_matrix_reverse)
    augmented_primal(_product)(_product_matrix_matrix)
    reverse(_product)(_product_matrix_matrix_reverse)


# --- linear systems ---


@register_jitable
def _transposed(A):
    """Return Aᵀ in C order: `solve` is compiled for that already, and copies its argument
    anyway.
    """
    return np.ascontiguousarray(A.T)


@augmented_primal(np.linalg.solve)
def _solve_vector(config, ret: VectorResult, A: Matrix, b: Vector):
    x = np.linalg.solve(A.val, b.val)
    A_tape = A.val.copy() if config.overwritten[0] else A.val
    # The program may change its result: the reverse keeps its own.
    return AugmentedReturn(primal=x, shadow=np.zeros_like(x), tape=(A_tape, x.copy()))


@reverse(np.linalg.solve)
def _solve_vector_reverse(config, dret: VectorResult, tape, A: Matrix, b: Vector):
    """b̄ = A⁻ᵀ x̄,  Ā = -b̄ xᵀ."""
    A_tape, x = tape
    b_bar = np.linalg.solve(_transposed(A_tape), dret.dval)
    accumulate(b, b_bar)
    if active(A):
        accumulate(A, _outer(-1.0, b_bar, x))


@augmented_primal(np.linalg.solve)
def _solve_matrix(config, ret: MatrixResult, A: Matrix, B: Matrix):
    X = np.linalg.solve(A.val, B.val)
    A_tape = A.val.copy() if config.overwritten[0] else A.val
    return AugmentedReturn(primal=X, shadow=np.zeros_like(X), tape=(A_tape, X.copy()))


@reverse(np.linalg.solve)
def _solve_matrix_reverse(config, dret: MatrixResult, tape, A: Matrix, B: Matrix):
    """B̄ = A⁻ᵀ X̄,  Ā = -B̄ Xᵀ."""
    A_tape, X = tape
    B_bar = np.linalg.solve(_transposed(A_tape), dret.dval)
    accumulate(B, B_bar)
    if active(A):
        accumulate(A, -np.dot(B_bar, X.T))

"""Triangular systems and factorisations, as the rules of linear algebra use them.

Gives       functions of matrices of any layout, real or complex, whose results are new arrays in C
            order; ᴴ is the conjugate transpose

What stands here are the formulas as loops: plain Python runs them, and so does a rule that is
itself differentiated, since all that these loops do has derivatives. Compiled rules run
`numba_ext.calls.triangular`, where blocks of these matrices go to BLAS.
"""

from __future__ import annotations

import numpy as np

from activerules.rules.library.matrices import adjoint, conj, lower_of_hermitian


def solve_lower(L, B):
    """Return X of L X = B for a lower triangular L."""
    n, m = B.shape
    X = np.empty((n, m), B.dtype)
    for i in range(n):
        for j in range(m):
            residual = B[i, j]
            for k in range(i):
                residual -= L[i, k] * X[k, j]
            X[i, j] = np.divide(residual, L[i, i])
    return X


def solve_adjoint(L, B):
    """Return X of Lᴴ X = B for a lower triangular L."""
    n, m = B.shape
    X = np.empty((n, m), B.dtype)
    for i in range(n - 1, -1, -1):
        for j in range(m):
            residual = B[i, j]
            for k in range(i + 1, n):
                residual -= conj(L[k, i]) * X[k, j]
            X[i, j] = np.divide(residual, conj(L[i, i]))
    return X


def times_half_lower(L, P):
    """Return L Φ(P), where Φ(P) is the lower triangle of P with half the diagonal, which is real,
    for a lower triangular L.
    """
    n = L.shape[0]
    product = np.zeros((n, n), L.dtype)
    for i in range(n):
        for j in range(i + 1):
            product[i, j] = L[i, j] * P[j, j].real / 2
            for k in range(j + 1, i + 1):
                product[i, j] += L[i, k] * P[k, j]
    return product


def cholesky_cotangent(L, L_bar):
    """Return the cotangent of the lower triangle of A = L Lᴴ, which alone is read: the lower
    triangle of S + Sᴴ with half the diagonal, where S = L⁻ᴴ Φ(Lᴴ L̄) L⁻¹.

    Source: Murray (2016), "Differentiation of the Cholesky decomposition", section 3.
    """
    n = L.shape[0]
    P = np.zeros((n, n), L.dtype)
    for i in range(n):
        for j in range(i + 1):
            for k in range(i, n):
                P[i, j] += conj(L[k, i]) * L_bar[k, j]
        P[i, i] = P[i, i].real / 2
    # Sᴴ, which the sum does not tell from S
    return lower_of_hermitian(solve_adjoint(L, adjoint(solve_adjoint(L, P))))


def solve_and_factor(A, b):
    """Return x of A x = b, and what `solve_factored_adjoint` takes: factors, and pivots.

    Raises what `np.linalg.solve` raises.
    """
    return np.linalg.solve(A, b), A.copy(), np.empty(0, np.int32)


def solve_factored_adjoint(factors, pivots, g):
    """Return y of Aᴴ y = g for a matrix that `solve_and_factor` has factored."""
    return np.linalg.solve(adjoint(factors), g)


def det_and_factor(A):
    """Return `np.linalg.det(A)`, and what `inverse_of_factored` takes: factors, and pivots."""
    return np.linalg.det(A), A.copy(), np.empty(0, np.int32)


def slogdet_and_factor(A):
    """Return `np.linalg.slogdet(A)`, and what `inverse_of_factored` takes: factors, and pivots."""
    return np.linalg.slogdet(A), A.copy(), np.empty(0, np.int32)


def inverse_of_factored(factors, pivots):
    """Return A⁻¹ of a matrix that one of these has factored; `LinAlgError` if it is singular."""
    return np.linalg.inv(factors)

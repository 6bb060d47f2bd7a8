"""Triangular systems in compiled rules: blocked algorithms whose products are computed by BLAS.

Needs       the functions of `rules.library.triangular`, of which these are the compiled forms
Gives       overloads; the AD target uses the functions themselves (`target.implementations`)
Invariants  B1  operands of BLAS are C-contiguous matrices or blocks of one: unit stride along rows

A block has `_BLOCK` rows: few enough that the loops for the diagonal blocks are cheap (they cost
_BLOCK / n of the products), enough for the kernels of BLAS. Measured with 8, 16, 24, 32, 48 and 64
rows from n = 37 to n = 400: 16 is within 15 % of the fastest.

Source    Golub and Van Loan (2013), Matrix computations, section 3.1.4 (blocked substitution);
          Murray (2016), "Differentiation of the Cholesky decomposition", section 4 (level 3)
"""

from __future__ import annotations

import numpy as np
from numba.extending import overload, register_jitable
from numba.np import linalg

from activerules.numba_ext.calls.products import ADJOINT, PLAIN, add_product
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.rules.library import triangular
from activerules.rules.library.matrices import conj, hermitian_of_lower
from activerules.rules.written import always

_BLOCK = 16


# --- products of blocks ---


@register_jitable
def _subtract_product(C, of_A, A, B):
    """Subtract A B from C, or Aᴴ B if `of_A` says so; BLAS takes them all, by B1."""
    add_product(C, -1, A, of_A, B, PLAIN)


@register_jitable
def _subtract_row(target, factor, source):
    """Subtract a multiple of a row from another; the loop is vectorised."""
    for j in range(target.shape[0]):
        target[j] -= factor * source[j]


@register_jitable
def _divide_row(target, divisor):
    """Divide a row by a number, by the ufunc: `/` raises where a complex divisor is zero."""
    for j in range(target.shape[0]):
        target[j] = np.divide(target[j], divisor)


@chosen_by_types
def _as_matrix(b):
    """A copy of a vector or matrix of any layout, as a matrix in C order."""

    def of_vector(b):
        matrix = np.empty((b.shape[0], 1), b.dtype)
        for i in range(b.shape[0]):
            matrix[i, 0] = b[i]
        return matrix

    def of_matrix(b):
        matrix = np.empty(b.shape, b.dtype)
        for i in range(b.shape[0]):
            for j in range(b.shape[1]):
                matrix[i, j] = b[i, j]
        return matrix

    return of_vector if b.ndim == 1 else of_matrix


# --- the functions ---


def _solve_lower(L, B):
    X = _as_matrix(B)
    _substitute(np.ascontiguousarray(L), X)
    return X


@register_jitable
def _substitute(lower, X):
    """Solve L X = B in place: B is overwritten by X. `lower` is read up to the diagonal only."""
    n = lower.shape[0]
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        _subtract_product(X[start:stop], PLAIN, lower[start:stop, :start], X[:start])
        for i in range(start, stop):
            for k in range(start, i):
                _subtract_row(X[i], lower[i, k], X[k])
            _divide_row(X[i], lower[i, i])


def _solve_adjoint(L, B):
    lower = np.ascontiguousarray(L)
    X = _as_matrix(B)
    stop = lower.shape[0]
    while stop > 0:
        start = max(0, stop - _BLOCK)
        _subtract_product(X[start:stop], ADJOINT, lower[stop:, start:stop], X[stop:])
        for i in range(stop - 1, start - 1, -1):
            for k in range(i + 1, stop):
                _subtract_row(X[i], conj(lower[k, i]), X[k])
            _divide_row(X[i], conj(lower[i, i]))
        stop = start
    return X


def _times_half_lower(L, P):
    lower = np.ascontiguousarray(L)
    n = lower.shape[0]
    half = np.zeros((n, n), lower.dtype)
    for i in range(n):
        for j in range(i):
            half[i, j] = -P[i, j]
        half[i, i] = -P[i, i].real / 2
    product = np.zeros((n, n), lower.dtype)
    for start in range(0, n, _BLOCK):
        stop = min(n, start + _BLOCK)
        _subtract_product(
            product[start:stop, :start], PLAIN, lower[start:stop, :start], half[:start, :start]
        )
        for i in range(start, stop):
            for k in range(start, i + 1):
                _subtract_row(product[i, : k + 1], lower[i, k], half[k, : k + 1])
    return product


def _cholesky_cotangent(L, L_bar):
    lower = np.ascontiguousarray(L)
    stop = lower.shape[0]
    A_bar = np.zeros((stop, stop), lower.dtype)
    for i in range(stop):
        for j in range(i + 1):
            A_bar[i, j] = L_bar[i, j]
    while stop > 0:
        start = max(0, stop - _BLOCK)
        # below the block C = (A - B Rᴴ) D⁻ᴴ: B and R left of C and of the block, D on the diagonal
        for i in range(stop, lower.shape[0]):
            for k in range(stop - 1, start - 1, -1):
                A_bar[i, k] /= lower[k, k]
                _subtract_row(A_bar[i, start:k], A_bar[i, k], lower[k, start:k])
        C_bar, B, R = A_bar[stop:, start:stop], lower[stop:, :start], lower[start:stop, :start]
        R_bar = A_bar[start:stop, :start]
        _subtract_product(A_bar[stop:, :start], PLAIN, C_bar, R)
        _subtract_product(R_bar, ADJOINT, C_bar, B)
        D_bar = A_bar[start:stop, start:stop]
        _subtract_product(D_bar, ADJOINT, C_bar, lower[stop:, start:stop])
        _unblocked(lower[start:stop, start:stop], D_bar)
        _subtract_product(R_bar, PLAIN, _both_triangles(D_bar), R)
        stop = start
    for i in range(lower.shape[0]):
        for j in range(i + 1, lower.shape[0]):
            A_bar[i, j] = 0
    return A_bar


@register_jitable
def _unblocked(D, D_bar):
    """The algorithm for one diagonal block: column by column, in place, on the lower triangle."""
    for j in range(D.shape[0] - 1, -1, -1):
        d = D[j, j].real
        slope = D_bar[j, j].real
        for i in range(j + 1, D.shape[0]):
            D_bar[i, j] /= d
            slope -= (conj(D_bar[i, j]) * D[i, j]).real
        D_bar[j, j] = slope / (2 * d)
        for i in range(j + 1, D.shape[0]):
            _subtract_row(D_bar[i, :j], D_bar[i, j], D[j, :j])
            _subtract_row(D_bar[j, :j], conj(D_bar[i, j]), D[i, :j])
        _subtract_row(D_bar[j, :j], slope / d, D[j, :j])


@register_jitable
def _both_triangles(D):
    """Return D + Dᴴ, with D the lower triangle of a block."""
    full = hermitian_of_lower(D)
    for i in range(D.shape[0]):
        full[i, i] *= 2
    return full


def _solve_factored_adjoint(factors, pivots, g):
    # A = P L U, in columns: a row of `lu` is a column. Aᴴ y = Uᴴ Lᴴ Pᵀ y, so Uᴴ z = g comes first.
    lu = np.ascontiguousarray(conj(factors).T)
    n = lu.shape[0]
    X = _as_matrix(g)
    _substitute(lu, X)
    stop = n
    while stop > 0:
        start = max(0, stop - _BLOCK)
        _subtract_product(X[start:stop], PLAIN, lu[start:stop, stop:], X[stop:])
        for i in range(stop - 1, start - 1, -1):
            for k in range(i + 1, stop):
                _subtract_row(X[i], lu[i, k], X[k])
        stop = start
    for i in range(n - 1, -1, -1):
        pivot = pivots[i] - 1
        if pivot != i:
            for j in range(X.shape[1]):
                X[i, j], X[pivot, j] = X[pivot, j], X[i, j]
    return X.reshape(g.shape)


@register_jitable
def _require_square(A):
    if A.shape[-2] != A.shape[-1]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square.")


@overload(triangular.solve_and_factor)
def _solve_and_factor(A, b):
    """Like Numba's own `np.linalg.solve`, which overwrites a copy of A with its factors.

    The copies are made by loops. An array assignment would check shapes, and formatting the message
    of that error takes 3 s to compile, which is not cached on disk.
    """
    linalg.ensure_lapack()
    kind = ord(linalg.get_blas_kind(A.dtype, "solve"))
    gesv = linalg._LAPACK().numba_xgesv(A.dtype)
    is_vector = b.ndim == 1

    def compiled(A, b):
        n = A.shape[-1]
        count = 1 if is_vector else b.shape[-1]
        linalg._check_finite_matrix(A)
        linalg._check_finite_matrix(b)
        linalg._system_check_dimensionally_valid(A, b)
        _require_square(A)
        factors = _as_matrix(A.T).T
        x = b.copy() if is_vector else _as_matrix(b.T).T
        pivots = np.empty(n, linalg.F_INT_nptype)
        if n > 0:
            status = gesv(kind, n, count, factors.ctypes, n, pivots.ctypes, x.ctypes, n)
            linalg._inv_err_handler(status)
            linalg._dummy_liveness_func([factors.size, x.size, pivots.size])
        return x, factors, pivots

    return compiled


@overload(triangular.slogdet_and_factor)
def _slogdet_and_factor(A):
    """Like Numba's own `np.linalg.slogdet`, which overwrites a copy of A with its factors."""
    linalg.ensure_lapack()
    kind = ord(linalg.get_blas_kind(A.dtype, "slogdet"))
    getrf = linalg._LAPACK().numba_xxgetrf(A.dtype)
    of_diagonal = linalg._get_slogdet_diag_walker(A)
    one = A.dtype(1)
    zero = getattr(A.dtype, "underlying_float", A.dtype)(0)

    def compiled(A):
        n = A.shape[-1]
        _require_square(A)
        linalg._check_finite_matrix(A)
        factors = _as_matrix(A.T).T
        pivots = np.empty(n, linalg.F_INT_nptype)
        if n == 0:
            return (one, zero), factors, pivots
        status = getrf(kind, n, n, factors.ctypes, n, pivots.ctypes)
        if status > 0:
            return (0.0, -np.inf), factors, pivots
        linalg._inv_err_handler(status)
        interchanges = 0
        for k in range(n):
            interchanges += pivots[k] != k + 1
        return of_diagonal(n, factors, -1 if interchanges % 2 else 1), factors, pivots

    return compiled


def _det_and_factor(A):
    (sign, logarithm), factors, pivots = triangular.slogdet_and_factor(A)
    return sign * np.exp(logarithm), factors, pivots


@overload(triangular.inverse_of_factored)
def _inverse_of_factored(factors, pivots):
    linalg.ensure_lapack()
    kind = ord(linalg.get_blas_kind(factors.dtype, "inv"))
    getri = linalg._LAPACK().numba_ez_xxgetri(factors.dtype)

    def compiled(factors, pivots):
        n = factors.shape[0]
        inverse = _as_matrix(factors.T).T
        if n > 0:
            status = getri(kind, n, inverse.ctypes, n, pivots.ctypes)
            linalg._inv_err_handler(status)
            linalg._dummy_liveness_func([inverse.size, pivots.size])
        return inverse

    return compiled


for _function, _by_blocks in {
    triangular.solve_lower: _solve_lower,
    triangular.solve_adjoint: _solve_adjoint,
    triangular.times_half_lower: _times_half_lower,
    triangular.cholesky_cotangent: _cholesky_cotangent,
    triangular.solve_factored_adjoint: _solve_factored_adjoint,
    triangular.det_and_factor: _det_and_factor,
}.items():
    overload(_function)(always(_by_blocks))

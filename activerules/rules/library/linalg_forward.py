"""Forward rules of linear algebra; the same functions as in `linalg`.

Their bodies call BLAS and LAPACK, in which forward mode sees nothing. A dot above is a tangent.

Source: Giles (2008), "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation".
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: `active(x)` guards `x.dval`.

from __future__ import annotations

import operator

import numpy as np

from activerules.annotations.activity import Duplicated
from activerules.rules.define import forward
from activerules.rules.library.linalg import Matrix, Number, Vector, cofactors, norm_slopes
from activerules.rules.library.matrices import conj, hermitian_of_lower, real_inner
from activerules.rules.library.triangular import solve_lower, times_half_lower
from activerules.rules.protocol import active

# --- products: np.dot, and @ ---


def _product(config, ret: Duplicated, x: Vector | Matrix, y: Vector | Matrix):
    """ṙ = ẋ y + x ẏ."""
    r = np.dot(x.val, y.val)
    if active(x):
        if active(y):
            return r, np.dot(x.dval, y.val) + np.dot(x.val, y.dval)
        return r, np.dot(x.dval, y.val)
    return r, np.dot(x.val, y.dval)


for _function in (np.dot, operator.matmul):
    forward(_function)(_product)


@forward(np.vdot)
def _vdot(config, ret: Duplicated, x: Vector, y: Vector):
    """ṙ = ẋᴴ y + xᴴ ẏ."""
    r = np.vdot(x.val, y.val)
    if active(x):
        if active(y):
            return r, np.vdot(x.dval, y.val) + np.vdot(x.val, y.dval)
        return r, np.vdot(x.dval, y.val)
    return r, np.vdot(x.val, y.dval)


# --- linear systems ---


@forward(np.linalg.solve)
def _solve(config, ret: Duplicated, A: Matrix, b: Vector | Matrix):
    """ẋ = A⁻¹ (ḃ - Ȧ x)."""
    x = np.linalg.solve(A.val, b.val)
    if active(A):
        if active(b):
            return x, np.linalg.solve(A.val, b.dval - np.dot(A.dval, x))
        return x, -np.linalg.solve(A.val, np.dot(A.dval, x))
    return x, np.linalg.solve(A.val, b.dval)


# --- functions of one matrix ---


@forward(np.linalg.inv)
def _inv(config, ret: Duplicated, A: Matrix):
    """Ċ = -C Ȧ C."""
    C = np.linalg.inv(A.val)
    # transposed: C is in Fortran order, and so is its tangent
    C_t = C.T
    return C, -np.dot(np.dot(C_t, np.ascontiguousarray(A.dval.T)), C_t).T


@forward(np.linalg.det)
def _det(config, ret: Duplicated, A: Matrix):
    """ċ = c tr(A⁻¹ Ȧ); by cofactors where A is singular."""
    c = np.linalg.det(A.val)
    if c == 0.0:
        return c, np.sum(cofactors(np.ascontiguousarray(A.val)) * A.dval)
    inverse = np.linalg.inv(A.val)
    trace = c - c
    for i in range(inverse.shape[0]):
        for j in range(inverse.shape[0]):
            trace += inverse[i, j] * A.dval[j, i]
    return c, c * trace


@forward(np.linalg.cholesky)
def _cholesky(config, ret: Duplicated, A: Matrix):
    """L̇ = L Φ(L⁻¹ Ȧ L⁻ᴴ).

    Source: Murray (2016), "Differentiation of the Cholesky decomposition".
    """
    L = np.linalg.cholesky(A.val)
    half = solve_lower(L, hermitian_of_lower(A.dval))
    return L, times_half_lower(L, solve_lower(L, conj(half).T))


# --- norms ---


@forward(np.linalg.norm)
def _norm(config, ret: Duplicated, x: Vector | Matrix):
    """ṙ = Re(xᴴ ẋ) / r, and 0 at x = 0."""
    r = np.linalg.norm(x.val)
    r_dot = r - r
    if r != 0.0:
        r_dot += real_inner(x.val, x.dval) / r
    return r, r_dot


@forward(np.linalg.norm)
def _norm_of_order(config, ret: Duplicated, x: Vector, ord: Number):
    """ṙ = Re((∂r/∂x)ᴴ ẋ)."""
    r = np.linalg.norm(x.val, ord.val)
    r_dot = r - r
    r_dot += real_inner(norm_slopes(x.val, ord.val, r), x.dval)
    return r, r_dot

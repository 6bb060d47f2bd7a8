"""Rules of pseudo-inverses, least squares, condition numbers, matrix norms, log-determinants.

Functions that return several arrays have a form here that returns them in one vector, as in
`decompositions`. All are for real matrices of constant rank.

Source: Golub and Pereyra (1973), "The differentiation of pseudo-inverses and nonlinear least
squares problems whose variables separate"; Giles (2008).
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import numpy as np
from numba import float32, float64, int64, njit
from numba.extending import register_jitable

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.rules.define import augmented_primal, forward, inactive, reverse
from activerules.rules.library.decompositions import RealMatrix, RealVectorResult
from activerules.rules.library.matrices import times, times_transposed, transposed_times
from activerules.rules.protocol import AugmentedReturn, accumulate, active
from activerules.values.overwriting import overwrite

RealMatrixResult = Duplicated[float64[:, :]] | Duplicated[float32[:, :]]
RealArray = RealMatrix | RealVectorResult | Const[float64[:]] | Const[float32[:]]
Number = Const[int64] | Const[float64] | Const[float32]

inactive(np.linalg.matrix_rank)


# --- the pseudo-inverse ---


@njit
def pseudo_inverse(a, rcond):
    """`np.linalg.pinv`."""
    return np.linalg.pinv(a, rcond)


@augmented_primal(pseudo_inverse, keeps_shadow=False)
def _pinv(config, ret: RealMatrixResult, a: RealMatrix, rcond: Number):
    P = pseudo_inverse(a.val, rcond.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    return AugmentedReturn(primal=P, shadow=np.zeros_like(P), tape=(A_tape, P.copy()))


@reverse(pseudo_inverse)
def _pinv_reverse(config, dret: RealMatrixResult, tape, a: RealMatrix, rcond: Number):
    """Ā = -Pᵀ P̄ Pᵀ + (I - AP) P̄ᵀ P Pᵀ + Pᵀ P P̄ᵀ (I - PA)."""
    A, P = tape
    P_bar = dret.dval
    Pt = np.ascontiguousarray(P.T)
    PbP = transposed_times(P_bar, times_transposed(P, P))
    PPb = times(times(Pt, P), P_bar.T)
    A_bar = -times(Pt, times_transposed(P_bar, P))
    A_bar += PbP - times(A, times(P, PbP))
    A_bar += PPb - times(times(PPb, P), A)
    accumulate(a, A_bar)


@forward(pseudo_inverse)
def _pinv_forward(config, ret: RealMatrixResult, a: RealMatrix, rcond: Number):
    """Ṗ = -P Ȧ P + P Pᵀ Ȧᵀ (I - AP) + (I - PA) Ȧᵀ Pᵀ P."""
    P = pseudo_inverse(a.val, rcond.val)
    first = times(times_transposed(P, P), a.dval.T)
    second = transposed_times(a.dval, transposed_times(P, P))
    P_dot = first - times(times(first, a.val), P)
    P_dot += second - times(P, times(a.val, second))
    P_dot -= times(P, times(a.dval, P))
    tangent = np.empty_like(P)
    overwrite(tangent, P_dot)
    return P, tangent


# --- least squares ---


@njit
def lstsq_parts(a, b, rcond):
    """Return the solution, squared residuals if there are any, singular values and rank."""
    x, residuals, rank, s = np.linalg.lstsq(a, b, rcond)
    solution = _as_columns(x)
    parts = np.empty(solution.size + residuals.size + s.size + 1, a.dtype)
    start = solution.size
    overwrite(parts[:start], solution.T.copy().ravel())
    overwrite(parts[start : start + residuals.size], residuals)
    overwrite(parts[start + residuals.size : -1], s)
    parts[-1] = rank
    return parts


@register_jitable
def _as_columns(b):
    return np.ascontiguousarray(b).reshape(b.shape[0], -1)


@register_jitable
def _least_squares_of(parts, a, b):
    """Return P of the rank found, U, V, the solution X and the residuals R, as matrices."""
    rank = int(parts[-1])
    columns = _as_columns(b)
    u, s, vt = np.linalg.svd(a, False)
    U, V = np.ascontiguousarray(u), np.ascontiguousarray(vt.T)
    P = times_transposed(V[:, :rank] / s[:rank], U[:, :rank])
    n, k = a.shape[1], columns.shape[1]
    X = np.ascontiguousarray(parts[: n * k].copy().reshape(k, n).T)
    return P, U, V, X, columns - times(a, X)


@augmented_primal(lstsq_parts, keeps_shadow=False)
def _lstsq(config, ret: RealVectorResult, a: RealMatrix, b: RealArray, rcond: Number):
    parts = lstsq_parts(a.val, b.val, rcond.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    b_tape = b.val.copy() if config.overwritten[1] else b.val
    tape = (parts.copy(), A_tape, b_tape)
    return AugmentedReturn(primal=parts, shadow=np.zeros_like(parts), tape=tape)


@reverse(lstsq_parts)
def _lstsq_reverse(
    config, dret: RealVectorResult, tape, a: RealMatrix, b: RealArray, rcond: Number
):
    """B̄ = Pᵀ X̄ + 2 R r̄,  Ā = -B̄ Xᵀ + R X̄ᵀ P Pᵀ + PᵀX ((I - PA) X̄)ᵀ + U s̄ Vᵀ."""
    parts, A, b_value = tape
    P, U, V, X, R = _least_squares_of(parts, A, b_value)
    n, k, values = X.shape[0], X.shape[1], U.shape[1]
    X_bar = np.ascontiguousarray(dret.dval[: n * k].copy().reshape(k, n).T)
    B_bar = transposed_times(P, X_bar)
    if parts.shape[0] == n * k + k + values + 1:
        B_bar += 2 * R * dret.dval[n * k : n * k + k]
    if active(b):
        accumulate(b, B_bar.reshape(b_value.shape))
    if active(a):
        A_bar = times_transposed(R, times(P, transposed_times(P, X_bar)))
        A_bar += times_transposed(transposed_times(P, X), X_bar - times(P, times(A, X_bar)))
        A_bar += times_transposed(U * dret.dval[-1 - values : -1], V)
        accumulate(a, A_bar - times_transposed(B_bar, X))


@forward(lstsq_parts)
def _lstsq_forward(config, ret: RealVectorResult, a: RealMatrix, b: RealArray, rcond: Number):
    """Ẋ = P (Ḃ - Ȧ X) + P Pᵀ Ȧᵀ R + (I - PA) Ȧᵀ Pᵀ X,  ṙ = 2 R · (Ḃ - Ȧ X),  ṡ = diag(Uᵀ Ȧ V)."""
    parts = lstsq_parts(a.val, b.val, rcond.val)
    P, U, V, X, R = _least_squares_of(parts, a.val, b.val)
    n, k, values = X.shape[0], X.shape[1], U.shape[1]
    change = np.zeros_like(R)
    X_dot = np.zeros_like(X)
    parts_dot = np.zeros_like(parts)
    if active(b):
        change += _as_columns(b.dval)
    if active(a):
        change -= times(a.dval, X)
        second = transposed_times(a.dval, transposed_times(P, X))
        X_dot += times(P, transposed_times(P, transposed_times(a.dval, R)))
        X_dot += second - times(P, times(a.val, second))
        overwrite(parts_dot[-1 - values : -1], (U * times(a.dval, V)).sum(axis=0))
    X_dot += times(P, change)
    overwrite(parts_dot[: n * k], X_dot.T.copy().ravel())
    if parts.shape[0] == n * k + k + values + 1:
        overwrite(parts_dot[n * k : n * k + k], 2 * (R * change).sum(axis=0))
    return parts, parts_dot


# --- numbers of a matrix ---


@njit
def condition_number(a):
    """`np.linalg.cond` in the 2-norm."""
    return np.linalg.cond(a)


@register_jitable
def _condition_slope(a, r):
    """Return ∂(s₁ / sₙ) / ∂A = u₁v₁ᵀ / sₙ - r uₙvₙᵀ / sₙ."""
    u, s, vt = np.linalg.svd(a, False)
    last = s.shape[0] - 1
    slope = np.empty(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            slope[i, j] = (u[i, 0] * vt[0, j] - r * u[i, last] * vt[last, j]) / s[last]
    return slope


@augmented_primal(condition_number, keeps_shadow=False)
def _cond(config, ret: Active, a: RealMatrix):
    r = condition_number(a.val)
    return AugmentedReturn(primal=r, shadow=None, tape=_condition_slope(a.val, r))


@reverse(condition_number)
def _cond_reverse(config, dret: Active, tape, a: RealMatrix):
    """Ā = r̄ ∂r/∂A."""
    accumulate(a, dret.val * tape)


@forward(condition_number)
def _cond_forward(config, ret: Duplicated, a: RealMatrix):
    """ṙ = <∂r/∂A, Ȧ>."""
    r = condition_number(a.val)
    return r, (_condition_slope(a.val, r) * a.dval).sum()


@register_jitable
def _matrix_norm_slope(a, order):
    """Return the derivatives of a matrix norm: of order ±2 by singular vectors, else the signs in
    the first column (order ±1) or row (±∞) that attains it.
    """
    m, n = a.shape
    slope = np.zeros((m, n), a.dtype)
    if abs(order) == 2:
        u, s, vt = np.linalg.svd(a, False)
        k = 0 if order > 0 else s.shape[0] - 1
        for i in range(m):
            for j in range(n):
                slope[i, j] = u[i, k] * vt[k, j]
    else:
        by_column = abs(order) == 1
        sums = np.abs(a).sum(axis=0) if by_column else np.abs(a).sum(axis=1)
        k = np.argmax(sums) if order > 0 else np.argmin(sums)
        if by_column:
            overwrite(slope[:, k], np.sign(a[:, k]))
        else:
            overwrite(slope[k], np.sign(a[k]))
    return slope


@augmented_primal(np.linalg.norm, keeps_shadow=False)
def _matrix_norm(config, ret: Active, x: RealMatrix, ord: Number):
    r = np.linalg.norm(x.val, ord.val)
    return AugmentedReturn(primal=r, shadow=None, tape=_matrix_norm_slope(x.val, ord.val))


@reverse(np.linalg.norm)
def _matrix_norm_reverse(config, dret: Active, tape, x: RealMatrix, ord: Number):
    """x̄ = r̄ ∂r/∂x."""
    accumulate(x, dret.val * tape)


@forward(np.linalg.norm)
def _matrix_norm_forward(config, ret: Duplicated, x: RealMatrix, ord: Number):
    """ṙ = <∂r/∂x, ẋ>."""
    r = np.linalg.norm(x.val, ord.val)
    return r, (_matrix_norm_slope(x.val, ord.val) * x.dval).sum()


@augmented_primal(np.linalg.slogdet, keeps_shadow=False)
def _slogdet(config, ret: Active, a: RealMatrix):
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    return AugmentedReturn(primal=np.linalg.slogdet(a.val), shadow=None, tape=A_tape)


@reverse(np.linalg.slogdet)
def _slogdet_reverse(config, dret: Active, tape, a: RealMatrix):
    """Ā = A⁻ᵀ by the logarithm; the sign is a constant."""
    accumulate(a, dret.val[1] * np.linalg.inv(np.ascontiguousarray(tape.T)))


@forward(np.linalg.slogdet)
def _slogdet_forward(config, ret: Duplicated, a: RealMatrix):
    """The tangent of log |det A| is tr(A⁻¹ Ȧ)."""
    sign, logarithm = np.linalg.slogdet(a.val)
    tangent = np.trace(np.linalg.solve(np.ascontiguousarray(a.val), np.ascontiguousarray(a.dval)))
    return (sign, logarithm), (sign * 0, tangent)

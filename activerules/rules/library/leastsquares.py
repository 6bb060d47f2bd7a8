"""Rules of pseudo-inverses, least squares, condition numbers, matrix norms, log-determinants.

Functions that return several arrays have a form here that returns them in one vector, as in
`decompositions`. All are for matrices of constant rank.

A cotangent of a complex number holds ∂/∂Re + i ∂/∂Im; ᴴ is the conjugate transpose.

Source: Golub and Pereyra (1973), "The differentiation of pseudo-inverses and nonlinear least
squares problems whose variables separate"; Giles (2008).
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from activerules.annotations.activity import Active, Duplicated
from activerules.rules.define import augmented_primal, forward, inactive, reverse
from activerules.rules.library.linalg import Matrix, MatrixResult, Number, Vector, VectorResult
from activerules.rules.library.matrices import (
    adjoint,
    adjoint_times,
    conj,
    real_inner,
    times,
    times_adjoint,
)
from activerules.rules.library.triangular import inverse_of_factored, slogdet_and_factor
from activerules.rules.protocol import AugmentedReturn, accumulate, active
from activerules.values.overwriting import overwrite

inactive(np.linalg.matrix_rank)


# --- the pseudo-inverse ---


@njit
def pseudo_inverse(a, rcond):
    """`np.linalg.pinv`."""
    return np.linalg.pinv(a, rcond)


@augmented_primal(pseudo_inverse, keeps_shadow=False)
def _pinv(config, ret: MatrixResult, a: Matrix, rcond: Number):
    P = pseudo_inverse(a.val, rcond.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    return AugmentedReturn(primal=P, shadow=np.zeros_like(P), tape=(A_tape, P.copy()))


@reverse(pseudo_inverse)
def _pinv_reverse(config, dret: MatrixResult, tape, a: Matrix, rcond: Number):
    """Ā = -Pᴴ P̄ Pᴴ + (I - AP) P̄ᴴ P Pᴴ + Pᴴ P P̄ᴴ (I - PA)."""
    A, P = tape
    P_bar = dret.dval
    P_h = adjoint(P)
    PbP = adjoint_times(P_bar, times_adjoint(P, P))
    PPb = times_adjoint(times(P_h, P), P_bar)
    A_bar = -times(P_h, times_adjoint(P_bar, P))
    A_bar += PbP - times(A, times(P, PbP))
    A_bar += PPb - times(times(PPb, P), A)
    accumulate(a, A_bar)


@forward(pseudo_inverse)
def _pinv_forward(config, ret: MatrixResult, a: Matrix, rcond: Number):
    """Ṗ = -P Ȧ P + P Pᴴ Ȧᴴ (I - AP) + (I - PA) Ȧᴴ Pᴴ P."""
    P = pseudo_inverse(a.val, rcond.val)
    first = times_adjoint(times_adjoint(P, P), a.dval)
    second = adjoint_times(a.dval, adjoint_times(P, P))
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
    rank = int(parts[-1].real)
    columns = _as_columns(b)
    u, s, vh = np.linalg.svd(a, False)
    U, V = np.ascontiguousarray(u), adjoint(vh)
    P = times_adjoint(V[:, :rank] / s[:rank], U[:, :rank])
    n, k = a.shape[1], columns.shape[1]
    X = np.ascontiguousarray(parts[: n * k].copy().reshape(k, n).T)
    return P, U, V, X, columns - times(a, X)


@augmented_primal(lstsq_parts, keeps_shadow=False)
def _lstsq(config, ret: VectorResult, a: Matrix, b: Vector | Matrix, rcond: Number):
    parts = lstsq_parts(a.val, b.val, rcond.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    b_tape = b.val.copy() if config.overwritten[1] else b.val
    tape = (parts.copy(), A_tape, b_tape)
    return AugmentedReturn(primal=parts, shadow=np.zeros_like(parts), tape=tape)


@reverse(lstsq_parts)
def _lstsq_reverse(config, dret: VectorResult, tape, a: Matrix, b: Vector | Matrix, rcond: Number):
    """B̄ = Pᴴ X̄ + 2 R r̄,  Ā = -B̄ Xᴴ + R X̄ᴴ P Pᴴ + PᴴX ((I - PA) X̄)ᴴ + U s̄ Vᴴ."""
    parts, A, b_value = tape
    P, U, V, X, R = _least_squares_of(parts, A, b_value)
    n, k, values = X.shape[0], X.shape[1], U.shape[1]
    X_bar = np.ascontiguousarray(dret.dval[: n * k].copy().reshape(k, n).T)
    B_bar = adjoint_times(P, X_bar)
    if parts.shape[0] == n * k + k + values + 1:
        B_bar += 2 * R * dret.dval[n * k : n * k + k].real
    if active(b):
        accumulate(b, B_bar.reshape(b_value.shape))
    if active(a):
        A_bar = times_adjoint(R, times(P, adjoint_times(P, X_bar)))
        A_bar += times_adjoint(adjoint_times(P, X), X_bar - times(P, times(A, X_bar)))
        A_bar += times_adjoint(U * dret.dval[-1 - values : -1].real, V)
        accumulate(a, A_bar - times_adjoint(B_bar, X))


@forward(lstsq_parts)
def _lstsq_forward(config, ret: VectorResult, a: Matrix, b: Vector | Matrix, rcond: Number):
    """Ẋ = P (Ḃ - Ȧ X) + P Pᴴ Ȧᴴ R + (I - PA) Ȧᴴ Pᴴ X,  ṙ = 2 Re <R, Ḃ - Ȧ X>,
    ṡ = Re diag(Uᴴ Ȧ V).
    """
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
        second = adjoint_times(a.dval, adjoint_times(P, X))
        X_dot += times(P, adjoint_times(P, adjoint_times(a.dval, R)))
        X_dot += second - times(P, times(a.val, second))
        values_dot = (conj(U) * times(a.dval, V)).sum(axis=0).real
        overwrite(parts_dot[-1 - values : -1], values_dot)
    X_dot += times(P, change)
    overwrite(parts_dot[: n * k], X_dot.T.copy().ravel())
    if parts.shape[0] == n * k + k + values + 1:
        residuals_dot = 2 * (conj(R) * change).sum(axis=0).real
        overwrite(parts_dot[n * k : n * k + k], residuals_dot)
    return parts, parts_dot


# --- numbers of a matrix ---


@njit
def condition_number(a, order):
    """`np.linalg.cond` of order 2, or -2, which is the inverse."""
    return np.linalg.cond(a, order)


@register_jitable
def _condition_slope(a, order, r):
    """Return ∂(s₁ / sₙ) / ∂A = u₁v₁ᴴ / sₙ - r uₙvₙᴴ / sₙ; of order -2 that of sₙ / s₁."""
    u, s, vh = np.linalg.svd(a, False)
    end = s.shape[0] - 1
    first, last = (0, end) if order > 0 else (end, 0)
    slope = np.empty(a.shape, a.dtype)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            change = u[i, first] * vh[first, j] - r * u[i, last] * vh[last, j]
            slope[i, j] = np.divide(change, s[last])  # `/` of complex numbers raises for zero
    return slope


@augmented_primal(condition_number, keeps_shadow=False)
def _cond(config, ret: Active, a: Matrix, order: Number):
    r = condition_number(a.val, order.val)
    return AugmentedReturn(primal=r, shadow=None, tape=_condition_slope(a.val, order.val, r))


@reverse(condition_number)
def _cond_reverse(config, dret: Active, tape, a: Matrix, order: Number):
    """Ā = r̄ ∂r/∂A."""
    accumulate(a, dret.val * tape)


@forward(condition_number)
def _cond_forward(config, ret: Duplicated, a: Matrix, order: Number):
    """ṙ = Re <∂r/∂A, Ȧ>."""
    r = condition_number(a.val, order.val)
    return r, real_inner(_condition_slope(a.val, order.val, r), a.dval)


@register_jitable
def _matrix_norm_slope(a, order):
    """Return the derivatives of a matrix norm: of order ±2 by singular vectors, else the signs, or
    phases, in the first column (order ±1) or row (±∞) that attains it.
    """
    m, n = a.shape
    slope = np.zeros((m, n), a.dtype)
    if a.size == 0:  # the norm is 0
        return slope
    if abs(order) == 2:
        u, s, vh = np.linalg.svd(a, False)
        k = 0 if order > 0 else s.shape[0] - 1
        for i in range(m):
            for j in range(n):
                slope[i, j] = u[i, k] * vh[k, j]
    else:
        by_column = abs(order) == 1
        sums = np.abs(a).sum(axis=0) if by_column else np.abs(a).sum(axis=1)
        k = np.argmax(sums) if order > 0 else np.argmin(sums)
        for i in range(m):
            for j in range(n):
                if (j if by_column else i) == k and a[i, j] != 0:
                    slope[i, j] = a[i, j] / abs(a[i, j])
    return slope


@augmented_primal(np.linalg.norm, keeps_shadow=False)
def _matrix_norm(config, ret: Active, x: Matrix, ord: Number):
    r = np.linalg.norm(x.val, ord.val)
    return AugmentedReturn(primal=r, shadow=None, tape=_matrix_norm_slope(x.val, ord.val))


@reverse(np.linalg.norm)
def _matrix_norm_reverse(config, dret: Active, tape, x: Matrix, ord: Number):
    """x̄ = r̄ ∂r/∂x."""
    accumulate(x, dret.val * tape)


@forward(np.linalg.norm)
def _matrix_norm_forward(config, ret: Duplicated, x: Matrix, ord: Number):
    """ṙ = Re <∂r/∂x, ẋ>."""
    r = np.linalg.norm(x.val, ord.val)
    return r, real_inner(_matrix_norm_slope(x.val, ord.val), x.dval)


@augmented_primal(np.linalg.slogdet, keeps_shadow=False)
def _slogdet(config, ret: Active, a: Matrix):
    (sign, logarithm), factors, pivots = slogdet_and_factor(a.val)
    return AugmentedReturn(primal=(sign, logarithm), shadow=None, tape=(factors, pivots, sign))


@reverse(np.linalg.slogdet)
def _slogdet_reverse(config, dret: Active, tape, a: Matrix):
    """Ā = (l̄ + i Im(conj(s) s̄)) A⁻ᴴ by the logarithm l and the sign s, a constant if it is real."""
    sign_bar, logarithm_bar = dret.val
    factors, pivots, sign = tape
    turn = conj(sign) * sign_bar
    slope = adjoint(inverse_of_factored(factors, pivots))
    accumulate(a, (logarithm_bar + (turn - turn.real)) * slope)


@forward(np.linalg.slogdet)
def _slogdet_forward(config, ret: Duplicated, a: Matrix):
    """With t = tr(A⁻¹ Ȧ), the tangent of log |det A| is Re t, that of the sign s is i s Im t."""
    sign, logarithm = np.linalg.slogdet(a.val)
    t = np.trace(np.linalg.solve(np.ascontiguousarray(a.val), np.ascontiguousarray(a.dval)))
    return (sign, logarithm), (sign * (t - t.real), t.real)

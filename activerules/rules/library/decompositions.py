"""Rules of decompositions: eigenvalues of symmetric and Hermitian matrices, real SVD and QR.

NumPy returns several arrays, a rule one. So each function has a form here that returns its parts in
one vector, matrices column by column, and that form carries the rules;
`numba_ext.target.implementations` makes NumPy's function of it where a derivative is compiled.

For equal eigenvalues, or singular values, see `repeated`.

Eigenvectors of a Hermitian matrix may be multiplied by phases. LAPACK reduces the lower triangle to
a real tridiagonal matrix by reflections that leave the first row alone, so the first entry of each
vector is real, and the derivative is that of these vectors. Where that entry is zero (or not real,
in another implementation), the phase is that of rounding, and a function of it has no derivative.
Reverse mode refuses such a function; forward mode does not know whether a phase matters, and
refuses any use of the vector.

Sources: Giles (2008), "Collected matrix derivative results"; Townsend (2016), "Differentiating the
singular value decomposition"; Walter and Lehmann (2018), "Algorithmic differentiation of linear
algebra functions with application in optimum experimental design" (QR).
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import numpy as np
from numba import boolean, float32, float64, int64, njit, types
from numba.extending import overload, register_jitable

from activerules.annotations.activity import Const, Duplicated
from activerules.errors import NotYetSupported
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.library.linalg import Matrix, VectorResult
from activerules.rules.library.matrices import (
    adjoint,
    conj,
    get_matrix,
    hermitian_of_lower,
    joined,
    lower_of_hermitian,
    put_matrix,
    times,
    times_transposed,
    transposed_times,
)
from activerules.rules.library.repeated import (
    fixes_phase,
    over_gaps_of_cotangents,
    over_gaps_of_tangents,
    precision,
    refuse_phase,
    require_nothing,
    rounding,
    size_of_used,
    untouched,
    vectors_of,
    zero_beside,
)
from activerules.rules.library.triangular import solve_adjoint, solve_lower
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.overwriting import overwrite

RealVectorResult = Duplicated[float64[:]] | Duplicated[float32[:]]
RealMatrix = (
    Duplicated[float64[:, :]]
    | Duplicated[float32[:, :]]
    | Const[float64[:, :]]
    | Const[float32[:, :]]
)
Flag = Const[int64] | Const[boolean]


# --- symmetric and Hermitian eigenvalues ---


@njit
def eigh_parts(a):
    """Return the eigenvalues of a Hermitian matrix, then its eigenvectors."""
    w, v = np.linalg.eigh(a)
    return joined(w, v)


@augmented_primal(eigh_parts, keeps_shadow=False)
def _eigh(config, ret: VectorResult, a: Matrix):
    parts = eigh_parts(a.val)
    tape = vectors_of(parts, 0, parts.shape[0], 0, a.val.shape[0])
    return AugmentedReturn(primal=parts, shadow=untouched(parts), tape=tape)


@reverse(eigh_parts)
def _eigh_reverse(config, dret: VectorResult, tape, a: Matrix):
    """Ā = V (diag(w̄) + (Vᴴ V̄) / gaps) Vᴴ, on the lower triangle, which alone is read; V̄ is without
    what changes phases.
    """
    n = a.val.shape[0]
    V = get_matrix(tape, n, n, n)
    V_h = adjoint(V)
    V_bar = get_matrix(dret.dval, n, n, n)
    U_bar = phases_kept_transposed(V, V_bar)
    inner = over_gaps_of_cotangents(times(V_h, U_bar), tape[:n], V_bar)
    for i in range(n):
        inner[i, i] = dret.dval[i].real
    accumulate(a, lower_of_hermitian(times(times(V, inner), V_h)))


@forward(eigh_parts)
def _eigh_forward(config, ret: VectorResult, a: Matrix):
    """With X = Vᴴ Ȧ V: ẇ = diag(X), V̇ = V (X / gaps), with phases that do not change."""
    parts = eigh_parts(a.val)
    n = a.val.shape[0]
    V = get_matrix(parts, n, n, n)
    X = times(adjoint(V), times(hermitian_of_lower(a.dval), V))
    V_dot = phases_kept(V, times(V, over_gaps_of_tangents(X, parts[:n])))
    return parts, joined(np.diag(X), V_dot)


def phases_kept(V, U):
    """Return tangents U of the columns of V without what makes their first entries complex; NaN
    where these do not fix the phases, which `vectors_of` refuses.
    """
    return U


@overload(phases_kept)
def _phases_kept(V, U):
    if not isinstance(V.dtype, types.Complex):
        return lambda V, U: U

    def kept(V, U):
        V_dot = U.copy()
        for k in range(V.shape[1]):
            if fixes_phase(V[:, k]):
                V_dot[:, k] -= V[:, k] * (1j * (U[0, k].imag / V[0, k].real))
            else:
                V_dot[:, k] = np.nan
        return V_dot

    return kept


def phases_kept_transposed(V, V_bar):
    """Return the cotangents of U in `phases_kept`: with z = v̄ᴴ v, <v̄, -i v Im(u₀)/v₀> is
    <i Im(z)/v₀, u₀>.
    """
    return V_bar


@overload(phases_kept_transposed)
def _phases_kept_transposed(V, V_bar):
    if not isinstance(V.dtype, types.Complex):
        return lambda V, V_bar: V_bar

    def transposed(V, V_bar):
        U_bar = V_bar.copy()
        limit = 25 * precision(V[0])
        for k in range(V.shape[1]):
            turn, size = 0.0, 0.0
            for i in range(V.shape[0]):
                turn += (conj(V_bar[i, k]) * V[i, k]).imag
                size += abs(V_bar[i, k])
            if fixes_phase(V[:, k]):
                U_bar[0, k] += 1j * (turn / V[0, k].real)
            elif not abs(turn) <= limit * size:
                refuse_phase()
        return U_bar

    return transposed


@augmented_primal(np.linalg.eigvalsh, keeps_shadow=False)
def _eigvalsh(config, ret: RealVectorResult, a: Matrix):
    w = np.linalg.eigvalsh(a.val)
    V = np.linalg.eigh(a.val)[1]
    return AugmentedReturn(primal=w, shadow=np.zeros_like(w), tape=V)


@reverse(np.linalg.eigvalsh)
def _eigvalsh_reverse(config, dret: RealVectorResult, tape, a: Matrix):
    """Ā = V diag(w̄) Vᴴ, on the lower triangle."""
    V = np.ascontiguousarray(tape)
    accumulate(a, lower_of_hermitian(times(V * dret.dval, adjoint(V))))


@forward(np.linalg.eigvalsh)
def _eigvalsh_forward(config, ret: RealVectorResult, a: Matrix):
    """ẇ = diag(Vᴴ Ȧ V)."""
    V = np.ascontiguousarray(np.linalg.eigh(a.val)[1])
    AV = times(hermitian_of_lower(a.dval), V)
    w = np.linalg.eigvalsh(a.val)
    w_dot = np.zeros_like(w)
    for i in range(w.shape[0]):
        for j in range(w.shape[0]):
            w_dot[j] += (conj(V[i, j]) * AV[i, j]).real
    return w, w_dot


# --- singular values ---


@njit
def svd_parts(a, full):
    """Return U, the singular values and Vᵀ of a = U diag(s) Vᵀ; U and V are square if `full`."""
    u, s, vt = np.linalg.svd(a, full)
    parts = np.empty(u.size + s.size + vt.size, a.dtype)
    start = put_matrix(parts, 0, u)
    overwrite(parts[start : start + s.size], s)
    put_matrix(parts, start + s.size, vt)
    return parts


@register_jitable
def svd_shapes(a, full):
    """Return how many singular values there are, columns of U, and columns of V."""
    m, n = a.shape
    k = min(m, n)
    return (k, m, n) if full else (k, k, k)


@register_jitable
def _svd_of(parts, a, full):
    """Return U, s and V from `parts`, k columns each; U and V in new memory."""
    m, n = a.shape
    k, columns_u, columns_v = svd_shapes(a, full)
    U = get_matrix(parts, 0, m, columns_u)[:, :k]
    s = parts[m * columns_u : m * columns_u + k]
    Vt = get_matrix(parts, m * columns_u + k, columns_v, n)[:k]
    return np.ascontiguousarray(U), s, np.ascontiguousarray(Vt.T)


@augmented_primal(svd_parts, keeps_shadow=False)
def _svd(config, ret: RealVectorResult, a: RealMatrix, full: Flag):
    parts = svd_parts(a.val, full.val)
    k, columns_u, _columns_v = svd_shapes(a.val, full.val)
    tape = vectors_of(parts, 0, parts.shape[0], a.val.shape[0] * columns_u, k)
    return AugmentedReturn(primal=parts, shadow=untouched(parts), tape=tape)


@reverse(svd_parts)
def _svd_reverse(config, dret: RealVectorResult, tape, a: RealMatrix, full: Flag):
    """Ā = (U (s̄ + Ω) + (I - UUᵀ) Ū s⁻¹) Vᵀ + U s⁻¹ V̄ᵀ (I - VVᵀ), where Ω is of P = UᵀŪ - ŪᵀU and
    Q = VᵀV̄ - V̄ᵀV: Ωᵢⱼ = (P + Q)ᵢⱼ / (2 (sⱼ - sᵢ)) + (P - Q)ᵢⱼ / (2 (sⱼ + sᵢ)).
    """
    m, n = a.val.shape
    U, s, V = _svd_of(tape, a.val, full.val)
    _refuse_unused_columns(dret.dval, a.val, full.val)
    U_bar, s_bar, V_bar = _svd_of(dret.dval, a.val, full.val)
    UU, VV = transposed_times(U, U_bar), transposed_times(V, V_bar)
    inner = _omega_of_cotangents(UU, VV, s, U_bar, V_bar)
    for i in range(s.shape[0]):
        inner[i, i] = s_bar[i]
    left = times(U, inner)
    if m > n:
        left += _over_values(U_bar - times(U, UU), s, U_bar)
    A_bar = times_transposed(left, V)
    if n > m:
        A_bar += times_transposed(U, _over_values(V_bar - times(V, VV), s, V_bar))
    accumulate(a, A_bar)


@register_jitable
def _omega_of_cotangents(UU, VV, s, U_bar, V_bar):
    """Return Ω. A rotation of both factors together is refused where singular values are equal, one
    of the factors against each other where both values are zero.
    """
    k = s.shape[0]
    omega = np.zeros((k, k), UU.dtype)
    limit = rounding(s)
    for i in range(k):
        for j in range(i):
            P, Q = UU[i, j] - UU[j, i], VV[i, j] - VV[j, i]
            gap, total = s[j] - s[i], s[j] + s[i]
            together, apart = P - P, P - P
            if abs(gap) > limit:
                together = (P + Q) / (2 * gap)
            else:
                share = abs(UU[i, j] + VV[i, j]) + abs(UU[j, i] + VV[j, i])
                require_nothing(share, _sizes(U_bar, V_bar, i, j), s, j, i)
            if total > limit:
                apart = (P - Q) / (2 * total)
            else:
                share = abs(UU[i, j] - VV[i, j]) + abs(UU[j, i] - VV[j, i])
                require_nothing(share, _sizes(U_bar, V_bar, i, j), s, j, i)
            omega[i, j], omega[j, i] = together + apart, together - apart
    return omega


@register_jitable
def _sizes(U_bar, V_bar, i, j):
    """Return how much of columns i and j of either factor was used; it costs a pass over them."""
    return (
        max(size_of_used(U_bar, i), size_of_used(U_bar, j)),
        max(size_of_used(V_bar, i), size_of_used(V_bar, j)),
    )


@register_jitable
def _over_values(residual, s, V_bar):
    """Return `residual / s`, which turns the columns of V out of their space: where a singular
    value is zero, they might as well lie outside it, and nothing may depend on them.
    """
    result = np.zeros_like(residual)
    limit = rounding(s)
    for i in range(s.shape[0]):
        if s[i] > limit:
            overwrite(result[:, i], residual[:, i] / s[i])
        else:
            size = size_of_used(V_bar, i)
            require_nothing(np.abs(residual[:, i]).max(), (size, size), s, i, -1)
    return result


@register_jitable
def _refuse_unused_columns(parts_bar, a, full):
    """Refuse the columns that `full` adds, which are arbitrary and so have no derivative."""
    m, n = a.shape
    k, columns_u, columns_v = svd_shapes(a, full)
    for i in range(m * k, m * columns_u):
        if parts_bar[i] != 0:
            raise NotYetSupported("svd: the last columns of a full U have no derivative")
    for i in range(columns_v * n):
        if i % columns_v >= k and parts_bar[m * columns_u + k + i] != 0:
            raise NotYetSupported("svd: the last rows of a full Vᵀ have no derivative")


@forward(svd_parts)
def _svd_forward(config, ret: RealVectorResult, a: RealMatrix, full: Flag):
    """With X = UᵀȦV: ṡ = diag(X), U̇ = U Ω + (I - UUᵀ) Ȧ V s⁻¹, and V̇ alike, with
    Ωᵢⱼ = (X + Xᵀ)ᵢⱼ / (2 (sⱼ - sᵢ)) ± (X - Xᵀ)ᵢⱼ / (2 (sⱼ + sᵢ)), + for U and - for V;
    not a number in the columns that `full` adds.
    """
    m, n = a.val.shape
    parts = svd_parts(a.val, full.val)
    U, s, V = _svd_of(parts, a.val, full.val)
    AV, AtU = times(a.dval, V), transposed_times(a.dval, U)
    X = transposed_times(U, AV)
    together = over_gaps_of_tangents((X + X.T) / 2, s)
    apart = _over_sums((X - X.T) / 2, s)
    U_dot = times(U, together + apart)
    V_dot = times(V, together - apart)
    if m > n:
        U_dot += _over_values_of_tangents(AV - times(U, X), s, AV)
    if n > m:
        V_dot += _over_values_of_tangents(AtU - times(V, X.T), s, AtU)
    k, columns_u, columns_v = svd_shapes(a.val, full.val)
    parts_dot = np.full_like(parts, np.nan)
    put_matrix(parts_dot, 0, U_dot)
    for i in range(k):
        parts_dot[m * columns_u + i] = X[i, i]
    Vt_dot = np.full((columns_v, n), np.nan, parts.dtype)
    overwrite(Vt_dot[:k], V_dot.T)
    put_matrix(parts_dot, m * columns_u + k, Vt_dot)
    return parts, parts_dot


@register_jitable
def _over_sums(X, s):
    """Return Xᵢⱼ / (sⱼ + sᵢ); where both are zero, NaN or, if Xᵢⱼ is zero, 0."""
    result = np.zeros_like(X)
    limit, zero = rounding(s), zero_beside(X, s)
    for i in range(s.shape[0]):
        for j in range(s.shape[0]):
            if s[i] + s[j] > limit:
                result[i, j] = X[i, j] / (s[i] + s[j])
            elif abs(X[i, j]) > zero:
                result[i, j] = np.nan
    return result


@register_jitable
def _over_values_of_tangents(residual, s, whole):
    """Return `residual / s`; where a singular value is zero, NaN or, if the column is zero, 0."""
    result = np.zeros_like(residual)
    limit, zero = rounding(s), zero_beside(whole, s)
    for i in range(s.shape[0]):
        if s[i] > limit:
            overwrite(result[:, i], residual[:, i] / s[i])
        elif np.abs(residual[:, i]).max() > zero:
            result[:, i] = np.nan
    return result


# --- QR ---


@njit
def qr_parts(a):
    """Return Q and R of a = Q R, the reduced ones."""
    q, r = np.linalg.qr(a)
    parts = np.empty(q.size + r.size, a.dtype)
    put_matrix(parts, put_matrix(parts, 0, q), r)
    return parts


@register_jitable
def _qr_of(parts, a):
    """Return Q and R from `parts`."""
    m, n = a.shape
    k = min(m, n)
    return get_matrix(parts, 0, m, k), get_matrix(parts, m * k, k, n)


@augmented_primal(qr_parts, keeps_shadow=False)
def _qr(config, ret: RealVectorResult, a: RealMatrix):
    parts = qr_parts(a.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    tape = (parts.copy(), A_tape)
    return AugmentedReturn(primal=parts, shadow=np.zeros_like(parts), tape=tape)


@reverse(qr_parts)
def _qr_reverse(config, dret: RealVectorResult, tape, a: RealMatrix):
    """Ā = (Q̄ + Q copyltu(R R̄ᵀ - Q̄ᵀQ)) R⁻ᵀ, where copyltu mirrors the lower triangle.

    A wide A is [X Y] and R [U V] with V = QᵀY: Ȳ = Q V̄, and Y V̄ᵀ is added to Q̄.
    """
    parts, A = tape
    m, n = A.shape
    k = min(m, n)
    Q, R = _qr_of(parts, A)
    Q_bar, R_bar = _qr_of(dret.dval, A)
    A_bar = np.empty((m, n), A.dtype)
    if n > m:
        Q_bar += times_transposed(A[:, k:], R_bar[:, k:])
        overwrite(A_bar[:, k:], times(Q, R_bar[:, k:]))
    inner = times_transposed(R[:, :k], R_bar[:, :k]) - transposed_times(Q_bar, Q)
    mirrored = hermitian_of_lower(inner)
    overwrite(A_bar[:, :k], solve_adjoint(R[:, :k].T, (Q_bar + times(Q, mirrored)).T).T)
    accumulate(a, A_bar)


@forward(qr_parts)
def _qr_forward(config, ret: RealVectorResult, a: RealMatrix):
    """With X = Qᵀ Ȧ R⁻¹ and Ω = its lower triangle less the transpose: Q̇ = QΩ + (I - QQᵀ) Ȧ R⁻¹,
    Ṙ = (X - Ω) R.
    """
    m, n = a.val.shape
    k = min(m, n)
    parts = qr_parts(a.val)
    Q, R = _qr_of(parts, a.val)
    AR = solve_lower(R[:, :k].T, a.dval[:, :k].T).T
    X = transposed_times(Q, AR)
    omega = np.zeros((k, k), parts.dtype)
    for i in range(k):
        for j in range(i):
            omega[i, j] = X[i, j]
            omega[j, i] = -X[i, j]
    Q_dot = times(Q, omega - X) + AR
    R_dot = np.empty((k, n), parts.dtype)
    overwrite(R_dot[:, :k], times(X - omega, R[:, :k]))
    if n > m:
        rest_dot = transposed_times(Q_dot, a.val[:, k:]) + transposed_times(Q, a.dval[:, k:])
        overwrite(R_dot[:, k:], rest_dot)
    parts_dot = np.empty_like(parts)
    put_matrix(parts_dot, put_matrix(parts_dot, 0, Q_dot), R_dot)
    return parts, parts_dot

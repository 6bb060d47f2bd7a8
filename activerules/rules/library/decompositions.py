"""Rules of decompositions: eigenvalues of symmetric and Hermitian matrices, and QR.

NumPy returns several arrays, a rule one. So each function has a form here that returns its parts in
one vector, matrices column by column, and that form carries the rules;
`numba_ext.target.implementations` makes NumPy's function of it where a derivative is compiled.

For equal eigenvalues see `repeated`, for the phases of complex eigenvectors `phases`. The diagonal
of LAPACK's R is real, so Q and R have no phases.

A cotangent of a complex number holds ∂/∂Re + i ∂/∂Im; ᴴ is the conjugate transpose.

Sources: Giles (2008), "Collected matrix derivative results"; Walter and Lehmann (2018),
"Algorithmic differentiation of linear algebra functions with application in optimum experimental
design" (QR; that the diagonal is real is added here).
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.library.linalg import Matrix, VectorResult
from activerules.rules.library.matrices import (
    adjoint,
    adjoint_times,
    conj,
    get_matrix,
    hermitian_of_lower,
    joined,
    lower_of_hermitian,
    put_matrix,
    times,
    times_adjoint,
)
from activerules.rules.library.phases import phases_kept, phases_kept_transposed, phases_marked
from activerules.rules.library.repeated import (
    over_gaps_of_cotangents,
    over_gaps_of_tangents,
    untouched,
    vectors_of,
)
from activerules.rules.library.triangular import solve_adjoint, solve_lower
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.overwriting import overwrite

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
    return parts, joined(phases_marked(V, np.diag(X)), V_dot)


@augmented_primal(np.linalg.eigvalsh, keeps_shadow=False)
def _eigvalsh(config, ret: VectorResult, a: Matrix):
    w = np.linalg.eigvalsh(a.val)
    V = np.linalg.eigh(a.val)[1]
    return AugmentedReturn(primal=w, shadow=np.zeros_like(w), tape=V)


@reverse(np.linalg.eigvalsh)
def _eigvalsh_reverse(config, dret: VectorResult, tape, a: Matrix):
    """Ā = V diag(w̄) Vᴴ, on the lower triangle."""
    V = np.ascontiguousarray(tape)
    accumulate(a, lower_of_hermitian(times(V * dret.dval, adjoint(V))))


@forward(np.linalg.eigvalsh)
def _eigvalsh_forward(config, ret: VectorResult, a: Matrix):
    """ẇ = diag(Vᴴ Ȧ V)."""
    V = np.ascontiguousarray(np.linalg.eigh(a.val)[1])
    AV = times(hermitian_of_lower(a.dval), V)
    w = np.linalg.eigvalsh(a.val)
    w_dot = np.zeros_like(w)
    for i in range(w.shape[0]):
        for j in range(w.shape[0]):
            w_dot[j] += (conj(V[i, j]) * AV[i, j]).real
    return w, w_dot


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
def _qr(config, ret: VectorResult, a: Matrix):
    parts = qr_parts(a.val)
    A_tape = a.val.copy() if config.overwritten[0] else a.val
    tape = (parts.copy(), A_tape)
    return AugmentedReturn(primal=parts, shadow=np.zeros_like(parts), tape=tape)


@reverse(qr_parts)
def _qr_reverse(config, dret: VectorResult, tape, a: Matrix):
    """Ā = (Q̄ + Q copyltu(R R̄ᴴ - Q̄ᴴQ)) R⁻ᴴ, where copyltu mirrors the lower triangle and leaves a
    real diagonal.

    A wide A is [X Y] and R [U V] with V = QᴴY: Ȳ = Q V̄, and Y V̄ᴴ is added to Q̄.
    """
    parts, A = tape
    m, n = A.shape
    k = min(m, n)
    Q, R = _qr_of(parts, A)
    Q_bar, R_bar = _qr_of(dret.dval, A)
    A_bar = np.empty((m, n), A.dtype)
    if n > m:
        Q_bar += times_adjoint(A[:, k:], R_bar[:, k:])
        overwrite(A_bar[:, k:], times(Q, R_bar[:, k:]))
    inner = times_adjoint(R[:, :k], R_bar[:, :k]) - adjoint_times(Q_bar, Q)
    mirrored = hermitian_of_lower(inner)
    overwrite(A_bar[:, :k], solve_adjoint(R[:, :k].T, (Q_bar + times(Q, mirrored)).T).T)
    accumulate(a, A_bar)


@forward(qr_parts)
def _qr_forward(config, ret: VectorResult, a: Matrix):
    """With X = Qᴴ Ȧ R⁻¹ and Ω = its lower triangle less the adjoint, with i Im diag(X):
    Q̇ = QΩ + (I - QQᴴ) Ȧ R⁻¹, Ṙ = (X - Ω) R.
    """
    m, n = a.val.shape
    k = min(m, n)
    parts = qr_parts(a.val)
    Q, R = _qr_of(parts, a.val)
    AR = solve_lower(R[:, :k].T, a.dval[:, :k].T).T
    X = adjoint_times(Q, AR)
    omega = np.zeros((k, k), parts.dtype)
    for i in range(k):
        for j in range(i):
            omega[i, j] = X[i, j]
            omega[j, i] = -conj(X[i, j])
        omega[i, i] = X[i, i] - X[i, i].real
    Q_dot = times(Q, omega - X) + AR
    R_dot = np.empty((k, n), parts.dtype)
    overwrite(R_dot[:, :k], times(X - omega, R[:, :k]))
    if n > m:
        rest_dot = adjoint_times(Q_dot, a.val[:, k:]) + adjoint_times(Q, a.dval[:, k:])
        overwrite(R_dot[:, k:], rest_dot)
    parts_dot = np.empty_like(parts)
    put_matrix(parts_dot, put_matrix(parts_dot, 0, Q_dot), R_dot)
    return parts, parts_dot

"""Rules of the eigenvalues and eigenvectors of a general matrix, real or complex.

The result is complex, except for real matrices under NumPy before 2.5: there Numba's is real, and
Numba raises if an eigenvalue is not. Both have the same formulas.

As in `decompositions`, `eig_parts` is `np.linalg.eig` in one vector; for equal eigenvalues see
`repeated`. LAPACK gives vectors of length 1 whose largest entry is real, and the derivative is that
of these vectors.

A cotangent of a complex number holds ∂/∂Re + i ∂/∂Im; ᴴ is the conjugate transpose.

Source: Boeddeker et al. (2017), "On the computation of complex-valued gradients with application to
statistically optimum beamforming" (vectors of length 1; that an entry is real is added here).
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
    columnwise_dot,
    conj,
    get_matrix,
    joined,
    times,
)
from activerules.rules.library.repeated import (
    over_gaps_of_cotangents,
    over_gaps_of_tangents,
    untouched,
    vectors_of,
)
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.overwriting import overwrite


@njit
def eig_parts(a):
    """Return the eigenvalues of a matrix, then its eigenvectors."""
    w, v = np.linalg.eig(a)
    return joined(w, v)


@register_jitable
def _largest(V, k):
    """Return the row of the largest entry of a column, which is real: others may be as large."""
    row = 0
    for i in range(V.shape[0]):
        if V[i, k].imag == 0 and (V[row, k].imag != 0 or abs(V[i, k]) > abs(V[row, k])):
            row = i
    return row


@register_jitable
def _normalised(V, U):
    """Return tangents of the columns of V, without what would change their lengths or turn their
    largest entries.
    """
    V_dot = np.empty_like(V)
    for k in range(V.shape[1]):
        row = _largest(V, k)
        # x - x.real is i Im x, for real x zero
        along = (U[row, k] - U[row, k].real) / V[row, k].real
        for i in range(V.shape[0]):
            along += (conj(V[i, k]) * U[i, k]).real
        for i in range(V.shape[0]):
            V_dot[i, k] = U[i, k] - V[i, k] * along
    return V_dot


@register_jitable
def _normalised_transposed(V, V_bar):
    """Return the cotangents of U in `_normalised`.

    With z = v̄ᴴ v: <v̄, -v Re(vᴴ u)> = <-v Re z, u>, and <v̄, -i v Im(uₘ)/vₘ> = <i Im(z)/vₘ, uₘ>.
    """
    U_bar = np.empty_like(V)
    for k in range(V.shape[1]):
        z = V[0, k] - V[0, k]
        for i in range(V.shape[0]):
            z += conj(V_bar[i, k]) * V[i, k]
        for i in range(V.shape[0]):
            U_bar[i, k] = V_bar[i, k] - V[i, k] * z.real
        row = _largest(V, k)
        U_bar[row, k] += (z - z.real) / V[row, k].real
    return U_bar


@augmented_primal(eig_parts, keeps_shadow=False)
def _eig(config, ret: VectorResult, a: Matrix):
    parts = eig_parts(a.val)
    tape = vectors_of(parts, 0, parts.shape[0], 0, a.val.shape[0])
    return AugmentedReturn(primal=parts, shadow=untouched(parts), tape=tape)


@reverse(eig_parts)
def _eig_reverse(config, dret: VectorResult, tape, a: Matrix):
    """Ā = V⁻ᴴ (diag(w̄) + (Vᴴ Ū) / gaps̄) Vᴴ; Ū is V̄ without what `_normalised` removes."""
    n = a.val.shape[0]
    V = get_matrix(tape, n, n, n)
    V_h = adjoint(V)
    V_bar = get_matrix(dret.dval, n, n, n)
    U_bar = _normalised_transposed(V, V_bar)
    inner = over_gaps_of_cotangents(times(V_h, U_bar), conj(tape[:n]), V_bar)
    for i in range(n):
        inner[i, i] = dret.dval[i]
    accumulate(a, np.linalg.solve(V_h, times(inner, V_h)))


@forward(eig_parts)
def _eig_forward(config, ret: VectorResult, a: Matrix):
    """With X = V⁻¹ Ȧ V: ẇ = diag(X), V̇ = V (X / gaps), normalised."""
    parts = eig_parts(a.val)
    n = a.val.shape[0]
    V = get_matrix(parts, n, n, n)
    X = np.linalg.solve(V, times(a.dval.astype(V.dtype), V))
    V_dot = _normalised(V, times(V, over_gaps_of_tangents(X, parts[:n])))
    return parts, joined(np.diag(X), V_dot)


@register_jitable
def _right_and_left_vectors(a, w):
    """Return V and V⁻ᵀ of a, columns in the order of w: `eig` may find another one."""
    n = w.shape[0]
    values, vectors = np.linalg.eig(a)
    V = np.empty((n, n), vectors.dtype)
    free = np.ones(n, np.bool_)
    for i in range(n):
        best = -1
        for j in range(n):
            if free[j] and (best < 0 or abs(values[j] - w[i]) < abs(values[best] - w[i])):
                best = j
        free[best] = False
        overwrite(V[:, i], vectors[:, best])
    return V, np.linalg.inv(np.ascontiguousarray(V.T))


@augmented_primal(np.linalg.eigvals, keeps_shadow=False)
def _eigvals(config, ret: VectorResult, a: Matrix):
    w = np.linalg.eigvals(a.val)
    tape = _right_and_left_vectors(a.val, w)
    return AugmentedReturn(primal=w, shadow=np.zeros_like(w), tape=tape)


@reverse(np.linalg.eigvals)
def _eigvals_reverse(config, dret: VectorResult, tape, a: Matrix):
    """Ā = V⁻ᴴ diag(w̄) Vᴴ."""
    V, left = tape
    accumulate(a, times(conj(left) * dret.dval, adjoint(V)))


@forward(np.linalg.eigvals)
def _eigvals_forward(config, ret: VectorResult, a: Matrix):
    """ẇ = diag(V⁻¹ Ȧ V)."""
    w = np.linalg.eigvals(a.val)
    V, left = _right_and_left_vectors(a.val, w)
    return w, columnwise_dot(left, times(a.dval.astype(V.dtype), V))

"""Rules of the singular value decomposition A = U diag(s) Vᴴ.

As in `decompositions`, `svd_parts` is `np.linalg.svd` in one vector. For equal singular values see
`repeated`, for the phases of complex vectors `phases`.

A cotangent of a complex number holds ∂/∂Re + i ∂/∂Im; ᴴ is the conjugate transpose.

Sources: Townsend (2016), "Differentiating the singular value decomposition"; Wan and Zhang (2019),
"Automatic differentiation for complex valued SVD" (functions that no phase changes; that first
entries are real is added here).
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import register_jitable

from activerules.annotations.activity import Const
from activerules.errors import NotYetSupported
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.library.linalg import Matrix, VectorResult
from activerules.rules.library.matrices import (
    adjoint,
    adjoint_times,
    conj,
    get_matrix,
    of_complex,
    put_matrix,
    times,
    times_adjoint,
)
from activerules.rules.library.phases import (
    joint_phases_kept,
    joint_phases_kept_transposed,
    phases_marked,
)
from activerules.rules.library.repeated import (
    over_gaps_of_tangents,
    require_nothing,
    rounding,
    size_of_used,
    untouched,
    vectors_of,
    zero_beside,
)
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.overwriting import overwrite

Flag = Const[types.Integer] | Const[types.Boolean]


@njit
def svd_parts(a, full):
    """Return U, the singular values and Vᴴ of a = U diag(s) Vᴴ; U and V are square if `full`."""
    u, s, vh = np.linalg.svd(a, full)
    parts = np.empty(u.size + s.size + vh.size, a.dtype)
    start = put_matrix(parts, 0, u)
    overwrite(parts[start : start + s.size], s)
    put_matrix(parts, start + s.size, vh)
    return parts


@register_jitable
def svd_shapes(a, full):
    """Return how many singular values there are, columns of U, and columns of V."""
    m, n = a.shape
    k = min(m, n)
    return (k, m, n) if full else (k, k, k)


@register_jitable
def _svd_of(parts, a, full):
    """Return U, s and V from `parts`, k columns each, in new memory."""
    m, n = a.shape
    k, columns_u, columns_v = svd_shapes(a, full)
    U = get_matrix(parts, 0, m, columns_u)[:, :k]
    s = parts[m * columns_u : m * columns_u + k].real.copy()
    V_h = get_matrix(parts, m * columns_u + k, columns_v, n)[:k]
    return np.ascontiguousarray(U), s, adjoint(V_h)


@augmented_primal(svd_parts, keeps_shadow=False)
def _svd(config, ret: VectorResult, a: Matrix, full: Flag):
    parts = svd_parts(a.val, full.val)
    k, columns_u, _columns_v = svd_shapes(a.val, full.val)
    tape = vectors_of(parts, 0, parts.shape[0], a.val.shape[0] * columns_u, k)
    return AugmentedReturn(primal=parts, shadow=untouched(parts), tape=tape)


@reverse(svd_parts)
def _svd_reverse(config, dret: VectorResult, tape, a: Matrix, full: Flag):
    """Ā = (U (s̄ + Ω) + (I - UUᴴ) Ū s⁻¹) Vᴴ + U s⁻¹ V̄ᴴ (I - VVᴴ), where Ω is of P = UᴴŪ - ŪᴴU and
    Q = VᴴV̄ - V̄ᴴV: Ωᵢⱼ = (P + Q)ᵢⱼ / (2 (sⱼ - sᵢ)) + (P - Q)ᵢⱼ / (2 (sⱼ + sᵢ)), where the first
    term is zero on the diagonal; Ū and V̄ are without what changes phases.
    """
    m, n = a.val.shape
    U, s, V = _svd_of(tape, a.val, full.val)
    _refuse_unused_columns(dret.dval, a.val, full.val)
    U_used, s_bar, V_used = _svd_of(dret.dval, a.val, full.val)
    U_bar, V_bar = joint_phases_kept_transposed(U, V, (U_used, V_used))
    UU, VV = adjoint_times(U, U_bar), adjoint_times(V, V_bar)
    inner = _omega_of_cotangents(UU, VV, s, U_used, V_used)
    for i in range(s.shape[0]):
        inner[i, i] += s_bar[i]
    left = times(U, inner)
    if m > n:
        left += _over_values(U_bar - times(U, UU), s, U_used)
    A_bar = times_adjoint(left, V)
    if n > m:
        A_bar += times_adjoint(U, _over_values(V_bar - times(V, VV), s, V_used))
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
            P, Q = UU[i, j] - conj(UU[j, i]), VV[i, j] - conj(VV[j, i])
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
            omega[i, j], omega[j, i] = together + apart, conj(together - apart)
    return _with_phases(UU, VV, s, U_bar, V_bar, omega)


@of_complex
def _with_phases(UU, VV, s, U_bar, V_bar, omega):
    """Return Ω with its diagonal, of the phases of U against those of V: (P - Q)ᵢᵢ / (4 sᵢ)."""
    for i in range(s.shape[0]):
        difference = (UU[i, i] - VV[i, i]).imag
        if s[i] > rounding(s):
            omega[i, i] = 1j * (difference / (2 * s[i]))
        else:
            require_nothing(abs(difference), _sizes(U_bar, V_bar, i, i), s, i, -1)
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
            raise NotYetSupported("svd: the last rows of a full Vᴴ have no derivative")


@forward(svd_parts)
def _svd_forward(config, ret: VectorResult, a: Matrix, full: Flag):
    """With X = UᴴȦV: ṡ = Re diag(X), U̇ = U Ω + (I - UUᴴ) Ȧ V s⁻¹, and V̇ alike, with
    Ωᵢⱼ = (X + Xᴴ)ᵢⱼ / (2 (sⱼ - sᵢ)) ± (X - Xᴴ)ᵢⱼ / (2 (sⱼ + sᵢ)), + for U and - for V, and phases
    that do not change; not a number in the columns that `full` adds.
    """
    m, n = a.val.shape
    parts = svd_parts(a.val, full.val)
    U, s, V = _svd_of(parts, a.val, full.val)
    AV, AhU = times(a.dval, V), adjoint_times(a.dval, U)
    X = adjoint_times(U, AV)
    X_h = adjoint(X)
    together = over_gaps_of_tangents((X + X_h) / 2, s)
    apart = _over_sums((X - X_h) / 2, s)
    U_dot = times(U, together + apart)
    V_dot = times(V, together - apart)
    if m > n:
        U_dot += _over_values_of_tangents(AV - times(U, X), s, AV)
    if n > m:
        V_dot += _over_values_of_tangents(AhU - times(V, X_h), s, AhU)
    U_dot, V_dot = joint_phases_kept(U, V, (U_dot, V_dot))
    k, columns_u, columns_v = svd_shapes(a.val, full.val)
    parts_dot = np.full_like(parts, np.nan)
    put_matrix(parts_dot, 0, U_dot)
    values_dot = phases_marked(V if m >= n else U, np.diag(X))
    overwrite(parts_dot[m * columns_u : m * columns_u + k], values_dot)
    Vh_dot = np.full((columns_v, n), np.nan, parts.dtype)
    overwrite(Vh_dot[:k], adjoint(V_dot))
    put_matrix(parts_dot, m * columns_u + k, Vh_dot)
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

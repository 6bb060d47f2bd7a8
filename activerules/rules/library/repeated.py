"""Equal eigenvalues, and equal singular values: which derivatives still exist.

The vectors of equal values are any basis of the space they span, so they have no derivative. The
values do, and so do the vectors of other values. A function of all of them, such as V f(Λ) Vᵀ, may
have one, which contains f'(λ). But no cotangent tells f'(λ): in the formula a difference quotient
stands for it, whose denominator is zero here. So

reverse     a pair of equal values whose vectors were used is refused, unless the cotangents rotate
            neither vector into the other. "Used" does not mean that a cotangent is nonzero: those
            of V log(Λ) Vᵀ are 0 where λ = 1, and its derivative is not. Therefore shadows begin as
            -0.0 here: whatever is added, even 0.0, changes the sign.
forward     tangents of vectors are right if no pair of equal values has a share in them, and NaN
            otherwise; `vectors_of`, through which a program gets its vectors, refuses the latter.
            The values do not pass through it.

That cotangents of U and V cancel in a pair, as those of U Vᵀ do, does not determine a derivative:
U f(S) Vᵀ has the same ones for any f that is 1 there, and f' is missing; U.sum() + V.sum() has such
cotangents at the identity, and no derivative (docs/maths.md, with a rule for U Vᵀ).

Values are equal if their distance is within the rounding of LAPACK.
"""
# pyright: reportAttributeAccessIssue=false
# Which arguments have a shadow is known where a rule is compiled: that is what `dval` relies on.

from __future__ import annotations

import math

import numpy as np
from numba import njit, types
from numba.extending import register_jitable

from activerules.annotations.activity import Const
from activerules.errors import NotYetSupported, RepeatedValues
from activerules.rules.define import augmented_primal, forward, reverse
from activerules.rules.library.linalg import VectorResult as Vector
from activerules.rules.library.matrices import of_complex
from activerules.rules.protocol import AugmentedReturn, accumulate
from activerules.values.overwriting import overwrite

Count = Const[types.Integer]


@register_jitable
def untouched(like):
    """Return a shadow that tells whether anything was added to it, see above."""
    return -np.zeros_like(like)


@register_jitable
def precision(values):
    """Return the relative error of that many values: beside 1 it counts as zero."""
    return 4.0 * values.shape[0] * np.finfo(values.dtype).eps


@register_jitable
def rounding(values):
    """Return the distance within which values are equal."""
    largest = 0.0
    for value in values:
        largest = max(largest, abs(value))
    return precision(values) * largest


@register_jitable
def size_of_used(V_bar, k):
    """Return the norm of a column of a cotangent, infinite if it is not a number; -1 if nothing was
    ever added to it.
    """
    touched, squares = False, 0.0
    for i in range(V_bar.shape[0]):
        x = V_bar[i, k]
        if x != 0 or math.copysign(1.0, x.real) > 0:
            touched = True
        squares += abs(x) ** 2
    if math.isnan(squares):
        return math.inf
    return math.sqrt(squares) if touched else -1.0


@register_jitable
def require_nothing(share, sizes, values, i, j):
    """Refuse the pair (i, j) of equal values if its vectors were used and have a share in a
    cotangent of these sizes; `j` is -1 where value `i` is alone, and zero.

    A share that is not a number is refused, too: second derivatives of the values alone involve
    tangents of vectors, which do not exist here.
    """
    used = max(sizes[0], sizes[1]) >= 0
    size = max(sizes[0], 0.0) + max(sizes[1], 0.0)
    if used and (not share <= 25 * precision(values) * size or size == 0):
        refuse(values, i, j)


@register_jitable
def refuse(values, i, j):
    """Raise the error about a pair of values, or about one that is zero."""
    raise RepeatedValues("", i, j, abs(values[i]), abs(values[j] - values[i]))


@register_jitable
def over_gaps_of_cotangents(M, values, V_bar):
    """Return Mᵢⱼ / (valuesⱼ - valuesᵢ) of M = Vᴴ V̄; 0 where values are equal."""
    n = values.shape[0]
    result = np.zeros((n, n), M.dtype)
    limit = rounding(values)
    for i in range(n):
        for j in range(i):
            gap = values[j] - values[i]
            if abs(gap) > limit:
                result[i, j] = M[i, j] / gap
                result[j, i] = M[j, i] / -gap
            else:
                share = abs(M[i, j]) + abs(M[j, i])
                sizes = size_of_used(V_bar, i), size_of_used(V_bar, j)
                require_nothing(share, sizes, values, j, i)
    return result


@register_jitable
def over_gaps_of_tangents(X, values):
    """Return Xᵢⱼ / (valuesⱼ - valuesᵢ); where values are equal, NaN or, if Xᵢⱼ is zero, 0."""
    n = values.shape[0]
    result = np.zeros((n, n), X.dtype)
    limit, zero = rounding(values), zero_beside(X, values)
    for i in range(n):
        for j in range(n):
            gap = values[j] - values[i]
            if i != j and abs(gap) > limit:
                result[i, j] = X[i, j] / gap
            elif i != j and abs(X[i, j]) > zero:
                result[i, j] = np.nan
    return result


@register_jitable
def zero_beside(X, values):
    """Return what counts as zero among the entries of X."""
    largest = 0.0
    for row in range(X.shape[0]):
        for column in range(X.shape[1]):
            largest = max(largest, abs(X[row, column]))
    return 25 * precision(values) * largest


# --- the vectors, as a program gets them ---


@njit
def vectors_of(parts, start, stop, at, count):
    """Return `parts[start:stop]`, which are vectors of the values `parts[at : at + count]`."""
    return parts[start:stop].copy()


@augmented_primal(vectors_of, keeps_shadow=False)
def _vectors(
    config, ret: Vector, parts: Vector, start: Count, stop: Count, at: Count, count: Count
):
    vectors = parts.val[start.val : stop.val].copy()
    return AugmentedReturn(primal=vectors, shadow=untouched(vectors), tape=parts.val.shape[0])


@reverse(vectors_of)
def _vectors_reverse(
    config, dret: Vector, tape, parts: Vector, start: Count, stop: Count, at: Count, count: Count
):
    """-0.0 changes no shadow: an entry that was untouched stays untouched in `parts` too."""
    parts_bar = -np.zeros(tape, dret.dval.dtype)
    overwrite(parts_bar[start.val : stop.val], dret.dval)
    accumulate(parts, parts_bar)


@forward(vectors_of)
def _vectors_forward(
    config, ret: Vector, parts: Vector, start: Count, stop: Count, at: Count, count: Count
):
    """Refuses tangents that `over_gaps_of_tangents` or `phases.phases_kept` left out."""
    vectors = parts.val[start.val : stop.val].copy()
    vectors_dot = parts.dval[start.val : stop.val].copy()
    if np.isnan(vectors_dot).any():
        _refuse_repeated(parts.val[at.val : at.val + count.val])
        _refuse_phases(parts.dval[at.val : at.val + count.val])
    return vectors, vectors_dot


@register_jitable
def _refuse_repeated(values):
    """Refuse the pair of values that are nearest, if they are equal, or one that is zero."""
    limit = rounding(values)
    for i in range(values.shape[0]):
        for j in range(i):
            if abs(values[i] - values[j]) <= limit:
                refuse(values, j, i)
    for i in range(values.shape[0]):
        if abs(values[i]) <= limit:
            refuse(values, i, -1)


# --- phases of complex vectors ---


@of_complex
def _refuse_phases(values_dot):
    """Refuse vectors of which `phases.phases_marked` says that nothing fixes their phases."""
    if np.isnan(values_dot.imag).any():
        refuse_phase()
    return values_dot


@register_jitable
def refuse_phase():
    """Raise the error about a vector whose phase is that of rounding."""
    raise NotYetSupported(
        "eigh, svd: the phase of a complex eigenvector or singular vector whose first entry is "
        "zero has no derivative. Use the values alone, or reverse mode for functions that no phase "
        "changes"
    )

"""Products, adjoints and triangles of matrices, of which the rules of linear algebra are made.

Each is compiled where a rule calls it. Real and complex: ᴴ is the conjugate transpose. Loops rather
than sums of arrays where they compile faster.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable

from activerules.rules.written import function_from
from activerules.values.overwriting import overwrite


def of_complex(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: where its first argument is real, the function returns its last one unchanged."""
    names = list(signature(function).parameters)

    def either(*args: Any) -> Any:
        return function(*args) if np.iscomplexobj(args[0]) else args[-1]

    source = (
        f"def form({', '.join(names)}):\n"
        f"    is_complex = isinstance(getattr({names[0]}, 'dtype', {names[0]}), Complex)\n"
        f"    return function if is_complex else lambda {', '.join(names)}: {names[-1]}"
    )
    scope = {"function": function, "Complex": types.Complex}
    overload(either)(function_from(source, "form", scope, module=__name__))
    return either


@of_complex
def conj(x):
    """Return the conjugate of `x`; a real `x` itself, not a copy."""
    return np.conj(x)


@register_jitable
def adjoint(A):
    """Return Aᴴ in C order: the functions that take it are compiled for that already, and `solve`
    copies its argument anyway.
    """
    return np.ascontiguousarray(conj(A).T)


@register_jitable
def times(A, B):
    """Return A B, of any layouts."""
    return np.dot(np.ascontiguousarray(A), np.ascontiguousarray(B))


@register_jitable
def adjoint_times(A, B):
    """Return Aᴴ B."""
    return np.dot(adjoint(A), np.ascontiguousarray(B))


@register_jitable
def times_adjoint(A, B):
    """Return A Bᴴ."""
    return np.dot(np.ascontiguousarray(A), adjoint(B))


@register_jitable
def real_inner(A, B):
    """Return the sum of Re(conj(a) b) over the entries of two arrays."""
    total = A.dtype.type(0).real
    for a, b in zip(A.flat, B.flat):
        total += (conj(a) * b).real
    return total


@register_jitable
def hermitian_of_lower(A):
    """Return the Hermitian matrix with the lower triangle of A, which is all that is read of A."""
    n = A.shape[0]
    S = np.empty((n, n), A.dtype)
    for i in range(n):
        for j in range(i):
            S[i, j] = A[i, j]
            S[j, i] = conj(A[i, j])
        S[i, i] = A[i, i].real
    return S


@register_jitable
def lower_of_hermitian(S):
    """Return the lower triangle of S + Sᴴ with half the diagonal: the transpose of
    `hermitian_of_lower`, for cotangents.
    """
    n = S.shape[0]
    lower = np.zeros((n, n), S.dtype)
    for i in range(n):
        for j in range(i):
            lower[i, j] = S[i, j] + conj(S[j, i])
        lower[i, i] = S[i, i].real
    return lower


@register_jitable
def columnwise_dot(A, B):
    """Return the dot products of the columns of A with those of B."""
    dots = np.zeros(A.shape[1], A.dtype)
    for i in range(A.shape[0]):
        for j in range(A.shape[1]):
            dots[j] += A[i, j] * B[i, j]
    return dots


# --- matrices in a vector ---


@register_jitable
def put_matrix(parts, start, A):
    """Write the columns of A into `parts` from `start`; return where they end."""
    for j in range(A.shape[1]):
        for i in range(A.shape[0]):
            parts[start] = A[i, j]
            start += 1
    return start


@register_jitable
def get_matrix(parts, start, rows, columns):
    """Return the matrix that `put_matrix` wrote."""
    A = np.empty((rows, columns), parts.dtype)
    for j in range(columns):
        for i in range(rows):
            A[i, j] = parts[start]
            start += 1
    return A


@register_jitable
def joined(values, V):
    """Return eigenvalues, then eigenvectors, in one vector, of the type of the vectors."""
    n = values.shape[0]
    parts = np.empty(n + n * n, V.dtype)
    overwrite(parts[:n], values)
    put_matrix(parts, n, V)
    return parts

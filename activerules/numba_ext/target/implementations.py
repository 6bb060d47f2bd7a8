"""NumPy functions that the AD target implements with functions that have rules.

Needs       the library of rules
Gives       implementations that only code compiled for a derivative uses
Invariants  I1  values are those of Numba's own implementation, bit for bit; errors too
            I2  argument types without rules get Numba's implementation

A rule returns one array, but these functions return several. Each calls a library function that
returns all results in one vector (see `rules.library.decompositions`), and returns views of it.
`np.dot(a, b, out)` is the product that has a rule, copied into `out`. The product of two real
vectors has the value of BLAS and the derivative of a loop. A rule would have to copy vectors that
may be overwritten, which for short rows costs several times the product; in a loop the engine sees
which numbers are overwritten. `np.outer` is two loops: Numba multiplies an array of one column by
an array of one row, but the engine cannot see that there is only one, and would add the cotangents
of a whole row to the same entry of the shadow, one by one.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload, register_jitable
from numba.np.numpy_support import as_dtype

from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.numba_ext.substitutes import (
    generator_draws,  # noqa: F401  (what has no derivative)
    slice_errors,  # noqa: F401  (what it raises)
)
from activerules.numba_ext.substitutes.single_points import with_value
from activerules.numba_ext.target import function_values  # noqa: F401  (how they are stored)
from activerules.numba_ext.target.marked_calls import is_loop
from activerules.numba_ext.target.target import Session
from activerules.rules.library import triangular
from activerules.rules.library.decompositions import eigh_parts, qr_parts
from activerules.rules.library.eigen import eig_parts
from activerules.rules.library.leastsquares import condition_number, lstsq_parts, pseudo_inverse
from activerules.rules.library.linalg import dot_value
from activerules.rules.library.repeated import vectors_of
from activerules.rules.library.singular_values import svd_parts, svd_shapes
from activerules.rules.written import always
from activerules.values.kinds import is_absent

_REAL = (types.float32, types.float64)
_FLOATING = (*_REAL, types.complex64, types.complex128)


def _is_real(a: Any, *dimensions: int) -> bool:
    return isinstance(a, types.Array) and a.dtype in _REAL and a.ndim in dimensions


def _is_floating(a: Any, *dimensions: int) -> bool:
    return isinstance(a, types.Array) and a.dtype in _FLOATING and a.ndim in dimensions


@overload(np.linalg.eigh, target=AD_TARGET)
def _eigh(a):
    if not _is_floating(a, 2):
        return None
    return _eigh_of_parts if _is_real(a, 2) else _complex_eigh_of_parts


@register_jitable
def _values_and_vectors(parts, n):
    return parts[:n], vectors_of(parts, n, n + n * n, 0, n).reshape(n, n).T


def _eigh_of_parts(a):
    return _values_and_vectors(eigh_parts(a), a.shape[0])


def _complex_eigh_of_parts(a):
    values, vectors = _values_and_vectors(eigh_parts(a), a.shape[0])
    return values.real.copy(), vectors


@overload(np.linalg.eig, target=AD_TARGET)
def _eig(a):
    if not _is_floating(a, 2):
        return None
    return lambda a: _values_and_vectors(eig_parts(a), a.shape[0])


@overload(np.linalg.svd, target=AD_TARGET)
def _svd(a, full_matrices=1):
    if not _is_floating(a, 2):
        return None
    return _svd_of_parts if _is_real(a, 2) else _complex_svd_of_parts


@register_jitable
def _svd_of_parts(a, full_matrices=1):
    m, n = a.shape
    parts = svd_parts(a, full_matrices)
    k, columns_u, columns_v = svd_shapes(a, full_matrices)
    values = m * columns_u
    u = vectors_of(parts, 0, values, values, k).reshape(columns_u, m).T
    vt = vectors_of(parts, values + k, parts.shape[0], values, k).reshape(n, columns_v).T
    return u, parts[values : values + k], vt


def _complex_svd_of_parts(a, full_matrices=1):
    u, values, vh = _svd_of_parts(a, full_matrices)
    return u, values.real.copy(), vh


@overload(np.linalg.qr, target=AD_TARGET)
def _qr(a):
    if not _is_floating(a, 2):
        return None
    return _qr_of_parts


def _qr_of_parts(a):
    m, n = a.shape
    k = min(m, n)
    parts = qr_parts(a)
    # The slice gives Q the layout that Numba's has, which decides the order of later sums.
    q = parts[: m * k].reshape(k, m).T[:, :k]
    return q, parts[m * k :].reshape(n, k).T


@overload(np.linalg.pinv, target=AD_TARGET)
def _pinv(a, rcond=1.0e-15):
    if not _is_floating(a, 2):
        return None
    return lambda a, rcond=1.0e-15: pseudo_inverse(a, rcond)


@overload(np.linalg.lstsq, target=AD_TARGET)
def _lstsq(a, b, rcond=-1.0):
    if not (_is_floating(a, 2) and _is_floating(b, 1, 2) and a.dtype == b.dtype):
        return None
    return _lstsq_of_parts if _is_real(a, 2) else _complex_lstsq_of_parts


@register_jitable
def _lstsq_of_parts(a, b, rcond=-1.0):
    n, values, k = a.shape[1], min(a.shape), b[:1].size
    parts = lstsq_parts(a, b, rcond)
    last = parts.shape[0] - 1
    x = _solution(parts[: n * k], b)
    rank = np.int32(parts[last].real)
    return x, parts[n * k : last - values], rank, parts[last - values : last]


def _complex_lstsq_of_parts(a, b, rcond=-1.0):
    x, residuals, rank, values = _lstsq_of_parts(a, b, rcond)
    return x, residuals.real.copy(), rank, values.real.copy()


def _solution(columns, b):
    """The solution of a least squares problem, shaped as its right-hand side."""


@overload(_solution)
def _solution_of(columns, b):
    if b.ndim == 1:
        return lambda columns, b: columns
    return lambda columns, b: np.ascontiguousarray(columns.reshape(b.shape[1], -1).T)


@overload(np.linalg.cond, target=AD_TARGET)
def _cond(x, p=None):
    if not _is_floating(x, 2):
        return None
    if is_absent(p):
        return lambda x, p=None: condition_number(x, 2)

    def of_order(x, p: Any = None):
        if abs(p) == 2:
            return condition_number(x, p)
        r = np.linalg.norm(x, p) * np.linalg.norm(np.linalg.inv(x), p)
        return np.inf if np.isnan(r) else r

    return of_order if isinstance(p, types.Number) else None


_PRODUCTS = {(1, 2): "vector * matrix", (2, 1): "matrix * vector", (2, 2): "matrix * matrix"}


@overload(np.dot, target=AD_TARGET)
def _dot(a, b, out):
    arrays = all(isinstance(x, types.Array) and x.dtype in _FLOATING for x in (a, b, out))
    alike = arrays and a.dtype == b.dtype == out.dtype
    kind = _PRODUCTS.get((a.ndim, b.ndim)) if alike else None
    # Without its rule, Numba implements the product with a call of this function.
    if kind is None or not Session.current().calls.keeps(np.dot, ("a", "b"), (a, b)):
        return None
    message = f"incompatible output array size for np.dot(a, b, out) ({kind})"

    def written(a, b, out):
        product = np.dot(a, b)
        if product.shape != out.shape:
            raise ValueError(message)
        out[...] = product
        return out

    return written


@register_jitable(fastmath={"reassoc"})
def _sum_of_products(a, b):
    # only its derivative is used
    total = a.dtype.type(0)
    for i in range(a.shape[0]):
        total += a[i] * b[i]
    return total


def _product_of_vectors(a, b):
    value = dot_value(a, b)
    return with_value(_sum_of_products(a, b), value)


def _vectors(a, b):
    return _product_of_vectors if is_loop(np.dot, (a, b)) else None


for _function in (np.dot, operator.matmul):
    overload(_function, target=AD_TARGET)(_vectors)


@overload(np.outer, target=AD_TARGET)
def _outer(a, b, out=None):
    vectors = all(isinstance(x, types.Array) and x.ndim == 1 for x in (a, b))
    if not is_absent(out) or not vectors or a.dtype != b.dtype or a.dtype not in _FLOATING:
        return None
    dtype = as_dtype(a.dtype)

    def product(a, b, out=None):
        result = np.empty((a.shape[0], b.shape[0]), dtype)
        for i in range(a.shape[0]):
            for j in range(b.shape[0]):
                result[i, j] = a[i] * b[j]
        return result

    return product


# --- helpers of library rules, for rules that are differentiated ---


for _function in (
    triangular.solve_lower,
    triangular.solve_adjoint,
    triangular.times_half_lower,
    triangular.cholesky_cotangent,
    triangular.solve_and_factor,
    triangular.solve_factored_adjoint,
    triangular.det_and_factor,
    triangular.slogdet_and_factor,
    triangular.inverse_of_factored,
):
    overload(_function, target=AD_TARGET)(always(_function))

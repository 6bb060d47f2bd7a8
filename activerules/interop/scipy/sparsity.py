"""Sparse Jacobians: columns that share no row are computed together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit

from activerules.api.jvp import jvp
from activerules.errors import ShadowMismatch
from activerules.interop import extras

_sparse: Any = extras.load("scipy.sparse", "scipy")


def sparse_jacobian(
    function: Callable[..., Any], structure: Any, argnum: int = 0
) -> Callable[..., Any]:
    """Return a function that computes a Jacobian with a known structure as a sparse matrix.

    Arguments
        function   an `@njit` function, or a plain one that Numba compiles, from a vector of n
                   floats (argument `argnum`, and others) to a vector of m floats.
        structure  of shape (m, n), dense or sparse: nonzero where the Jacobian may be.

    Returns
        A function with the parameters of `function`, whose result is a `csr_array` of shape (m, n).

    Raises
        ShadowMismatch (at the call) if `structure` does not have the shape of the Jacobian; what
        `jvp` raises. An entry that the structure leaves out is added to one of its row, unseen:
        the structure is believed.

    Cost      one derivative along a vector per group of columns without a common row: three for a
              tridiagonal Jacobian of any size.
    Source    Curtis, Powell, Reid (1974), On the estimation of sparse Jacobian matrices.

    >>> jac = sparse_jacobian(lambda x: x * x, np.eye(3))
    >>> jac(np.array([1.0, 2.0, 3.0])).diagonal()
    array([2., 4., 6.])
    """
    pattern = _sparse.csr_array(structure)
    pattern.sum_duplicates()
    by_column = _sparse.csc_array(pattern)
    groups = _groups(by_column.indptr, by_column.indices, pattern.shape[0])
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    column_groups = groups[pattern.indices]
    count = int(groups.max(initial=-1)) + 1

    def jacobian(*args: Any) -> Any:
        x = args[argnum]
        if np.shape(x) != pattern.shape[1:]:
            raise _wrong_shape(pattern.shape, f"the argument has shape {np.shape(x)}")
        tangents: list[Any] = [None] * len(args)
        entries = np.empty(pattern.nnz)
        for group in range(count):
            tangents[argnum] = (groups == group).astype(np.float64)
            product = np.asarray(jvp(function, args, tuple(tangents))[1])
            if product.shape != pattern.shape[:1]:
                raise _wrong_shape(pattern.shape, f"the result has shape {product.shape}")
            own = column_groups == group
            entries[own] = product[rows[own]]
        return _sparse.csr_array((entries, pattern.indices, pattern.indptr), shape=pattern.shape)

    return jacobian


def _wrong_shape(shape: tuple[int, ...], fault: str) -> ShadowMismatch:
    return ShadowMismatch(
        f"the structure of a Jacobian has shape {shape}, and {fault}",
        why="it has a row per number of the result and a column per number of the argument",
    )


@njit
def _groups(indptr, indices, row_count):
    """A group for each column, by first fit; the columns of a group have no common row."""
    count = len(indptr) - 1
    groups = np.full(count, -1)
    last = np.full(row_count, -1)
    grouped, group = 0, 0
    while grouped < count:
        for j in range(count):
            if groups[j] >= 0:
                continue
            rows = indices[indptr[j] : indptr[j + 1]]
            free = True
            for row in rows:
                free = free and last[row] != group
            if free:
                groups[j] = group
                grouped += 1
                for row in rows:
                    last[row] = group
        group += 1
    return groups

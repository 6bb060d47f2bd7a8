"""Sparsity patterns: which columns of a sparse matrix can be computed together.

Columns without a common row form a group. The product of the matrix with the sum of the unit
vectors of a group has each entry of its columns alone in a row, where it can be read off.

Source    Curtis, Powell, Reid (1974), On the estimation of sparse Jacobian matrices; Gebremedhin,
          Manne, Pothen (2005), What color is your Jacobian?, section 3
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules import extras
from activerules.errors import SparsityMismatch

Products = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
"""From seeds, of shape (k, n), the products of a matrix of shape (m, n) with them: (k, m)."""

_CHUNK = 64
"""So many products are computed at once: memory for them is that of so many dense columns."""


def scipy_sparse() -> Any:
    """The module `scipy.sparse`; `MissingExtra` if SciPy is not installed."""
    return extras.load("scipy.sparse", "scipy", "sparse derivatives are matrices of SciPy")


def pattern_of(sparsity: Any, *, square: bool) -> Any:
    """A pattern as a `csr_array` of booleans; all entries that a sparse matrix stores belong to it.

    Raises `SparsityMismatch` unless it is a matrix of numbers, square if it has to be.
    """
    try:
        pattern = scipy_sparse().csr_array(sparsity)
        pattern.sum_duplicates()
        values = pattern.data.astype(np.bool_)
    except (TypeError, ValueError) as error:
        raise SparsityMismatch(
            f"`sparsity` is {type(sparsity).__name__}, which is not a matrix of numbers",
            why=str(error),
            instead=[
                "a matrix of SciPy or a dense one, nonzero where the derivative may be",
                'sparsity="detect"',
            ],
        ) from error
    if pattern.ndim != 2 or (square and pattern.shape[0] != pattern.shape[1]):
        raise SparsityMismatch(
            f"the sparsity pattern has the shape {pattern.shape}",
            why="that of a Hessian is square" if square else "a Jacobian is a matrix",
        )
    values[:] = True  # also where a sparse matrix stores a zero
    return scipy_sparse().csr_array((values, pattern.indices, pattern.indptr), pattern.shape)


@dataclass(frozen=True)
class Plan:
    """How a matrix with a known pattern is computed.

    pattern   a `csr_array`
    seeds     a row per group of columns, and, if the matrix is checked, last a random vector
    entries   the index of each of its entries among the products with the seeds
    weights   if the matrix is checked: for each group and row, the item of the random vector that
              belongs to the entry there; zero if there is none
    """

    pattern: Any
    seeds: np.ndarray[Any, Any]
    entries: np.ndarray[Any, Any]
    weights: np.ndarray[Any, Any]

    @classmethod
    def of(cls, pattern: Any, *, check: bool) -> Plan:
        """The plan for a pattern."""
        groups, count = column_groups(pattern)
        rows, size = pattern.shape
        seeds = np.zeros((count + check, size))
        seeds[groups, np.arange(size)] = 1.0
        if check:
            # of both signs and away from zero; the same each time, so that calls can be repeated
            random = np.random.default_rng(size)
            seeds[count] = random.uniform(0.5, 1.5, size) * random.choice([-1.0, 1.0], size)
        entries = groups[pattern.indices] * rows + _rows(pattern)
        weights = np.zeros((count * check, rows))
        if check:
            weights.put(entries, seeds[count, pattern.indices])
        return cls(pattern, seeds, entries, weights)

    def matrix(self, products: np.ndarray[Any, Any]) -> Any:
        """The matrix, in memory of its own, from the products with the seeds."""
        result = copy.copy(self.pattern)  # SciPy's constructor would check the indices again
        result.data = products.take(self.entries)
        result.indices, result.indptr = self.pattern.indices.copy(), self.pattern.indptr.copy()
        return result

    def wrong_rows(self, matrix: Any, products: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """The rows whose product with the random vector is not that of the sparse matrix.

        The bound is the square root of the precision, relative to the sum of the moduli that are
        added up; it has room for derivatives that are differences of large numbers.
        """
        vector, expected = self.seeds[-1], products[-1]
        relative = np.sqrt(np.finfo(products.dtype).eps)
        with np.errstate(invalid="ignore", over="ignore"):
            bound = np.einsum("gm,gm->m", products[:-1], self.weights)
            difference = expected - bound
            np.abs(difference, out=difference)
            np.abs(bound, out=bound)
            bound *= relative
            if (difference <= bound).all():
                return np.empty(0, np.intp)  # the usual case; the bound itself is larger
            product = matrix @ vector
            difference = np.abs(expected - product)
            scale = abs(matrix) @ abs(vector)
            largest = scale.max(where=np.isfinite(scale), initial=0.0)
            differs = difference > relative * scale + 8 * relative**2 * largest
        return np.flatnonzero(differs | (~np.isfinite(expected) & np.isfinite(product)))


def column_groups(pattern: Any) -> tuple[np.ndarray[Any, Any], int]:
    """The group of each column, and the number of groups; columns of a group have no common row.

    First fit, once in the order of the columns and once by their numbers of entries; the result
    with fewer groups.
    """
    by_column = pattern.tocsc()
    size = np.diff(by_column.indptr)
    orders = np.arange(len(size)), np.argsort(-size, kind="stable")
    tried = [_first_fit(by_column, order.tolist()) for order in orders]
    return min(tried, key=lambda candidate: candidate[1])


def _first_fit(by_column: Any, order: list[int]) -> tuple[np.ndarray[Any, Any], int]:
    rows, starts = by_column.indices.tolist(), by_column.indptr.tolist()
    groups = np.zeros(len(order), np.intp)
    taken = [0] * by_column.shape[0]  # the groups that have an entry in a row, as bits
    most = 0
    for j in order:
        own = rows[starts[j] : starts[j + 1]]
        used = 0
        for row in own:
            used |= taken[row]
        bit = ~used & (used + 1)
        for row in own:
            taken[row] |= bit
        groups[j] = bit.bit_length() - 1
        most = max(most, groups[j] + 1)
    return groups, int(most)


def detected(products: Products, shape: tuple[int, int]) -> Any:
    """The pattern of a matrix that is known by its products with vectors, as a `csr_array`.

    A derivative along NaN is NaN in each row that depends on the direction, by whatever factor,
    zero included. Blocks of columns are halved again and again; those without a common row are
    tried together, so a matrix whose rows are short takes some multiple of log2(n) products.
    """
    m, n = shape
    if n == 0:
        return scipy_sparse().csr_array(shape, dtype=np.bool_)
    size = 1 << (n - 1).bit_length()
    pattern = _confirmed(products, _pattern(np.arange(m), np.zeros(m, np.intp), (m, 1)), n, size)
    while size > 1:
        size //= 2
        rows, halves = np.repeat(_rows(pattern), 2), np.repeat(2 * pattern.indices, 2)
        halves[1::2] += 1
        exists = halves * size < n
        halved = _pattern(rows[exists], halves[exists], (m, -(-n // size)))
        pattern = _confirmed(products, halved, n, size)
    return pattern


def _confirmed(products: Products, pattern: Any, n: int, size: int) -> Any:
    """The entries of a pattern of blocks, of `size` columns each, that are in the matrix."""
    groups, count = column_groups(pattern)
    rows, blocks = _rows(pattern), pattern.indices
    group, column_group = groups[blocks], groups[np.arange(n) // size]
    hit = np.zeros(len(rows), np.bool_)
    for first in range(0, count, _CHUNK):
        lanes = np.arange(first, min(first + _CHUNK, count))
        tried = products(np.where(column_group == lanes[:, None], np.nan, 0.0))
        own = np.flatnonzero((group >= first) & (group <= lanes[-1]))
        hit[own] = np.isnan(tried[group[own] - first, rows[own]])
    return _pattern(rows[hit], blocks[hit], pattern.shape)


def _pattern(
    rows: np.ndarray[Any, Any], columns: np.ndarray[Any, Any], shape: tuple[int, int]
) -> Any:
    return scipy_sparse().csr_array((np.ones(len(rows), np.bool_), (rows, columns)), shape)


def _rows(pattern: Any) -> np.ndarray[Any, Any]:
    """The row of each entry of a `csr_array`."""
    return np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))

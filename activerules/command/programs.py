"""The programs that `warm` differentiates: for each function, the usual ways of calling it.

Where the result is a number, a rule has different code if the number is returned as it is and if
the program computes with it.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numba import njit


@njit
def _sum_of_squares(x):
    total = 0.0
    for value in x.flat:
        total += abs(value) ** 2
    return total


def _squares_of(function: Any) -> Any:
    """The program that squares what a function of one matrix returns."""

    @njit
    def program(a):
        return _sum_of_squares(function(a))

    return program


def _products_by(product: Any) -> tuple[tuple[Any, str], ...]:
    """The programs for a product, `@` or `np.dot`."""

    @njit
    def returned(a, b):
        return product(a, b).real

    @njit
    def used(a, b):
        return abs(product(a, b)) ** 2

    @njit
    def plain(a, b):
        return _sum_of_squares(product(a, b))

    @njit
    def transposed(a, b):
        return _sum_of_squares(product(a.T, b))

    @njit
    def by_transposed(a, b):
        return _sum_of_squares(product(a, b.T))

    numbers = (returned, "vv"), (used, "vv")
    arrays = (plain, "mv"), (plain, "vm"), (plain, "mm")
    return (*numbers, *arrays, (transposed, "mv"), (transposed, "mm"), (by_transposed, "mm"))


@njit
def _vdot_returned(a, b):
    return np.vdot(a, b).real


@njit
def _vdot_used(a, b):
    return abs(np.vdot(a, b)) ** 2


@njit
def _solve(a, b):
    return _sum_of_squares(np.linalg.solve(a, b))


@njit
def _solve_in_place(a, b):
    for _ in range(2):
        b[:] = np.linalg.solve(a, b)
    return _sum_of_squares(b)


@njit
def _det_returned(a):
    return np.linalg.det(a).real


@njit
def _det_used(a):
    return abs(np.linalg.det(a)) ** 2


@njit
def _slogdet(a):
    return np.linalg.slogdet(a)[1]


@njit
def _eigh(a):
    values, vectors = np.linalg.eigh(a)
    return _sum_of_squares(values) + _sum_of_squares(vectors)


@njit
def _eig(a):
    values, vectors = np.linalg.eig(a)
    return _sum_of_squares(values) + _sum_of_squares(vectors)


@njit
def _svd(a):
    u, s, vt = np.linalg.svd(a)
    return _sum_of_squares(u) + _sum_of_squares(s) + _sum_of_squares(vt)


@njit
def _svd_reduced(a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return _sum_of_squares(u) + _sum_of_squares(s) + _sum_of_squares(vt)


@njit
def _qr(a):
    q, r = np.linalg.qr(a)
    return _sum_of_squares(q) + _sum_of_squares(r)


@njit
def _lstsq(a, b):
    return _sum_of_squares(np.linalg.lstsq(a, b)[0])


@njit
def _cond(a):
    return np.linalg.cond(a)


@njit
def _norm_returned(x):
    return np.linalg.norm(x)


@njit
def _norm_used(x):
    return np.linalg.norm(x) ** 2


# name: programs, each with its arguments, "m" for a matrix and "v" for a vector
PROGRAMS: dict[str, tuple[tuple[Any, str], ...]] = {
    "@": _products_by(operator.matmul),
    "np.dot": _products_by(np.dot),
    "np.vdot": ((_vdot_returned, "vv"), (_vdot_used, "vv")),
    "np.linalg.solve": ((_solve, "mv"), (_solve, "mm"), (_solve_in_place, "mv")),
    "np.linalg.inv": ((_squares_of(np.linalg.inv), "m"),),
    "np.linalg.det": ((_det_returned, "m"), (_det_used, "m")),
    "np.linalg.slogdet": ((_slogdet, "m"),),
    "np.linalg.cholesky": ((_squares_of(np.linalg.cholesky), "m"),),
    "np.linalg.eigh": ((_eigh, "m"),),
    "np.linalg.eigvalsh": ((_squares_of(np.linalg.eigvalsh), "m"),),
    "np.linalg.eig": ((_eig, "m"),),
    "np.linalg.eigvals": ((_squares_of(np.linalg.eigvals), "m"),),
    "np.linalg.svd": ((_svd, "m"), (_svd_reduced, "m")),
    "np.linalg.qr": ((_qr, "m"),),
    "np.linalg.lstsq": ((_lstsq, "mv"), (_lstsq, "mm")),
    "np.linalg.pinv": ((_squares_of(np.linalg.pinv), "m"),),
    "np.linalg.cond": ((_cond, "m"),),
    "np.linalg.norm": (
        (_norm_returned, "v"),
        (_norm_used, "v"),
        (_norm_returned, "m"),
        (_norm_used, "m"),
    ),
}

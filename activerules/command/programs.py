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


def _squares_of_two(function: Any) -> Any:
    """The program that squares the two arrays that a function of one matrix returns."""

    @njit
    def program(a):
        first, second = function(a)
        return _sum_of_squares(first) + _sum_of_squares(second)

    return program


def _numbers_by(function: Any) -> tuple[Any, Any]:
    """The programs that return what a function returns, and that compute with it: a number."""

    @njit
    def returned(*x):
        return function(*x).real

    @njit
    def used(*x):
        return abs(function(*x)) ** 2

    return returned, used


def _products_by(product: Any) -> tuple[tuple[Any, str], ...]:
    """The programs for a product, `@` or `np.dot`."""

    @njit
    def plain(a, b):
        return _sum_of_squares(product(a, b))

    @njit
    def transposed(a, b):
        return _sum_of_squares(product(a.T, b))

    @njit
    def by_transposed(a, b):
        return _sum_of_squares(product(a, b.T))

    numbers = ((program, "vv") for program in _numbers_by(product))
    arrays = (plain, "mv"), (plain, "vm"), (plain, "mm")
    return (*numbers, *arrays, (transposed, "mv"), (transposed, "mm"), (by_transposed, "mm"))


@njit
def _solve(a, b):
    return _sum_of_squares(np.linalg.solve(a, b))


@njit
def _solve_in_place(a, b):
    for _ in range(2):
        b[:] = np.linalg.solve(a, b)
    return _sum_of_squares(b)


@njit
def _slogdet(a):
    return np.linalg.slogdet(a)[1]


@njit
def _svd(a):
    u, s, vt = np.linalg.svd(a)
    return _sum_of_squares(u) + _sum_of_squares(s) + _sum_of_squares(vt)


@njit
def _svd_reduced(a):
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    return _sum_of_squares(u) + _sum_of_squares(s) + _sum_of_squares(vt)


@njit
def _lstsq(a, b):
    return _sum_of_squares(np.linalg.lstsq(a, b)[0])


@njit
def _cond(a):
    return np.linalg.cond(a)


# name: programs, each with its arguments, "m" for a matrix and "v" for a vector
PROGRAMS: dict[str, tuple[tuple[Any, str], ...]] = {
    "@": _products_by(operator.matmul),
    "np.dot": _products_by(np.dot),
    "np.vdot": tuple((program, "vv") for program in _numbers_by(np.vdot)),
    "np.linalg.solve": ((_solve, "mv"), (_solve, "mm"), (_solve_in_place, "mv")),
    "np.linalg.inv": ((_squares_of(np.linalg.inv), "m"),),
    "np.linalg.det": tuple((program, "m") for program in _numbers_by(np.linalg.det)),
    "np.linalg.slogdet": ((_slogdet, "m"),),
    "np.linalg.cholesky": ((_squares_of(np.linalg.cholesky), "m"),),
    "np.linalg.eigh": ((_squares_of_two(np.linalg.eigh), "m"),),
    "np.linalg.eigvalsh": ((_squares_of(np.linalg.eigvalsh), "m"),),
    "np.linalg.eig": ((_squares_of_two(np.linalg.eig), "m"),),
    "np.linalg.eigvals": ((_squares_of(np.linalg.eigvals), "m"),),
    "np.linalg.svd": ((_svd, "m"), (_svd_reduced, "m")),
    "np.linalg.qr": ((_squares_of_two(np.linalg.qr), "m"),),
    "np.linalg.lstsq": ((_lstsq, "mv"), (_lstsq, "mm")),
    "np.linalg.pinv": ((_squares_of(np.linalg.pinv), "m"),),
    "np.linalg.cond": ((_cond, "m"),),
    "np.linalg.norm": tuple(
        (program, kind) for kind in "vm" for program in _numbers_by(np.linalg.norm)
    ),
}

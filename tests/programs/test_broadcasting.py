"""Array expressions: ufunc loops keep nothing that only counts, and broadcast as NumPy does."""

import numba
import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient, check_grads


@njit
def smoothed(u, v):
    v[1:-1, 1:-1] = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] - u[:-2, 1:-1] + u[1:-1, 2:])
    return v[1, 1]


@njit
def outer_sums(column, row, table):
    return ((column * row + table) * row).sum() + np.exp(column - row[:, :1]).sum()


def test_the_tape_does_not_grow_with_the_arrays():
    def tape(n):
        u = np.ones((n, n))
        active = [ar.Duplicated(x, ar.make_zero(x)) for x in (u, u.copy())]
        return ar.tape_bytes(smoothed, *active)

    # before 0.67, Numba asks for each item of a slice whether it must be read from a copy
    per_item = 8 if numba.version_info.short < (0, 67) else 0
    assert tape(64) < tape(8) + 16 * 64 + per_item * 62 * 62


@pytest.mark.parametrize("shape", [(3, 4), (1, 4), (3, 1), (1, 1)])
def test_broadcast_of_dimensions_of_length_one(shape):
    rng = np.random.default_rng(0)
    rows, columns = shape
    column, row = rng.normal(size=(rows, 1)), rng.normal(size=(1, columns))
    check_grads(outer_sums, (column, row, rng.normal(size=shape)))
    check_grads(outer_sums, (column, row, rng.normal(size=(1, 1))))


@njit
def assigned(a, b):
    a[:] = b * b
    return np.sum(a * a) + np.sum(b)


@njit
def assigned_backwards(a, b):
    a[::-1] = a[:] * b
    a[1:] = a[:-1]
    return np.sum(a * a * b)


SHAPES = (
    *(((4,), (4,)), ((4,), (1,)), ((1,), (1,)), ((0,), (0,)), ((0,), (1,))),
    *(((3, 4), source) for source in ((3, 4), (1, 4), (3, 1), (1, 1))),
    *(((1, 4), (1, 1)), ((3, 1), (1, 1)), ((0, 4), (1, 4)), ((3, 0), (3, 1))),
)


@pytest.mark.parametrize("ndim", [1, 2])
def test_what_is_assigned_is_broadcast(ndim):
    rng = np.random.default_rng(0)
    for to, source in SHAPES:
        if len(to) == ndim:
            a, b = rng.normal(size=to), rng.normal(size=source)
            check_gradient(assigned, (a, b))
            if to == source:
                check_gradient(assigned_backwards, (a, b))

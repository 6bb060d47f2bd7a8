"""Arrays in every layout: C, F, strided, reversed, sliced views, one to three dimensions."""

import math

import numpy as np
from numba import njit

from programs import example


@njit
def weighted_sum(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s = s * 0.99 + math.sin(a[i, j]) * (i + 1)
    return s


LAYOUTS_2D = {
    "c": lambda rng: rng.normal(size=(3, 4)),
    "f": lambda rng: np.asfortranarray(rng.normal(size=(3, 4))),
    "strided": lambda rng: rng.normal(size=(6, 8))[::2, 1::2],
    "reversed": lambda rng: rng.normal(size=(3, 4))[::-1, ::-1],
    "transposed": lambda rng: rng.normal(size=(4, 3)).T,
    "sliced": lambda rng: rng.normal(size=(5, 7))[1:4, 2:6],
    "one_row": lambda rng: rng.normal(size=(4, 4))[2:3],
    "no_rows": lambda rng: rng.normal(size=(0, 4)),
}


def _layout_program(name):
    @njit
    def program(a):
        for i in range(1, a.shape[0]):
            for j in range(a.shape[1]):
                a[i, j] += a[i - 1, j] * a[i, j]
        return weighted_sum(a)

    program.py_func.__name__ = program.__name__ = f"layout_{name}"
    return program


for _name, _make in LAYOUTS_2D.items():
    example(lambda rng, make=_make: (make(rng),))(_layout_program(_name))


@example(lambda rng: (rng.normal(size=9)[::-2],))
@njit
def reversed_strided_vector(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] ** 2 * (i + 1)
        x[i] = s
    return s


@example(lambda rng: (rng.normal(size=(3, 4, 2)).transpose(2, 0, 1),))
@njit
def transposed_3d(a):
    s = 1.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            for k in range(a.shape[2]):
                s = s * 0.9 + a[i, j, k] ** 2
    return s


@example(lambda rng: (np.asfortranarray(rng.normal(size=(3, 3))), rng.normal(size=(3, 3)).T))
@njit
def two_layouts(a, b):
    s = 0.0
    for i in range(3):
        for j in range(3):
            s += a[i, j] * b[j, i]
    return s


@example(lambda rng: (rng.normal(size=(4, 5)),))
@njit
def row_views(a):
    s = 0.0
    for i in range(a.shape[0]):
        row = a[i]
        for j in range(len(row)):
            s += row[j] * row[len(row) - 1 - j]
    return s


@example(lambda rng: (rng.normal(size=(4, 5)),))
@njit
def column_views(a):
    for j in range(1, a.shape[1]):
        column, before = a[:, j], a[:, j - 1]
        for i in range(len(column)):
            column[i] = column[i] * before[i] + 0.5


@example(lambda rng: (rng.normal(size=(3, 4, 5)),))
@njit
def plane_and_line_views(a):
    s = 0.0
    for i in range(a.shape[0]):
        plane = a[i]
        for k in range(plane.shape[1]):
            line = plane[:, k]
            p = 1.0
            for v in line:
                p *= 1.0 + 0.3 * v
            s += p
    return s


@example(lambda rng: (rng.normal(size=12),))
@njit
def reshaped_view(x):
    a = x.reshape(3, 4)
    for i in range(1, 3):
        for j in range(4):
            a[i, j] *= a[i - 1, j]
    return x[11] + x[5] * x[6]


@example(lambda rng: (rng.normal(size=(3, 4)),))
@njit
def flattened_view(a):
    flat = a.ravel()
    s = 0.0
    for i in range(len(flat)):
        s += flat[i] ** 3
    return s


@example(lambda rng: (rng.normal(size=10), int(rng.integers(1, 4)), int(rng.integers(5, 9))))
@njit
def slice_bounds_from_arguments(x, lo, hi):
    window = x[lo:hi]
    s = 1.0
    for i in range(len(window)):
        s = s * 0.5 + window[i] ** 2
    window[0] = s
    return s * x[lo]


@example(lambda rng: (rng.normal(size=10),))
@njit
def slice_of_a_slice(x):
    y = x[1:9][::2][::-1]
    s = 0.0
    for i in range(len(y)):
        y[i] = y[i] * y[i] + s
        s += y[i] * (i + 1)
    return s


@example(lambda rng: (rng.normal(size=6),))
@njit
def negative_indices(x):
    x[-1] = x[-2] * x[-3]
    return x[-1] * x[0] + x[-6]


@example(lambda rng: (np.array(float(rng.normal())), np.array(float(rng.normal()))))
@njit
def zero_dimensional(a, b):
    a[()] = a[()] * b[()]
    return a[()] + math.sin(b[()])


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4), np.zeros(3)))
@njit
def view_passed_to_callee(a, x, out):
    for i in range(a.shape[0]):
        out[i] = line_product(a[i], x)


@njit
def line_product(row, x):
    s = 0.0
    for i in range(len(row)):
        s += row[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=(3, 4)),))
@njit
def iterate_over_rows(a):
    s = 0.0
    for row in a:
        s += row[0] * row[3]
    return s


@example(lambda rng: (rng.normal(size=(3, 4)),))
@njit
def ndindex_and_flat(a):
    s = 0.0
    for index in np.ndindex(a.shape):
        s += a[index] ** 2 * (index[0] + 1)
    for v in a.flat:
        s += math.sin(v)
    return s


@example(lambda rng: (rng.normal(size=(3, 4)),))
@njit
def ndenumerate(a):
    s = 0.0
    for (i, j), v in np.ndenumerate(a):
        s += v * v * (i + 2 * j)
    return s


@example(lambda rng: (rng.normal(size=(2, 3, 4)),))
@njit
def in_place_3d(a):
    for i in range(a.shape[0]):
        for j in range(1, a.shape[1]):
            for k in range(a.shape[2]):
                a[i, j, k] = a[i, j - 1, k] * a[i, j, k] + 0.1

"""NumPy as its users write it: expressions on whole arrays, reductions, slices."""

import random

import numpy as np
from numba import njit

from programs import example


def vector(n):
    return lambda rng: (rng.normal(size=n),)


def two_vectors(n):
    return lambda rng: (rng.normal(size=n), rng.normal(size=n))


@example(vector(8))
@njit
def array_sum(x):
    return np.sum(x * x)


@example(vector(8))
@njit
def sum_method(x):
    return np.sin(x).sum() + x.mean()


@example(two_vectors(6))
@njit
def whole_array_expression(x, y):
    z = np.exp(-x * x) * y + np.sqrt(1.0 + y * y) - x / (2.0 + y * y)
    return np.sum(z * z)


@example(two_vectors(6))
@njit
def result_written_to_slice(x, y):
    y[:] = x * y + 1.0
    y[1:4] += x[2:5] ** 2
    return np.sum(y)


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4)))
@njit
def broadcasting(a, x):
    b = a * x + 0.5
    return np.sum(b * b)


@example(lambda rng: (rng.normal(size=(3, 4)),))
@njit
def sum_over_axis(a):
    s = np.sum(a * a, axis=0)
    return np.sum(s * s)


@example(vector(7))
@njit
def maxima(x):
    return np.max(x) * np.min(x) + x.max()


@example(vector(7))
@njit
def argmax_lookup(x):
    return x[np.argmax(x)] ** 2 + x[np.argmin(x)]


@example(vector(7))
@njit
def where_and_clip(x):
    y = np.where(x > 0.0, x * x, -x)
    return np.sum(np.minimum(y, 0.8) + np.maximum(x, -0.5))


@example(vector(7))
@njit
def variance_and_deviation(x):
    return np.var(x) + np.std(x) * np.mean(x)


@example(two_vectors(6))
@njit
def dot_of_vectors(x, y):
    return np.dot(x, y) ** 2


@example(lambda rng: (rng.normal(size=(5, 5)) + 6.0 * np.eye(5),))
@njit
def triangular_factors(a):
    """LU by products of rows, those of `a` read again after later writes; `u` is transposed."""
    n = a.shape[0]
    u = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            a[i, j] = (a[i, j] - a[i, :j] @ u[j, :j]) / u[j, j]
        for j in range(i, n):
            u[j, i] = a[i, j] - np.dot(a[i, :i], u[j, :i])
    return np.sum(a * a) + np.sum(u * u)


@example(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=4)))
@njit
def columns_in_place(a, q):
    """Columns that are updated in place, and moved within themselves."""
    for j in range(a.shape[1]):
        a[:, j] -= q * a[0, j] * a[1, j]
        a[1:, j] = a[:-1, j]
        a[:, j] *= a[:, j]
    return np.sum(a * a)


@example(lambda rng: (rng.normal(size=3), rng.normal(size=7)))
@njit
def outer_products(x, y):
    """Of vectors, of a column, and of what is no vector; the first one is overwritten."""
    a = np.outer(x, y)
    a *= a
    return np.sum(a + np.outer(a[:, 1], y)) + np.sum(np.outer(x, 2.0)) + np.outer(x, x[:2])[1, 0]


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4)))
@njit
def matrix_times_vector(a, x):
    y = a @ x
    z = np.empty(4)
    np.dot(y, a, z)
    return np.sum(y * y) + np.sum(z * x)


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=(4, 2))))
@njit
def matrix_times_matrix(a, b):
    c = np.dot(a, b)
    return np.sum(c * c * c)


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=4)))
@njit
def norms(a, x):
    unit = x / np.linalg.norm(x)
    return np.linalg.norm(a @ unit) + np.linalg.norm(a) * np.linalg.norm(x, 1)


@example(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3), 4))
@njit
def products_in_a_loop(a, x, n):
    for _ in range(n):
        x = np.tanh(a @ x)
    return np.sum(x * x)


@example(lambda rng: (rng.normal(size=3),))
@njit
def outer_and_trace(x):
    a = np.outer(x, x * x)
    return np.trace(a) + a[0, 2]


@example(vector(6))
@njit
def zeros_like_and_copy(x):
    y = np.zeros_like(x)
    y += x
    z = y.copy()
    z *= x
    return np.sum(y * z)


@example(vector(6))
@njit
def concatenated(x):
    y = np.concatenate((x, x * x, x[::-1]))
    return np.sum(y * y)


@example(vector(6))
@njit
def cumulative(x):
    return np.sum(np.cumsum(x) ** 2) + np.prod(1.0 + 0.1 * x)


@example(vector(6))
@njit
def diff_and_roll(x):
    return np.sum(np.diff(x) ** 2) + np.sum(np.roll(x, 2) * x)


@example(vector(6))
@njit
def linspace_grid(x):
    t = np.linspace(0.0, 1.0, 6)
    return np.sum(np.sin(t * x) * t)


@example(vector(6))
@njit
def arange_weights(x):
    return np.sum(np.arange(6) * x * x)


@example(vector(7))
@njit
def sorted_copy(x):
    y = np.sort(x)
    return y[0] * y[6] + y[3] ** 2


@example(lambda rng: (rng.normal(size=(3, 3)),))
@njit
def transpose_expression(a):
    b = a + a.T
    return np.sum(b * b * a)


@example(vector(6))
@njit
def list_comprehension(x):
    y = np.array([v * v for v in x])
    return np.sum(y * x)


@example(lambda rng: (rng.normal(size=6), rng.integers(0, 6, size=4)))
@njit
def fancy_indexing(x, index):
    return np.sum(x[index] ** 2)


@example(vector(6))
@njit
def boolean_indexing(x):
    return np.sum(x[x > 0.0] ** 2)


@example(lambda rng: (rng.normal(size=(4, 3)),))
@njit
def row_expression_in_loop(a):
    total = 0.0
    for i in range(a.shape[0]):
        row = a[i] - np.mean(a[i])
        total += np.sum(row * row) / np.sqrt(1.0 + np.sum(a[i] ** 2))
    return total


@example(vector(5))
@njit
def interpolated(x):
    grid = np.array([-3.0, -1.0, 0.0, 1.0, 3.0])
    values = np.array([0.2, 1.0, -0.5, 0.7, 2.0])
    return np.sum(np.interp(x, grid, values) * x)


@example(lambda rng: (rng.normal(), rng.uniform(1.0, 2.0)), seeds=1)
@njit
def random_draws(loc, scale):
    np.random.seed(7)
    random.seed(3)
    z = np.random.normal(loc, scale, 3)
    return (z * z).sum() + np.random.uniform(loc, scale) + random.gauss(loc, scale)


@example(vector(5), seeds=1)
@njit
def signs_and_neighbours(x):
    return np.sum(np.signbit(x) * x * x + np.nextafter(x, 2.0) * np.spacing(x) * 1e15)


@example(lambda rng: (rng.normal(size=(3, 2)),), seeds=1)
@njit
def gram_matrix(a):
    """The product with its own transpose, which is in Fortran's order."""
    g = a @ a.T
    return (g * g).sum()

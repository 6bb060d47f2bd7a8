"""Number types: single precision, integers that turn into floats, complex intermediate values."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (rng.normal(size=7).astype(np.float32),))
@njit
def single_sum_of_sines(x):
    s = np.float32(0.0)
    for v in x:
        s += np.sin(v) * v
    return s


@example(lambda rng: (np.float32(rng.uniform(0.5, 1.5)), np.float32(rng.uniform(0.5, 1.5))))
@njit
def single_scalars(x, y):
    return x * y + np.exp(-x) * np.sqrt(y)


@example(lambda rng: (rng.normal(size=6).astype(np.float32), rng.normal(size=6)))
@njit
def single_and_double(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * y[i]
        x[i] = s
    return s


@example(
    lambda rng: (
        rng.normal(size=(3, 3)).astype(np.float32),
        rng.normal(size=3).astype(np.float32),
        np.zeros(3, dtype=np.float32),
    )
)
@njit
def single_matrix_vector(a, x, y):
    for i in range(3):
        s = np.float32(0.0)
        for j in range(3):
            s += a[i, j] * x[j]
        y[i] = max(s, np.float32(0.1) * s)


@example(lambda rng: (float(rng.normal()),))
@njit
def rounded_to_single_inside(x):
    y = np.float32(2.0)
    return x * y * x + np.float64(y)


@example(lambda rng: (float(rng.normal()), int(rng.integers(2, 6))))
@njit
def integer_times_float(x, n):
    return n * x + x / n + (n // 2) * x * x + n**2 * x


@example(lambda rng: (rng.normal(size=5), rng.integers(-3, 4, size=5)))
@njit
def integer_weights(x, k):
    s = 0.0
    for i in range(len(x)):
        s += k[i] * x[i] * x[i] + (k[i] % 3) * x[i]
    return s


@example(lambda rng: (float(rng.uniform(1.0, 9.0)),))
@njit
def truncated_to_integer(x):
    n = int(x)
    return (x - n) * n + x


@example(lambda rng: (float(rng.uniform(0.5, 9.0)), rng.normal(size=10)))
@njit
def linear_interpolation(position, table):
    i = int(math.floor(position))
    i = min(max(i, 0), len(table) - 2)
    t = position - i
    return table[i] * (1.0 - t) + table[i + 1] * t


@example(lambda rng: (rng.uniform(0.5, 3.5, size=4), rng.normal(size=(5, 5))))
@njit
def bilinear_lookup(points, table):
    s = 0.0
    for k in range(0, len(points), 2):
        i, j = int(points[k]), int(points[k + 1])
        u, v = points[k] - i, points[k + 1] - j
        s += (1 - u) * (1 - v) * table[i, j] + u * (1 - v) * table[i + 1, j]
        s += (1 - u) * v * table[i, j + 1] + u * v * table[i + 1, j + 1]
    return s


@example(lambda rng: (float(rng.normal()), float(rng.normal())))
@njit
def complex_inside(x, y):
    z = complex(x, y)
    w = z * z + 0.5 * z
    return w.real * w.imag + abs(w)


@example(lambda rng: (float(rng.normal()) * 0.3, float(rng.normal()) * 0.3))
@njit
def mandelbrot_orbit(x, y):
    c = complex(x, y)
    z = 0j
    for _ in range(5):
        z = z * z + c
    return z.real**2 + z.imag


@example(lambda rng: (rng.normal(size=6), 3))
@njit
def unsigned_counters(x, n):
    s = 0.0
    for i in range(np.uint32(n)):
        s += x[i] * x[i + np.int32(1)]
    return s


@example(lambda rng: (rng.normal(size=6), np.array([1, 0, 1, 1, 0, 1], dtype=np.bool_)))
@njit
def boolean_mask(x, mask):
    s = 0.0
    for i in range(len(x)):
        if mask[i]:
            s += x[i] ** 3
        s += mask[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=6), np.array([0, 2, 1, 2, 0, 1], dtype=np.int8)))
@njit
def small_integers(x, kind):
    s = 0.0
    for i in range(len(x)):
        if kind[i] == 0:
            s += x[i]
        elif kind[i] == 1:
            s *= x[i]
        else:
            s -= x[i] * x[i]
    return s


@example(lambda rng: (float(rng.uniform(0.1, 2.0)),))
@njit
def infinities_on_the_way(x):
    best = np.inf
    for k in range(5):
        best = min(best, (x - 0.4 * k) ** 2 + 0.1)
    return best


@example(lambda rng: (float(rng.uniform(0.1, 0.9)), 13))
@njit
def bits_of_an_integer(x, n):
    r = 1.0
    base = x
    while n > 0:
        if n & 1:
            r *= base
        base *= base
        n >>= 1
    return r


@example(lambda rng: (float(rng.uniform(0.5, 2.0)),))
@njit
def constant_parameters(x):
    pi = math.pi
    tau = np.float64(2.0) * pi
    return math.sin(tau * x) / pi + math.e**x

"""Compiler options of `njit`: they change the IR, never the derivative."""

import math

import numpy as np
from numba import njit, prange

from programs import example


def vectors(rng):
    return rng.normal(size=6), rng.uniform(0.5, 1.5, size=6)


@example(vectors)
@njit(error_model="numpy")
def numpy_division(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] / y[i] + x[i] % y[i]
    return s


@example(vectors)
@njit(error_model="python")
def checked_division(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] / y[i]
    return s


@example(vectors)
@njit(fastmath=True)
def fast_math(x, y):
    s = 0.0
    for i in range(len(x)):
        s += math.sin(x[i]) * y[i] + x[i] ** 3
    return s / len(x)


@example(vectors)
@njit(fastmath={"contract", "reassoc"})
def some_fast_math(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * y[i] + s * 0.1
    return s


@example(lambda rng: (*vectors(rng), rng.integers(0, 6, size=5)))
@njit(boundscheck=True)
def bounds_checked(x, y, index):
    s = 0.0
    for k in index:
        s += x[k] * y[k]
        x[k] = s
    return s


@example(vectors)
@njit(nogil=True)
def without_gil(x, y):
    s = 0.0
    for i in range(len(x)):
        s = s * 0.5 + x[i] * y[i]
    return s


@example(vectors)
@njit(parallel=True)
def parallel_as_a_plain_loop(x, y):
    out = np.empty(len(x))
    for i in prange(len(x)):
        out[i] = x[i] * math.exp(-y[i])
    return out.sum()


@example(lambda rng: (*vectors(rng), 3))
@njit(fastmath=True, error_model="numpy", boundscheck=False)
def several_options(x, y, n):
    for _ in range(n):
        for i in range(1, len(x)):
            x[i] = x[i - 1] * y[i] + x[i] / y[i]


@example(lambda rng: (*vectors(rng),))
@njit("float64(float64[::1], float64[::1])")
def explicit_signature(x, y):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * y[i] * y[i]
    return s


@example(vectors)
@njit(forceinline=True)
def inlined_into_callers(x, y):
    return x[0] * y[0] + math.sin(x[1])


@example(lambda rng: (float(rng.uniform(0.5, 1.0)), 5))
@njit(fastmath=True)
def fast_recurrence(x, n):
    r = x
    for i in range(n):
        r = r * x + 1.0 / (1.0 + r * r)
    return r

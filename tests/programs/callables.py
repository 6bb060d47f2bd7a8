"""Functions that are not plain callees: kernels, generators, handlers of exceptions, prange."""

import math

import numpy as np
from numba import float64, guvectorize, njit, prange, stencil, vectorize

from programs import example


def vectors(rng):
    return rng.normal(size=5), rng.normal(size=5)


@vectorize([float64(float64, float64)])
def wave(x, y):
    return x * y + math.sin(x)


@vectorize
def distance(x, y):
    return math.sqrt(x * x + y * y + 1.0)


@guvectorize([(float64[:], float64[:], float64[:])], "(n),(n)->()")
def inner_product(a, b, result):
    result[0] = 0.0
    for i in range(a.shape[0]):
        result[0] += a[i] * b[i]


@example(vectors, seeds=1)
@njit
def vectorized(x, y):
    return wave(x, y).sum() + (distance(x, 2.0) ** 2).sum() * wave(x[0], y[1])


@example(vectors, seeds=1)
@njit
def generalised(x, y):
    result = np.zeros(1)
    inner_product(x * x, y, result)
    return result[0] * x[0]


@njit
def geometric(x, n):
    v = x
    for i in range(n):
        yield v * i
        v = v * x


@njit
def running_products(a, n):
    b = a.copy()
    for _ in range(n):
        b = b * a
        yield b.sum()


@example(lambda rng: (float(rng.normal()), 4), seeds=1)
@njit
def generator_of_scalars(x, n):
    s = 1.0
    for u in geometric(x, n):
        for v in geometric(u, 3):
            s = s * 0.5 + u * v
    return s


@example(lambda rng: (rng.normal(size=4), 5), seeds=1)
@njit
def generator_with_arrays_left_early(a, n):
    s = 0.0
    for v in running_products(a, n):
        s += v * v
        if v < 0.5:
            break
    return s


@njit
def squares_of_products(a, n):
    for k in range(n):
        for v in running_products(a, 2):
            yield v * v * k


@example(lambda rng: (rng.uniform(0.5, 1.5, 4), 3), seeds=1)
@njit
def generator_over_another_chosen_by_a_branch(a, n):
    s = 0.0
    for k in range(n):
        if a[k] > 1.0:
            found = squares_of_products(a, n + k)
        else:
            found = squares_of_products(a * a, n)
        for v in found:
            s += v * a[k]
    return s


@example(lambda rng: (rng.normal(size=5),), seeds=1)
@njit
def map_filter_zip(a):
    s = 0.0
    for v in map(lambda t: t * t, a):
        s += v
    for v in filter(lambda t: t > 0.0, a):
        s *= v
    for i, (u, v) in enumerate(zip(a, a[::-1])):
        s += i * u * v
    return s


@example(lambda rng: (rng.normal(size=6),), seeds=1)
@njit
def handler_in_a_loop(a):
    s = 0.0
    for i in range(len(a)):
        try:
            s += a[i] * a[i]
            if i % 2 == 0:
                raise ValueError("even")
            s *= 1.5
        except Exception:
            s += math.sin(a[i])
    return s


@example(lambda rng: (float(rng.uniform(0.5, 1.5)), 2), seeds=1)
@njit
def handler_and_finally(x, n):
    y = x
    try:
        if n == 2:
            raise ValueError("two", n)
        y = y * x
    except Exception:
        y = x * 3.0
    finally:
        y = y + x * x
    return y


@example(lambda rng: (float(rng.uniform(0.5, 1.5)), 2), seeds=1)
@njit
def cases_of_match(x, n):
    match n:
        case 1:
            return x
        case 2:
            return x * x * x
        case _:
            return x * x


@njit(parallel=True)
def parallel_callee(a):
    b = np.empty_like(a)
    for i in prange(len(a)):
        b[i] = math.sin(a[i]) * a[i]
    return b


@example(lambda rng: (rng.uniform(0.5, 1.5, size=5),), seeds=1)
@njit(parallel=True)
def parallel_reductions(a):
    s, p = 0.0, 1.0
    for i in prange(len(a)):
        s += a[i] * a[i]
        p *= a[i]
    return s * p + parallel_callee(a).sum()


@stencil
def smoothed(a):
    return 0.25 * a[-1] + 0.5 * a[0] * a[0] + 0.25 * a[1]


@example(lambda rng: (rng.normal(size=6),), seeds=1)
@njit
def stencil_kernel(a):
    return (smoothed(a) ** 2).sum()


@example(vectors, seeds=1)
@njit
def mapped(x, y):
    total = 0.0
    for k, v in enumerate(map(lambda u, w: u * u * w, x, y)):
        total += v * y[k]
    return total


@example(vectors, seeds=1)
@njit
def filtered(x, y):
    total = 0.0
    for v in filter(lambda u: u > 0.0, x):
        total += math.sin(v) * y[0]
    return total

"""Loops whose trip count is known when they begin."""

import math

import numpy as np
from numba import njit

from programs import example


def vector(n):
    return lambda rng: (rng.normal(size=n),)


def scalar_and_count(low, high):
    return lambda rng: (float(rng.normal()), int(rng.integers(low, high)))


@example(vector(9))
@njit
def sum_of_squares(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i]
    return s


@example(scalar_and_count(0, 6))
@njit
def power_by_loop(x, n):
    r = 1.0
    for _ in range(n):
        r *= x
    return r


@example(lambda rng: (float(rng.normal()), 0))
@njit
def zero_trips(x, n):
    r = x
    for i in range(n):
        r = math.sin(r) * i
    return r * r


@example(scalar_and_count(1, 9))
@njit
def nonlinear_recurrence(x, n):
    for i in range(n):
        x = math.sin(x) + 0.1 * i * x * x
    return x


@example(vector(8))
@njit
def two_carried(x):
    a, b = 1.0, 0.5
    for v in x:
        a, b = b * v + a, math.cos(a) - b * b * 0.1
    return a * b


@example(vector(7))
@njit
def fibonacci_like(x):
    previous = x[0]
    current = x[1]
    for i in range(2, x.size):
        following = current * previous * 0.5 + x[i]
        previous = current
        current = following
    return current


@example(vector(10))
@njit
def negative_step(x):
    s = 0.0
    for i in range(len(x) - 1, -1, -1):
        s = s * 0.7 + x[i] * x[i]
    return s


@example(vector(11))
@njit
def range_with_step(x):
    s = 0.0
    for i in range(1, len(x), 3):
        s += math.exp(0.3 * x[i]) * x[i - 1]
    return s


@example(lambda rng: (rng.normal(size=12), int(rng.integers(1, 5))))
@njit
def range_with_variable_step(x, step):
    s = 1.0
    for i in range(0, x.size, step):
        s = s * 0.5 + x[i] ** 3
    return s


@example(vector(8))
@njit
def enumerated(x):
    s = 0.0
    for i, v in enumerate(x):
        s += (i + 1) * v * v
    return s


@example(lambda rng: (rng.normal(size=6), rng.normal(size=6)))
@njit
def zipped(x, y):
    s = 0.0
    for a, b in zip(x, y):
        s += a * math.sin(b)
    return s


@example(lambda rng: (float(rng.normal()), rng.normal(size=7)))
@njit
def horner(x, coefficients):
    r = 0.0
    for i in range(len(coefficients)):
        r = r * x + coefficients[i]
    return r


@example(scalar_and_count(2, 7))
@njit
def taylor_series(x, n):
    term, total = 1.0, 1.0
    for k in range(1, n + 1):
        term *= x / k
        total += term
    return total


@example(scalar_and_count(3, 8))
@njit
def continued_fraction(x, n):
    r = 1.0
    for k in range(n, 0, -1):
        r = 1.0 + k * x * x / (2.0 + r)
    return r


@example(scalar_and_count(2, 9))
@njit
def chebyshev(x, n):
    x = math.tanh(x)
    t_before, t = 1.0, x
    for _ in range(n):
        t_before, t = t, 2.0 * x * t - t_before
    return t


@example(vector(9))
@njit
def branch_in_loop(x):
    s = 0.0
    for v in x:
        if v > 0.0:
            s += v * v
        else:
            s -= math.sin(v) * s
    return s


@example(vector(9))
@njit
def assigned_in_one_branch(x):
    last = 1.0
    s = 0.0
    for v in x:
        if v > 0.0:
            last = v
        s += last * v
    return s


@example(vector(9))
@njit
def parity(x):
    s = 1.0
    for i in range(len(x)):
        if i % 2 == 0:
            s *= 1.0 + 0.1 * x[i]
        else:
            s += x[i] ** 2
    return s


@example(vector(9))
@njit
def two_loops_in_sequence(x):
    mean = 0.0
    for v in x:
        mean += v
    mean /= len(x)
    variance = 0.0
    for v in x:
        variance += (v - mean) ** 2
    return variance / (len(x) - 1) + mean


@example(vector(6))
@njit
def write_then_read(x):
    y = np.empty(len(x))
    for i in range(len(x)):
        y[i] = math.sin(x[i])
    s = 0.0
    for i in range(len(x)):
        s += y[i] * y[len(x) - 1 - i]
    return s


@example(vector(6))
@njit
def running_maximum(x):
    best = x[0]
    for i in range(1, len(x)):
        best = max(best, x[i] * x[i])
    return best * best


@example(vector(7))
@njit
def argmax_then_use(x):
    index = 0
    for i in range(len(x)):
        if x[i] > x[index]:
            index = i
    return x[index] ** 2 + x[0]


@example(vector(6))
@njit
def loop_over_literal_tuple(x):
    s = 0.0
    for k in (1, 2, 4):
        s += x[k] * math.cos(x[k] * k)
    return s


@example(lambda rng: (rng.normal(size=8), int(rng.integers(0, 3)), int(rng.integers(5, 8))))
@njit
def bounds_as_arguments(x, start, stop):
    s = 0.3
    for i in range(start, stop):
        s = s * x[i] + 1.0
    return s


@example(scalar_and_count(4, 12))
@njit
def alternating_state(x, n):
    state = 0
    r = x
    for _ in range(n):
        if state == 0:
            r = r * 1.1
            state = 1
        elif state == 1:
            r = math.sin(r) + x
            state = 2
        else:
            r = r - 0.1 * r * r
            state = 0
    return r


@example(scalar_and_count(3, 9))
@njit
def induction_variable_as_float(x, n):
    r = 0.0
    for i in range(n):
        t = i * 0.1
        r += math.exp(-t * x) * t
    return r


@example(scalar_and_count(3, 9))
@njit
def float_counter(x, n):
    t, r = 0.0, x
    for _ in range(n):
        r += 0.1 * math.cos(t * r)
        t += 0.1
    return r


@example(lambda rng: (float(rng.normal()), 5))
@njit
def loop_variable_used_after(x, n):
    i = 0
    for i in range(n):
        x = x * 0.9 + math.sin(x)
    return x * i


@example(lambda rng: (rng.normal(size=8),))
@njit
def while_as_for(x):
    i, s = 0, 0.0
    while i < len(x):
        s += x[i] * x[i] * (i + 1)
        i += 2
    return s


@example(lambda rng: (rng.normal(size=40), rng.normal(size=40)))
@njit
def long_dot(x, y):
    s = 0.0
    for i in range(x.shape[0]):
        s += x[i] * y[i]
    return s


@example(lambda rng: (float(rng.normal()), rng.normal(size=30), np.zeros(30)))
@njit
def axpy_in_place(alpha, x, y):
    for i in range(x.shape[0]):
        y[i] += alpha * x[i]

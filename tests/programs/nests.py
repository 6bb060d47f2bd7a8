"""Loops in loops: known in unknown, unknown in known, three deep, empty ones among them."""

import math

import numpy as np
from numba import njit

from programs import example


def matrix(n, m):
    return lambda rng: (rng.normal(size=(n, m)),)


@example(matrix(4, 5))
@njit
def frobenius(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j] * a[i, j]
    return math.sqrt(s)


@example(matrix(5, 5))
@njit
def triangular(a):
    # with 0.9, the cotangent of s would be subnormal after 7,000 steps: slow on many processors
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(i):
            s = s * 0.999 + a[i, j] * a[j, i]
    return s


@example(matrix(4, 4))
@njit
def carried_through_both(a):
    s = 0.5
    for i in range(a.shape[0]):
        r = s
        for j in range(a.shape[1]):
            r = math.sin(r) + a[i, j] * s
        s = r * 0.7
    return s


@example(lambda rng: (rng.normal(size=6), rng.integers(0, 5, size=6)))
@njit
def inner_length_from_data(x, counts):
    total = 0.0
    for i in range(len(x)):
        r = x[i]
        for k in range(counts[i]):
            r = math.sin(r) * (1.0 + 0.1 * k)
        total += r * r
    return total


@example(lambda rng: (rng.uniform(0.0, 4.0, size=6),))
@njit
def inner_length_from_active_value(x):
    total = 0.0
    for i in range(len(x)):
        r = x[i]
        for k in range(int(x[i])):
            r = r * 0.8 + math.cos(r + k)
        total += r
    return total


@example(lambda rng: (rng.uniform(0.5, 3.0, size=5),))
@njit
def while_in_for(x):
    total = 0.0
    for i in range(len(x)):
        y = x[i]
        while y > 0.3:
            y = y * 0.7
            total += y * x[i]
    return total


@example(lambda rng: (float(rng.uniform(1.0, 3.0)), rng.normal(size=4)))
@njit
def for_in_while(x, c):
    total = 0.0
    while x > 0.3:
        for i in range(len(c)):
            total += math.sin(x * c[i])
            x -= 0.02 * c[i] * c[i]
        x *= 0.7
    return total


@example(lambda rng: (float(rng.uniform(1.0, 2.0)), rng.uniform(0.5, 1.0, size=3)))
@njit
def while_in_for_in_while(x, c):
    total = 0.0
    while x > 0.4:
        for i in range(len(c)):
            y = x * c[i]
            while y > 0.2:
                y = 0.7 * y - 0.05 * y * y
                total += y
            x *= 0.9
    return total * x


@example(lambda rng: (float(rng.uniform(1.0, 2.0)), int(rng.integers(1, 4))))
@njit
def for_in_while_in_for(x, n):
    total = 0.0
    for i in range(n):
        y = x + i
        while y > 0.5:
            for k in range(3):
                y -= 0.1 * math.sin(y) + 0.1 * k + 0.05
            total += y * y
    return total


@example(lambda rng: (float(rng.uniform(1.0, 2.0)), int(rng.integers(2, 4))))
@njit
def for_in_for_in_while(x, n):
    total = x
    k = 0
    while total < 20.0 and k < 5:
        for i in range(n):
            for j in range(i + 1):
                total += 0.1 * math.cos(total * x) + 0.3 * x
        k += 1
    return total


@example(lambda rng: (float(rng.uniform(0.5, 1.0)), 4))
@njit
def triple_nest(x, n):
    r = x
    for i in range(n):
        for j in range(i, n):
            for k in range(j - i):
                r = r + 0.1 * math.sin(r * (i + 1)) * x - 0.01 * k
    return r


@example(lambda rng: (rng.normal(size=(2, 3, 4)),))
@njit
def triple_sum(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            p = 1.0
            for k in range(a.shape[2]):
                p *= 1.0 + 0.2 * a[i, j, k]
            s += p * p
    return s


@example(lambda rng: (rng.normal(size=5), np.array([2, 0, 3, 0, 1])))
@njit
def some_inner_loops_are_empty(x, counts):
    r = 1.0
    for i in range(len(x)):
        for _ in range(counts[i]):
            r = r * 0.5 + x[i] * x[i]
        r += 0.1 * r * r
    return r


@example(lambda rng: (rng.uniform(0.05, 0.9, size=5),))
@njit
def some_inner_whiles_are_empty(x):
    r = 1.0
    for i in range(len(x)):
        y = x[i]
        while y > 0.5:
            y = 0.6 * y * y
            r += y
        r *= 1.0 + y
    return r


@example(lambda rng: (rng.uniform(0.5, 2.0, size=4), int(rng.integers(0, 3))))
@njit
def two_inner_loops(x, n):
    r = 0.2
    for i in range(len(x)):
        for _ in range(n):
            r = math.sin(r + x[i])
        y = x[i]
        while y < 3.0:
            y = y * 1.5 + 0.1 * r
        r += 0.1 * y * y
    return r


@example(lambda rng: (rng.uniform(0.5, 2.0, size=4),))
@njit
def inner_loop_in_branch(x):
    r = 0.0
    for i in range(len(x)):
        if x[i] > 1.2:
            y = x[i]
            for k in range(i + 1):
                y = y * 0.8 + 0.1 * k * y * y
            r += y
        else:
            y = x[i]
            while y < 1.5:
                y = y * y + 0.6
            r -= y * 0.3
    return r


@example(lambda rng: (rng.normal(size=(3, 4)), rng.normal(size=(4, 2)), np.zeros((3, 2))))
@njit
def matrix_product(a, b, c):
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            s = 0.0
            for k in range(a.shape[1]):
                s += a[i, k] * b[k, j]
            c[i, j] = s


@example(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=(3, 3)), rng.normal(size=(3, 3))))
@njit
def matrix_product_accumulated_in_memory(a, b, c):
    for i in range(a.shape[0]):
        for k in range(a.shape[1]):
            for j in range(b.shape[1]):
                c[i, j] += a[i, k] * b[k, j]


@example(lambda rng: (rng.normal(size=(6, 2)),))
@njit
def pairwise_energy(positions):
    n = positions.shape[0]
    energy = 0.0
    for i in range(n):
        for j in range(i + 1, n):
            d2 = 0.5
            for k in range(positions.shape[1]):
                d = positions[i, k] - positions[j, k]
                d2 += d * d
            energy += 1.0 / d2 - math.log(d2)
    return energy


@example(lambda rng: (rng.normal(size=5), rng.normal(size=5)))
@njit
def dynamic_time_warping(x, y):
    n, m = len(x), len(y)
    cost = np.full((n + 1, m + 1), 1e3)
    cost[0, 0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - y[j - 1]) ** 2
            cost[i, j] = d + min(cost[i - 1, j], cost[i, j - 1], cost[i - 1, j - 1])
    return cost[n, m]


@example(lambda rng: (rng.normal(size=4), 3))
@njit
def scratch_in_every_iteration(x, n):
    total = 0.0
    for t in range(n):
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = math.sin(x[i] * (t + 1)) + total * 0.1
        for i in range(len(x)):
            total += y[i] * y[i]
    return total


@example(lambda rng: (rng.uniform(0.5, 2.0, size=4),))
@njit
def scratch_in_every_iteration_of_a_while(x):
    total, k = 0.1, 0
    while total < 30.0 and k < 6:
        y = np.empty(len(x))
        for i in range(len(x)):
            y[i] = x[i] * total + 1.0
        for i in range(len(x)):
            total += 0.2 * y[i] * y[len(x) - 1 - i]
        k += 1
    return math.log(total)


@example(lambda rng: (float(rng.uniform(0.3, 0.35)), 3))
@njit
def four_deep(x, n):
    r = x
    for a in range(n):
        for b in range(a + 1):
            y = r
            while y < 1.5:
                for d in range(b + 1):
                    y = y * 1.3 + 0.05 * d + 0.1
                r += 0.02 * y * x
    return r

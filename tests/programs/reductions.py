"""Sums, products, extrema, log-sum-exp: many numbers to one."""

import math

import numpy as np
from numba import njit

from programs import example


def vector(n):
    return lambda rng: (rng.normal(size=n),)


@example(vector(9))
@njit
def log_sum_exp(x):
    largest = x[0]
    for i in range(1, len(x)):
        if x[i] > largest:
            largest = x[i]
    s = 0.0
    for i in range(len(x)):
        s += math.exp(x[i] - largest)
    return largest + math.log(s)


@example(vector(9))
@njit
def log_sum_exp_online(x):
    largest, s = -np.inf, 0.0
    for v in x:
        if v > largest:
            s = s * math.exp(largest - v) + 1.0
            largest = v
        else:
            s += math.exp(v - largest)
    return largest + math.log(s)


@example(vector(8))
@njit
def product(x):
    p = 1.0
    for v in x:
        p *= v
    return p


@example(lambda rng: (np.array([1.5, 0.0, -2.0, 3.0]) * rng.uniform(0.5, 1.0),))
@njit
def product_with_a_zero(x):
    p = 1.0
    for v in x:
        p *= v
    return p


@example(vector(10))
@njit
def mean_and_variance(x):
    mean, m2 = 0.0, 0.0
    for i in range(len(x)):
        delta = x[i] - mean
        mean += delta / (i + 1)
        m2 += delta * (x[i] - mean)
    return m2 / len(x) + mean


@example(vector(10))
@njit
def compensated_sum(x):
    s, c = 0.0, 0.0
    for v in x:
        y = v * v - c
        t = s + y
        c = (t - s) - y
        s = t
    return s


@example(vector(7))
@njit
def p_norm(x):
    s = 0.0
    for v in x:
        s += abs(v) ** 3.0
    return s ** (1.0 / 3.0)


@example(vector(7))
@njit
def largest_and_smallest(x):
    hi, lo = x[0], x[0]
    for v in x[1:]:
        hi = max(hi, v)
        lo = min(lo, v)
    return hi * lo + hi


@example(lambda rng: (rng.normal(size=8), rng.normal(size=8)))
@njit
def cosine_similarity(x, y):
    xy, xx, yy = 0.0, 0.0, 0.0
    for i in range(len(x)):
        xy += x[i] * y[i]
        xx += x[i] * x[i]
        yy += y[i] * y[i]
    return xy / math.sqrt(xx * yy)


@example(vector(12))
@njit
def autocorrelation(x):
    s = 0.0
    for lag in range(1, 4):
        r = 0.0
        for i in range(len(x) - lag):
            r += x[i] * x[i + lag]
        s += r * r / lag
    return s


@example(lambda rng: (rng.normal(size=(4, 3)), np.zeros(3)))
@njit
def column_sums(a, out):
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[j] += a[i, j] * a[i, j]


@example(lambda rng: (rng.normal(size=9), np.zeros(9)))
@njit
def cumulative_sum(x, out):
    s = 0.0
    for i in range(len(x)):
        s += x[i]
        out[i] = s * s


@example(lambda rng: (rng.uniform(0.2, 1.0, size=9),))
@njit
def cumulative_product_in_place(x):
    for i in range(1, len(x)):
        x[i] = x[i] * x[i - 1]


@example(lambda rng: (rng.normal(size=9), rng.integers(0, 3, size=9), np.zeros(3)))
@njit
def histogram_with_weights(weights, bins, out):
    for i in range(len(weights)):
        out[bins[i]] += weights[i] * weights[i]


@example(vector(10))
@njit
def huber(x):
    s = 0.0
    for v in x:
        a = abs(v)
        s += 0.5 * v * v if a < 0.7 else 0.7 * (a - 0.35)
    return s


@example(vector(16))
@njit
def pairwise_tree_sum(x):
    y = np.sin(x)
    width = len(y)
    while width > 1:
        width //= 2
        for i in range(width):
            y[i] = y[2 * i] + y[2 * i + 1] * 1.1
    return y[0]


@example(lambda rng: (rng.uniform(0.1, 1.0, size=6),))
@njit
def entropy(weights):
    total = 0.0
    for w in weights:
        total += w
    h = 0.0
    for w in weights:
        p = w / total
        h -= p * math.log(p)
    return h

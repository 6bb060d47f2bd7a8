"""Loops of unknown length: `while` until the data say stop."""

import math

import numpy as np
from numba import njit

from programs import example


def positive(rng):
    return (float(rng.uniform(0.5, 9.0)),)


@example(positive)
@njit
def newton_square_root(a):
    x = a
    while abs(x * x - a) > 1e-13 * a:
        x = 0.5 * (x + a / x)
    return x


@example(positive)
@njit
def fixed_point_cosine(a):
    x = 0.0
    change = 1.0
    while change > 1e-13:
        new = 0.5 * math.cos(x * 0.3) + 0.1 * a
        change = abs(new - x)
        x = new
    return x * a


@example(lambda rng: (float(rng.uniform(1.0, 3.0)), float(rng.uniform(4.0, 7.0))))
@njit
def arithmetic_geometric_mean(a, b):
    while abs(a - b) > 1e-14 * a:
        a, b = 0.5 * (a + b), math.sqrt(a * b)
    return a


@example(lambda rng: (float(rng.uniform(0.1, 0.9)), float(rng.uniform(0.0, 6.0))))
@njit
def kepler_equation(eccentricity, mean_anomaly):
    anomaly = mean_anomaly
    for _ in range(50):
        residual = anomaly - eccentricity * math.sin(anomaly) - mean_anomaly
        if abs(residual) < 1e-14:
            break
        anomaly -= residual / (1.0 - eccentricity * math.cos(anomaly))
    return math.sin(anomaly)


@example(positive)
@njit
def halve_until_small(x):
    count = 0
    while x > 0.3:
        x = x * 0.5
        count += 1
    return x * x + count


@example(positive)
@njit
def grow_until_large(x):
    while x < 50.0:
        x = x * x + 0.5
    return math.log(x)


@example(lambda rng: (float(rng.uniform(0.2, 0.9)),))
@njit
def series_until_term_small(x):
    term, total, k = 1.0, 0.0, 0
    while abs(term) > 1e-15:
        total += term
        k += 1
        term *= x / k
    return total


@example(lambda rng: (float(rng.normal()), 0.0))
@njit
def zero_trip_while(x, limit):
    while limit > 1.0:
        x = x * x
        limit -= 1.0
    return x * 3.0


@example(positive)
@njit
def while_true_with_break(x):
    k = 0
    while True:
        x = math.sqrt(x) + 0.1
        k += 1
        if x < 1.3 or k > 20:
            break
    return x * x


@example(positive)
@njit
def collatz_like(x):
    steps = 0
    while x > 1.0 and steps < 30:
        if x > 3.0:
            x = 0.5 * x
        else:
            x = 0.9 * x - 0.05 * x * x
        steps += 1
    return x


@example(lambda rng: (rng.uniform(0.2, 1.0, size=12), 2.5))
@njit
def consume_until_budget(x, budget):
    i, spent, value = 0, 0.0, 1.0
    while i < len(x) and spent < budget:
        spent += x[i]
        value *= 1.0 + x[i] * x[i]
        i += 1
    return value + spent


@example(lambda rng: (rng.uniform(0.5, 1.5, size=3),))
@njit
def while_writes_array(x):
    k = 0
    while x[0] * x[0] + x[1] * x[1] + x[2] * x[2] > 0.1:
        x[k % 3] *= 0.6
        x[(k + 1) % 3] += 0.05 * x[k % 3]
        k += 1
    return x[0] * x[1] + x[2]


@example(lambda rng: (rng.uniform(0.5, 3.0, size=4), np.zeros(4)))
@njit
def newton_for_each_entry(a, roots):
    for i in range(len(a)):
        r = 1.0
        while abs(r * r * r - a[i]) > 1e-13:
            r -= (r * r * r - a[i]) / (3.0 * r * r)
        roots[i] = r


@example(lambda rng: (float(rng.uniform(0.5, 3.0)), float(rng.uniform(0.1, 0.5))))
@njit
def two_conditions(x, rate):
    t = 0.0
    while x > 0.1 and t < 3.0:
        x -= rate * x * x * 0.5
        t += rate * rate + 0.1
    return x * t


@example(lambda rng: (float(rng.uniform(2.0, 3.0)),))
@njit
def nested_whiles(x):
    total = 0.0
    while x > 0.5:
        y = x
        while y > 0.4:
            y = y * 0.7
            total += y * x
        x = x * 0.6 - 0.01
    return total


@example(lambda rng: (float(rng.uniform(0.5, 3.0)),))
@njit
def two_whiles_in_sequence(x):
    while x < 10.0:
        x *= 1.7
    while x > 1.0:
        x = math.sqrt(x) * 0.9
    return x


@example(lambda rng: (float(rng.uniform(0.5, 3.0)),))
@njit
def do_while(x):
    again = True
    while again:
        x = 0.5 * x + math.sin(x) * 0.1
        again = x > 0.2
    return x


@example(lambda rng: (float(rng.uniform(0.2, 1.5)), float(rng.uniform(2.0, 3.0))))
@njit
def golden_section(a, b):
    lo, hi = 0.0, b
    while hi - lo > 1e-3:
        m1 = hi - 0.618 * (hi - lo)
        m2 = lo + 0.618 * (hi - lo)
        if (m1 - a) ** 2 < (m2 - a) ** 2:
            hi = m2
        else:
            lo = m1
    return 0.5 * (lo + hi) * a


@example(lambda rng: (float(rng.uniform(0.2, 0.5)),))
@njit
def adaptive_step(rate):
    t, y, h = 0.0, 1.0, 0.5
    while t < 2.0:
        if t + h > 2.0:
            h = 2.0 - t
        full = y - h * rate * y * y
        half = y - 0.5 * h * rate * y * y
        two = half - 0.5 * h * rate * half * half
        if abs(two - full) < 2e-3:
            t += h
            y = two
            h *= 1.5
        else:
            h *= 0.5
    return y


@example(lambda rng: (rng.uniform(0.5, 1.5, 4),))
@njit
def clears_the_lowest_bit_of_a_subscript(x):
    """The subscripts 12 and 8, as in a Fenwick tree: not only multiples of the first."""
    tree = np.zeros(16)
    total = 0.0
    for _ in range(3):
        i = 12
        while i > 0:
            tree[i] = tree[i] * x[1] + x[2] * x[i % 3]
            i &= i - 1
        total += tree[8] * tree[8] * x[0]
    return total * x[3]

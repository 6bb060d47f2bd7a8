"""break, continue and return, also out of nested loops; values that leave through them."""

import math

import numpy as np
from numba import njit

from programs import example


def vector(n, low=-1.0, high=1.0):
    return lambda rng: (rng.uniform(low, high, size=n),)


@example(vector(10))
@njit
def break_on_value(x):
    s = 0.0
    for v in x:
        if v > 0.6:
            break
        s += v * v
    return s


@example(vector(10))
@njit
def break_carries_values_out(x):
    found, where, s = 0.0, -1, 1.0
    for i in range(len(x)):
        s = s * 0.8 + x[i]
        if x[i] > 0.4:
            found = x[i] * s
            where = i
            break
    return found * 2.0 + s + where


@example(vector(10))
@njit
def continue_on_value(x):
    s = 1.0
    for v in x:
        if v < 0.0:
            continue
        s = s * 0.9 + math.sin(v) * s
    return s


@example(vector(10))
@njit
def break_and_continue(x):
    s = 0.0
    for i in range(len(x)):
        if x[i] < -0.5:
            continue
        s += math.exp(x[i])
        if s > 4.0:
            break
        s *= 1.1
    return s * s


@example(vector(10))
@njit
def return_from_loop(x):
    s = 0.0
    for v in x:
        s += v * v
        if s > 1.0:
            return s * v
    return -s


@example(vector(8))
@njit
def return_of_two_kinds(x):
    s = 1.0
    for i in range(len(x)):
        if x[i] > 0.8:
            return s * x[i]
        s += x[i] * s * 0.5
        if s < 0.3:
            return s
    return s * s


@example(lambda rng: (rng.uniform(-1.0, 1.0, size=(4, 5)),))
@njit
def return_from_nested_loop(a):
    s = 0.0
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s += a[i, j] * a[i, j]
            if s > 2.0:
                return s + a[i, j] * i
    return s


@example(lambda rng: (rng.uniform(-1.0, 1.0, size=(4, 5)),))
@njit
def break_of_inner_loop(a):
    s = 0.0
    for i in range(a.shape[0]):
        row = 1.0
        for j in range(a.shape[1]):
            if a[i, j] > 0.5:
                break
            row *= 1.0 + a[i, j]
        s += row * row
    return s


@example(lambda rng: (rng.uniform(-1.0, 1.0, size=(4, 5)),))
@njit
def break_of_both_loops_by_flag(a):
    s = 1.0
    done = False
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            s = s * (1.0 + 0.3 * a[i, j])
            if s > 1.3:
                done = True
                break
        if done:
            break
        s -= 0.05
    return s * s


@example(vector(9, 0.1, 1.0))
@njit
def for_else(x):
    s = 0.0
    for v in x:
        s += v
        if v > 0.97:
            s *= 2.0
            break
    else:
        s = s * s
    return s


@example(lambda rng: (float(rng.uniform(0.5, 3.0)),))
@njit
def while_with_two_exits(x):
    k = 0
    while x > 0.2:
        x = x * 0.8
        if x * x < 0.3 and k % 2 == 1:
            x += 5.0
            break
        k += 1
    return x * x


@example(lambda rng: (float(rng.uniform(0.5, 3.0)),))
@njit
def while_with_continue(x):
    k, s = 0, 0.0
    while k < 8:
        k += 1
        x = x * 0.9 + 0.05
        if x > 1.0:
            continue
        s += x * math.sin(x)
    return s + x


@example(lambda rng: (float(rng.uniform(0.5, 3.0)),))
@njit
def three_exits_three_values(x):
    r = 0.0
    for i in range(20):
        x = x * 0.85
        if x < 0.4:
            r = x * x
            break
        if x > 2.0 and i > 0:
            r = math.sin(x)
            break
        if abs(x - 1.0) < 0.05:
            return x * 7.0
    return r + x


@example(vector(12, -1.0, 1.0))
@njit
def search_then_work(x):
    start = 0
    for i in range(len(x)):
        if x[i] > 0.0:
            start = i
            break
    s = 0.0
    for i in range(start, len(x)):
        s = s * 0.5 + x[i]
    return s


@example(vector(6))
@njit
def break_in_first_iteration(x):
    s = x[0]
    for v in x:
        s = s * v
        break
    return s


@example(lambda rng: (rng.uniform(0.5, 1.5, size=4), 6))
@njit
def break_out_of_while_inside_for(x, limit):
    s = 0.0
    for i in range(len(x)):
        y, k = x[i], 0
        while True:
            y = y * y * 0.6 + 0.1
            if y < 0.3:
                break
            if k > limit:
                s += 1.0
                break
            k += 1
        s += y * x[i]
    return s


@example(lambda rng: (rng.uniform(0.2, 1.5, size=8), rng.uniform(0.5, 2.0, size=3)))
@njit
def return_out_of_while_inside_for(x, levels):
    total = 0.0
    for i in range(len(levels)):
        k = 0
        while k < len(x):
            total += x[k] * levels[i]
            if total > 9.0:
                return total * levels[i]
            k += 1
    return total


@example(lambda rng: (rng.uniform(-1.0, 1.0, size=8), np.zeros(8)))
@njit
def early_return_leaves_array_half_written(x, y):
    for i in range(len(x)):
        if x[i] > 0.7:
            return
        y[i] = math.exp(x[i]) * x[i]


@example(lambda rng: (rng.uniform(-1.0, 1.0, size=(5, 3)), np.zeros(5)))
@njit
def continue_of_outer_loop(a, out):
    for i in range(a.shape[0]):
        if a[i, 0] < -0.3:
            continue
        p = 1.0
        for j in range(a.shape[1]):
            if a[i, j] < 0.0:
                continue
            p *= 1.0 + a[i, j]
        out[i] = p


@example(lambda rng: (float(rng.uniform(0.5, 2.0)), int(rng.integers(0, 5))))
@njit
def return_before_loop(x, n):
    if n == 0:
        return x * x
    for i in range(n):
        x = math.sin(x) + 0.1 * i
    return x


@example(lambda rng: (rng.uniform(0.2, 1.0, size=6),))
@njit
def conditions_with_side_values(x):
    s, last = 0.0, 0.0
    i = 0
    while i < len(x):
        last = x[i] * x[i]
        if last > 0.8:
            i += 2
            continue
        if s > 1.5:
            break
        s += last
        i += 1
    return s * last

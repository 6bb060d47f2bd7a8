"""`numba.typed.List`, made and used inside the function: of floats, tuples, arrays and lists."""

import math

from numba import njit
from numba.typed import List

from programs import example


@example(lambda rng: (rng.normal(), 9))
@njit
def appended_and_changed(x, n):
    values = List()
    for i in range(n):
        values.append(math.sin(x * i))
    values[2] = values[1] * x
    values.insert(1, values[0] + x)
    last = values.pop()
    del values[0]
    del values[1:6:2]
    s = 0.0
    for v in values:
        s += v * v
    return s * last + values[1] * values[-1]


@example(lambda rng: (rng.normal(size=6),))
@njit
def extended_copied_and_reversed(a):
    left = List(a[:3] * a[0])
    left.extend([v * v for v in a[3:]])
    right = left.copy()
    right.reverse()
    left[0] *= 2.0
    left.clear()
    left.append(right[2])
    s = left[0]
    for k in range(len(right)):
        s += right[k] * (k + 1) * right[0]
    return s


@example(lambda rng: (rng.normal(size=5),))
@njit
def tuples(a):
    pairs = List()
    for k in range(a.size):
        pairs.append((a[k] * a[k], k))
    s = 0.0
    for value, k in pairs:
        s += value * (k + 1)
    pairs[1] = (s, 4)
    first, number = pairs.pop(0)
    return s * first + pairs[0][0] * pairs[0][1] * (number + 1)


@example(lambda rng: (rng.normal(size=4), rng.normal()))
@njit
def arrays(a, x):
    rows = List()
    for i in range(a.size):
        rows.append(a * a[i] + x)
    rows[1][2] *= x
    rows.append(rows[0])
    rows[0][0] = a[1] * x
    rows[0] = a * 2.0
    s = 0.0
    for row in rows:
        s += (row * row).sum()
    return s


@example(lambda rng: (rng.normal(size=4),))
@njit
def lists_in_a_list(a):
    table = List()
    for i in range(len(a)):
        row = List()
        row.append(a[i])
        for j in range(i):
            row.append(a[i] * a[j])
        table.append(row)
    table[2][0] *= table[3][1]
    s = 0.0
    for row in table:
        for v in row:
            s += v * v
    return s


@example(lambda rng: (rng.normal(), 30))
@njit
def made_in_every_iteration(x, n):
    s = x
    for _ in range(n):
        window = List()
        for j in range(3):
            window.append(math.sin(s * j) + 0.1 * x)
        while len(window) > 1 and s > -10.0:
            s += 0.1 * window.pop()
    return s

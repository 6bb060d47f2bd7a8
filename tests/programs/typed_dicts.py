"""`numba.typed.Dict`, made and used inside the function: of floats, arrays and dictionaries."""

import math

from numba import njit
from numba.typed import Dict

from programs import example


@njit
def add_to(d, key, value):
    if key in d:
        d[key] += value
    else:
        d[key] = value


@example(lambda rng: (rng.uniform(0.2, 0.9), 20))
@njit
def overwritten_grown_and_removed(x, n):
    d = Dict()
    d[0] = x
    for i in range(n):
        d[i % 3] = d.get(i % 3, 1.0) * math.sin(d[0] + i) + x
        d[100 + i] = x * i
        add_to(d, i // 4, x * x)
    s = 0.0
    for i in range(0, n, 2):
        s += d.pop(100 + i) * x
        d[200 + i] = s * 0.01
    del d[101]
    last_key, last = d.popitem()
    other = d.copy()
    for key, value in d.items():
        s += 0.01 * key * value * value
        d[key] = value * x
    for value in d.values():
        s += value * last
    d.clear()
    for key in other:
        s += other[key] ** 2 * d.setdefault(key % 5, x)
    return s * last_key


@example(lambda rng: (rng.normal(size=3), rng.normal()))
@njit
def arrays_and_dictionaries(a, x):
    rows, table = Dict(), Dict()
    for i in range(8):
        rows[i] = a * (a[i % 3] + x * i)
    rows[1][2] *= x
    rows[9] = rows[0]
    rows[9][0] = a[1] * x
    rows[2] = a * 2.0
    gone = rows.pop(3)
    for i in range(3):
        inner = Dict()
        for j in range(7):
            inner[j] = a[i] * j * x
        table[(i, i + 1)] = inner
    table[(0, 1)][2] = table[(1, 2)][3] * x
    s = gone[0]
    for key, row in rows.items():
        s += row[1] * row[2] * (row[0] + key)
    for pair, inner in table.items():
        for j, value in inner.items():
            s += value * value * (j + pair[1])
    return s

"""Memory: overwriting, accumulating, gathering, scattering, aliasing."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (rng.normal(size=5),))
@njit
def read_after_overwrite(x):
    a = x[0]
    x[0] = x[1] * a
    x[1] = x[0] * x[0]
    b = x[0]
    x[0] = 3.0
    return a * b + x[0] * x[1]


@example(lambda rng: (rng.normal(size=5), float(rng.normal())))
@njit
def overwritten_by_constant(x, y):
    x[1] = 2.0
    x[2] = y
    return x[0] * x[1] * x[2]


@example(lambda rng: (rng.normal(size=5),))
@njit
def cleared(x):
    s = 0.0
    for i in range(len(x)):
        s += x[i] * x[i]
        x[i] = 0.0
    return s


@example(lambda rng: (rng.normal(size=4), 5))
@njit
def accumulate_into_one_element(x, n):
    for k in range(n):
        for i in range(1, len(x)):
            x[0] += x[i] * x[0] * 0.1
        x[0] *= 0.9


@example(lambda rng: (rng.normal(size=6), rng.integers(0, 6, size=9)))
@njit
def gather(x, index):
    s = 0.0
    for k in index:
        s += x[k] * x[k] * s * 0.1 + x[k]
    return s


@example(lambda rng: (rng.normal(size=9), rng.integers(0, 4, size=9), rng.normal(size=4)))
@njit
def scatter_add(x, index, out):
    for i in range(len(x)):
        out[index[i]] += x[i] * x[i]


@example(lambda rng: (rng.normal(size=9), rng.integers(0, 4, size=9), rng.normal(size=4)))
@njit
def scatter_overwrite(x, index, out):
    for i in range(len(x)):
        out[index[i]] = math.sin(x[i])


@example(lambda rng: (rng.uniform(0.5, 1.0, size=9), rng.integers(0, 4, size=9), np.ones(4)))
@njit
def scatter_multiply(x, index, out):
    for i in range(len(x)):
        out[index[i]] *= x[i]
    return out[0] + out[3] * out[1]


@example(lambda rng: (rng.normal(size=6), rng.permutation(6)))
@njit
def permute_in_place(x, order):
    y = x.copy()
    for i in range(len(x)):
        x[i] = y[order[i]] * (i + 1)


@example(lambda rng: (rng.normal(size=7),))
@njit
def bubble_sort(x):
    n = len(x)
    for i in range(n):
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1], x[j]
    s = 0.0
    for i in range(n):
        s += x[i] * x[i] * (i + 1)
    return s


@example(lambda rng: (rng.normal(size=7),))
@njit
def insertion_sort_median(x):
    y = x.copy()
    for i in range(1, len(y)):
        v = y[i]
        j = i - 1
        while j >= 0 and y[j] > v:
            y[j + 1] = y[j]
            j -= 1
        y[j + 1] = v
    return y[3] * y[3]


@example(lambda rng: (rng.normal(size=8),))
@njit
def reverse_in_place(x):
    n = len(x)
    for i in range(n // 2):
        t = x[i]
        x[i] = x[n - 1 - i] * 2.0
        x[n - 1 - i] = t * t


@example(lambda rng: (rng.normal(size=8),))
@njit
def two_names_for_one_array(x):
    y = x
    y[0] = x[1] * x[2]
    x[1] = y[0] * y[3]
    return x[0] * y[1]


@example(lambda rng: (rng.normal(size=8),))
@njit
def overlapping_views(x):
    left, right = x[:6], x[2:]
    for i in range(6):
        right[i] = right[i] + 0.5 * left[i] * left[i]
    return x[7] * x[6]


@example(lambda rng: (rng.normal(size=5), rng.normal(size=5), True))
@njit
def view_chosen_at_run_time(x, y, first):
    z = x if first else y
    s = 0.0
    for i in range(len(z)):
        z[i] = z[i] * z[i]
        s += z[i] * y[i]
    return s + x[0]


@example(lambda rng: (rng.normal(size=4), rng.normal(size=4), 5))
@njit
def arrays_swapped_in_loop(x, y, n):
    a, b = x, y
    for k in range(n):
        for i in range(len(a)):
            a[i] = a[i] * 0.8 + 0.1 * b[i] * b[i]
        a, b = b, a
    return a[0] * b[1]


@example(lambda rng: (rng.normal(size=6),))
@njit
def copy_then_change(x):
    y = x.copy()
    for i in range(len(x)):
        x[i] = 0.5
    s = 0.0
    for i in range(len(x)):
        s += y[i] * y[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=6), 3))
@njit
def ring_buffer(x, depth):
    ring = np.zeros(depth)
    s = 0.0
    for i in range(len(x)):
        ring[i % depth] = x[i] * x[i]
        for k in range(depth):
            s += ring[k] * (k + 1)
    return s


@example(lambda rng: (rng.normal(size=5),))
@njit
def stack_machine(x):
    stack = np.zeros(8)
    top = 0
    for v in x:
        stack[top] = v
        top += 1
        if top >= 2 and v > 0.0:
            stack[top - 2] = stack[top - 2] * stack[top - 1]
            top -= 1
    s = 0.0
    while top > 0:
        top -= 1
        s += stack[top]
    return s


@example(lambda rng: (rng.normal(size=5),))
@njit
def memo_table(x):
    memo = np.zeros(6)
    memo[0] = 1.0
    for i in range(1, 6):
        for j in range(i):
            memo[i] += memo[j] * x[i - 1 - j]
    return memo[5]


@example(lambda rng: (rng.normal(size=5), rng.normal(size=5)))
@njit
def linked_indices(values, weights):
    following = np.array([2, 4, 1, -1, 3])
    i, s = 0, 1.0
    while i != -1:
        s = s * weights[i] + values[i]
        i = following[i]
    return s


@example(lambda rng: (rng.normal(size=4),))
@njit
def filled_then_scaled(x):
    a = np.full(4, 1.5)
    b = np.ones(4)
    for i in range(4):
        a[i] *= x[i]
        b[i] -= a[i]
    return a[0] * b[1] + a[2] * b[3]


@example(lambda rng: (rng.normal(size=6), rng.normal(size=6)))
@njit
def maximum_written_back(x, y):
    for i in range(len(x)):
        x[i] = max(x[i], y[i])
        if x[i] > 1.0:
            y[i] = x[i] * x[i]


@example(lambda rng: (rng.normal(size=5), np.zeros(5, dtype=np.int64)))
@njit
def integers_written_beside(x, ranks):
    s = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if x[j] < x[i]:
                ranks[i] += 1
        s += x[i] * ranks[i]
    return s


@example(lambda rng: (rng.normal(size=5), np.zeros(5, dtype=np.bool_)))
@njit
def mask_written_then_used(x, mask):
    for i in range(len(x)):
        mask[i] = x[i] > 0.0
    s = 1.0
    for i in range(len(x)):
        if mask[i]:
            s *= 1.0 + x[i]
    return s


@example(lambda rng: (rng.normal(size=(3, 3)),))
@njit
def diagonal_updated_repeatedly(a):
    for _ in range(3):
        for i in range(3):
            a[i, i] = a[i, i] * a[i, (i + 1) % 3] + a[(i + 2) % 3, i]
    return a[0, 0] + a[1, 1] * a[2, 2]


@example(lambda rng: (rng.normal(size=4),))
@njit
def conditional_store(x):
    for i in range(3):
        if x[i] > x[i + 1]:
            x[i + 1] = x[i] * x[i]
        else:
            x[i] += 0.1
    return x[3] * x[0]


@example(lambda rng: (rng.normal(size=4), int(rng.integers(0, 2))))
@njit
def array_created_in_a_branch(x, kind):
    if kind == 0:
        y = x.copy()
    else:
        y = np.zeros(4)
        for i in range(4):
            y[i] = x[i] * x[3 - i]
    s = 0.0
    for i in range(4):
        s += y[i] * x[i]
    return s


@example(lambda rng: (rng.normal(size=9), rng.normal(size=3)))
@njit
def indices_released_before_the_way_back(a, b):
    a[a < -0.5] = 0.25
    s = a[np.nonzero(a > 0)[0]].sum()
    h = np.zeros(len(a))  # may be given the memory the indices had
    for value in b:
        h[0] += value
    return s + (h * a).sum()


@example(lambda rng: (rng.normal(size=3), np.array([0, 1, 0, 2, 1, 0])))
@njit
def array_of_the_first_iteration_kept(x, places):
    """What one iteration made, later ones write; the site makes another in each of them."""
    s = 1.0
    for t, place in enumerate(places):
        made = x.copy()
        if t == 0:
            first = made
        first[place] = s * 0.3 + x[2]
        s += math.sin(first[0] * first[1] * first[2])
    return s


@example(lambda rng: (rng.normal(size=3), np.array([0, 1, 0, 2, 1, 0])))
@njit
def oldest_of_a_list_of_arrays(x, places):
    s = 1.0
    kept = []
    for place in places:
        kept.append(x.copy())
        first = kept[0]
        first[place] = s * 0.3 + x[2]
        s += math.sin(first[0] * first[1] * first[2])
    return s

"""Lists that grow and shrink: of floats, tuples, arrays and lists."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (rng.normal(), 30))
@njit
def appended_in_a_loop(x, n):
    terms = []
    for i in range(n):
        terms.append(math.sin(x * i))
    s = 0.0
    for t in terms:
        s += t * t
    return s


@example(lambda rng: (rng.normal(), rng.normal(size=5)))
@njit
def comprehension(x, a):
    return sum([x * v + math.cos(v) for v in a])


@example(lambda rng: (rng.normal(), rng.normal()))
@njit
def literal_with_items_written(x, y):
    out = [x, y, x * y]
    out[1] = out[0] * out[2]
    out[-1] += out[1] * x
    return out[1] + out[2] * out[2]


@example(lambda rng: (rng.normal(size=4),))
@njit
def popped_and_appended_again(a):
    stack = [a[0], a[1], a[2]]
    s = 0.0
    for k in range(6):
        top = stack.pop()
        s += top * top
        stack.append(math.sin(top) * a[k % 4])
        if k % 2 == 0:
            stack.append(s * 0.1)
    return s + sum(stack)


@example(lambda rng: (rng.normal(size=12),))
@njit
def grown_and_emptied(a):
    total = 0.0
    stack = [1.0]
    for repeat in range(3):
        for v in a:
            stack.append(v * stack[-1] * 0.5 + 0.1)
        while len(stack) > 1:
            total += math.sin(stack.pop()) * (repeat + 1)
    return total


@example(lambda rng: (rng.normal(size=5),))
@njit
def inserted_and_removed(a):
    items = [v * v for v in a]
    items.insert(1, a[0] * a[1])
    del items[3]
    items.insert(0, math.sin(a[4]))
    s = 0.0
    for k in range(len(items)):
        s += items[k] * (k + 1)
    return s * items.pop(2)


@example(lambda rng: (rng.normal(size=6),))
@njit
def extended_and_sliced(a):
    left = [v for v in a[:3]]
    right = [v * v for v in a[3:]]
    left.extend(right)
    middle = left[1:4]
    middle.reverse()
    s = 0.0
    for k in range(len(middle)):
        s += middle[k] * left[k] * (k + 1)
    return s


@example(lambda rng: (rng.normal(size=6),))
@njit
def sorted_list(a):
    items = [v for v in a]
    items.sort()
    s = 0.0
    for k in range(len(items)):
        s += items[k] * items[k] * (k + 1)
    return s


@example(lambda rng: (rng.normal(size=6),))
@njit
def tuples_in_a_list(a):
    pairs = []
    for k in range(len(a)):
        pairs.append((a[k] * a[k], k))
    s = 0.0
    for value, k in pairs:
        s += value * (k + 1)
    first = pairs[0]
    return s * first[0]


@example(lambda rng: (rng.normal(size=4), rng.normal()))
@njit
def arrays_in_a_list(a, x):
    rows = []
    for i in range(a.size):
        rows.append(a * a[i] + x)
    rows[1][2] *= x
    rows.append(rows[0])
    rows[0][0] = a[1] * x
    s = 0.0
    for row in rows:
        s += (row * row).sum()
    return s


@example(lambda rng: (rng.normal(size=4),))
@njit
def lists_in_a_list(a):
    table = []
    for i in range(len(a)):
        row = [a[i]]
        for j in range(i):
            row.append(a[i] * a[j])
        table.append(row)
    s = 0.0
    for row in table:
        for v in row:
            s += v * v
    return s


@example(lambda rng: (rng.normal(), 6))
@njit
def list_to_array(x, n):
    values = [x]
    for k in range(n):
        values.append(math.sin(values[k]) + x * 0.1)
    array = np.array(values)
    return (array * array).sum()


@example(lambda rng: (rng.normal(size=3), 4))
@njit
def trajectory_kept_in_a_list(state, n):
    path = [state.copy()]
    for _ in range(n):
        last = path[-1]
        following = np.empty(3)
        for k in range(3):
            following[k] = last[k] + 0.1 * math.sin(last[(k + 1) % 3])
        path.append(following)
    s = 0.0
    for point in path:
        s += point[0] * point[1]
    return s


@example(lambda rng: (rng.normal(size=5),))
@njit
def list_made_in_every_iteration(a):
    s = 0.0
    for i in range(a.size):
        window = []
        for j in range(max(0, i - 1), min(a.size, i + 2)):
            window.append(a[j] * a[i])
        s += math.sin(sum(window)) * len(window)
    return s


@example(lambda rng: (rng.normal(size=5), rng.normal()))
@njit
def as_many_as_it_takes(a, x):
    steps = [x]
    while abs(steps[-1]) > 1e-2 and len(steps) < 40:
        steps.append(0.7 * steps[-1] * math.cos(a[len(steps) % 5]))
    s = 0.0
    for k in range(len(steps)):
        s += steps[k] * steps[k]
    return s


@example(lambda rng: (rng.normal(size=6),))
@njit
def two_names_for_one_list(a):
    first = [a[0], a[1]]
    second = first
    second.append(a[2] * first[0])
    first[0] = second[2] * a[3]
    return first[0] * second[1] + sum(second)


@njit
def push_pair(items, x, y):
    items.append(x * y)
    items.append(x + y)


@example(lambda rng: (rng.normal(), rng.normal()))
@njit
def list_filled_by_a_callee(x, y):
    items = [x]
    for _ in range(5):
        push_pair(items, items[-1] * 0.5, y)
    return items[3] * items[10] + items[7]


@example(lambda rng: (rng.normal(size=5), np.array([2, 0, 1, 4])))
@njit
def indices_in_a_list(a, order):
    chosen = [k for k in order if k != 1]
    s = 0.0
    for k in chosen:
        s += a[k] * a[(k + 1) % 5]
    return s


@example(lambda rng: (rng.normal(),))
@njit
def stack_of_triples(x):
    """An item is as large as the header of a list: the last one is at 24 times the size."""
    stack = [(x, 0, 1)]
    s = 0.0
    while len(stack) > 0:
        v, depth, weight = stack.pop()
        s += v * v * weight
        if depth < 3:
            stack.append((v * 0.5, depth + 1, weight + 1))
            if depth > 1:
                stack.append((-v * s, depth, 1))
        if len(stack) > 6:
            break
    return s


@example(lambda rng: (rng.normal(),))
@njit
def both_ends_of_a_list_of_pairs(x):
    queue = [(0, x)]
    s = 0.0
    while len(queue) > 0:
        depth, v = queue.pop(0) if len(queue) > 2 else queue.pop()
        s += v * v
        if depth < 3:
            queue.append((depth + 1, v * 0.5))
            if depth > 0:
                queue.append((depth + 1, -v * s))
    return s

"""Functions that call themselves or each other: on floats, arrays in place, returned arrays."""

import math

import numpy as np
from numba import float64, int64, njit

from programs import example


@njit
def power(x, n):
    if n == 0:
        return 1.0
    return x * power(x, n - 1)


@example(lambda rng: (float(rng.normal()), 5))
@njit
def power_times_x(x, n):
    return power(x, n) * x


@example(lambda rng: (rng.normal(size=7),))
@njit
def powers_in_a_loop(a):
    s = 0.0
    for i in range(len(a)):
        s += power(a[i], i % 4) * a[i]
    return s


@example(lambda rng: (rng.normal(size=8), 7))
@njit
def weighted_fibonacci(w, n):
    if n < 2:
        return w[n]
    return w[n] * weighted_fibonacci(w, n - 1) + weighted_fibonacci(w, n - 2)


@njit(float64(float64, int64))
def nested_sines(x, n):
    if n <= 0:
        return x
    return math.sin(nested_sines(x, n - 1)) + x


@example(lambda rng: (float(rng.normal()),), seeds=1)
@njit
def with_explicit_signature(x):
    return nested_sines(x, 6) * x


@njit
def damped_wave(x, p):
    return math.exp(-p * x) * math.sin(5.0 * x * p)


@njit
def simpson(a, b, fa, fm, fb, whole, eps, p, depth):
    m = 0.5 * (a + b)
    left_mid, right_mid = damped_wave(0.5 * (a + m), p), damped_wave(0.5 * (m + b), p)
    left = (m - a) / 6.0 * (fa + 4.0 * left_mid + fm)
    right = (b - m) / 6.0 * (fm + 4.0 * right_mid + fb)
    change = left + right - whole
    if depth <= 0 or abs(change) <= 15.0 * eps:
        return left + right + change / 15.0
    return simpson(a, m, fa, left_mid, fm, left, eps / 2, p, depth - 1) + simpson(
        m, b, fm, right_mid, fb, right, eps / 2, p, depth - 1
    )


@example(lambda rng: (0.0, float(rng.uniform(0.8, 1.2)), float(rng.uniform(1.5, 2.5))), seeds=1)
@njit
def adaptive_quadrature(a, b, p):
    m = 0.5 * (a + b)
    fa, fm, fb = damped_wave(a, p), damped_wave(m, p), damped_wave(b, p)
    return simpson(a, b, fa, fm, fb, (b - a) / 6.0 * (fa + 4.0 * fm + fb), 1e-9, p, 20)


LEFT, RIGHT = np.array([1, 3, -1, -1, -1]), np.array([2, 4, -1, -1, -1])


@example(lambda rng: (rng.normal(size=5), LEFT, RIGHT, 0, float(rng.normal())), seeds=1)
@njit
def tree_in_arrays(values, left, right, node, x):
    if node < 0:
        return x
    t = math.tanh(values[node])
    return t * tree_in_arrays(values, left, right, left[node], x) + tree_in_arrays(
        values, left, right, right[node], x * t
    )


@example(lambda rng: (float(rng.normal()), 5))
@njit
def even_step(x, n):
    if n == 0:
        return x
    return math.sin(odd_step(x, n - 1)) * x


@njit
def odd_step(x, n):
    if n == 0:
        return x * x
    return math.cos(even_step(x, n - 1)) + x


@njit
def quicksort(a, low, high):
    if low >= high:
        return
    pivot, i = a[high], low
    for j in range(low, high):
        if a[j] < pivot:
            a[i], a[j] = a[j], a[i]
            i += 1
    a[i], a[high] = a[high], a[i]
    quicksort(a, low, i - 1)
    quicksort(a, i + 1, high)


@example(lambda rng: (rng.normal(size=9),), seeds=1)
@njit
def weighted_order_statistics(x):
    a = x.copy()
    quicksort(a, 0, len(a) - 1)
    s = 0.0
    for i in range(len(a)):
        s += a[i] * a[i] * (i + 1)
    return s


@njit
def haar(a, n, scratch):
    if n == 1:
        return
    for k in range(n // 2):
        scratch[k] = (a[2 * k] + a[2 * k + 1]) * a[0]
        scratch[n // 2 + k] = a[2 * k] - a[2 * k + 1]
    for k in range(n):
        a[k] = scratch[k]
    haar(a, n // 2, scratch)


@example(lambda rng: (rng.normal(size=8), rng.normal(size=8)))
@njit
def transform_in_place(x, w):
    a = x.copy()
    haar(a, len(a), np.empty_like(a))
    return (w * a).sum()


@njit
def halves(x):
    n = len(x)
    if n == 1:
        return x * x
    a, b = halves(x[: n // 2]), halves(x[n // 2 :])
    out = np.empty(n)
    for i in range(n // 2):
        out[i] = a[i] * math.sin(b[i])
        out[n // 2 + i] = b[i] + a[0]
    return out


@example(lambda rng: (rng.normal(size=8),), seeds=1)
@njit
def arrays_returned(x):
    return halves(x).sum()


@njit
def pair(x, n):
    if n == 0:
        return x, x * x
    a, b = pair(x, n - 1)
    return b * 0.5, a * b + x


@example(lambda rng: (float(rng.normal()),), seeds=1)
@njit
def tuples_returned(x):
    a, b = pair(x, 4)
    return a * b


@example(lambda rng: (rng.normal(size=5), 4), seeds=1)
@njit
def loop_in_recursion_in_loop(a, n):
    s, k = 0.0, 0
    while k < n:
        s += a[k] * loop_in_recursion_in_loop(a, k)
        k += 1
    return s + math.exp(a[n])


@example(lambda rng: (rng.normal(size=2), 4), seeds=1)
@njit
def overwritten_on_the_way_back(a, n):
    if n == 0:
        return a[0] * a[1]
    y = overwritten_on_the_way_back(a, n - 1)
    a[0] = y * a[1]
    a[1] = math.sin(a[0])
    return y * a[1] * a[0]


@njit
def product_of_squares(a, i):
    if i >= len(a):
        return 1.0
    return a[i] * a[i] * product_of_squares(a, i + 1) + a[i]


@example(lambda rng: (rng.normal(size=4),), seeds=1)
@njit
def overwritten_after_the_call(x):
    a = x.copy()
    s = 0.0
    for _ in range(3):
        s += product_of_squares(a, 0)
        a[0] = s
        a[1] *= a[2]
    return s


@njit
def push_all(kept, x, n):
    kept.append(x)
    if n > 0:
        push_all(kept, x * 0.5 + 0.1 * math.sin(x), n - 1)
        push_all(kept, x * x, n - 1)


@example(lambda rng: (float(rng.normal()),), seeds=1)
@njit
def list_grown_by_recursion(x):
    kept = [1.0]
    push_all(kept, x, 3)
    s = 0.0
    for k in range(len(kept)):
        s += kept[k] ** 2 * (k + 1)
    return s


@njit
def multiplied_again(A, b, n):
    if n == 0:
        return b.sum()
    return multiplied_again(A, np.dot(A, b), n - 1) + b[0]


@example(lambda rng: (rng.normal(size=(3, 3)), rng.normal(size=3)), seeds=1)
@njit
def rules_in_recursion(A, b):
    return multiplied_again(A, b, 3)


@njit
def rule_of_the_last(x, n):
    if n > 0:
        return rule_of_the_last(x, n - 1)
    return np.dot(np.outer(x, x), x)


@example(lambda rng: (rng.normal(size=3),), seeds=1)
@njit
def result_of_a_rule_handed_on(x):
    return rule_of_the_last(x, 2).sum()


@njit
def descent(x, n):
    if x < 0.0:
        raise ValueError("below zero")
    if n == 0:
        return x
    return descent(x - 0.5, n - 1) * x


@example(lambda rng: (float(rng.uniform(*((2.5, 3.5), (0.6, 1.4))[rng.integers(2)])), 4), seeds=5)
@njit
def exception_caught_outside(x, n):
    try:
        y = descent(x, n)
    except Exception:
        y = x * x
    return y + x


@njit
def squares_until_two(a, n):
    a[n] = a[n] * a[n]
    if n == 2:
        raise ValueError("two")
    squares_until_two(a, n + 1)


@example(lambda rng: (rng.normal(size=5),), seeds=1)
@njit
def work_before_a_caught_exception(x):
    a = x.copy()
    try:
        squares_until_two(a, 0)
    except Exception:
        a[0] *= a[1]
    return (a * a).sum()


@njit
def fourier(x):
    """Cooley and Tukey's transform, of a power of two of numbers."""
    n = len(x)
    if n == 1:
        return x.copy()
    even, odd = fourier(x[::2]), fourier(x[1::2])
    y = np.empty(n, np.complex128)
    for k in range(n // 2):
        turned = np.exp(-2j * np.pi * k / n) * odd[k]
        y[k] = even[k] + turned
        y[k + n // 2] = even[k] - turned
    return y


@example(lambda rng: (rng.normal(size=8),), seeds=2)
@njit
def spectral_power(x):
    spectrum = fourier(x.astype(np.complex128))
    return (np.abs(spectrum) ** 2 * np.arange(len(x))).sum()


@njit
def corrected(u, f, h):
    """One cycle of two grids and more: the array it is given is returned."""
    if len(u) <= 3:
        u[1] += h * f[1]
        return u
    coarse = f[::2].copy()
    error = corrected(np.zeros_like(coarse), coarse, 2.0 * h)
    for i in range(len(error)):
        u[2 * i] += error[i]
    return u


@example(lambda rng: (rng.normal(size=9), 1.3), seeds=1)
@njit
def cycles_of_grids(f, k):
    u = np.zeros_like(f)
    for _ in range(2):
        u = corrected(u, k * f * u.sum() + f, 0.5)
    return (u * u).sum()


@njit
def smoothed(u, f, depth):
    """Returns the array it was given, so that one call may be given what another made."""
    for i in range(1, len(u) - 1):
        u[i] = 0.5 * (u[i - 1] + u[i] + f[i])
    if depth == 0:
        return u, u[1]
    copied = f.copy()
    error, total = np.zeros_like(copied), 0.0
    for _ in range(2):
        error, end = smoothed(error, copied, depth - 1)
        total += end
    return u, total


@example(lambda rng: (rng.normal(size=5), 1.3), seeds=1)
@njit
def called_in_ways_met_late(f, k):
    _, total = smoothed(np.zeros_like(f), k * f, 1)
    return total


@njit
def merged(a):
    """Merge sort. The halves are parts of an array that nothing owns in the first call."""
    if len(a) <= 1:
        return a
    left, right = merged(a[: len(a) // 2]), merged(a[len(a) // 2 :])
    out = np.empty(len(a))
    i = j = 0
    for k in range(len(a)):
        if j >= len(right) or (i < len(left) and left[i] <= right[j]):
            out[k] = left[i]
            i += 1
        else:
            out[k] = right[j]
            j += 1
    return out


@example(lambda rng: (rng.normal(size=7),), seeds=1)
@njit
def weighted_by_rank(x):
    ordered = merged(x * 2.0)
    return (ordered * np.arange(len(x)) ** 2).sum() + ordered[0] * ordered[-1]


@njit
def hang(link, mass, node, body, m, used):
    """A body into a tree of arrays: `-2 - body` in `link` is a body, anything else a node."""
    mass[node] += m[body] * m[body]
    there = link[node]
    if there == -1:
        link[node] = -2 - body
        return used
    return hang(link, mass, node + 1, -2 - there, m, used + 1)


@example(lambda rng: (rng.normal(size=4), np.full(8, -1)))
@njit
def bodies_in_a_tree(m, roots):
    link, mass = np.full(8, -1), np.zeros(8)
    used = 0
    for body in range(m.size):
        used = hang(link, mass, 0, body, m, used)
        used = hang(roots, mass, 1, body, m, used)
    total = 0.0
    for node in range(8):
        total += (node + used) * mass[node] ** 2
    return total


@njit
def split(x, items, mean, left, node, used):
    """A tree in arrays, from items sorted into new arrays; returns the number of nodes."""
    mean[node] = x[items].mean()
    left[node] = used
    below = items[x[items] <= mean[node]]
    if len(below) == 0 or len(below) == len(items):
        return used
    used = split(x, below, mean, left, used, used + 1)
    return split(x, items[x[items] > mean[node]], mean, left, used, used + 1)


@example(lambda rng: (rng.normal(size=6),), seeds=1)
@njit
def means_in_a_tree(x):
    mean, left = np.zeros(16), np.full(16, -1)
    split(x, np.arange(len(x)), mean, left, 0, 1)
    return (mean**2 * left).sum()

"""Dense linear algebra written as loops, mostly in place."""

import math

import numpy as np
from numba import njit

from programs import example


def spd(n):
    def make(rng):
        a = rng.normal(size=(n, n))
        return (a @ a.T + n * np.eye(n),)

    return make


def dominant(n):
    return lambda rng: (rng.normal(size=(n, n)) + 4.0 * np.eye(n),)


@example(spd(4))
@njit
def cholesky_in_place(a):
    n = a.shape[0]
    for j in range(n):
        for k in range(j):
            for i in range(j, n):
                a[i, j] -= a[i, k] * a[j, k]
        pivot = math.sqrt(a[j, j])
        for i in range(j, n):
            a[i, j] /= pivot


@example(spd(4))
@njit
def cholesky_log_determinant(a):
    n = a.shape[0]
    factor = np.zeros((n, n))
    total = 0.0
    for j in range(n):
        s = a[j, j]
        for k in range(j):
            s -= factor[j, k] * factor[j, k]
        factor[j, j] = math.sqrt(s)
        total += 2.0 * math.log(factor[j, j])
        for i in range(j + 1, n):
            s = a[i, j]
            for k in range(j):
                s -= factor[i, k] * factor[j, k]
            factor[i, j] = s / factor[j, j]
    return total


@example(dominant(4))
@njit
def lu_in_place(a):
    n = a.shape[0]
    for k in range(n):
        for i in range(k + 1, n):
            a[i, k] /= a[k, k]
            for j in range(k + 1, n):
                a[i, j] -= a[i, k] * a[k, j]


@example(lambda rng: (rng.normal(size=(4, 4)),))
@njit
def lu_with_pivoting_determinant(a):
    n = a.shape[0]
    sign = 1.0
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(a[i, k]) > abs(a[pivot, k]):
                pivot = i
        if pivot != k:
            sign = -sign
            for j in range(n):
                a[k, j], a[pivot, j] = a[pivot, j], a[k, j]
        for i in range(k + 1, n):
            factor = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= factor * a[k, j]
    determinant = sign
    for k in range(n):
        determinant *= a[k, k]
    return determinant


@example(lambda rng: (*dominant(4)(rng), rng.normal(size=4)))
@njit
def gauss_elimination_solve(a, b):
    n = len(b)
    for k in range(n):
        for i in range(k + 1, n):
            f = a[i, k] / a[k, k]
            for j in range(k, n):
                a[i, j] -= f * a[k, j]
            b[i] -= f * b[k]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            b[i] -= a[i, j] * b[j]
        b[i] /= a[i, i]
    return b[0] * b[n - 1]


@example(lambda rng: (*dominant(4)(rng), rng.normal(size=4), np.zeros(4)))
@njit
def forward_substitution(a, b, x):
    for i in range(len(b)):
        s = b[i]
        for j in range(i):
            s -= a[i, j] * x[j]
        x[i] = s / a[i, i]


@example(lambda rng: (rng.uniform(2.5, 3.5, size=5), rng.normal(size=4), rng.normal(size=5)))
@njit
def tridiagonal_thomas(diagonal, off, b):
    n = len(diagonal)
    c = np.empty(n)
    d = np.empty(n)
    c[0] = off[0] / diagonal[0]
    d[0] = b[0] / diagonal[0]
    for i in range(1, n):
        m = diagonal[i] - off[i - 1] * c[i - 1]
        if i < n - 1:
            c[i] = off[i] / m
        d[i] = (b[i] - off[i - 1] * d[i - 1]) / m
    for i in range(n - 2, -1, -1):
        d[i] -= c[i] * d[i + 1]
    s = 0.0
    for v in d:
        s += v * v
    return s


@example(lambda rng: (rng.normal(size=(4, 3)),))
@njit
def gram_schmidt(a):
    rows, columns = a.shape
    for j in range(columns):
        for k in range(j):
            dot = 0.0
            for i in range(rows):
                dot += a[i, k] * a[i, j]
            for i in range(rows):
                a[i, j] -= dot * a[i, k]
        norm = 0.0
        for i in range(rows):
            norm += a[i, j] * a[i, j]
        norm = math.sqrt(norm)
        for i in range(rows):
            a[i, j] /= norm


@example(lambda rng: (*spd(3)(rng), rng.normal(size=3), 6))
@njit
def power_iteration(a, start, steps):
    n = len(start)
    v = start.copy()
    w = np.zeros(n)
    eigenvalue = 0.0
    for _ in range(steps):
        norm = 0.0
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * v[j]
            w[i] = s
            norm += s * s
        norm = math.sqrt(norm)
        for i in range(n):
            v[i] = w[i] / norm
        eigenvalue = norm
    return eigenvalue


@example(lambda rng: (*spd(3)(rng), rng.normal(size=3)))
@njit
def conjugate_gradients(a, b):
    n = len(b)
    x, r, p, ap = np.zeros(n), b.copy(), b.copy(), np.zeros(n)
    rr = 0.0
    for i in range(n):
        rr += r[i] * r[i]
    for _ in range(2):
        pap = 0.0
        for i in range(n):
            s = 0.0
            for j in range(n):
                s += a[i, j] * p[j]
            ap[i] = s
            pap += s * p[i]
        alpha = rr / pap
        rr_new = 0.0
        for i in range(n):
            x[i] += alpha * p[i]
            r[i] -= alpha * ap[i]
            rr_new += r[i] * r[i]
        beta = rr_new / rr
        rr = rr_new
        for i in range(n):
            p[i] = r[i] + beta * p[i]
    s = 0.0
    for i in range(n):
        s += x[i] * b[i]
    return s


@example(lambda rng: (rng.normal(size=(3, 3)) * 0.3, 5))
@njit
def matrix_exponential_series(a, terms):
    n = a.shape[0]
    total = np.eye(n)
    term = np.eye(n)
    for k in range(1, terms):
        following = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                s = 0.0
                for m in range(n):
                    s += term[i, m] * a[m, j]
                following[i, j] = s / k
        term = following
        for i in range(n):
            for j in range(n):
                total[i, j] += term[i, j]
    trace = 0.0
    for i in range(n):
        trace += total[i, i]
    return trace


@example(lambda rng: (rng.normal(size=(4, 4)),))
@njit
def transpose_in_place(a):
    for i in range(a.shape[0]):
        for j in range(i):
            a[i, j], a[j, i] = a[j, i], a[i, j] * a[i, i]


@example(lambda rng: (*spd(4)(rng), rng.normal(size=4)))
@njit
def quadratic_form_lower_triangle(a, x):
    s = 0.0
    for i in range(len(x)):
        s += a[i, i] * x[i] * x[i]
        for j in range(i):
            s += 2.0 * a[i, j] * x[i] * x[j]
    return s


@example(spd(3))
@njit
def jacobi_rotation(a):
    for p in range(a.shape[0]):
        for q in range(p + 1, a.shape[0]):
            theta = 0.5 * math.atan2(2.0 * a[p, q], a[q, q] - a[p, p] + 5.0)
            c, s = math.cos(theta), math.sin(theta)
            for k in range(a.shape[0]):
                x, y = a[k, p], a[k, q]
                a[k, p] = c * x - s * y
                a[k, q] = s * x + c * y
    return a[0, 0] * a[1, 1] + a[2, 2]


@example(lambda rng: (rng.normal(size=18), np.zeros((5, 3)), 5), const=("like",))
@njit
def rows_that_run_into_the_next(a, like, width):
    """A matrix in a vector: what would be out of bounds in two dimensions is right in one."""
    rows, columns = like.shape
    for i in range(rows - 1):
        for j in range(width):
            a[(i + 1) * columns + j] += 0.3 * a[i * columns + j] * a[i * columns]


@example(lambda rng: (rng.normal(size=18), np.zeros((4, 4)), 3), const=("like",))
@njit
def rows_that_fit(a, like, width):
    """The same on the fast way: what is read is not written again."""
    rows, columns = like.shape
    for i in range(rows - 1):
        for j in range(width):
            a[(i + 1) * columns + j] += 0.3 * a[i * columns + j] * a[i * columns]


@example(lambda rng: (rng.normal(size=(5, 4)),))
@njit
def table_of_sums_in_place(a):
    """Dynamic programming: each entry from the one above and the one before."""
    for i in range(1, a.shape[0]):
        for j in range(1, a.shape[1]):
            a[i, j] += math.tanh(a[i - 1, j]) * a[i, j - 1] + a[i - 1, j - 1]

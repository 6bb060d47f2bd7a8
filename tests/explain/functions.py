"""The functions the reports of these tests are about. Their lines are found by comments."""

import math
from pathlib import Path

import numpy as np
from numba import njit


@njit
def squared(v):
    return v * v  # in the callee


@njit
def decay(x, w, n):
    s = 0.0
    for i in range(n):  # the loop
        s += math.exp(x[i] * w)  # expensive
        x[i] = squared(x[i])  # overwritten
    t = n * 2.0  # inactive
    return s + t


@njit
def halving(x):
    while x > 1.0:  # unknown length
        x = x * x * 0.5
    return x


@njit
def linear(A, x):
    y = A @ x  # with a rule
    z = np.dot(A, A)  # no rule needed
    return y[0] + y[1] * z[0, 0]


@njit
def weighted(p, x):
    e = np.exp(p)  # a new array
    s = 0.0
    for i in range(len(x)):
        for j in range(len(p)):
            s += e[j] * x[i]
    return s


@njit
def products(x, k):
    return k * x * x, k * k  # each a result


@njit
def scaled_and_returned(x, k):
    x[0] *= k
    return k * x  # returned


@njit
def two_arrays(x, y):
    for i in range(len(x)):
        y[i] = x[i] * x[i]


@njit
def choose(x, kind):
    if kind == 0:
        return x
    elif kind == 1:
        return x * x
    return math.exp(x)


@njit
def expressions(a, k):
    b = a * a + 1.0  # an array expression
    return (a * b**k).sum()  # another one


@njit
def starts_from(x0, scale, n):
    x = x0
    for _ in range(n):
        x = x * scale[0]
    return x.sum()


def line_of(comment: str) -> int:
    """Number of the line of this file that ends with a comment."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = [k for k, line in enumerate(lines, 1) if line.endswith(f"# {comment}")]
    return found

"""Functions that every bridge is tried with: one of a number, one of a tuple."""

import numpy as np
from numba import njit


@njit
def energy(x, a, n):
    s = 0.0
    for i in range(x.size - 1):
        s += np.sin(x[i] * a) * x[i + 1] ** n
    return s


@njit
def filtered(x, a):
    y = np.empty_like(x)
    for i in range(x.size):
        y[i] = np.sin(x[i] * a) * x[i - 1]
    return y, y.sum() * a, x.size

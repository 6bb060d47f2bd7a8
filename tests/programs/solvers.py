"""Equations solved inside a program: root finding, linear systems, optimisation steps."""

import math

import numpy as np
from numba import njit

from programs import example


def well_posed(n):
    return lambda rng: (rng.normal(size=(n, n)) + 3.0 * np.eye(n), rng.normal(size=n))


@example(well_posed(3))
@njit
def one_solve(a, b):
    x = np.linalg.solve(a, b)
    return np.sum(x * x)


@example(lambda rng: (*well_posed(3)(rng), 4))
@njit
def solve_in_loop(a, b, steps):
    total = 0.0
    for _ in range(steps):
        b = np.linalg.solve(a, b)
        for i in range(len(b)):
            total += b[i] * b[i]
            b[i] = math.sin(b[i]) + 0.5
    return total


@example(lambda rng: (*well_posed(3)(rng), 3))
@njit
def solve_with_changing_matrix(a, b, steps):
    for k in range(steps):
        x = np.linalg.solve(a, b)
        for i in range(len(b)):
            a[i, i] += 0.1 * x[i] * x[i]
            b[i] += 0.1 * x[i]
    return np.sum(b * b)


@example(lambda rng: (rng.normal(size=(3, 3)) * 0.2, rng.normal(size=3), 0.1, 4))
@njit
def implicit_euler(a, x, h, steps):
    n = len(x)
    for _ in range(steps):
        x = np.linalg.solve(np.eye(n) - h * a, x)
    return np.sum(x * x)


@example(lambda rng: (float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.5, 1.5))))
@njit
def newton_scalar(a, b):
    x = 1.0
    for _ in range(30):
        f = x * x * x + a * x - b
        step = f / (3.0 * x * x + a)
        x -= step
        if abs(step) < 1e-14:
            break
    return x


@example(lambda rng: (float(rng.uniform(0.5, 1.5)), float(rng.uniform(0.5, 1.5))))
@njit
def secant(a, b):
    x0, x1 = 0.2, 1.1
    f0 = x0 * math.exp(a * x0) - b
    k = 0
    while abs(x1 - x0) > 1e-12 and k < 40:
        f1 = x1 * math.exp(a * x1) - b
        x0, x1, f0 = x1, x1 - f1 * (x1 - x0) / (f1 - f0), f1
        k += 1
    return x1 * a


@example(lambda rng: (rng.uniform(0.5, 1.5, size=4), rng.normal(size=4)))
@njit
def simpson_of_a_parameter(c, nodes):
    s = 0.0
    n = 8
    for k in range(n + 1):
        t = k / n
        weight = 1.0 if k == 0 or k == n else (4.0 if k % 2 == 1 else 2.0)
        v = 0.0
        for i in range(len(c)):
            v += c[i] * math.exp(-((t - nodes[i]) ** 2))
        s += weight * math.sqrt(v)
    return s / (3.0 * n)


@example(lambda rng: (rng.uniform(0.5, 1.5, size=2), rng.uniform(0.5, 1.5, size=2)))
@njit
def newton_system(parameters, start):
    x = start.copy()
    f = np.empty(2)
    jacobian = np.empty((2, 2))
    for _ in range(4):
        f[0] = x[0] * x[0] + x[1] * x[1] - 2.0 - parameters[0]
        f[1] = x[0] - parameters[1] * x[1]
        jacobian[0, 0], jacobian[0, 1] = 2.0 * x[0], 2.0 * x[1]
        jacobian[1, 0], jacobian[1, 1] = 1.0, -parameters[1]
        x = x - np.linalg.solve(jacobian, f)
    return x[0] * x[1]


@example(lambda rng: (rng.uniform(0.5, 1.5, size=2), rng.uniform(0.5, 1.5, size=2)))
@njit
def newton_system_of_literals(parameters, x):
    for _ in range(4):
        f = np.array([x[0] * x[0] + x[1] * x[1] - 2.0 - parameters[0], x[0] - parameters[1] * x[1]])
        jacobian = np.array([[2.0 * x[0], 2.0 * x[1]], [1.0, -parameters[1]]])
        x = x - np.linalg.solve(jacobian, f)
    return x[0] * x[1]

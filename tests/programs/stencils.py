"""In-place stencils over time: what is overwritten is needed on the way back."""

import math

import numpy as np
from numba import njit

from programs import example


def grid(n, m):
    return lambda rng: (rng.normal(size=(n, m)), 3)


@example(grid(5, 5))
@njit
def gauss_seidel(u, sweeps):
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])


@example(grid(5, 6))
@njit
def gauss_seidel_nonlinear(u, sweeps):
    for _ in range(sweeps):
        for i in range(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                mean = 0.25 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1])
                u[i, j] = mean + 0.1 * math.sin(u[i, j]) * mean
    s = 0.0
    for i in range(u.shape[0]):
        for j in range(u.shape[1]):
            s += u[i, j] * u[i, j]
    return s


def brusselator_arguments(rng):
    u, v = rng.uniform(0.5, 1.5, size=(4, 4)), rng.uniform(0.5, 1.5, size=(4, 4))
    return u, v, np.zeros((4, 4)), np.zeros((4, 4)), 3.4, 1.0, float(rng.uniform(0.5, 1.0)), 3


@example(brusselator_arguments)
@njit
def brusselator(u, v, u_next, v_next, a, b, alpha, steps):
    n = u.shape[0]
    h = 0.02
    for _ in range(steps):
        for i in range(n):
            up, down = (i + 1) % n, (i - 1) % n
            for j in range(n):
                right, left = (j + 1) % n, (j - 1) % n
                lap_u = u[up, j] + u[down, j] + u[i, right] + u[i, left] - 4.0 * u[i, j]
                lap_v = v[up, j] + v[down, j] + v[i, right] + v[i, left] - 4.0 * v[i, j]
                uuv = u[i, j] * u[i, j] * v[i, j]
                u_next[i, j] = u[i, j] + h * (b + uuv - (a + 1.0) * u[i, j] + alpha * lap_u)
                v_next[i, j] = v[i, j] + h * (a * u[i, j] - uuv + alpha * lap_v)
        for i in range(n):
            for j in range(n):
                u[i, j] = u_next[i, j]
                v[i, j] = v_next[i, j]


@example(lambda rng: (rng.normal(size=(7, 5)), rng.normal(size=(7, 5)), 2))
@njit
def jacobi_2d(a, b, steps):
    for _ in range(steps):
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                b[i, j] = 0.2 * (
                    a[i, j] + a[i, j - 1] + a[i, j + 1] + a[i + 1, j] + a[i - 1, j] * a[i, j]
                )
        for i in range(1, a.shape[0] - 1):
            for j in range(1, a.shape[1] - 1):
                a[i, j] = 0.2 * (b[i, j] + b[i, j - 1] + b[i, j + 1] + b[i + 1, j] + b[i - 1, j])


@example(lambda rng: (rng.normal(size=8), float(rng.uniform(0.1, 0.4)), 4))
@njit
def heat_with_array_swap(start, kappa, steps):
    old = start.copy()
    new = start.copy()
    for _ in range(steps):
        for i in range(1, len(old) - 1):
            new[i] = old[i] + kappa * (old[i - 1] - 2.0 * old[i] + old[i + 1])
        old, new = new, old
    s = 0.0
    for v in old:
        s += v * v * v
    return s


@example(lambda rng: (rng.normal(size=8), 4))
@njit
def burgers_in_place(u, steps):
    for _ in range(steps):
        left = u[0]
        for i in range(1, len(u)):
            here = u[i]
            u[i] = here - 0.1 * here * (here - left)
            left = here


@example(lambda rng: (rng.normal(size=7), 3))
@njit
def red_black(u, sweeps):
    for s in range(2 * sweeps):
        for i in range(1 + s % 2, len(u) - 1, 2):
            u[i] = 0.5 * (u[i - 1] + u[i + 1]) + 0.05 * u[i] * u[i]


@example(lambda rng: (rng.normal(size=6), rng.normal(size=6), float(rng.uniform(0.3, 0.6)), 4))
@njit
def wave_leapfrog(u, u_before, c, steps):
    for _ in range(steps):
        for i in range(1, len(u) - 1):
            new = 2.0 * u[i] - u_before[i] + c * (u[i - 1] - 2.0 * u[i] + u[i + 1])
            u_before[i] = new
        for i in range(1, len(u) - 1):
            u[i], u_before[i] = u_before[i], u[i]


@example(lambda rng: (rng.normal(size=(5, 5)), rng.normal(size=(5, 5)), 1e-2), const=("tolerance",))
@njit
def jacobi_until_converged(u, f, tolerance):
    change = 1.0
    new = u.copy()
    while change > tolerance:
        change = 0.0
        for i in range(1, 4):
            for j in range(1, 4):
                new[i, j] = 0.25 * (
                    u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 0.1 * f[i, j]
                )
        for i in range(1, 4):
            for j in range(1, 4):
                change += (new[i, j] - u[i, j]) ** 2
                u[i, j] = new[i, j]
    return u[2, 2] + u[1, 3] * u[3, 1]


@example(lambda rng: (rng.normal(size=(4, 4, 4)), 2))
@njit
def stencil_3d(u, steps):
    for _ in range(steps):
        for i in range(1, 3):
            for j in range(1, 3):
                for k in range(1, 3):
                    u[i, j, k] = 0.5 * u[i, j, k] * u[i - 1, j, k] + 0.1 * (
                        u[i + 1, j, k]
                        + u[i, j - 1, k]
                        + u[i, j + 1, k]
                        + u[i, j, k - 1]
                        + u[i, j, k + 1]
                    )


@example(lambda rng: (rng.normal(size=(3, 8)),))
@njit
def time_by_space_history(u):
    for t in range(1, u.shape[0]):
        for i in range(1, u.shape[1] - 1):
            u[t, i] = u[t - 1, i] + 0.2 * (u[t - 1, i - 1] - 2.0 * u[t - 1, i] + u[t - 1, i + 1])
            u[t, i] *= 1.0 - 0.1 * u[t, i]


@example(lambda rng: (rng.normal(size=9), 3))
@njit
def slices_as_stencil(u, steps):
    for _ in range(steps):
        u[1:-1] = u[1:-1] + 0.2 * (u[:-2] - 2.0 * u[1:-1] + u[2:])
    return np.sum(u * u)


@example(lambda rng: (rng.normal(size=(6, 7)), rng.uniform(0.5, 1.5, size=(6, 7)), 3))
@njit
def variable_conductivity(u, k, steps):
    n, m = u.shape
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, m - 1):
                east = (k[i, j] + k[i, j + 1]) * (u[i, j + 1] - u[i, j])
                west = (k[i, j] + k[i, j - 1]) * (u[i, j] - u[i, j - 1])
                north = (k[i, j] + k[i + 1, j]) * (u[i + 1, j] - u[i, j])
                south = (k[i, j] + k[i - 1, j]) * (u[i, j] - u[i - 1, j])
                new[i, j] = u[i, j] + 0.05 * (east - west + north - south)
        u, new = new, u
    return np.sum(u * u)


@example(lambda rng: (rng.uniform(0.5, 1.5, size=12), float(rng.uniform(0.1, 0.4)), 3))
@njit
def slope_limiter(u, c, steps):
    """Divides by what may be zero, which is an error; nothing is read where there is no room."""
    n = len(u)
    flux = np.zeros(n)
    for _ in range(steps):
        for i in range(2, n - 1):
            ratio = (u[i - 1] - u[i - 2]) / (u[i] - u[i - 1])
            flux[i] = c * (u[i - 1] + 0.5 * (1.0 - c) * (ratio + abs(ratio)) / (1.0 + abs(ratio)))
        for i in range(2, n - 2):
            u[i] -= flux[i + 1] - flux[i]


@example(lambda rng: (rng.uniform(0.5, 1.5, size=(5, 4, 6)), 2))
@njit
def products_in_three_axes(u, steps):
    n, m, o = u.shape
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(n - 2, 0, -1):
            for j in range(1, m - 1):
                for k in range(1, o - 1):
                    x, y = u[i + 1, j, k] * u[i - 1, j, k], u[i, j + 1, k] * u[i, j - 1, k]
                    new[i, j, k] = 0.4 * u[i, j, k] + 0.2 * (
                        x + y + u[i, j, k - 1] * u[i, j, k + 1]
                    )
        u, new = new, u
    return np.sum(u)


@example(lambda rng: (rng.normal(size=9), 3))
@njit
def chain_of_springs(x, steps):
    """The first and the last have a wall for a neighbour."""
    n = len(x)
    a = np.zeros(n)
    for _ in range(steps):
        for i in range(n):
            left = x[i] - x[i - 1] if i > 0 else x[i]
            right = x[i + 1] - x[i] if i < n - 1 else -x[i]
            a[i] = 0.3 * (right - left) + 0.25 * (right**2 - left**2)
        for i in range(n):
            x[i] += 0.1 * a[i]


@example(lambda rng: (rng.uniform(0.5, 1.5, size=(4, 7)), 3))
@njit
def ring_of_cells(u, steps):
    n, m = u.shape
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                around = u[i, (j + 1) % m] * u[(i - 1) % n, j] - 2.0 * u[i, j] + u[i, (j - 1) % m]
                new[i, j] = u[i, j] + 0.1 * u[i, j] * around
        u, new = new, u
    return np.sum(u * u)


@example(lambda rng: (rng.normal(size=8), rng.normal(size=8)))
@njit
def sum_with_halves_at_the_ends(x, y):
    """The trapezoidal rule; downwards."""
    s, n = 0.0, len(x)
    for i in range(n - 1, -1, -1):
        if i == 0 or i == n - 1:
            s += 0.5 * x[i] * y[i]
        else:
            s += x[i] * math.sin(y[i])
        y[i] = s
    return s


@example(lambda rng: (rng.normal(size=(4, 6)), 0.3, 2))
@njit
def neighbours_within_a_grid(u, rate, steps):
    """Each bond adds to the rate of its cells; there are none across the border."""
    n, m = u.shape
    new = np.zeros((n, m))
    for _ in range(steps):
        for i in range(n):
            for j in range(m):
                s = 0.0
                if i > 0:
                    s += u[i - 1, j] * u[i, j]
                if i < n - 1:
                    s += u[i + 1, j] * u[i, j]
                if j > 0:
                    s += u[i, j - 1] ** 2
                if j < m - 1:
                    s += u[i, j + 1] * u[i, j]
                new[i, j] = rate * s
        for i in range(n):
            for j in range(m):
                u[i, j] += 0.1 * new[i, j]


@example(lambda rng: (rng.normal(size=(5, 4)), 0.2, 2))
@njit
def nearest_within_an_image(u, rate, steps):
    n, m = u.shape
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(n):
            above, below = max(i - 1, 0), min(i + 1, n - 1)
            for j in range(m):
                c = u[i, j]
                around = u[above, j] + u[below, j] + u[i, max(j - 1, 0)] + u[i, min(j + 1, m - 1)]
                new[i, j] = c + rate * ((around - 4.0 * c) * (1.0 + c * c) + c - c**3)
        u, new = new, u
    return np.sum(u * u)


@example(lambda rng: (rng.uniform(0.5, 1.5, size=(5, 7)), rng.uniform(0.5, 1.5, size=(5, 6)), 2))
@njit
def conductivity_in_a_square(u, c, steps):
    """One length for both axes: how long the rows of the arrays are, is not known."""
    n = u.shape[0]
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(1, n - 1):
            for j in range(1, n - 1):
                flux = (c[i, j] + c[i + 1, j]) * (u[i + 1, j] - u[i, j])
                flux -= (c[i, j] + c[i - 1, j]) * (u[i, j] - u[i - 1, j])
                flux += c[i, j + 1] * (u[i, j + 1] - u[i, j]) * (u[i, j] - u[i, j - 1])
                new[i, j] = u[i, j] + 0.1 * flux
        u, new = new, u
    return np.sum(u * u)


@example(lambda rng: (rng.uniform(0.5, 1.5, size=(5, 6, 8)), 2))
@njit
def products_in_a_cube(u, steps):
    n = u.shape[0]
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(n - 2, 0, -1):
            for j in range(1, n - 1):
                for k in range(1, n - 1):
                    x, y = u[i + 1, j, k] * u[i - 1, j, k], u[i, j + 1, k] * u[i, j - 1, k]
                    z = u[i, j, k - 1] * u[i, j, k + 1]
                    new[i, j, k] = 0.4 * u[i, j, k] + 0.2 * (x + y + z)
        u, new = new, u
    return np.sum(u)


@example(lambda rng: (rng.uniform(0.5, 1.5, size=(5, 9)), 2))
@njit
def every_second_row_upwards(u, steps):
    n = u.shape[0]
    u, new = u.copy(), u.copy()
    for _ in range(steps):
        for i in range(n - 2, 0, -2):
            for j in range(1, n - 1):
                around = u[i, j + 1] * u[i, j - 1] + u[i + 1, j] * u[i - 1, j]
                new[i, j] = u[i, j] + 0.1 * (around - u[i, j] ** 2) * (u[i, j + 1] - u[i, j])
        u, new = new, u
    return np.sum(u)

"""Simulations in time: Runge-Kutta, leapfrog, maps, event-like switches."""

import math

import numpy as np
from numba import njit

from programs import example


@example(lambda rng: (*(float(v) for v in rng.uniform(0.8, 1.2, size=3)), 10.0, 28.0, 8 / 3, 20))
@njit
def lorenz_rk4(x, y, z, sigma, rho, beta, steps):
    h = 0.01
    for _ in range(steps):
        ax, ay, az = sigma * (y - x), x * (rho - z) - y, x * y - beta * z
        px, py, pz = x + 0.5 * h * ax, y + 0.5 * h * ay, z + 0.5 * h * az
        bx, by, bz = sigma * (py - px), px * (rho - pz) - py, px * py - beta * pz
        px, py, pz = x + 0.5 * h * bx, y + 0.5 * h * by, z + 0.5 * h * bz
        cx, cy, cz = sigma * (py - px), px * (rho - pz) - py, px * py - beta * pz
        px, py, pz = x + h * cx, y + h * cy, z + h * cz
        dx, dy, dz = sigma * (py - px), px * (rho - pz) - py, px * py - beta * pz
        x += h * (ax + 2.0 * bx + 2.0 * cx + dx) / 6.0
        y += h * (ay + 2.0 * by + 2.0 * cy + dy) / 6.0
        z += h * (az + 2.0 * bz + 2.0 * cz + dz) / 6.0
    return x * y + z


@njit
def lorenz_field(state, parameters, out):
    out[0] = parameters[0] * (state[1] - state[0])
    out[1] = state[0] * (parameters[1] - state[2]) - state[1]
    out[2] = state[0] * state[1] - parameters[2] * state[2]


@example(lambda rng: (rng.uniform(0.5, 1.5, size=3), np.array([10.0, 28.0, 8 / 3]), 12))
@njit
def lorenz_rk4_arrays(start, parameters, steps):
    h = 0.01
    n = len(start)
    state = start.copy()
    k1, k2, k3, k4 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    trial = np.empty(n)
    for _ in range(steps):
        lorenz_field(state, parameters, k1)
        for i in range(n):
            trial[i] = state[i] + 0.5 * h * k1[i]
        lorenz_field(trial, parameters, k2)
        for i in range(n):
            trial[i] = state[i] + 0.5 * h * k2[i]
        lorenz_field(trial, parameters, k3)
        for i in range(n):
            trial[i] = state[i] + h * k3[i]
        lorenz_field(trial, parameters, k4)
        for i in range(n):
            state[i] += h / 6.0 * (k1[i] + 2.0 * k2[i] + 2.0 * k3[i] + k4[i])
    return state[0] + state[1] * state[2]


@njit
def kepler_acceleration(x, y, mu):
    r2 = x * x + y * y
    r3 = r2 * math.sqrt(r2)
    return -mu * x / r3, -mu * y / r3


@example(
    lambda rng: (
        rng.uniform(0.9, 1.1, size=4) * np.array([1.0, 0.1, 0.1, 1.0]),
        float(rng.uniform(0.9, 1.1)),
        25,
    )
)
@njit
def kepler_rk4(state, mu, steps):
    h = 0.05
    x, y, u, v = state[0], state[1], state[2], state[3]
    for _ in range(steps):
        a1, b1 = kepler_acceleration(x, y, mu)
        u2, v2 = u + 0.5 * h * a1, v + 0.5 * h * b1
        a2, b2 = kepler_acceleration(x + 0.5 * h * u, y + 0.5 * h * v, mu)
        u3, v3 = u + 0.5 * h * a2, v + 0.5 * h * b2
        a3, b3 = kepler_acceleration(x + 0.5 * h * u2, y + 0.5 * h * v2, mu)
        u4, v4 = u + h * a3, v + h * b3
        a4, b4 = kepler_acceleration(x + h * u3, y + h * v3, mu)
        x += h * (u + 2.0 * u2 + 2.0 * u3 + u4) / 6.0
        y += h * (v + 2.0 * v2 + 2.0 * v3 + v4) / 6.0
        u += h * (a1 + 2.0 * a2 + 2.0 * a3 + a4) / 6.0
        v += h * (b1 + 2.0 * b2 + 2.0 * b3 + b4) / 6.0
    energy = 0.5 * (u * u + v * v) - mu / math.sqrt(x * x + y * y)
    return energy + x * v - y * u + x


@example(
    lambda rng: (
        rng.normal(size=(4, 2)),
        rng.normal(size=(4, 2)) * 0.1,
        rng.uniform(0.5, 1.0, size=4),
        4,
    )
)
@njit
def n_body_leapfrog(positions, velocities, masses, steps):
    h = 0.02
    n = positions.shape[0]
    for _ in range(steps):
        for i in range(n):
            for k in range(2):
                positions[i, k] += 0.5 * h * velocities[i, k]
        for i in range(n):
            ax, ay = 0.0, 0.0
            for j in range(n):
                if i != j:
                    dx = positions[j, 0] - positions[i, 0]
                    dy = positions[j, 1] - positions[i, 1]
                    r2 = dx * dx + dy * dy + 0.1
                    f = masses[j] / (r2 * math.sqrt(r2))
                    ax += f * dx
                    ay += f * dy
            velocities[i, 0] += h * ax
            velocities[i, 1] += h * ay
        for i in range(n):
            for k in range(2):
                positions[i, k] += 0.5 * h * velocities[i, k]


@example(lambda rng: (float(rng.uniform(2.5, 3.2)), float(rng.uniform(0.2, 0.8)), 12))
@njit
def logistic_map(r, x, steps):
    for _ in range(steps):
        x = r * x * (1.0 - x)
    return x


@example(lambda rng: (rng.uniform(0.5, 1.5, size=4), rng.uniform(1.0, 2.0, size=2), 15))
@njit
def lotka_volterra_euler(rates, start, steps):
    trajectory = np.empty((steps + 1, 2))
    trajectory[0, 0] = start[0]
    trajectory[0, 1] = start[1]
    for t in range(steps):
        prey, predator = trajectory[t, 0], trajectory[t, 1]
        trajectory[t + 1, 0] = prey + 0.05 * (rates[0] * prey - rates[1] * prey * predator)
        trajectory[t + 1, 1] = predator + 0.05 * (rates[2] * prey * predator - rates[3] * predator)
    s = 0.0
    for t in range(steps + 1):
        s += math.log(trajectory[t, 0]) ** 2 + trajectory[t, 1]
    return s


@example(lambda rng: (float(rng.uniform(1.0, 2.0)), float(rng.uniform(0.6, 0.9)), 40))
@njit
def bouncing_ball(height, restitution, steps):
    x, v = height, 0.0
    h = 0.04
    for _ in range(steps):
        v -= 9.81 * h
        x += v * h
        if x < 0.0:
            x = -restitution * x
            v = -restitution * v
    return x + 0.1 * v


@example(lambda rng: (rng.uniform(0.5, 1.5, size=3), rng.uniform(-1.0, 1.0, size=3), 20))
@njit
def van_der_pol_with_forcing(parameters, forcing, steps):
    mu, omega, amplitude = parameters[0], parameters[1], parameters[2]
    x, v = 0.5, 0.0
    cost = 0.0
    for t in range(steps):
        force = forcing[t % len(forcing)] * amplitude * math.cos(omega * t * 0.1)
        x, v = x + 0.1 * v, v + 0.1 * (mu * (1.0 - x * x) * v - x + force)
        cost += 0.1 * (x * x + 0.2 * v * v)
    return cost


@example(lambda rng: (rng.uniform(0.3, 0.6, size=6), rng.uniform(0.5, 1.0, size=5), 5))
@njit
def spring_chain_symplectic(positions, stiffness, steps):
    n = len(positions)
    velocities = np.zeros(n)
    for _ in range(steps):
        for i in range(n - 1):
            f = stiffness[i] * (positions[i + 1] - positions[i] - 0.3) ** 3
            velocities[i] += f
            velocities[i + 1] -= f
        for i in range(n):
            positions[i] += 0.2 * velocities[i]
    return positions[0] * positions[n - 1]


@example(lambda rng: (float(rng.uniform(80, 120)), 100.0, float(rng.uniform(0.1, 0.3)), 0.05, 12))
@njit
def binomial_tree_american_put(spot, strike, volatility, rate, n):
    dt = 1.0 / n
    up = math.exp(volatility * math.sqrt(dt))
    q = (math.exp(rate * dt) - 1.0 / up) / (up - 1.0 / up)
    discount = math.exp(-rate * dt)
    values = np.empty(n + 1)
    for i in range(n + 1):
        values[i] = max(strike - spot * up ** (2 * i - n), 0.0)
    for t in range(n - 1, -1, -1):
        for i in range(t + 1):
            hold = discount * (q * values[i + 1] + (1.0 - q) * values[i])
            values[i] = max(hold, strike - spot * up ** (2 * i - t))
    return values[0]


@example(lambda rng: (100.0, float(rng.uniform(80, 120)), float(rng.uniform(0.1, 0.4)), 0.03, 1.5))
@njit
def black_scholes(spot, strike, volatility, rate, time):
    root = volatility * math.sqrt(time)
    d1 = (math.log(spot / strike) + (rate + 0.5 * volatility * volatility) * time) / root
    d2 = d1 - root
    cdf1 = 0.5 * math.erfc(-d1 / math.sqrt(2.0))
    cdf2 = 0.5 * math.erfc(-d2 / math.sqrt(2.0))
    return spot * cdf1 - strike * math.exp(-rate * time) * cdf2


@example(lambda rng: (rng.normal(size=(5, 3)), rng.normal(size=(5, 3)), rng.uniform(1, 2, 5), 2))
@njit
def planets(x, v, mass, steps):
    """Every pair once, and positions in the rows of an array."""
    n = len(x)
    for _ in range(steps):
        for i in range(n):
            for j in range(i + 1, n):
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                r2 = dx * dx + dy * dy + dz * dz + 0.1
                w = 0.01 / (r2 * math.sqrt(r2))
                for k, d in enumerate((dx, dy, dz)):
                    v[i, k] += w * mass[j] * d
                    v[j, k] -= w * mass[i] * d
        x += 0.01 * v


@example(lambda rng: (rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), 2, 5, 3))
@njit
def planets_in_a_part_of_an_array(x, v, first, last, steps):
    for _ in range(steps):
        for i in range(last - 1, first - 1, -1):
            for j in range(first, last):
                r2 = 0.1
                for k in range(x.shape[1]):
                    r2 += (x[j, k] - x[i, k]) ** 2
                for k in range(x.shape[1]):
                    v[i, k] += (x[j, k] - x[i, k]) / (100.0 * r2 * math.sqrt(r2))
        x += 0.01 * v


@example(lambda rng: (rng.normal(size=(4, 3)), rng.normal(size=(4, 3)), 4))
@njit
def distances_in_more_and_more_dimensions(x, v, steps):
    for t in range(1, steps):
        for i in range(len(x)):
            for j in range(len(x)):
                r2 = 0.1
                for k in range(t - 1, -1, -1):
                    r2 += (x[j, k] - x[i, k]) ** 2
                v[i, 0] += 0.1 / r2
        x += 0.01 * v

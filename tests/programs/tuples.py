"""Tuples and named tuples of numbers, arrays, integers and strings, as arguments."""

from collections import namedtuple

import numpy as np
from numba import njit

from programs import example

Layer = namedtuple("Layer", "weights bias size activation")
Model = namedtuple("Model", "first second scale")
State = namedtuple("State", "position velocity time")


def layer(rng, rows, columns, name):
    return Layer(rng.normal(size=(rows, columns)), float(rng.normal()), columns, name)


@example(
    lambda rng: (
        Model(layer(rng, 3, 2, "tanh"), layer(rng, 1, 3, None), 1.3),
        rng.normal(size=2),
    )
)
@njit
def network(model, x):
    hidden = np.tanh(model.first.weights @ x + model.first.bias)
    out = model.second.weights @ hidden * model.scale
    return out[0] + model.second.bias * model.second.size


@example(lambda rng: ((rng.normal(size=4), rng.normal(size=4), np.arange(4)), 1.5))
@njit
def arrays_and_indices(q, x):
    a, b, order = q
    a[0] = b[1] * x
    s = 0.0
    for k in order:
        s += a[k] * b[k] * k
    return s


@example(lambda rng: (State(rng.normal(size=3) + 0j, rng.normal(size=3) * 1j, (0.5, 2)), 4))
@njit
def integrated_in_place(state, n):
    h = state.time[0] / state.time[1]
    for _ in range(n):
        for i in range(3):
            state.velocity[i] -= h * np.sin(state.position[i])
            state.position[i] += h * state.velocity[i]


@example(lambda rng: ((float(rng.normal()), 1 + 2j, (3, float(rng.normal())), True),))
@njit
def numbers_of_all_kinds(t):
    x, z, (n, y), flag = t
    w = z * x if flag else z
    return abs(w) * n + y * x

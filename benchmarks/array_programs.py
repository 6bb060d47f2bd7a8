"""Ten array programs as they are written with NumPy: whole arrays, slices, few explicit loops.

Each returns a number and is small to run: what is measured is how long it takes to compile. None is
decorated: `compile_arrays.fresh` makes a new dispatcher of a program, and of the functions it
calls, for every measurement.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


def waves(pressure, velocity_x, velocity_y, speed, steps):
    """Sound on a staggered grid, three updates by slices in each step; energy in the end."""
    for _ in range(steps):
        velocity_x[1:-1, :] -= 0.4 * (pressure[1:, :] - pressure[:-1, :])
        velocity_y[:, 1:-1] -= 0.4 * (pressure[:, 1:] - pressure[:, :-1])
        pressure[:, :] -= (
            0.4
            * speed**2
            * (velocity_x[1:, :] - velocity_x[:-1, :] + velocity_y[:, 1:] - velocity_y[:, :-1])
        )
    return np.sum(pressure**2) + np.sum(velocity_x**2) + np.sum(velocity_y**2)


def diffuse(field, rate, steps):
    """Heat in a plate, from one array to the other and back."""
    other = field.copy()
    for _ in range(steps):
        other[1:-1, 1:-1] = field[1:-1, 1:-1] + rate * (
            field[:-2, 1:-1]
            + field[2:, 1:-1]
            + field[1:-1, :-2]
            + field[1:-1, 2:]
            - 4.0 * field[1:-1, 1:-1]
        )
        field[1:-1, 1:-1] = other[1:-1, 1:-1] + rate * (
            other[:-2, 1:-1]
            + other[2:, 1:-1]
            + other[1:-1, :-2]
            + other[1:-1, 2:]
            - 4.0 * other[1:-1, 1:-1]
        )
    return np.sum(field * field)


def diffuse3(field, conductivity, steps):
    """Heat in a block whose conductivity varies."""
    for _ in range(steps):
        inner = field[1:-1, 1:-1, 1:-1]
        change = (
            (field[2:, 1:-1, 1:-1] - 2.0 * inner + field[:-2, 1:-1, 1:-1])
            + (field[1:-1, 2:, 1:-1] - 2.0 * inner + field[1:-1, :-2, 1:-1])
            + (field[1:-1, 1:-1, 2:] - 2.0 * inner + field[1:-1, 1:-1, :-2])
        )
        field[1:-1, 1:-1, 1:-1] += conductivity[1:-1, 1:-1, 1:-1] * change
    return np.mean(field**2)


def product(alpha, beta, a, b, c, d):
    """Two matrix products, scaled and added to a third matrix."""
    d[:] = alpha * a @ b @ c + beta * d
    return np.sum(d**2)


def relu(x):
    """The positive part."""
    return np.maximum(x, 0.0)


def softmax(x):
    """Rows that are positive and add up to one."""
    largest = np.empty((x.shape[0], 1))
    for i in range(x.shape[0]):
        largest[i, 0] = np.max(x[i])
    weights = np.exp(x - largest)
    return weights / np.sum(weights, axis=1).reshape(-1, 1)


def network(images, w1, b1, w2, b2, w3, b3, wanted):
    """Three dense layers and the cross entropy of what they say."""
    x = relu(images @ w1 + b1)
    x = relu(x @ w2 + b2)
    x = softmax(x @ w3 + b3)
    return -np.sum(wanted * np.log(x)) / images.shape[0]


def convolve2(image, kernel, bias):
    """An image through several kernels, window by window, with a nonlinearity."""
    k = kernel.shape[1]
    height, width = image.shape[0] - k + 1, image.shape[1] - k + 1
    out = np.empty((kernel.shape[0], height, width))
    for i in range(height):
        for j in range(width):
            window = image[i : i + k, j : j + k]
            for c in range(kernel.shape[0]):
                out[c, i, j] = np.sum(window * kernel[c]) + bias[c]
    return np.mean(np.tanh(out) ** 2)


def masks(positions, charges, cutoff):
    """Pairs that are near, chosen by masks; a bounded potential elsewhere."""
    total = 0.0
    for i in range(len(positions)):
        distance = np.abs(positions - positions[i]) + 0.5
        near = distance < cutoff
        total += charges[i] * np.sum(charges[near] / distance[near])
        total += np.sum(np.where(near, 0.0, np.exp(-distance)))
    return total


def moments(data):
    """Mean, spread and correlation of the columns of a table."""
    n = data.shape[0]
    centred = data - np.sum(data, axis=0) / n
    spread = np.sqrt(np.sum(centred**2, axis=0) / n)
    spread = np.where(spread <= 0.1, 1.0, spread)
    scaled = centred / (np.sqrt(1.0 * n) * spread)
    correlation = scaled.T @ scaled
    return np.sum(correlation**2) + np.mean(data**3) + np.var(data)


def filters(signal, taps, decay):
    """A filter with few taps, a running sum, and the roughness of what comes out."""
    smooth = np.zeros(len(signal) - len(taps) + 1)
    for k in range(len(taps)):
        smooth += taps[k] * signal[k : len(signal) - len(taps) + 1 + k]
    drift = np.cumsum(smooth) * decay
    rough = np.diff(smooth - drift)
    return np.dot(rough, rough) + np.sqrt(np.sum(drift**2) + 1.0)


def attention(x, queries, keys, values, wanted):
    """One head of attention and its squared error."""
    q, k, v = x @ queries, x @ keys, x @ values
    weights = softmax(q @ k.T / np.sqrt(1.0 * k.shape[1]))
    return np.mean((weights @ v - wanted) ** 2)


@dataclass(frozen=True)
class Program:
    """A program, its arguments, and the numbers of those it is differentiated by."""

    function: Callable
    arguments: tuple
    argnums: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name of the program."""
        return self.function.__name__


def programs() -> list[Program]:
    """All ten, with reproducible arguments."""
    rng = np.random.default_rng(0)
    uniform = rng.uniform

    def normal(*shapes: tuple[int, ...]) -> tuple:
        return tuple(rng.normal(size=shape) for shape in shapes)

    grid = (5, 4, 5)
    layers = normal((6, 5), (5,), (5, 4), (4,), (4, 3), (3,))
    wanted = np.eye(3)[[0, 2, 1, 0]]
    speed = uniform(0.5, 1.0, size=(5, 4))
    return [
        Program(waves, (*normal((5, 4), (6, 4), (5, 5)), speed, 3), (0, 3)),
        Program(diffuse, (*normal((6, 5)), 0.2, 3), (0, 1)),
        Program(diffuse3, (*normal(grid), uniform(0.05, 0.1, size=grid), 2), (0, 1)),
        Program(product, (1.5, 0.7, *normal((3, 4), (4, 5), (5, 2), (3, 2))), (0, 1, 2, 3, 4, 5)),
        Program(network, (*normal((4, 6)), *layers, wanted), (1, 2, 3, 4, 5, 6)),
        Program(convolve2, normal((6, 5), (2, 3, 3), (2,)), (0, 1, 2)),
        Program(masks, (*normal((8,)), uniform(0.5, 1.5, size=8), 1.3), (0, 1)),
        Program(moments, normal((6, 3)), (0,)),
        Program(filters, (*normal((12,), (3,)), 0.3), (0, 1, 2)),
        Program(attention, normal((5, 4), (4, 3), (4, 3), (4, 2), (5, 2)), (0, 1, 2, 3)),
    ]

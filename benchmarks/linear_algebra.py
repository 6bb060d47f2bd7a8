"""What gradients of linear algebra and of chains of array expressions cost.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.linear_algebra [--results benchmarks/results.json]
                                                               [--rounds 9]

Value and cotangents of all arguments over the value, taking turns. Times are processor times of
one thread, so BLAS must have one as well: the module asks for that before NumPy is loaded.
"""

import os
from collections.abc import Callable
from statistics import median, quantiles

os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import numpy as np
from numba import njit

import activerules as ar
from activerules.testing import directional_derivative
from benchmarks.commands import run_command
from benchmarks.run import environment
from benchmarks.vector_functions import seconds

SIZE = 400
LENGTHS = (1_000, 30_000, 300_000)


@njit
def product(a, b):
    return np.sum(a @ b)


@njit
def solve(a, b):
    return np.sum(np.linalg.solve(a, b))


@njit
def cholesky(a):
    return np.sum(np.linalg.cholesky(a))


@njit
def inverse(a):
    return np.sum(np.linalg.inv(a))


@njit
def orthogonal(a):
    q, r = np.linalg.qr(a)
    return np.sum(q) + np.sum(r)


@njit
def eigenvalues(a):
    values, vectors = np.linalg.eigh(a)
    return np.sum(values) + np.sum(vectors * vectors * vectors)


@njit
def singular_values(a):
    u, s, v = np.linalg.svd(a)
    return np.sum(s) + np.sum(u * u * u) + np.sum(v)


@njit
def ten_steps(a, b):
    for _ in range(10):
        a = a + 0.1 * (b - a * a)
    return np.sum(a)


def programs() -> list[tuple[str, Callable, tuple[np.ndarray, ...], bool]]:
    """What the page calls each, the function, its arguments, and whether they are symmetric."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, SIZE, SIZE))
    positive = a @ a.T / SIZE + np.eye(SIZE)
    found = [
        ("`a @ b`", product, (a, b), False),
        ("`solve(a, b)`, a vector", solve, (a, b[0].copy()), False),
        ("`solve(a, b)`, a matrix", solve, (a, b), False),
        ("`cholesky(a)`", cholesky, (positive,), True),
        ("`inv(a)`", inverse, (positive,), False),
        ("`qr(a)`", orthogonal, (a,), False),
        ("`eigh(a)`", eigenvalues, (a + a.T,), True),
        ("`svd(a)`", singular_values, (a,), False),
    ]
    for length in LENGTHS:
        pair = tuple(rng.uniform(0.2, 0.8, size=(2, length)))
        found.append(
            (f"ten times `a + 0.1 * (b - a * a)`, {length:,} entries", ten_steps, pair, False)
        )
    return found


def calls(
    function: Callable, args: tuple[np.ndarray, ...], symmetric: bool
) -> tuple[Callable[[], float], Callable[[], float]]:
    """The value, and value and gradient, of which one directional derivative has been compared."""
    shadows = tuple(np.zeros_like(arg) for arg in args)
    annotated = [ar.Duplicated(*pair) for pair in zip(args, shadows, strict=True)]

    def gradient() -> float:
        for shadow in shadows:
            shadow.fill(0.0)
        return ar.autodiff(ar.ReverseWithPrimal, function, ar.Active, *annotated)[1]

    np.testing.assert_allclose(gradient(), function(*args), rtol=1e-12)
    rng = np.random.default_rng(1)
    directions = tuple(rng.normal(size=arg.shape) for arg in args)
    if symmetric:
        directions = tuple(direction + direction.T for direction in directions)
    directions = tuple(direction / np.linalg.norm(direction) for direction in directions)
    expected, error = directional_derivative(function, args, directions)
    found = sum(np.sum(s * d) for s, d in zip(shadows, directions, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=10 * error)
    return lambda: function(*args), gradient


def measure(rounds: int) -> list[dict]:
    """A row per program: milliseconds of the value, the ratio of both to it, and its noise."""
    rows = []
    for name, *program in programs():
        value, gradient = calls(*program)
        times = [(seconds(value), seconds(gradient)) for _ in range(rounds)]
        low, ratio, high = quantiles([both / one for one, both in times], n=4, method="inclusive")
        milliseconds = 1e3 * median(one for one, _ in times)
        noise = (high - low) / 2
        rows.append({"name": name, "milliseconds": milliseconds, "ratio": ratio, "noise": noise})
    return rows


def measured(rounds: int) -> tuple[dict, list[str]]:
    """The entry of the file of results, and the lines to print."""
    rows = measure(rounds)
    lines = [
        f"{row['name']:50s} {row['milliseconds']:8.3f} ms  {row['ratio']:.2f} ± {row['noise']:.2f}"
        for row in rows
    ]
    found = {"size": SIZE, "rounds": rounds, "programs": rows}
    return {"environment": environment(), **found}, lines


if __name__ == "__main__":
    run_command(__doc__, "linear_algebra", measured, rounds=9)

"""What second derivatives, several tangents at once, and sparse Jacobians cost.

    python -m benchmarks.higher_order [--results benchmarks/results.json] [--rounds 15]

Each row is a ratio of processor times within one round: a product with the Hessian over a gradient,
a Hessian over n gradients, 8 or 16 tangents over the function itself, a sparse Jacobian over one
`jvp`. All are called from Python.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median, quantiles

import numpy as np
from numba import njit
from scipy.sparse import diags_array

import activerules as ar
from activerules.testing import directional_derivative
from benchmarks.commands import run_command
from benchmarks.run import environment
from benchmarks.vector_functions import seconds

SIZES = (64, 256, 1_024)
LONG = 10_000
WIDTHS = (8, 16)


@njit
def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100.0 * (x[i + 1] - x[i] * x[i]) ** 2 + (1.0 - x[i]) ** 2
    return total


@njit
def polynomial(x):
    total = 0.0
    for i in range(len(x)):
        total += ((0.3 * x[i] + 1.0) * x[i] - 2.0) * x[i] + 0.5
    return total


@njit
def waves(x):
    total = 0.0
    for i in range(len(x)):
        total += math.sin(x[i]) * math.exp(-x[i])
    return total


@njit
def diffusion(x):
    result = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        result[i] = x[i - 1] - 2.0 * x[i] + x[i + 1] + x[i] * x[i]
    return result


@njit
def reaction(x):
    result = np.zeros_like(x)
    for i in range(1, len(x) - 1):
        result[i] = x[i - 1] - 2.0 * x[i] + x[i + 1] + math.exp(x[i])
    return result


# what the page calls them
SUMS = {"Rosenbrock": rosenbrock, "polynomial": polynomial, "`sin(x) * exp(-x)`": waves}
RESULTS = {"tridiagonal": diffusion, "the same with `exp`": reaction}


@dataclass(frozen=True)
class Row:
    """What is timed beside what, and how many times the second counts."""

    name: str
    call: Callable[[], object]
    unit: Callable[[], object]
    units: int = 1


def agrees(f: Callable, x: np.ndarray, direction: np.ndarray, found: np.ndarray) -> None:
    """Compare a derivative along a direction with finite differences; AssertionError."""
    expected, error = directional_derivative(f, (x,), (direction,))
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=10 * np.max(error) + 1e-9)


def second_derivatives(rng: np.random.Generator) -> Iterator[Row]:
    """Products with a Hessian, and Hessians."""
    for name, f in SUMS.items():
        gradient, hessian = ar.grad(f), ar.hessian(f)
        for n in SIZES:
            x, v = rng.uniform(-1.0, 1.0, size=(2, n))
            agrees(gradient, x, v, ar.hvp(f, x, v))
            agrees(gradient, x, v, hessian(x) @ v)
            yield Row(
                f"`hvp` over `grad`: {name}, n = {n:,}",
                lambda f=f, x=x, v=v: ar.hvp(f, x, v),
                lambda gradient=gradient, x=x: gradient(x),
            )
            yield Row(
                f"`hessian` over n `grad`: {name}, n = {n:,}",
                lambda hessian=hessian, x=x: hessian(x),
                lambda gradient=gradient, x=x: gradient(x),
                n,
            )


def lanes(rng: np.random.Generator) -> Iterator[Row]:
    """Several tangents in one run."""
    x = rng.uniform(-1.0, 1.0, size=LONG)
    for name, f in SUMS.items():
        for width in WIDTHS:
            tangents = tuple(rng.normal(size=(width, LONG)))

            def run(f: Callable = f, tangents: tuple = tangents) -> tuple:
                return ar.autodiff(ar.Forward, f, ar.BatchDuplicated(x, tangents))

            agrees(f, x, tangents[0], run()[0])
            yield Row(f"{width} tangents over the function: {name}", run, lambda f=f: f(x))


def sparse(rng: np.random.Generator) -> Iterator[Row]:
    """Jacobians of three diagonals."""
    x, v = rng.uniform(-1.0, 1.0, size=(2, LONG))
    pattern = diags_array([np.ones(LONG)] * 3, offsets=[-1, 0, 1], shape=(LONG, LONG))
    for name, f in RESULTS.items():
        jacobian = ar.jacobian(f, sparsity=pattern)
        agrees(f, x, v, jacobian(x) @ v)
        yield Row(
            f"sparse Jacobian over `jvp`: {name}",
            lambda jacobian=jacobian: jacobian(x),
            lambda f=f: ar.jvp(f, (x,), (v,)),
        )


def per_call(call: Callable[[], object]) -> float:
    """Seconds of one call, of as many as take a millisecond."""
    calls = max(1, round(1e-3 / max(seconds(call), 1e-6)))
    return seconds(lambda: [call() for _ in range(calls)]) / calls


def measured(row: Row, rounds: int) -> dict:
    """Microseconds of what is timed, its ratio to the unit, and the noise of that."""
    row.call(), row.unit()
    times = [(per_call(row.call), per_call(row.unit) * row.units) for _ in range(rounds)]
    ratios = [long / unit for long, unit in times]
    low, ratio, high = quantiles(ratios, n=4, method="inclusive")
    microseconds = 1e6 * median(long for long, _ in times)
    noise = (high - low) / 2
    return {"name": row.name, "microseconds": microseconds, "ratio": ratio, "noise": noise}


def rows() -> Iterator[Row]:
    """All of them; each has been compared with finite differences."""
    rng = np.random.default_rng(0)
    yield from second_derivatives(rng)
    yield from lanes(rng)
    yield from sparse(rng)


def all_measured(rounds: int) -> tuple[dict, list[str]]:
    """The entry of the file of results, and the lines to print."""
    found = [measured(row, rounds) for row in rows()]
    lines = [
        f"{row['name']:60s} {row['microseconds']:9.1f} µs {row['ratio']:6.2f} ± {row['noise']:.2f}"
        for row in found
    ]
    return {"environment": environment(), "rounds": rounds, "rows": found}, lines


if __name__ == "__main__":
    run_command(__doc__, "higher_order", all_measured, rounds=15)

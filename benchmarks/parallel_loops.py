"""Gradients of `prange` loops: in threads, by `parallel`, over those without.

    python -m benchmarks.parallel_loops [--results benchmarks/results.json] [--rounds 9]

Times are by the clock: what counts is how long one waits while all cores work.
"""

from collections.abc import Callable
from statistics import median, quantiles
from time import perf_counter

import numpy as np
from numba import get_num_threads, njit, prange

import activerules as ar
from benchmarks.commands import run_command


def attraction(x, force):
    """Forces between bodies: each iteration reads all positions."""
    for i in prange(len(x)):
        for d in range(3):
            force[i, d] = 0.0
        for j in range(len(x)):
            r2 = 0.01
            for d in range(3):
                r2 += (x[i, d] - x[j, d]) ** 2
            w = 1.0 / (r2 * np.sqrt(r2))
            for d in range(3):
                force[i, d] += (x[j, d] - x[i, d]) * w
    return (force * force).sum()


def diffusion(u, new, steps):
    """A stencil in time: each iteration reads three rows."""
    for _ in range(steps):
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                flow = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j]
                new[i, j] = u[i, j] + 0.1 * flow * (1.0 + u[i, j] ** 2)
        for i in prange(1, u.shape[0] - 1):
            for j in range(1, u.shape[1] - 1):
                u[i, j] = new[i, j]
    return (u * u).sum()


def responses(x, w, out):
    """A function of each entry."""
    for i in prange(len(x)):
        out[i] = np.exp(-w[0] * x[i]) * np.sin(w[1] * x[i]) + np.tanh(x[i])
    return out.sum()


def likelihood(x, mean, scale):
    """A sum over points; all of them read the same parameters."""
    s = 0.0
    for i in prange(x.shape[0]):
        largest = -1e30
        terms = np.empty(mean.shape[0])
        for k in range(mean.shape[0]):
            q = 0.0
            for d in range(x.shape[1]):
                q += ((x[i, d] - mean[k, d]) * scale[k, d]) ** 2
            terms[k] = -0.5 * q
            largest = max(largest, terms[k])
        e = 0.0
        for k in range(mean.shape[0]):
            e += np.exp(terms[k] - largest)
        s += largest + np.log(e)
    return s


def pendulums(start, p, angle):
    """Many independent simulations of 1,000 steps, each with a tape."""
    for i in prange(len(start)):
        x, v = start[i], 0.0
        for _ in range(1000):
            v -= 0.01 * (p[0] * np.sin(x) + p[1] * v)
            x += 0.01 * v
        angle[i] = x
    return angle.sum()


def programs(part: float = 1.0) -> list[tuple[str, Callable, tuple]]:
    """Name, function, arguments; `part` of the size that is measured."""
    rng = np.random.default_rng(0)

    def entries(count: int, *more: int) -> np.ndarray:
        return rng.normal(size=(max(4, int(part * count)), *more))

    few, side = np.array([0.3, 0.4]), max(4, int(400 * part))
    grid = 0.1 * rng.normal(size=(side, side))
    bodies, points, starts = entries(1_500, 3), entries(20_000, 8), entries(2_000)
    numbers = np.abs(entries(1_000_000))
    scale = np.abs(rng.normal(size=(10, 8)))
    return [
        ("forces between 1,500 bodies", attraction, (bodies, np.zeros_like(bodies))),
        ("diffusion, 20 steps of 400 × 400", diffusion, (grid, np.zeros_like(grid), 20)),
        ("a function of 1,000,000 entries", responses, (numbers, few, np.zeros_like(numbers))),
        ("a sum over 20,000 points", likelihood, (points, rng.normal(size=(10, 8)), scale)),
        ("2,000 pendulums, 1,000 steps", pendulums, (starts, few, np.zeros_like(starts))),
    ]


def timed_calls(function: Callable, args: tuple) -> dict[str, Callable[[], float]]:
    """What is timed, each returning seconds; it has been called, and the gradients agree."""
    wanted = tuple(k for k, x in enumerate(args) if isinstance(x, np.ndarray))
    plain, threaded = njit(function), ar.parallel(function)
    compiled = {
        "primal": plain,
        "threaded_primal": threaded,
        "gradient": ar.value_and_grad(plain, argnums=wanted),
        "threaded_gradient": ar.value_and_grad(threaded, argnums=wanted),
    }

    def copies() -> list:
        return [x.copy() if isinstance(x, np.ndarray) else x for x in args]

    def seconds(call: Callable) -> float:
        given = copies()
        start = perf_counter()
        call(*given)
        return perf_counter() - start

    results = {name: call(*copies()) for name, call in compiled.items()}
    for a, b in zip(results["gradient"][1], results["threaded_gradient"][1], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-9, atol=1e-9)
    return {name: lambda call=call: seconds(call) for name, call in compiled.items()}


def measure(rounds: int, part: float = 1.0) -> list[dict]:
    """A row per program: median milliseconds, and threads over none with the noise."""
    rows = []
    for name, function, args in programs(part):
        timed = timed_calls(function, args)
        known = [{key: call() for key, call in timed.items()} for _ in range(rounds)]
        low, ratio, high = quantiles(
            [one["threaded_gradient"] / one["gradient"] for one in known], n=4, method="inclusive"
        )
        milliseconds = {key: 1e3 * median(one[key] for one in known) for key in timed}
        rows.append({"name": name, **milliseconds, "ratio": ratio, "noise": (high - low) / 2})
    return rows


def measured(rounds: int) -> tuple[dict, list[str]]:
    """The entry of the file of results, and the lines to print."""
    rows = measure(rounds)
    lines = [
        f"{row['name']:35s} {row['gradient']:7.1f} ms, with threads {row['ratio']:.2f}"
        for row in rows
    ]
    return {"threads": get_num_threads(), "rounds": rounds, "programs": rows}, lines


if __name__ == "__main__":
    run_command(__doc__, "parallel_loops", measured, rounds=9)

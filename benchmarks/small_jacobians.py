"""Ways to compute many Jacobians of a function of a few numbers.

    python -m benchmarks.small_jacobians [--results benchmarks/results.json] [--rounds 15]

The function is the reprojection error of bundle adjustment: 2 results of 15 numbers. Times are
processor times, divided by the number of Jacobians.
"""

from collections.abc import Callable
from statistics import median, quantiles

import numpy as np
from numba import njit

import activerules as ar
from benchmarks.commands import run_command
from benchmarks.peers.programs import reprojection_error
from benchmarks.vector_functions import seconds

ROWS = 5_000
FUNCTION = "the function alone"
ARRAY = "`jacrev` of a function that returns an array"
TUPLE = "`jacrev` of one that returns a tuple"
SWEEP = "one sweep for all rows"


@njit
def as_array(unknowns, feature):
    u, v = reprojection_error(unknowns, feature)
    return np.array([u, v])


@njit
def values(unknowns, features, out):
    for i in range(len(unknowns)):
        out[i, 0], out[i, 1] = reprojection_error(unknowns[i], features[i])


@njit
def jacobians_of_arrays(unknowns, features, blocks):
    for i in range(len(unknowns)):
        blocks[i] = ar.jacrev(as_array)(unknowns[i], features[i])


@njit
def jacobians_of_tuples(unknowns, features, blocks):
    for i in range(len(unknowns)):
        blocks[i, 0], blocks[i, 1] = ar.jacrev(reprojection_error)(unknowns[i], features[i])


def calls() -> dict[str, Callable[[], None]]:
    """What is timed, by name; each has been called, and the Jacobians agree."""
    rng = np.random.default_rng(0)
    unknowns = rng.uniform(0.5, 1.5, size=(ROWS, 15))
    features = rng.normal(size=(ROWS, 2))
    out, blocks = np.empty((ROWS, 2)), np.empty((ROWS, 2, 15))
    by_first, by_second = np.zeros((2, ROWS, 15))
    seeds = np.zeros((2, ROWS, 2))

    def one_sweep() -> None:
        by_first.fill(0.0)
        by_second.fill(0.0)
        seeds.fill(0.0)
        seeds[0, :, 0] = seeds[1, :, 1] = 1.0
        ar.autodiff(
            ar.Reverse,
            values,
            ar.Const,
            ar.BatchDuplicated(unknowns, (by_first, by_second)),
            features,
            ar.BatchDuplicated(out, (seeds[0], seeds[1])),
        )

    timed = {
        FUNCTION: lambda: values(unknowns, features, out),
        ARRAY: lambda: jacobians_of_arrays(unknowns, features, blocks),
        TUPLE: lambda: jacobians_of_tuples(unknowns, features, blocks),
        SWEEP: one_sweep,
    }
    timed[FUNCTION]()
    one_sweep()
    expected = np.stack((by_first, by_second), axis=1)
    for name in (ARRAY, TUPLE):
        timed[name]()
        np.testing.assert_allclose(blocks, expected, rtol=1e-12, atol=1e-12)
    return timed


def measure(rounds: int) -> list[dict]:
    """A row per way: median nanoseconds per Jacobian, its ratio to the function, and the noise."""
    timed = calls()
    known = [{key: seconds(call) for key, call in timed.items()} for _ in range(rounds)]
    rows = []
    for name in timed:
        low, ratio, high = quantiles(
            [one[name] / one[FUNCTION] for one in known], n=4, method="inclusive"
        )
        nanoseconds = 1e9 / ROWS * median(one[name] for one in known)
        noise = (high - low) / 2
        rows.append({"says": name, "nanoseconds": nanoseconds, "ratio": ratio, "noise": noise})
    return rows


def measured(rounds: int) -> tuple[dict, list[str]]:
    """The entry of the file of results, and the lines to print."""
    rows = measure(rounds)
    lines = [
        f"{row['says']:45s} {row['nanoseconds']:7.0f} ns  {row['ratio']:.1f} x the function"
        for row in rows
    ]
    return {"rows": ROWS, "rounds": rounds, "ways": rows}, lines


if __name__ == "__main__":
    run_command(__doc__, "small_jacobians", measured, rounds=15)

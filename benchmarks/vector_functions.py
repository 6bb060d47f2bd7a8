"""What `.vector_math()` and `.fast()` bring where sin, exp and the like dominate a loop.

    python -m benchmarks.vector_functions [--results benchmarks/results.json] [--rounds 15]
                                          [--numbers 1300000]

Value and gradient of each sum, in the strict mode and with each option, taking turns with the
function itself. Times are processor times of one thread.
"""

import math
from collections.abc import Callable
from statistics import median, quantiles
from time import thread_time

import numpy as np
from numba import njit

import activerules as ar
from benchmarks.commands import run_command

MODES = {
    "strict": ar.ReverseWithPrimal,
    "vector_math": ar.ReverseWithPrimal.vector_math(),
    "fast": ar.ReverseWithPrimal.fast(),
}


@njit
def waves(x):
    total = 0.0
    for i in range(len(x)):
        total += math.sin(1.3 * x[i]) * math.exp(-x[i])
    return total


@njit
def tanh(x):
    total = 0.0
    for i in range(len(x)):
        total += math.tanh(x[i])
    return total


@njit
def softplus(x):
    total = 0.0
    for i in range(len(x)):
        total += math.log1p(math.exp(-abs(x[i]))) + max(x[i], 0.0)
    return total


@njit
def nested_arrays(x):
    return np.sum(np.tanh(np.sin(x) + np.log(2.0 + np.cos(x))))


@njit
def logarithm(x):
    total = 0.0
    for i in range(len(x)):
        total += math.log(1.0 + x[i] * x[i])
    return total


@njit
def power(x):
    total = 0.0
    for i in range(len(x)):
        total += (1.0 + x[i] * x[i]) ** 1.7
    return total


@njit
def log_sum_exp(x):
    largest = x[0]
    for i in range(len(x)):
        largest = max(largest, x[i])
    total = 0.0
    for i in range(len(x)):
        total += math.exp(x[i] - largest)
    return largest + math.log(total)


@njit
def log_sum_exp_arrays(x):
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


# what the page says of each, and the function
PROGRAMS = {
    "`sin(1.3 * x) * exp(-x)`": waves,
    "`tanh(x)`": tanh,
    "`log1p(exp(-abs(x))) + max(x, 0)`": softplus,
    "`tanh(sin(x) + log(2 + cos(x)))`, of arrays": nested_arrays,
    "`log(1 + x * x)`": logarithm,
    "`(1 + x * x) ** 1.7`": power,
    "log-sum-exp, loops": log_sum_exp,
    "log-sum-exp, of arrays": log_sum_exp_arrays,
}


def calls(function: Callable, x: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """What is timed, by name; each has been called, and the gradients agree."""
    shadows = {name: np.zeros_like(x) for name in MODES}

    def gradient(name: str) -> Callable[[], np.ndarray]:
        annotated = ar.Duplicated(x, shadows[name])

        def call() -> np.ndarray:
            shadows[name].fill(0.0)
            ar.autodiff(MODES[name], function, ar.Active, annotated)
            return shadows[name]

        return call

    timed = {"primal": lambda: function(x)} | {name: gradient(name) for name in MODES}
    found = {name: call() for name, call in timed.items()}
    for name in ("vector_math", "fast"):
        np.testing.assert_allclose(found[name], found["strict"], rtol=1e-12, atol=1e-12)
    return timed


def seconds(call: Callable) -> float:
    """Processor time of this thread."""
    start = thread_time()
    call()
    return thread_time() - start


def measure(numbers: int, rounds: int) -> list[dict]:
    """A row per program: medians in milliseconds, each option over strict, and its noise."""
    x = np.random.default_rng(0).normal(size=numbers)
    rows = []
    for name, function in PROGRAMS.items():
        timed = calls(function, x)
        known = [{key: seconds(call) for key, call in timed.items()} for _ in range(rounds)]
        row = {key: 1e3 * median(one[key] for one in known) for key in timed}
        ratios = [one["vector_math"] / one["strict"] for one in known]
        low, row["ratio"], high = quantiles(ratios, n=4, method="inclusive")
        rows.append({"name": name, **row, "noise": (high - low) / 2})
    return rows


def measured(rounds: int, numbers: int) -> tuple[dict, list[str]]:
    """The entry of the file of results, and the lines to print."""
    rows = measure(numbers, rounds)
    lines = [
        f"{row['name']:45s} primal {row['primal']:6.2f}  strict {row['strict']:6.2f}  "
        f"vector_math {row['vector_math']:6.2f}  {row['ratio']:.2f} ± {row['noise']:.2f}  "
        f"fast {row['fast']:6.2f}"
        for row in rows
    ]
    return {"numbers": numbers, "rounds": rounds, "programs": rows}, lines


if __name__ == "__main__":
    run_command(__doc__, "vector_functions", measured, rounds=15, numbers=1_300_000)

"""How long the gradient of a checkpointed step takes to compile, against that of the plain step.

    python -m benchmarks.compile_checkpoint [--rounds 5] [name ...]

The step takes three arrays and returns three, or changes them in place; it runs three times. In
each round both gradients are compiled anew, one right after the other, in a process that has
compiled both before. Times are processor times; a gradient checks the other.
"""

import argparse
from collections.abc import Callable
from statistics import quantiles

import numpy as np
from numba import njit

import activerules as ar
from benchmarks.compile_arrays import clocked, fresh


def by_loops(a, b, c):
    x, y, z = np.empty_like(a), np.empty_like(a), np.empty_like(a)
    for i in range(a.size):
        x[i] = a[i] + 0.1 * (b[i] - a[i] * c[i])
        y[i] = b[i] * np.cos(a[i]) + c[i]
        z[i] = c[i] + 0.1 * a[i] * b[i]
    return x, y, z


def by_expressions(a, b, c):
    return a + 0.1 * (b - a * c), b * np.cos(a) + c, c + 0.1 * a * b


def in_place(a, b, c):
    for i in range(a.size):
        x = a[i] + 0.1 * (b[i] - a[i] * c[i])
        y = b[i] * np.cos(a[i]) + c[i]
        z = c[i] + 0.1 * a[i] * b[i]
        a[i], b[i], c[i] = x, y, z


STEPS = {step.__name__: step for step in (by_loops, by_expressions, in_place)}


def gradient_call(step: Callable, wrap: Callable) -> Callable[[], tuple]:
    """The first gradient of three new steps."""
    made = wrap(fresh(step))
    changes = step is in_place

    def run(a, b, c):
        a, b, c = a.copy(), b.copy(), c.copy()
        for _ in range(3):
            if changes:
                made(a, b, c)
            else:
                a, b, c = made(a, b, c)
        return np.sum(a * b + c)

    function = njit(run)
    arguments = [np.linspace(0.1 + k, 1.0 + k, 10) for k in range(3)]
    return lambda: ar.grad(function, argnums=(0, 1, 2))(*arguments)


def measure(step: Callable, rounds: int) -> str:
    """Median seconds of both, and the quartiles of their ratio."""
    plain = gradient_call(step, lambda f: f)()
    np.testing.assert_allclose(gradient_call(step, ar.checkpoint)(), plain, rtol=1e-12)
    pairs = [
        tuple(clocked(gradient_call(step, wrap))["cpu"] for wrap in (lambda f: f, ar.checkpoint))
        for _ in range(rounds)
    ]
    low, ratio, high = quantiles((kept / plain for plain, kept in pairs), method="inclusive")
    times = [quantiles(each, n=2)[0] for each in zip(*pairs, strict=True)]
    seconds = f"plain {times[0]:.2f} s, checkpointed {times[1]:.2f} s"
    return f"{seconds}, {ratio:.2f} [{low:.2f} {high:.2f}] x"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("names", nargs="*", default=[*STEPS])
    options = parser.parse_args()
    for name in options.names:
        print(f"{name:15s} {measure(STEPS[name], options.rounds)}")


if __name__ == "__main__":
    main()

"""Compile times for a function of 500 lines: its gradient against Numba's own compile of it.

    python -m benchmarks.long_function [--results benchmarks/results.json] [--lines 500]
                                       [--repeats 5]

The lines are scalar arithmetic, branches, loops over arrays and updates in place, as in models that
are written by hand or by a generator of code.
"""

from collections.abc import Callable
from statistics import median, quantiles

import numpy as np
from numba import njit

import activerules as ar
from benchmarks.commands import run_command
from benchmarks.run import compile_seconds

_BLOCK = """\
    s{k} = math.sin(p[{i}] * x) + s{j} * 0.5
    t{k} = math.exp(-s{k} * s{k}) + p[{j}]
    if t{k} > 0.5:
        t{k} = t{k} * s{k}
    for n in range(1, len(u)):
        u[n] += 0.1 * t{k} * v[n - 1]
    for n in range(len(v)):
        v[n] = math.tanh(u[n]) * s{k}
    total += s{k} * t{k} + u[{i}]
"""


def source(lines: int) -> str:
    """A module with the function `model(x, p, u, v)` of about as many lines."""
    blocks = [_BLOCK.format(k=k + 1, i=k % 8, j=k % 5) for k in range((lines - 9) // 9)]
    names = ["s0"] + [f"s{k}" for k in range(1, 5)]
    start = "".join(f"    {name} = x\n" for name in names)
    return (
        "import math\n\n\ndef model(x, p, u, v):\n    total = 0.0\n"
        f"{start}{''.join(blocks)}    return total\n"
    )


def model(lines: int) -> Callable:
    """The Python function."""
    space: dict = {}
    exec(compile(source(lines), f"<a function of {lines} lines>", "exec"), space)
    return space["model"]


def arguments() -> tuple:
    """Arguments of the function."""
    return 0.7, np.linspace(0.1, 1.0, 8), np.full(10, 0.5), np.full(10, 0.3)


def primal_call(function: Callable) -> Callable:
    """The first call of a fresh dispatcher, ready to be timed."""
    fresh = njit(function)
    return lambda: fresh(*arguments())


def gradient_call(function: Callable) -> Callable:
    """The same for value and gradient."""
    fresh = njit(function)
    x, *arrays = arguments()
    annotated = [ar.Active(x), *(ar.Duplicated(a, np.zeros_like(a)) for a in arrays)]
    return lambda: ar.autodiff(ar.ReverseWithPrimal, fresh, ar.Active, *annotated)


def measure(lines: int, repeats: int) -> dict:
    """Both times in seconds, and the median of their ratios over the pairs."""
    small = model(30)  # what the first of all compilations costs is not a function's
    primal_call(small)(), gradient_call(small)()
    function = model(lines)
    pairs = [
        (compile_seconds(primal_call(function)), compile_seconds(gradient_call(function)))
        for _ in range(repeats)
    ]
    primal, gradient = (median(times) for times in zip(*pairs, strict=True))
    ratios = [g / p for p, g in pairs]
    low, ratio, high = quantiles(ratios, method="inclusive")
    return {
        "lines": lines,
        "repeats": repeats,
        "primal": primal,
        "gradient": gradient,
        "ratio": ratio,
        "noise": (high - low) / 2,
    }


def measured(lines: int, repeats: int) -> tuple[dict, list[str]]:
    """The row for the file of results, and a line to print."""
    row = measure(lines, repeats)
    line = (
        f"{row['lines']} lines: Numba {row['primal']:.2f} s, gradient {row['gradient']:.2f} s, "
        f"{row['ratio']:.2f} ± {row['noise']:.2f} x (median of {row['repeats']} pairs)"
    )
    return row, [line]


if __name__ == "__main__":
    run_command(__doc__, "long_function", measured, lines=500, repeats=5)

"""What a call of a rule costs beyond its body: gradients through rules against the same by hand.

    python -m benchmarks.rule_calls [--results benchmarks/results.json] [--pairs 101]

Each program calls a function with a rule for every entry of an array. By hand, the bodies of the
two halves stand in two loops. Times are processor times of pairs of calls, one after the other.
"""

import math
from collections.abc import Callable

import numpy as np
from numba import njit

import activerules as ar
from benchmarks.commands import run_command
from benchmarks.run import paired

CALLS = 20_000


@njit
def softplus(x):
    """A number in, a number out; nothing on the tape."""
    return math.log1p(math.exp(-abs(x))) + max(x, 0.0)


@ar.augmented_primal(softplus)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(softplus(x.val), None, None)


@ar.reverse(softplus)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return dret.val / (1.0 + math.exp(-x.val))


@njit
def sigmoid(x):
    """The same, with the result on the tape."""
    return 1.0 / (1.0 + math.exp(-x))


@ar.augmented_primal(sigmoid)
def _(config, ret: ar.Active, x: ar.Active):
    y = sigmoid(x.val)
    return ar.AugmentedReturn(y, None, y)


@ar.reverse(sigmoid)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return tape * (1.0 - tape) * dret.val


@njit
def energy(row):
    """An array in, a number out."""
    total = 0.0
    for v in row:
        total += v * v
    return total


@ar.augmented_primal(energy)
def _(config, ret: ar.Active, row: ar.Duplicated):
    return ar.AugmentedReturn(energy(row.val), None, None)


@ar.reverse(energy)
def _(config, dret: ar.Active, tape, row: ar.Duplicated):
    for k in range(len(row.val)):
        row.dval[k] += 2.0 * row.val[k] * dret.val


@njit
def sum_of_softplus(x):
    total = 0.0
    for v in x:
        total += softplus(v)
    return total


@njit
def softplus_by_hand(x, x_bar):
    total = 0.0
    for v in x:
        total += softplus(v)
    for i in range(len(x) - 1, -1, -1):
        x_bar[i] += 1.0 / (1.0 + math.exp(-x[i]))
    return total


@njit
def sum_of_sigmoid(x):
    total = 0.0
    for v in x:
        total += sigmoid(v)
    return total


@njit
def sigmoid_by_hand(x, x_bar):
    total = 0.0
    tape = np.empty(len(x))
    for i in range(len(x)):
        tape[i] = sigmoid(x[i])
        total += tape[i]
    for i in range(len(x) - 1, -1, -1):
        x_bar[i] += tape[i] * (1.0 - tape[i])
    return total


@njit
def sum_of_energy(x):
    total = 0.0
    for i in range(len(x)):
        total += energy(x[i])
    return total


@njit
def energy_by_hand(x, x_bar):
    total = 0.0
    for i in range(len(x)):
        total += energy(x[i])
    for i in range(len(x) - 1, -1, -1):
        row, row_bar = x[i], x_bar[i]
        for k in range(len(row)):
            row_bar[k] += 2.0 * row[k]
    return total


def programs() -> list[tuple[str, Callable, Callable, np.ndarray]]:
    """(what a rule takes, the program, its gradient by hand, the argument)."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=CALLS)
    rows = rng.normal(size=(CALLS, 16))
    return [
        ("a number, no tape", sum_of_softplus, softplus_by_hand, numbers),
        ("a number, one on the tape", sum_of_sigmoid, sigmoid_by_hand, numbers),
        ("an array of 16", sum_of_energy, energy_by_hand, rows),
    ]


def measure(pairs: int) -> list[dict]:
    """A row per program: the ratio to the gradient by hand, and the nanoseconds per call."""
    rows = []
    for name, program, by_hand, x in programs():
        annotated = ar.Duplicated(x, np.zeros_like(x))
        shadow = np.zeros_like(x)

        def hand(by_hand=by_hand, x=x, shadow=shadow) -> Callable:
            return lambda: by_hand(x, shadow)

        def engine(program=program, annotated=annotated) -> Callable:
            return lambda: ar.autodiff(ar.ReverseWithPrimal, program, ar.Active, annotated)

        hand()()
        engine()()
        np.testing.assert_allclose(annotated.dval, shadow)
        row = {"name": name, **paired(hand, engine, pairs)}
        row["nanoseconds"] = (row["ratio"] - 1.0) * row["milliseconds"] * 1e6 / CALLS
        rows.append(row)
    return rows


def measured(pairs: int) -> tuple[list[dict], list[str]]:
    """The rows for the file of results, and the lines to print."""
    rows = measure(pairs)
    lines = [
        f"{row['name']:28s} {row['ratio']:.2f} ± {row['noise']:.2f} x by hand, "
        f"{row['nanoseconds']:+.1f} ns per call"
        for row in rows
    ]
    return rows, lines


if __name__ == "__main__":
    run_command(__doc__, "rule_calls", measured, pairs=101)

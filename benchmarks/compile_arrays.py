"""How long gradients of array programs take to compile, against Numba's own compile of them.

    python -m benchmarks.compile_arrays [--results benchmarks/results.json] [--rounds 5] [name ...]

A first round compiles everything that is compiled once in a process (library rules, Numba's own
functions for these types) and checks the gradients against finite differences. In each further
round every program is compiled anew, function and gradient one right after the other, as new
dispatchers: "a second copy in the process". Times are processor times, which other work on the
machine disturbs least; the noise of a ratio is half the distance of its quartiles over the rounds.
"""

import gc
import math
import time
import types
from collections.abc import Callable
from statistics import median, quantiles

import numpy as np
from numba import njit

import activerules as ar
from activerules.pipeline.stack_space import with_stack_space
from activerules.testing import gradient_fd
from benchmarks.array_programs import Program, programs
from benchmarks.commands import parser_for, put
from benchmarks.stage_times import NAMES, timed


def fresh(function: Callable) -> Callable:
    """A new dispatcher of a plain function, which calls new dispatchers of the functions of its
    module that it calls.
    """
    space = dict(function.__globals__)
    for name in function.__code__.co_names:
        called = space.get(name)
        if isinstance(called, types.FunctionType) and called.__module__ == function.__module__:
            space[name] = fresh(called)
    copy = types.FunctionType(function.__code__, space, function.__name__)
    copy.__module__ = function.__module__
    return njit(copy)


def copies(program: Program) -> list:
    """Arguments that the program may write into."""
    return [x.copy() if isinstance(x, np.ndarray) else x for x in program.arguments]


def prepared_primal(program: Program) -> Callable[[], object]:
    """The first call of a new dispatcher."""
    function, args = fresh(program.function), copies(program)
    return lambda: function(*args)


def prepared_gradient(program: Program) -> Callable[[], tuple]:
    """The first call of value and gradient of a new dispatcher."""
    function, args = fresh(program.function), copies(program)
    return lambda: ar.value_and_grad(function, argnums=program.argnums)(*args)


def check(program: Program, found: tuple) -> None:
    """Compare value and gradients with the function and its finite differences."""
    value, gradients = found
    primal = fresh(program.function)
    np.testing.assert_allclose(value, primal(*copies(program)), rtol=1e-12)

    def untouched(*args):
        return primal(*(x.copy() if isinstance(x, np.ndarray) else x for x in args))

    for place, gradient in zip(program.argnums, gradients, strict=True):
        expected = gradient_fd(untouched, tuple(program.arguments), place)
        np.testing.assert_allclose(gradient, expected, rtol=1e-6, atol=1e-8)


def clocked(call: Callable[[], object]) -> dict[str, float]:
    """Processor seconds of a first call by stage, and wall seconds of all of it."""
    gc.collect()
    began = time.perf_counter()
    stages = with_stack_space(timed, call)
    return {**stages, "cpu": sum(stages.values()), "wall": time.perf_counter() - began}


def first(program: Program) -> dict[str, float]:
    """Processor seconds of the first compilations in this process, the gradient checked."""
    results = []
    gradient_call = prepared_gradient(program)
    primal = clocked(prepared_primal(program))
    gradient = clocked(lambda: results.append(gradient_call()))
    check(program, results[0])
    return {"primal": primal["cpu"], "gradient": gradient["cpu"]}


def measure(chosen: list[Program], rounds: int) -> list[dict]:
    """A row per program; programs take turns, so that a slow minute is shared by all."""
    firsts = [first(program) for program in chosen]
    pairs: list[list] = [[] for _ in chosen]
    for _ in range(rounds):
        for known, program in zip(pairs, chosen, strict=True):
            known.append((clocked(prepared_primal(program)), clocked(prepared_gradient(program))))
    return [
        {"name": program.name, "first": once, **row(known)}
        for program, once, known in zip(chosen, firsts, pairs, strict=True)
    ]


def row(pairs: list[tuple[dict[str, float], dict[str, float]]]) -> dict:
    """Medians over the rounds: seconds, ratio and its noise, wall ratio, seconds by stage."""
    ratios = [gradient["cpu"] / primal["cpu"] for primal, gradient in pairs]
    low, ratio, high = quantiles(ratios, n=4, method="inclusive")
    return {
        "primal": median(primal["cpu"] for primal, _ in pairs),
        "gradient": median(gradient["cpu"] for _, gradient in pairs),
        "ratio": ratio,
        "noise": (high - low) / 2,
        "wall_ratio": median(gradient["wall"] / primal["wall"] for primal, gradient in pairs),
        "stages": {name: median(gradient[name] for _, gradient in pairs) for name in NAMES},
    }


def summary(rows: list[dict]) -> dict:
    """Geometric mean and largest of the ratios, and the share of each stage in all seconds."""
    total = sum(sum(row["stages"].values()) for row in rows)
    return {
        "geometric_mean": math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows)),
        "largest": max(row["ratio"] for row in rows),
        "noise": max(row["noise"] / row["ratio"] for row in rows),
        "shares": {name: sum(row["stages"][name] for row in rows) / total for name in NAMES},
    }


def show(rows: list[dict]) -> str:
    """Two tables: what was measured, and seconds by stage."""
    lines = [
        f"{row['name']:10s} Numba {row['primal']:5.2f} s  gradient {row['gradient']:5.2f} s  "
        f"{row['ratio']:4.2f} ± {row['noise']:.2f} x (wall {row['wall_ratio']:4.2f})  first "
        f"{row['first']['primal']:5.2f}, {row['first']['gradient']:5.2f} s"
        for row in rows
    ]
    lines += ["", " " * 10 + "".join(f"{name:>10s}" for name in NAMES)]
    lines += [
        f"{row['name']:10s}" + "".join(f"{row['stages'][name]:10.2f}" for name in NAMES)
        for row in rows
    ]
    total = summary(rows)
    lines += [
        f"{'share, %':10s}" + "".join(f"{100 * total['shares'][name]:10.0f}" for name in NAMES),
        f"\ngeometric mean {total['geometric_mean']:.2f}, largest {total['largest']:.2f}, "
        f"noise at most {100 * total['noise']:.0f} %",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and put the rows into a file of results."""
    parser = parser_for(__doc__, rounds=5)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    known = [p.name for p in programs()]
    if unknown := set(options.names) - set(known):
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    chosen = [p for p in programs() if not options.names or p.name in options.names]
    rows = measure(chosen, options.rounds)
    print(show(rows))
    arrays = {"rounds": options.rounds, "summary": summary(rows), "programs": rows}
    put(options.results, "arrays", arrays)


if __name__ == "__main__":
    main()

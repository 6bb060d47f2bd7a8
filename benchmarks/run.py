"""Measure value-and-gradient against the primal, and compile times, as ratios within one run.

    python -m benchmarks.run [--output results.json] [--pairs 31] [name ...]

Each pair times the primal and its gradient one right after the other on fresh arguments; the ratio
of a case is the median over the pairs, its noise half the distance of their quartiles.
"""

import argparse
import gc
import inspect
import json
import math
import os
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles

import llvmlite
import numba
import numpy as np
from numba import njit, typeof

import activerules as ar
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.pipeline.reverse import derive
from activerules.pipeline.stack_space import with_stack_space
from activerules.testing.gradient import default_activity
from benchmarks.cases import Case, cases

ENGINE_STAGES = ("parse", "plan", "derive", "assemble")


class Runner:
    """Calls of one case on fresh arguments; copies are made outside of what is timed."""

    def __init__(self, case: Case) -> None:
        self.case = case
        names = inspect.signature(case.function.py_func).parameters
        self.activities = [
            ar.Const if name in case.const else default_activity(x)
            for name, x in zip(names, case.arguments, strict=False)
        ]
        returns_float = self.prepared_primal(case.function)() is not None
        self.result = ar.Active if returns_float else ar.Const

    def copies(self) -> list:
        """Arguments that the program may write into."""
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.case.arguments]

    def annotated(self) -> list:
        """Annotated copies, shadows one: a zero cotangent would make work void."""
        return [
            activity(x, np.ones_like(x)) if activity is ar.Duplicated else activity(x)
            for activity, x in zip(self.activities, self.copies(), strict=True)
        ]

    def prepared_primal(self, function: Callable) -> Callable:
        """A call of the primal, ready to be timed."""
        args = self.copies()
        return lambda: function(*args)

    def prepared_gradient(self, function: Callable) -> Callable:
        """A call of the gradient, ready to be timed."""
        annotated = self.annotated()
        return lambda: ar.autodiff(ar.ReverseWithPrimal, function, self.result, *annotated)

    def prepared_by_hand(self) -> Callable:
        """A call of the gradient written by hand, ready to be timed."""
        args = []
        for activity, x in zip(self.activities, self.copies(), strict=True):
            args += [x, np.ones_like(x)] if activity is ar.Duplicated else [x]
        return lambda: self.case.by_hand(*args)


def seconds(call: Callable) -> float:
    """Processor time of one call: the programs have one thread, the machine may have other work."""
    began = time.process_time()
    call()
    return time.process_time() - began


def compile_seconds(call: Callable) -> float:
    """The same of a first call. Numba's compiler gets as much room on the interpreter's stack as
    ours, or it takes longer by chance.
    """
    return with_stack_space(seconds, call)


def paired(first: Callable, second: Callable, pairs: int) -> dict:
    """Median of second/first over pairs of calls; both give a call that is ready to be timed."""
    ratios, firsts = [], []
    gc.disable()
    for _ in range(pairs):
        a = seconds(first())
        firsts.append(a)
        ratios.append(seconds(second()) / a)
    gc.enable()
    low, _, high = quantiles(ratios, n=4)
    return {
        "ratio": median(ratios),
        "noise": (high - low) / 2,
        "milliseconds": 1e3 * median(firsts),
    }


def compile_ratio(runner: Runner) -> dict:
    """First call of the gradient over that of the primal, fresh dispatchers, warm process."""
    primal_times, gradient_times, shares = [], [], []
    for _ in range(3):
        options = runner.case.function.targetoptions
        options = {k: v for k, v in options.items() if k in ("fastmath", "error_model")}
        fresh = njit(**options)(runner.case.function.py_func)
        primal_times.append(compile_seconds(runner.prepared_primal(fresh)))
        fresh = njit(**options)(runner.case.function.py_func)
        gradient_times.append(compile_seconds(runner.prepared_gradient(fresh)))
        shares.append(engine_seconds(runner, fresh) / gradient_times[-1])
    return {"ratio": min(gradient_times) / min(primal_times), "engine_share": median(shares)}


def engine_seconds(runner: Runner, dispatcher: Callable) -> float:
    """What the stages from parse to derive take of making a gradient again."""
    derivation = None

    def again() -> None:
        nonlocal derivation
        spec = DerivativeSpec(
            tuple(typeof(x) for x in runner.case.arguments),
            tuple(activity.__name__.lower() for activity in runner.activities),
            runner.result.__name__.lower(),
        )
        derivation = derive(dispatcher, spec)

    everything = compile_seconds(again)
    stages = derivation.stages.seconds
    share = sum(stages.get(stage, 0.0) for stage in ENGINE_STAGES) / sum(stages.values())
    return everything * share


def measure(case: Case, pairs: int) -> dict:
    """Everything about one case."""
    runner = Runner(case)
    primal = partial(runner.prepared_primal, case.function)
    gradient = partial(runner.prepared_gradient, case.function)
    for warm in (primal, gradient):
        warm()()
    row = {"name": case.name, **paired(primal, gradient, pairs)}
    row["tape_bytes"] = ar.tape_bytes(
        case.function, *runner.annotated(), return_activity=runner.result
    )
    if case.by_hand:
        runner.prepared_by_hand()()
        row["to_hand_written"] = paired(runner.prepared_by_hand, gradient, pairs)["ratio"]
    compiled = compile_ratio(runner)
    row["compile_ratio"], row["engine_share"] = compiled["ratio"], compiled["engine_share"]
    return row


def summary(rows: list[dict]) -> dict:
    """Geometric means and extremes over the cases."""
    return {
        "geometric_mean": math.exp(sum(math.log(row["ratio"]) for row in rows) / len(rows)),
        "largest": max(row["ratio"] for row in rows),
        "compile_ratio": math.exp(sum(math.log(row["compile_ratio"]) for row in rows) / len(rows)),
        "engine_share": max(row["engine_share"] for row in rows),
    }


def environment() -> dict:
    """What the numbers depend on."""
    return {
        "python": platform.python_version(),
        "numba": numba.__version__,
        "llvmlite": llvmlite.__version__,
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def processor() -> str:
    """The model name of the processor, where Linux tells it, and LLVM's name of its kind."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    name = names[0] if names else platform.machine()
    return f"{name} ({llvmlite.binding.get_host_cpu_name()})"


def show(row: dict) -> None:
    """One line per case, as it is measured."""
    hand = f"{row['to_hand_written']:5.2f} x hand-written" if "to_hand_written" in row else ""
    print(
        f"{row['name']:26s} {row['ratio']:5.2f} ± {row['noise']:.2f}   primal "
        f"{row['milliseconds']:7.3f} ms   tape {row['tape_bytes']:>10} B   compile "
        f"{row['compile_ratio']:4.1f} x, engine {100 * row['engine_share']:3.0f} %   {hand}",
        flush=True,
    )


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--pairs", type=int, default=31)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    rows = []
    for case in cases():
        if not options.names or case.name in options.names:
            rows.append(measure(case, options.pairs))
            show(rows[-1])
    total = summary(rows)
    print(
        f"\ngeometric mean {total['geometric_mean']:.2f}, largest {total['largest']:.2f}; compile "
        f"{total['compile_ratio']:.2f} x Numba's own, engine at most "
        f"{100 * total['engine_share']:.0f} % of it"
    )
    if options.output:
        results = {"environment": environment(), "summary": total, "cases": rows}
        options.output.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

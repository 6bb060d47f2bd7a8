"""Check each program against JAX and PyTorch, time all three, and write what the page shows.

    python -m benchmarks.peers.measure [--rounds 9] [--no-page] [name ...]

All run on one core, with one thread of BLAS and of PyTorch; what is measured is the processor time
of the process, which includes the threads of JAX. A round times one tool right after the other.
"""

import argparse
import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

os.environ.pop("OPENBLAS_CORETYPE", None)
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"), "1"))

import jax
import numba
import numpy as np
import torch

from benchmarks.peers import in_jax, in_torch, programs
from benchmarks.peers.figure import draw
from benchmarks.run import processor
from benchmarks.speed_table import replace_between

TOLERANCE, SAMPLE_SECONDS, SLOW_SECONDS = 1e-9, 0.02, 1.0
RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
FIGURE = PAGE.parent / "_static" / "peers.svg"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


def relative_error(ours: object, theirs: object) -> float:
    """The largest difference over all arrays, each relative to its largest entry."""
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    arrays = [(np.asarray(a), np.asarray(b)) for a, b in pairs]
    errors = [np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300) for a, b in arrays]
    return np.max(errors)  # NaN if one is, which Python's own `max` may pass over


def check(name: str, peer: str, ours: object, theirs: object) -> float:
    """The relative error; `ValueError` if the two disagree, or one is not a number."""
    error = float(relative_error(ours, theirs))
    if not error <= TOLERANCE:
        raise ValueError(f"{name}: the derivatives of Numba and {peer} differ by {error:.1e}")
    return error


def seconds(call: Callable, times: int = 1) -> float:
    """Processor time of a call, of all threads."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def calls_of(name: str, size: tuple[int, ...]) -> dict[str, Callable]:
    """What each tool does for a row of the table, on arguments in its own memory."""
    arguments = programs.arguments(name, size)
    in_device = [jax.device_put(x) if isinstance(x, np.ndarray) else x for x in arguments]
    tensors = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in arguments]
    ours, by_jax, by_torch = (
        programs.PROGRAMS[name],
        getattr(in_jax, name),
        getattr(in_torch, name),
    )
    return {
        "ours": lambda: ours(*arguments),
        "JAX": lambda: jax.block_until_ready(by_jax(*in_device)),
        "PyTorch": lambda: by_torch(*tensors),
    }


def measure(name: str, size: tuple[int, ...], rounds: int) -> dict:
    """One row: milliseconds of ours, and of each peer the ratio to it and the error.

    A call of a peer that takes seconds is timed in the first round only.
    """
    calls, found, first = calls_of(name, size), {}, {}
    for tool, call in calls.items():
        first[tool] = seconds(lambda tool=tool, call=call: found.update({tool: call()}))
    ours = found.pop("ours")
    errors = {peer: check(name, peer, ours, theirs) for peer, theirs in found.items()}
    once = {tool: seconds(call) for tool, call in calls.items()}
    times = {tool: max(1, round(SAMPLE_SECONDS / max(t, 1e-7))) for tool, t in once.items()}
    samples: dict[str, list[float]] = {tool: [] for tool in calls}
    gc.disable()
    for _ in range(rounds):
        for tool, call in calls.items():
            slow = once[tool] > SLOW_SECONDS
            samples[tool].append(once[tool] if slow else seconds(call, times[tool]))
    gc.enable()
    row = {
        "name": name,
        "size": list(size),
        "milliseconds": 1e3 * median(samples["ours"]),
        "first_call": first["ours"],
        "peers": {},
    }
    for peer, error in errors.items():
        ratios = [t / own for own, t in zip(samples["ours"], samples[peer], strict=True)]
        low, _, high = quantiles(ratios, n=4)
        row["peers"][peer] = {
            "ratio": median(ratios),
            "noise": (high - low) / 2,
            "first_call": first[peer],
            "error": error,
        }
    return row


def size_text(row: dict) -> str:
    """The size of a row as the table and the figure show it."""
    return " × ".join(map(str, row["size"]))


def ratio_text(peer: dict) -> str:
    """A ratio and its noise, with two decimals where they say something."""
    decimals = 2 if peer["ratio"] < 20.0 else 0
    return f"{peer['ratio']:,.{decimals}f} ± {peer['noise']:,.{decimals}f}"


def table(results: dict) -> str:
    """The figure and the table in Markdown, and how they were measured."""
    where = results["environment"]
    lines = [
        "![Time of JAX and of PyTorch relative to ours, for each program](_static/peers.svg)",
        "",
        "| program | size | ours, ms | JAX / ours | PyTorch / ours | "
        "first call, s | JAX's | PyTorch's | difference |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in results["rows"]:
        peers = row["peers"].values()
        lines.append(
            f"| {row['name']} | {size_text(row)} | {row['milliseconds']:.3f} | "
            + "".join(f"{ratio_text(peer)} | " for peer in peers)
            + f"{row['first_call']:.1f} | "
            + "".join(f"{peer['first_call']:.1f} | " for peer in peers)
            + f"{max(peer['error'] for peer in peers):.0e} |"
        )
    return "\n".join(
        [
            *lines,
            "",
            f"Over 1 ours is faster. Medians of {results['rounds']} rounds, ± half the distance of "
            f"the quartiles; processor time on one core, one thread each. Numba {where['numba']}, "
            f"JAX {where['jax']} (compiled by `jit`), PyTorch {where['torch']} (eager), "
            f"{where['processor']}. *First call* includes compiling, for the first size of a "
            f"program; *difference* is the larger one of the two to our results.",
        ]
    )


def replace_table(page: str, results: dict) -> str:
    """The page with its table renewed; `ValueError` if the page has no place for it."""
    return replace_between(page, BEGIN, END, table(results))


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("names", nargs="*", choices=[[], *programs.PROGRAMS])
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})  # before JAX starts its threads
    rows = []
    for name in options.names or programs.PROGRAMS:
        for size in programs.SIZES[name]:
            rows.append(measure(name, size, options.rounds))
            print(rows[-1], flush=True)
    versions = {tool.__name__: tool.__version__ for tool in (numba, jax, torch)}
    where = {**versions, "processor": processor()}
    results = {"environment": where, "rounds": options.rounds, "rows": rows}
    if not options.no_page:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(replace_table(PAGE.read_text(), results))
        draw(results, FIGURE)


if __name__ == "__main__":
    main()

"""Check each program against JAX, then time both, and write the table of the performance page.

    python -m benchmarks.peers.measure [--rounds 9] [--no-page] [name ...]

All runs on one core, with one thread of BLAS; what is measured is the processor time of the
process, which includes the threads of JAX. A round times one tool right after the other.
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

from benchmarks.peers import in_jax, programs
from benchmarks.run import processor
from benchmarks.speed_table import replace_between

TOLERANCE, SAMPLE_SECONDS = 1e-9, 0.02
RESULTS = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"


def relative_error(ours: object, theirs: object) -> float:
    """The largest difference over all arrays, each relative to its largest entry."""
    pairs = list(zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True))
    errors = [np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300) for a, b in pairs]
    return np.max(errors)  # NaN if one is, which Python's own `max` may pass over


def check(name: str, ours: object, theirs: object) -> float:
    """The relative error; `ValueError` if the two disagree, or one is not a number."""
    error = float(relative_error(ours, theirs))
    if not error <= TOLERANCE:
        raise ValueError(f"{name}: the derivatives of Numba and JAX differ by {error:.1e}")
    return error


def seconds(call: Callable, times: int = 1) -> float:
    """Processor time of a call, of all threads."""
    began = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - began) / times


def measure(name: str, size: tuple[int, ...], rounds: int) -> dict:
    """One row: milliseconds of ours, the ratio of JAX to it, first calls, and the error."""
    arguments = programs.arguments(name, size)
    on_device = [jax.device_put(x) if isinstance(x, np.ndarray) else x for x in arguments]
    function, peer = programs.PROGRAMS[name], getattr(in_jax, name)
    found = []
    calls = [
        lambda: function(*arguments),
        lambda: jax.block_until_ready(peer(*on_device)),
    ]
    first = [seconds(lambda call=call: found.append(call())) for call in calls]
    error = check(name, *found)
    times = [max(1, round(SAMPLE_SECONDS / max(seconds(call), 1e-7))) for call in calls]
    gc.disable()
    samples = [[seconds(*one) for one in zip(calls, times, strict=True)] for _ in range(rounds)]
    gc.enable()
    ratios = [theirs / ours for ours, theirs in samples]
    low, _, high = quantiles(ratios, n=4)
    return {
        "name": name,
        "size": list(size),
        "milliseconds": 1e3 * median(ours for ours, _ in samples),
        "jax": median(ratios),
        "noise": (high - low) / 2,
        "first_calls": first,
        "error": error,
    }


def table(results: dict) -> str:
    """The table in Markdown, and how it was measured."""
    where = results["environment"]
    lines = [
        "| program | size | ours, ms | JAX / ours | first call, s | JAX's, s | difference |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in results["rows"]:
        ours, theirs = row["first_calls"]
        lines.append(
            f"| {row['name']} | {' × '.join(map(str, row['size']))} | {row['milliseconds']:.3f} | "
            f"{row['jax']:.2f} ± {row['noise']:.2f} | {ours:.1f} | {theirs:.1f} | "
            f"{row['error']:.0e} |"
        )
    return "\n".join(
        [
            *lines,
            "",
            f"Over 1 ours is faster. Medians of {results['rounds']} rounds, ± half the distance of "
            f"the quartiles; processor time on one core, one BLAS thread. Numba {where['numba']}, "
            f"JAX {where['jax']}, {where['processor']}. *First call* includes compiling, for the "
            f"first size of a program; *difference* is that of the two results.",
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
    where = {"numba": numba.__version__, "jax": jax.__version__, "processor": processor()}
    results = {"environment": where, "rounds": options.rounds, "rows": rows}
    if not options.no_page:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        PAGE.write_text(replace_table(PAGE.read_text(), results))


if __name__ == "__main__":
    main()

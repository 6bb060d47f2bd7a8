"""Write the speed table of the performance page from a results file.

python -m benchmarks.speed_table benchmarks/results.json docs/performance.md
"""

import json
import sys
from pathlib import Path

BEGIN, END = "<!-- speed table: begin -->", "<!-- speed table: end -->"


def table(results: dict) -> str:
    """The table in Markdown, and the sentence that says where it was measured."""
    lines = [
        "| program | gradient / primal | primal, ms | tape, bytes | / hand-written | compile |",
        "|---|---|---|---|---|---|",
    ]
    for row in results["cases"]:
        hand = f"{row['to_hand_written']:.2f}" if "to_hand_written" in row else ""
        lines.append(
            f"| {row['name']} | {row['ratio']:.2f} ± {row['noise']:.2f} | "
            f"{row['milliseconds']:.2f} | {row['tape_bytes']:,} | {hand} | "
            f"{row['compile_ratio']:.1f} |"
        )
    total, where = results["summary"], results["environment"]
    lines += [
        "",
        f"Geometric mean {total['geometric_mean']:.2f}, largest {total['largest']:.2f}. "
        f"*compile*: first call of the gradient over Numba's own compile of the function. "
        f"Measured with Numba {where['numba']}, Python {where['python']}, {where['processor']}.",
    ]
    lines += _long_function(results.get("long_function", {}))
    lines += _arrays(results.get("arrays", {}))
    return "\n".join(lines + _rule_calls(results.get("rule_calls", [])))


def _long_function(row: dict) -> list[str]:
    """What a long function takes to compile, as a sentence of its own."""
    if not row:
        return []
    return [
        "",
        f"A function of {row['lines']} lines: its gradient compiles in {row['ratio']:.2f} ± "
        f"{row['noise']:.2f} times what Numba takes for the function ({row['primal']:.1f} s).",
    ]


def _arrays(found: dict) -> list[str]:
    """What gradients of array programs take to compile, as a table of its own."""
    if not found:
        return []
    total, stages = found["summary"], list(found["summary"]["shares"])
    shares = (f"{name} {100 * share:.0f} %" for name, share in total["shares"].items())
    return [
        "",
        "Compiling gradients of array programs, in processor seconds by stage:",
        "",
        f"| program | Numba | value and gradient | / Numba | {' | '.join(stages)} |",
        f"|---|---|---|---|{'---|' * len(stages)}",
        *(
            f"| {row['name']} | {row['primal']:.2f} | {row['gradient']:.2f} | "
            f"{row['ratio']:.2f} ± {row['noise']:.2f} | "
            f"{' | '.join(format(row['stages'][name], '.2f') for name in stages)} |"
            for row in found["programs"]
        ),
        "",
        f"Geometric mean {total['geometric_mean']:.2f}, largest {total['largest']:.2f}. Medians of "
        f"{found['rounds']} rounds over a second copy of each program in one process, noise at "
        f"most {100 * total['noise']:.0f} %; of all seconds: {', '.join(shares)}.",
    ]


def _rule_calls(rows: list[dict]) -> list[str]:
    """What calls of rules cost beyond their bodies, as a sentence of its own."""
    if not rows:
        return []
    each = (
        f"{row['name']} {row['ratio']:.2f} ± {row['noise']:.2f}, "
        f"{row['nanoseconds']:+.1f} ns per call"
        for row in rows
    )
    return ["", f"Loops over calls of a function with a rule, / hand-written: {'; '.join(each)}."]


def replace_table(page: str, results: dict) -> str:
    """The page with its table renewed; `ValueError` if the page has no place for it."""
    return replace_between(page, BEGIN, END, table(results))


def replace_between(page: str, begin: str, end: str, text: str) -> str:
    """The page with other text between two lines; `ValueError` if it lacks one of them."""
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"the page must hold the lines {begin!r} and {end!r}")
    return f"{before}{begin}\n{text}\n{end}{after}"


if __name__ == "__main__":
    results_file, page_file = map(Path, sys.argv[1:3])
    page_file.write_text(replace_table(page_file.read_text(), json.loads(results_file.read_text())))

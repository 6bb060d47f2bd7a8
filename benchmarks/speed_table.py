"""Write the tables of figures on pages from a results file.

python -m benchmarks.speed_table benchmarks/results.json docs/performance.md [further pages]
"""

import json
import sys
from pathlib import Path


def table(results: dict) -> str:
    """The table in Markdown, and the sentence that says where it was measured."""
    lines = [
        "| program | gradient / primal | primal, ms | tape, bytes | / hand-written | compile |",
        "|---|---:|---:|---:|---:|---:|",
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
        f"{_where(where)}",
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
        f"|---|---:|---:|---:|{'---:|' * len(stages)}",
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


def vector_functions(results: dict) -> str:
    """What vector functions bring, as a table, and how it was measured."""
    found, where = results["vector_functions"], results["environment"]
    return "\n".join(
        [
            f"Value and gradient with {found['numbers']:,} numbers, milliseconds of one thread, "
            f"medians of {found['rounds']} rounds. {_where(where)}",
            "",
            "| sum over | primal | strict | `.vector_math()` | / strict | `.fast()` |",
            "|---|---:|---:|---:|---:|---:|",
            *(
                f"| {row['name']} | {row['primal']:.1f} | {row['strict']:.1f} | "
                f"{row['vector_math']:.1f} | {row['ratio']:.2f} ± {row['noise']:.2f} | "
                f"{row['fast']:.1f} |"
                for row in found["programs"]
            ),
        ]
    )


def linear_algebra(results: dict) -> str:
    """What gradients of linear algebra and of array expressions cost, as a table."""
    found = results["linear_algebra"]
    where = found["environment"]
    return "\n".join(
        [
            f"Matrices of {found['size']} x {found['size']}, random; one thread, medians of "
            f"{found['rounds']} rounds. {_where(where)}",
            "",
            "| function | value, ms | value and cotangents / value |",
            "|---|---:|---:|",
            *(
                f"| {row['name']} | {row['milliseconds']:.2f} | "
                f"{row['ratio']:.2f} ± {row['noise']:.2f} |"
                for row in found["programs"]
            ),
        ]
    )


def higher_order(results: dict) -> str:
    """What second derivatives, several tangents and sparse Jacobians cost, as a table."""
    found = results["higher_order"]
    where = found["environment"]
    return "\n".join(
        [
            f"Called from Python, medians of {found['rounds']} rounds. {_where(where)}",
            "",
            "| what, over what | µs | ratio |",
            "|---|---:|---:|",
            *(
                f"| {row['name']} | {row['microseconds']:.1f} | "
                f"{row['ratio']:.2f} ± {row['noise']:.2f} |"
                for row in found["rows"]
            ),
        ]
    )


def small_jacobians(results: dict) -> str:
    """What ways to compute many small Jacobians take, as a table."""
    found, where = results["small_jacobians"], results["environment"]
    return "\n".join(
        [
            "| one Jacobian of 2 results of 15 numbers | ns | / function |",
            "|---|---:|---:|",
            *(
                f"| {row['says']} | {row['nanoseconds']:.0f} | "
                f"{row['ratio']:.1f} ± {row['noise']:.1f} |"
                for row in found["ways"]
            ),
            "",
            f"The reprojection error of bundle adjustment at {found['rows']:,} observations, "
            f"medians of {found['rounds']} rounds. {_where(where)}",
        ]
    )


def parallel_loops(results: dict) -> str:
    """What gradients of loops in threads take, as a table."""
    found, where = results["parallel_loops"], results["environment"]
    return "\n".join(
        [
            "| milliseconds | function | with threads | gradient | with threads | ratio |",
            "|---|---:|---:|---:|---:|---:|",
            *(
                f"| {row['name']} | {row['primal']:.1f} | {row['threaded_primal']:.1f} | "
                f"{row['gradient']:.1f} | {row['threaded_gradient']:.1f} | "
                f"{row['ratio']:.2f} ± {row['noise']:.2f} |"
                for row in found["programs"]
            ),
            "",
            f"Value and gradient with respect to all arrays, with {found['threads']} threads and "
            f"without, by the clock; medians of {found['rounds']} rounds. {_where(where)}",
        ]
    )


def _where(environment: dict) -> str:
    return (
        f"Measured with Numba {environment['numba']}, Python {environment['python']}, "
        f"{environment['processor']}."
    )


# what stands between the marks "<!-- NAME: begin -->" and "<!-- NAME: end -->" of a page
TABLES = {
    "speed table": table,
    "vector functions": vector_functions,
    "linear algebra": linear_algebra,
    "higher order": higher_order,
    "small Jacobians": small_jacobians,
    "parallel loops": parallel_loops,
}


def replace_tables(page: str, results: dict) -> str:
    """The page with its tables renewed; `ValueError` if it has a place for none of them."""
    named = [name for name in TABLES if f"<!-- {name}: " in page]
    if not named:
        raise ValueError(f"the page must have marks of one of the tables {', '.join(TABLES)}")
    for name in named:
        marks = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        page = replace_between(page, *marks, TABLES[name](results))
    return page


def replace_between(page: str, begin: str, end: str, text: str) -> str:
    """The page with other text between two lines; `ValueError` if it lacks one of them."""
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not (found and found_end):
        raise ValueError(f"the page must hold the lines {begin!r} and {end!r}")
    return f"{before}{begin}\n{text}\n{end}{after}"


if __name__ == "__main__":
    results_file, *pages = map(Path, sys.argv[1:])
    for page_file in pages:
        page = replace_tables(page_file.read_text(), json.loads(results_file.read_text()))
        page_file.write_text(page)

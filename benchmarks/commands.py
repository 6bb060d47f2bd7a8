"""The command of a benchmark: its arguments, what it prints, and the file of results."""

import json
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any


def run_command(
    text: str, name: str, measured: Callable[..., tuple[Any, Sequence[str]]], **counts: int
) -> None:
    """Measure what the command line asks for, print it, and put it into a file of results.

    text       what the command says of itself
    name       that of the entry in the file
    measured   takes the counts, and returns the entry and the lines to print
    counts     options that are whole numbers, as they are if not given
    """
    options = vars(parser_for(text, **counts).parse_args())
    path = options.pop("results")
    found, lines = measured(**options)
    print("\n".join(lines))
    put(path, name, found)


def parser_for(text: str, **counts: int) -> ArgumentParser:
    """The arguments that all benchmarks have, and some counts."""
    parser = ArgumentParser(description=text)
    parser.add_argument("--results", type=Path)
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    return parser


def put(path: Path | None, name: str, found: Any) -> None:
    """Put an entry into a file of results, if there is one."""
    if path is not None:
        results = json.loads(path.read_text())
        path.write_text(json.dumps({**results, name: found}, indent=1) + "\n")

"""`python -m activerules explain module:function "Active[float64]" ...`."""

from __future__ import annotations

import argparse
from pathlib import Path

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.annotations.signature import Forward, Reverse
from activerules.command.reading import load_function, read_annotation, write_file
from activerules.explain import html
from activerules.explain.collect import explain

_RETURNS = {"Active": Active, "Const": Const, "Duplicated": Duplicated}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("function", help="module:function or path/to/file.py:function")
    parser.add_argument(
        "annotation", nargs="*", help='one per argument: "Duplicated[float64[::1]]", "int64"'
    )
    parser.add_argument(
        "--return",
        dest="return_activity",
        choices=_RETURNS,
        metavar="ACTIVITY",
        help="of the result: Active (a float), Duplicated (arrays) or Const",
    )
    parser.add_argument("--forward", action="store_true", help="explain forward mode")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write HTML there instead")


def run(options: argparse.Namespace) -> int:
    """Print the report, or write it to a file."""
    report = explain(
        load_function(options.function),
        *map(read_annotation, options.annotation),
        return_activity=_RETURNS.get(options.return_activity),
        mode=Forward if options.forward else Reverse,
    )
    if options.html is not None:
        write_file(options.html, html.page(report))
    else:
        report.show()
    return 0

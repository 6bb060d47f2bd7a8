"""The command line: `python -m activerules explain module:function "Active[float64]" ...`, and
`python -m activerules help NAME`.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import types

from activerules import help as pages
from activerules.annotations.activity import KINDS, Active, Annotation, Const
from activerules.annotations.signature import Forward, Reverse
from activerules.errors import ActiverulesError, ActivityError
from activerules.explain import html
from activerules.explain.collect import explain

_RETURNS = {"Active": Active, "Const": Const}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 1 if our own error was printed to stderr."""
    options = _parser().parse_args(arguments)
    if options.command == "help":
        return pages.show(options.name)
    try:
        function = load_function(options.function)
        annotated = [read_annotation(text) for text in options.annotation]
        report = explain(
            function,
            *annotated,
            return_activity=_RETURNS.get(options.return_activity),
            mode=Forward if options.forward else Reverse,
        )
    except ActiverulesError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if options.html is not None:
        options.html.write_text(html.render(report), encoding="utf-8")
    else:
        print(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m activerules",
        description="Gradients of Numba functions at LLVM level.",
        epilog='example: python -m activerules explain beam.py:loss "Duplicated[float64[::1]]"',
    )
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    pages.add_to(commands)
    command = commands.add_parser(
        "explain", help="say how the gradient of a function comes about; nothing is run"
    )
    command.add_argument("function", help="module:function or path/to/file.py:function")
    command.add_argument(
        "annotation", nargs="*", help='one per argument: "Duplicated[float64[::1]]", "int64"'
    )
    command.add_argument("--return", dest="return_activity", choices=_RETURNS, metavar="ACTIVITY")
    command.add_argument("--forward", action="store_true", help="explain forward mode")
    command.add_argument("--html", type=Path, metavar="FILE", help="write HTML there instead")
    return parser


def load_function(written: str) -> Any:
    """The object that `module:name` or `path/to/file.py:name` names; imports the module."""
    source, colon, name = written.rpartition(":")
    if not colon:
        raise ActiverulesError(
            f"`{written}` names no function",
            instead=["module:function", "path/to/file.py:function"],
        )
    found: Any = _load_module(source)
    for part in name.split("."):
        if not hasattr(found, part):
            raise ActiverulesError(
                f"{source} has no function `{name}`", where=[("in", source, _file_of(found))]
            )
        found = getattr(found, part)
    return found


def _load_module(source: str) -> ModuleType:
    if not source.endswith(".py"):
        if importlib.util.find_spec(source.partition(".")[0]) is None:
            raise ActiverulesError(
                f"there is no module {source}", instead=["path/to/file.py:function"]
            )
        return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise ActiverulesError(f"there is no file {source}")
    spec = importlib.util.spec_from_file_location(path.stem, path.absolute())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    sys.path.insert(0, str(path.absolute().parent))
    spec.loader.exec_module(module)
    return module


def _file_of(found: Any) -> str:
    return getattr(found, "__file__", None) or ""


def read_annotation(written: str) -> Any:
    """`Duplicated[float64[:, ::1]]` as an annotation; a type of Numba alone is Const."""
    names: dict[str, Any] = {name: getattr(types, name) for name in types.__all__}
    names |= {kind.__name__: kind for kind in (*KINDS, Annotation)}
    try:
        # The command line belongs to whoever runs the command: there is no one to guard against.
        found = eval(written, {"__builtins__": {}}, names)
    except Exception as error:
        raise ActivityError(
            f"`{written}` is not an annotation: {error}",
            instead=["Active[float64]", "Duplicated[float64[::1]]", "Const[int64]"],
        ) from error
    return found

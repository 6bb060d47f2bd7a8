"""The help page of an error, for `python -m activerules help NAME`; it needs no Numba.

The page is the docstring of the class, as in docs/errors.md.
"""

from __future__ import annotations

import argparse
import difflib
import inspect
import sys
from collections.abc import Sequence
from typing import Any

from activerules import errors


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `help NAME` and return the exit code: 1 if there is no such error."""
    parser = argparse.ArgumentParser(prog="python -m activerules", add_help=False)
    add_to(parser.add_subparsers(required=True, metavar="command"))
    return show(parser.parse_args(arguments).name)


def add_to(commands: Any) -> None:
    """Add the command `help` to the subparsers of a parser."""
    command = commands.add_parser("help", help="print the help page of an error")
    command.add_argument("name", help="its class, as in the last line of its text")


def show(name: str) -> int:
    """Print the page of an error, and return the exit code."""
    try:
        print(page(name))
    except errors.ActiverulesError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def page(name: str) -> str:
    """The help page of an error or warning class. Raises `ActiverulesError` for other names."""
    known = {
        cls.__name__: cls
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, errors.ActiverulesError | errors.ActiverulesWarning)
    }
    if name not in known:
        near = difflib.get_close_matches(name, known) or sorted(known)
        raise errors.ActiverulesError(
            f"there is no error `{name}`",
            instead=[f"python -m activerules help {each}" for each in near[:3]],
        )
    cls = known[name]
    bases = ", ".join(base.__name__ for base in cls.__bases__)
    text = inspect.getdoc(cls) or "(no text: Python runs with -OO)"
    return f"{name}: a subclass of {bases}\n\n{text}"

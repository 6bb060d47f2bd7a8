"""`python -m activerules help NAME`: the help page of an error; it needs no Numba.

The page is the docstring of the class, as in docs/errors.md.
"""

from __future__ import annotations

import argparse
import difflib
import inspect

from activerules import errors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument("name", help="its class, as in the last line of its text")


def run(options: argparse.Namespace) -> int:
    """Print the page of an error."""
    print(page(options.name))
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

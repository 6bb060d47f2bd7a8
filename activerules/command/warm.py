"""`python -m activerules warm`: compile rules of the library ahead of time, for the disk cache.

A compiled rule serves every call with the same types, memory layouts and active arguments, whatever
the program around it. Small programs, differentiated with respect to each choice of their
arguments, therefore leave on disk what the first gradient of most programs needs.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Collection, Sequence
from itertools import chain, combinations
from pathlib import Path

import numpy as np

from activerules.api.grad import grad
from activerules.command.programs import PROGRAMS
from activerules.errors import CommandError
from activerules.extras import load
from activerules.numba_ext.rules.stored import folders, stored_in

_TYPES = ("float64", "float32", "complex128", "complex64")
_ARGUMENTS = {
    "v": np.array([1.0, 2.0, 3.0]),
    "m": np.array([[4.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]),  # positive definite
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "name", nargs="*", help="a function, such as np.linalg.solve or @; without any, all of them"
    )
    parser.add_argument(
        "--types",
        default="float64",
        help=f"of the arrays, separated by commas: {', '.join(_TYPES)}",
    )
    parser.add_argument("--list", action="store_true", help="print the functions; compile nothing")


def run(options: argparse.Namespace) -> int:
    """Compile the rules, with a line for each function and type, or list the functions."""
    if options.list:
        print("\n".join(PROGRAMS))
        return 0
    dtypes = options.types.split(",")
    _check("type", dtypes, _TYPES)
    _check("function", options.name, PROGRAMS)
    load("scipy", "scipy", "Numba compiles products of matrices and np.linalg with SciPy's BLAS")
    where = _writable_folders()
    start, total = time.monotonic(), 0
    for name in options.name or PROGRAMS:
        for dtype in dtypes:
            print(f"{name:<20}{dtype:<12}", end="", flush=True)
            begin, before = time.monotonic(), _times_of(where)
            _differentiate(name, dtype)
            written = len(_times_of(where).items() - before.items())
            print(f"{time.monotonic() - begin:6.1f} s   {written} files written", flush=True)
            total += written
    folder = ", ".join(map(str, where))
    print(f"{total} files written in {time.monotonic() - start:.0f} s, in {folder}")
    return 0


def _check(what: str, names: Sequence[str], known: Collection[str]) -> None:
    for name in names:
        if name not in known:
            raise CommandError(f"there is no {what} `{name}` to warm; there are {', '.join(known)}")


def _writable_folders() -> list[Path]:
    """The folders that rules are stored in. Raises CommandError if one cannot be written to."""
    instead = ["NUMBA_CACHE_DIR=/a/writable/directory python -m activerules warm"]
    existing = folders()
    if not existing:
        raise CommandError(
            "compiled rules cannot be stored: neither the directory of activerules nor your cache "
            "directory can be written to",
            instead=instead,
        )
    for folder in existing:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise CommandError(
                f"compiled rules cannot be stored in {folder}: {error.strerror}", instead=instead
            ) from error
    return existing


def _times_of(where: Sequence[Path]) -> dict[Path, int]:
    """The stored files, and when each was written."""
    return {file: file.stat().st_mtime_ns for folder in where for file in stored_in(folder)}


def _differentiate(name: str, dtype: str) -> None:
    """Differentiate the programs of a function with respect to each choice of arguments."""
    for program, kinds in PROGRAMS[name]:
        arguments = [_ARGUMENTS[kind].astype(dtype) for kind in kinds]
        numbers = range(len(kinds))
        for chosen in chain.from_iterable(combinations(numbers, n + 1) for n in numbers):
            grad(program, argnums=chosen)(*arguments)

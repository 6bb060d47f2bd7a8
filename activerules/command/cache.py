"""`python -m activerules cache`: the rules and derivatives on disk, and `--clear`."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from activerules.errors import CommandError
from activerules.numba_ext.rules.stored import folders, stored_in


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "--clear", action="store_true", help="remove the compiled rules and derivatives"
    )
    parser.add_argument(
        "folder",
        nargs="*",
        type=Path,
        help="folders of your own modules: what has cache=True is stored beside them",
    )


def run(options: argparse.Namespace) -> int:
    """Print the number and size of compiled rules and derivatives, or remove them."""
    missing = [folder for folder in options.folder if not folder.is_dir()]
    if missing:
        raise CommandError(f"there is no folder {missing[0]}")
    if options.clear:
        print(_cleared(options.folder))
    else:
        print("\n".join(described(options.folder)))
    return 0


def described(further: Sequence[Path] = ()) -> Iterator[str]:
    """A line for each folder with compiled rules and derivatives."""
    for folder in [*folders(), *further]:
        files = stored_in(folder)
        size = sum(file.stat().st_size for file in files)
        yield f"{folder}: {len(files)} compiled rules and derivatives, {size / 2**20:.1f} MiB"


def _cleared(further: Sequence[Path]) -> str:
    files = [file for folder in [*folders(), *further] for file in stored_in(folder)]
    for file in files:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise CommandError(f"{file} cannot be removed: {error.strerror}") from error
    return f"{len(files)} compiled rules and derivatives removed"

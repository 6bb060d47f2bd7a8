"""`python -m activerules`: the table of commands, and the handling of their errors."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from activerules.errors import ActiverulesError

# name, module, what it does
COMMANDS = {
    "explain": ("activerules.command.explain", "report how a derivative is computed; run nothing"),
    "check": ("activerules.command.check", "compare a gradient with finite differences"),
    "info": ("activerules.command.info", "print versions, processor and caches"),
    "cache": ("activerules.command.cache", "list what is compiled on disk, or remove it"),
    "warm": ("activerules.command.warm", "compile rules of the library ahead of time"),
    "help": ("activerules.command.help", "print the help page of an error"),
}
_EPILOG = """exit status: 0; 1 if a gradient is wrong (check); 2 for errors

example: python -m activerules explain beam.py:loss "Duplicated[float64[::1]]" """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status; our own errors are printed to stderr."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(
        prog="python -m activerules",
        description="Gradients of Numba functions at LLVM level.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(required=True, metavar="command", dest="command")
    for name, (module, does) in COMMANDS.items():
        command = commands.add_parser(name, help=does, description=does)
        if words[:1] == [name]:
            import_module(module).add_arguments(command)
    if not words:
        parser.print_help(sys.stderr)
        return 2
    options = parser.parse_args(words)
    try:
        status = import_module(COMMANDS[options.command][0]).run(options)
        sys.stdout.flush()
        return status
    except ActiverulesError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    except BrokenPipeError:
        # `head` has read enough. The interpreter flushes once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 2

"""The command line, `python -m activerules COMMAND`: one module per command, listed in `main`.

A module has `add_arguments(parser)` and `run(options)`, which returns the exit status. Only the
module of the given command is imported: `help` works without Numba. `reading` turns command-line
arguments into functions, annotations and values.
"""

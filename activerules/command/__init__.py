"""The command line, `python -m activerules COMMAND`: one module per command, listed in `main`.

A module has `add_arguments(parser)` and `run(options)`, which returns the exit status. Only the
module of the command that is asked for is imported: `help` works without Numba. `reading` turns
what is written on the command line into functions, annotations and values.
"""

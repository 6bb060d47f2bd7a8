"""The programs of GradBench in Numba, JAX and PyTorch: checked against each other, then timed.

`programs` has them as they are written for Numba, with their arguments; `in_jax` and `in_torch` as
users of these write them; `measure` checks and times all, and writes the table of
docs/performance.md and, by `figure`, its picture; `values` writes what the tests compare with.
"""

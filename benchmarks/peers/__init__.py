"""Programs of GradBench in Numba and in JAX: checked against each other, then timed.

`programs` has them as they are written for Numba, with their arguments; `in_jax` as users of JAX
write them; `measure` checks and times both and writes the table of docs/performance.md.
"""

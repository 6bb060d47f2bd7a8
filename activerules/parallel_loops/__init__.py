"""Derivatives of `prange` loops that run in parallel, as the loops do.

parallel    the function `parallel`: a function whose loops have rules
outline     the loops of a function, each as a function of its own; by syntax trees
names       what the body of a loop reads, assigns, and reduces
accesses    which part of an array an iteration accesses
ruled_loop  a loop as a compiled function with a rule
sweeps      what the rule runs: the chunks of a loop, in threads
schedule    how iterations are divided among threads, and how sums come together
"""

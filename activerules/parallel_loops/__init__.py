"""Derivatives of `prange` loops that run in parallel, as the loops do.

parallel   the function `parallel`: a function whose loops are regions
outline    the loops of a function, each as a function of its own; by syntax trees
names      what the body of a loop reads, assigns, and reduces
accesses   which part of an array an iteration accesses
regions    a loop as a compiled function with a rule
chunks     what regions call in compiled code: who shares a shadow, and who adds up
"""

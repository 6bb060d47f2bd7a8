"""The structure of a value of a Numba type, and operations on all of its parts.

`layout` builds the tree of a type, which answers every question about activity; `walk` traverses
LLVM values along that tree, with visitors in `shadows` and `identity`.
"""

"""What a value of a Numba type is made of, and what is done to all of its parts.

`layout` has the tree of a type, which every question about activity asks; `walk` goes over LLVM
values in step with it, and `shadows` and `identity` are what its visitors do.
"""

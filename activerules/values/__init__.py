"""What values are made of: one tree per Numba type, and what stands on it.

layout      the tree, which every question about activity asks; needs Numba's types alone
walk        over LLVM values in step with the tree: `walk` visits, `rebuild` and `fresh` make again
shadows     clear, add, copy, zero, keep, release
identity    what tells that memory is the same
"""

"""The engine: from LLVM IR to the LLVM IR of its derivative. Needs no Numba."""

"""The AD target: how Numba compiles for it, and which calls remain calls."""

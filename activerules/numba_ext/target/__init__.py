"""The AD target: what Numba compiles for it, and which calls stay calls."""

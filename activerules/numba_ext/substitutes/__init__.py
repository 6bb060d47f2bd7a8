"""Implementations of Numba's that the AD target replaces by ones that have derivatives."""

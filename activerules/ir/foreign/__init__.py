"""Support for IR of compilers other than Numba, and `differentiate`, which accepts it."""

"""What serves only IR of other compilers than Numba, and `differentiate`, which takes it."""

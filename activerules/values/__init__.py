"""What a value of a Numba type is made of, and what is done to all of its parts."""

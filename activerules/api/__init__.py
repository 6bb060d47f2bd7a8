"""What users call: a module per name they type, each from Python and inside `@njit`."""

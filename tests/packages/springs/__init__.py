"""A package that knows nothing of derivatives."""

import numba


@numba.njit
def stretch(force, stiffness):
    """By bisection: its own derivative would be zero."""
    low, high = 0.0, 1e3
    for _ in range(200):
        middle = 0.5 * (low + high)
        if stiffness * (middle + middle**3) > force:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)

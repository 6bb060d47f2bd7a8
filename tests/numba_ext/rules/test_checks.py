"""The small functions that wrappers of rules call."""

import numpy as np
from numba import njit

from activerules.numba_ext.rules.checks import overlap


@njit
def share(x, y):
    return overlap(x, y)


def test_arrays_share_memory_as_numpy_finds():
    line, grid = np.zeros(20), np.zeros((4, 5))
    words = line.view(np.int32)
    pairs = [
        (line, line),
        (line[:10], line[10:]),
        (line[:11], line[10:]),
        (line[5:5], line),
        (line, np.zeros(20)),
        (grid[1:3], grid[2]),
        (grid[1:3], grid[3]),
        (words[3:5], line[2:]),
        (words[3:4], line[2:]),
        (grid[:, 1], grid[:, 2]),
        (grid[:, 1], grid[2]),
    ]
    for x, y in pairs:
        expected = np.shares_memory(x, y)
        assert share(x, y) == share(y, x) == expected

"""Items of reflected lists are moved one by one, in whatever way a program moves them."""

import numpy as np
import pytest
from numba import njit, types

from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES
from activerules.testing import check_grads


@njit
def inserting(x):
    pairs = [(x[0], 1), (x[1], 2)]
    pairs.insert(1, (x[2], 3))
    return pairs[0][0] * pairs[1][0] + pairs[2][0]


@njit
def popping(x):
    pairs = [(x[0], 1), (x[1], 2), (x[2], 3)]
    first, _ = pairs.pop(0)
    return first * pairs[0][0] + pairs[1][0]


@njit
def deleting(x):
    pairs = [(x[0], 1), (x[1], 2), (x[2], 3), (x[0] * x[1], 4)]
    del pairs[0:2]
    return pairs[0][0] * pairs[1][0]


@njit
def growing(x):
    pairs = [(x[0], 1), (x[1], 2), (x[2], 3)]
    pairs[0:1] = [(x[2] * x[1], 4), (x[1], 5), (x[0], 6)]
    return pairs[0][0] * pairs[3][0] + pairs[2][0] * pairs[4][0]


@njit
def shrinking(x):
    pairs = [(x[0], 1), (x[1], 2), (x[2], 3)]
    pairs[0:2] = [(x[0] * x[1], 4)]
    return pairs[0][0] * pairs[1][0]


@pytest.mark.parametrize("function", [inserting, popping, deleting, growing, shrinking])
def test_list_items_are_not_moved_as_bytes(function):
    text = capture(function, (types.float64[::1],), rules=RULES).text
    assert "llvm.memmove" not in text
    check_grads(function, (np.array([0.7, 1.3, -0.4]),))

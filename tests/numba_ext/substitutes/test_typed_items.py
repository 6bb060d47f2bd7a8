"""Items of lists are moved one by one, in whatever way a program moves them; a loop over a tuple of
several types reads each entry as what it is.
"""

import numpy as np
import pytest
from numba import literal_unroll, njit, types

import activerules as ar
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


@njit
def weighed(x, t):
    total = 0.0
    for entry in literal_unroll((x * t, 3, x > t, t, 2 + 0j)):
        total = 0.5 * total + (entry * x).real
    return total


@njit
def written(row, entries):
    k = 0
    for entry in literal_unroll(entries):
        row[k] = entry
        k += 1  # noqa: SIM113  (Numba has no enumerate of these)


@njit
def buffered(x):
    rows = np.zeros((len(x), 3))
    for i in range(len(x)):
        written(rows[i], (2.0 * x[i], i, x[i] > 0.0))
    return np.sum(rows[:, 0] ** 2 * rows[:, 1] + rows[:, 0] * rows[:, 2])


@njit
def of_arrays(x, flags):
    total = 0.0
    for part in literal_unroll((x, flags, 3, x[1:] * x[0])):
        total += total * np.sum(np.asarray(part)) + 1.0
    return total


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (weighed, (1.5, 0.7)),
        (buffered, (np.array([0.5, -1.5, 2.0]),)),
        (of_arrays, (np.array([0.5, -1.5, 2.0]), np.array([True, False, True]))),
    ],
)
def test_entries_of_several_types_have_derivatives(function, args):
    check_grads(function, args)


@njit
def summed(x):
    total = 0
    for entry in literal_unroll((x, 3, True, 2.5)):
        total += entry
    return total


def test_values_are_those_of_numba():
    assert ar.value_and_grad(summed)(0.5) == (summed(0.5), 1.0)

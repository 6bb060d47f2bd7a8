"""Refusals that are about a dictionary to which a function that calls itself adds keys."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.errors import NotYetSupported


@njit
def scaled(n, x, known):
    key = "n" + str(n), n
    if key in known:
        return known[key][0]
    y = x * 1.0 if n < 2 else x * scaled(n - 1, x, known)
    known[key] = y, "y"
    return y


@njit
def from_known(x):
    known = {}
    known["n0", 0] = x * 1.0, "x"
    return scaled(3, x, known).sum()


def test_the_dictionary_is_named():
    with pytest.raises(NotYetSupported, match=r"adds keys to a dictionary of active .*`known`"):
        ar.grad(from_known)(np.array([0.7, 0.3]))

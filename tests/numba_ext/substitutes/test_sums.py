"""Sums of whole arrays: those of Numba, and nothing on the tape that only counts."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient


@njit
def sums(a):
    return np.sum(a * a) + a.sum() * np.sum(a > 0.0)


@pytest.mark.parametrize(
    "layout", [np.ravel, np.copy, np.asfortranarray, lambda a: a[::2, ::-1], lambda a: a[0, ::2]]
)
def test_arrays_of_any_layout(layout):
    a = layout(np.random.default_rng(0).normal(size=(4, 6)))
    assert ar.value_and_grad(sums)(a)[0] == sums(a)
    check_gradient(sums, (a,))


def test_the_tape_does_not_grow_with_the_array():
    def tape(n):
        return ar.tape_bytes(sums, ar.Duplicated(np.ones(n), np.zeros(n)))

    assert tape(4096) == tape(64)

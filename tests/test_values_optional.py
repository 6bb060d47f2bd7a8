"""Optional results: a number has a derivative, None has none and says so."""

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def root(x):
    return np.sqrt(x) if x > 0.0 else None


@njit
def first_above(values, limit):
    for v in values:
        if v > limit:
            return v * v
    return None


def test_a_number_has_a_derivative():
    assert ar.value_and_grad(root)(4.0) == (2.0, 0.25)
    shadow = np.ones(3)
    values = ar.Duplicated(np.array([1.0, 5.0, 7.0]), shadow)
    ar.autodiff(ar.Reverse, first_above, ar.Active, values, 3.0)
    np.testing.assert_array_equal(shadow, [1.0, 11.0, 1.0])
    assert ar.autodiff(ar.Forward, root, ar.Duplicated(4.0, 2.0)) == 0.5


def test_none_has_none(unfreed):
    shadow = np.ones(3)
    values = ar.Duplicated(np.array([1.0, 5.0, 7.0]), shadow)
    with pytest.raises(ar.NotAFloatReturn, match="returned None"):
        ar.autodiff(ar.Reverse, first_above, ar.Active, values, 9.0)
    np.testing.assert_array_equal(shadow, 1.0)

    def fails():
        with pytest.raises(ar.NotAFloatReturn, match="returned None"):
            ar.grad(first_above)(np.zeros(3), 9.0)

    assert unfreed(fails) == 0

"""Arrays that a function captures: constants, whatever they stand in for."""

import numpy as np
import pytest
from numba import njit

import activerules as ar

TABLE = np.array([1.0, 2.0, 3.0])
X = np.array([0.5, -1.0, 2.0])


@njit
def table_or_argument(x, table):
    return TABLE if table else x


@njit
def scaled(x, table):
    z = TABLE if table else x
    return (z * x).sum()


def test_a_constant_stays_one_however_often_it_is_differentiated():
    for _ in range(3):
        np.testing.assert_array_equal(ar.grad(scaled)(X, True), TABLE)
    np.testing.assert_array_equal(ar.grad(scaled)(X, False), 2 * X)
    np.testing.assert_array_equal(TABLE, [1.0, 2.0, 3.0])


def test_forward_mode():
    for table, expected in ((True, 6.0), (False, 3.0)):
        assert ar.autodiff(ar.Forward, scaled, ar.Duplicated(X, np.ones(3)), table) == expected


def test_a_shadow_of_a_constant_is_not_handed_out():
    """It is shared by all calls; a shadow that is handed out is the caller's own."""
    with pytest.raises(ar.MixedActivity, match="and constants have none"):
        ar.autodiff(ar.Forward, table_or_argument, ar.Duplicated(X, np.ones(3)), True)


def test_captured_arrays_are_read_only():
    captured = np.zeros(3)

    @njit
    def writes(x):
        captured[0] = x
        return captured[0]

    with pytest.raises(Exception, match=r"(?s)Cannot modify readonly array|readonly"):
        ar.autodiff(ar.Reverse, writes, ar.Active(1.0))

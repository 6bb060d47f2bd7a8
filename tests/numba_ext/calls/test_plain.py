"""Calls from Python hand the fields of annotations over, and hold no reference to them."""

import sys

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.numba_ext.calls.plain import spread


@njit
def scaled(x, k):
    if k < 0.0:
        raise ValueError("negative")
    return k * x[0] * x[1]


def test_annotations_are_spread_in_order():
    kinds, fields = spread((ar.Duplicated(1, 2), 3, ar.Active(4)))
    assert kinds == (ar.Duplicated, None, ar.Active)
    assert fields == [1, 2, 3, 4]


def test_p1_p2_no_reference_stays_behind_when_the_call_raises():
    x, x_bar = np.array([2.0, 3.0]), np.zeros(2)
    before = sys.getrefcount(x), sys.getrefcount(x_bar)
    assert ar.autodiff(ar.Reverse, scaled, ar.Duplicated(x, x_bar), ar.Active(2.0)) == (None, 6.0)
    for annotated in (ar.Duplicated(x, x_bar), ar.Active(-1.0)), (ar.Duplicated(x, x), 1.0):
        with pytest.raises((ValueError, ar.ShadowMismatch)):
            ar.autodiff(ar.Reverse, scaled, *annotated)
    del annotated
    assert (sys.getrefcount(x), sys.getrefcount(x_bar)) == before
    assert x_bar.tolist() == [6.0, 4.0]


def test_both_halves_of_split_mode_take_fields():
    x, x_bar = np.array([2.0, 3.0]), np.zeros(2)
    annotated = ar.Duplicated(x, x_bar), ar.Active(2.0)
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, scaled, ar.Active, ar.Duplicated, ar.Active
    )
    tape, primal, _ = augmented(*annotated)
    assert primal == 12.0
    assert reverse(*annotated, 1.0, tape) == (None, 6.0)
    assert x_bar.tolist() == [6.0, 4.0]

"""`overwrite`, in each of its forms."""

import numpy as np
import pytest
from numba import njit

from activerules.values.overwriting import overwrite

SIZES = [(7,), (3, 4), (2, 3, 4), (0,), (3, 0), ()]
LAYOUTS = {
    "C": lambda shape: np.zeros(shape),
    "F": lambda shape: np.zeros(shape, order="F"),
    "A": lambda shape: np.zeros((*shape, 2))[..., 0],
}


@njit
def compiled(target, source):
    overwrite(target, source)


@pytest.mark.parametrize("run", [overwrite, compiled])
@pytest.mark.parametrize("target", LAYOUTS)
@pytest.mark.parametrize("source", LAYOUTS)
@pytest.mark.parametrize("shape", SIZES)
def test_the_items_and_nothing_else_are_written(run, target, source, shape):
    to, of = LAYOUTS[target](shape), LAYOUTS[source](shape)
    of[...] = np.arange(1.0, 1.0 + of.size).reshape(shape)
    run(to, of)
    np.testing.assert_array_equal(to, of)
    whole = to if to.base is None else to.base
    assert np.abs(whole).sum() == of.sum()  # what is between the items is still zero


def test_real_items_into_complex_ones():
    to = np.zeros((2, 3), complex, order="F")
    compiled(to, np.arange(6.0).reshape(2, 3))
    np.testing.assert_array_equal(to, np.arange(6.0).reshape(2, 3))

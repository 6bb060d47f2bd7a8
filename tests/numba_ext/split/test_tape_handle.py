"""What the tape of split mode, a counted block of memory, relies on."""

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def power(x, n):
    y = x
    for _ in range(n):
        y = np.sin(y) * x
    return y


@pytest.mark.parametrize("n", [0, 3, 500])
def test_the_engines_memory_begins_at_a_multiple_of_16(n):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitNoPrimal, power, ar.Active, ar.Active, ar.Const
    )
    arguments = ar.Active(0.7), ar.Const(n)
    tapes = [augmented(*arguments)[0] for _ in range(20)]
    assert {tape._block.data % 16 for tape in tapes} == {0}
    slopes = {reverse(*arguments, 1.0, tape)[0] for tape in tapes}
    assert len(slopes) == 1

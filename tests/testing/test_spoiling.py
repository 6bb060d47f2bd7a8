"""What is overwritten between the halves of a rule gets other values, valid as those before."""

import numpy as np
import pytest

from activerules.testing.spoiling import spoil


@pytest.mark.parametrize(
    "values",
    [[0, 2, 3, 5], [1, 0, 1], [3], [3, 3], [0], [-1], [0.2, 3.7, 3.9], [2.5], [0.0], [np.nan, 1.0]],
)
def test_s1_s2_what_is_overwritten_is_no_other_index_than_was_there(values):
    array = np.array(values)
    before = array.copy()
    spoil(array)
    assert not np.array_equal(array, before)
    n = int(max(np.nanmax(before), 0)) + 1
    assert all(-n <= int(v) < n for v in array[~np.isnan(array)])


def test_s2_only_zeros_of_unsigned_integers_stay():
    for dtype in (np.uint8, np.int8, np.float32, np.complex64, np.bool_):
        array = np.zeros(3, dtype)
        spoil(array)
        assert array.any() == (dtype is not np.uint8)

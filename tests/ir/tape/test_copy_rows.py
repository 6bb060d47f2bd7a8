"""Rows of a box are copied one by one: the same as a slice, as far as the array goes."""

import numpy as np
import pytest

from activerules.ir.tape.runtime import COPY_ROWS, COPY_ROWS_TEXT
from tests.ir.harness import compile_text

# layers, rows, and entries of a row, of the array and of the box in it; where the box begins
BOXES = [
    ((4, 5, 6), (2, 3, 4), (1, 1, 1)),
    ((4, 5, 6), (4, 5, 6), (0, 0, 0)),
    ((1, 9, 3), (1, 5, 2), (0, 4, 1)),
    ((3, 3, 3), (1, 1, 1), (2, 2, 2)),
    ((3, 3, 3), (0, 2, 2), (0, 0, 0)),
    ((3, 3, 3), (2, 0, 2), (0, 0, 0)),
]


@pytest.mark.parametrize(("shape", "box", "at"), BOXES)
@pytest.mark.parametrize("left_out", [0, 1, 3])
def test_what_lies_between_two_addresses_is_copied(
    shape: tuple[int, int, int], box: tuple[int, int, int], at: tuple[int, int, int], left_out: int
) -> None:
    text = COPY_ROWS_TEXT.replace("define internal", "define")
    copy = compile_text(text, None).function(COPY_ROWS)
    array = np.random.default_rng(3).normal(size=shape)
    _, m, o = shape
    corner = (at[0] * m + at[1]) * o + at[2]
    layers, rows, width = box
    extent = ((layers - 1) * m + rows - 1) * o + width if layers and rows else 0
    first, end = (array.ctypes.data + 8 * (corner + k) for k in (left_out, extent - left_out))
    copied = np.full(box, -1.0)
    operands = (8 * width, rows, 8 * o, 8 * width, layers, 8 * m * o, 8 * rows * width)
    copy(copied.ctypes.data, array.ctypes.data + 8 * corner, first, end, *operands)
    i, j, k = at
    expected = array[i : i + layers, j : j + rows, k : k + width].copy()
    places = np.arange(array.size).reshape(shape)[i : i + layers, j : j + rows, k : k + width]
    expected[(places < corner + left_out) | (places >= corner + extent - left_out)] = -1.0
    np.testing.assert_array_equal(copied, expected)

"""Typed lists: what the AD target calls instead of Numba's C functions does what these do."""

import ctypes

import numpy as np
import pytest
from numba import njit
from numba.typed import List, listobject

from activerules.numba_ext.substitutes import typed_lists
from activerules.values.memory_layout import LIST_ITEMS, LIST_SIZE


def integer(address):
    return ctypes.c_int64.from_address(address).value


def test_l1_the_layout_is_that_of_numba():
    numbers = List([0.5, 2.0, -1.0])
    struct = integer(numbers._opaque.data)
    size, item_size, allocated = (integer(struct + k) for k in (0, 8, 16))
    assert (size, item_size, allocated) == (3, 8, numbers._allocated())
    assert (LIST_SIZE, typed_lists._ALLOCATED) == (0, 16)
    assert [*(ctypes.c_double * 3).from_address(integer(struct + LIST_ITEMS))] == [0.5, 2.0, -1.0]
    is_mutable = ctypes.c_int32.from_address(struct + 24)
    assert is_mutable.value == 1
    numbers._make_immutable()
    assert is_mutable.value == 0


def calling(append, setitem, delitem, delete_slice):
    """The function that changes a list by these, and returns their statuses."""

    @njit
    def change(rows, new, immutable):
        if immutable:
            rows._make_immutable()
        statuses = [append(rows, new) for _ in range(6)]
        statuses.append(setitem(rows, 1, new))
        statuses.append(delitem(rows, 2))
        for start, stop, step in ((1, 6, 2), (5, 3, -1), (0, 0, 1), (1, 2, 1)):
            statuses.append(delete_slice(rows, start, stop, step))
        return statuses, rows._allocated()

    return change


OPERATIONS = (
    listobject._list_append,
    listobject._list_setitem,
    listobject._list_delitem,
    listobject._list_delete_slice,
)
BY_NUMBA = calling(*OPERATIONS)
BY_SUBSTITUTES = calling(*map(typed_lists.SUBSTITUTES.get, OPERATIONS))


@pytest.mark.parametrize("immutable", [False, True])
def test_l2_statuses_items_and_references_are_those_of_numba(immutable, unfreed):
    """A list that becomes shorter keeps its memory, where Numba gives some back."""

    def changed(function):
        rows, new = List([np.full(2, float(k)) for k in range(4)]), np.array([7.0, 8.0])
        statuses, allocated = function(rows, new, immutable)
        return (statuses, [row.tolist() for row in rows]), allocated

    (by_numba, less), (found, allocated) = changed(BY_NUMBA), changed(BY_SUBSTITUTES)
    assert found == by_numba
    assert allocated == less if immutable else allocated > 10 > less
    assert unfreed(lambda: changed(BY_SUBSTITUTES)) == 0

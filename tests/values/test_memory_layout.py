"""Where the floats are in the memory of records, instances, lists and dictionaries."""

import ctypes

import numpy as np
import pytest
from numba import complex64, float32, float64, int8, int64, typeof, types
from numba.experimental import jitclass
from numba.experimental.jitclass import _box

from activerules.ir.llvm.types import DOUBLE, FLOAT
from activerules.values.memory_layout import (
    ItemMemory,
    declared_of,
    declared_result,
    fields_of,
    inner_of,
)

SPEC = [
    ("k", int8),
    ("x", float64),
    ("pair", types.Tuple([int8, float32, float64])),
    ("z", complex64),
    ("w", float64[:]),
    ("n", int64),
]
NUMBERS = {"double": ctypes.c_double, "float": ctypes.c_float}


@jitclass(SPEC)
class Instance:
    def __init__(self, w):
        self.k = 1
        self.x = 2.0
        self.pair = (1, np.float32(3.0), 4.0)
        self.z = np.complex64(5.0 + 6.0j)
        self.w = w
        self.n = 9


def test_e1_the_floats_of_an_instance_are_where_numba_stores_them():
    w = np.ones(3)
    instance = Instance(w)
    start = _box.box_get_dataptr(instance)
    ty = Instance.class_type.instance_type
    declared = declared_of(ty)
    assert declared is not None
    floats = [NUMBERS[str(t)].from_address(start + offset).value for offset, t in declared.floats]
    assert floats == [2.0, 3.0, 4.0, 5.0, 6.0]
    at = {field.name: field.offset for field in fields_of(ty)}
    assert at["n"] in declared.integers
    assert ctypes.c_int64.from_address(start + at["n"]).value == 9
    (inner,) = inner_of(ty)
    starts = [offset for offset, kind in inner.pointers if kind == "start"]
    assert [ctypes.c_size_t.from_address(start + k).value for k in starts] == [w.ctypes.data]


def test_e1_the_floats_of_a_result_are_where_a_struct_of_c_has_them():
    pair = np.dtype([("n", "i1"), ("x", "f4")], align=True)
    array = np.dtype([(name, "i8") for name in "abcdefg"])
    fields = [("k", "i1"), ("pair", pair), ("array", array), ("z", "f8", 2), ("flag", "?")]
    result = np.dtype(fields, align=True)
    assert result.fields is not None
    at = {name: field[1] for name, field in result.fields.items()}
    inner = types.Tuple((int8, float32))
    ty = types.Tuple((int8, inner, float64[::1], types.complex128, types.boolean))
    declared = declared_result(ty)
    assert declared is not None
    assert declared.floats == (
        (at["pair"] + 4, FLOAT),
        (at["z"], DOUBLE),
        (at["z"] + 8, DOUBLE),
    )


@pytest.mark.parametrize("unknown", [types.float16, types.Optional(float64), Instance])
def test_e2_a_result_with_a_part_of_another_kind_is_not_declared(unknown):
    part = unknown.class_type.instance_type if unknown is Instance else unknown
    assert declared_result(types.Tuple((float64, part))) is None


def test_e1_the_floats_of_records_and_items_are_where_numpy_and_numba_store_them():
    dtype = np.dtype([("k", "i1"), ("x", "f8"), ("v", "f8", 2), ("n", "i4")])
    declared = declared_of(typeof(np.zeros(1, dtype)))
    assert declared is not None
    assert declared.floats == ((1, DOUBLE), (9, DOUBLE), (17, DOUBLE))
    assert declared.period == dtype.itemsize
    assert declared_of(ItemMemory(float64, types.int64)).floats == ((16, DOUBLE),)


@pytest.mark.parametrize("unknown", [types.Optional(float64), types.voidptr, types.float16])
def test_e2_a_part_that_may_hold_unknown_floats_leaves_nothing_declared(unknown):
    @jitclass([("x", float64), ("rest", unknown)])
    class Part:
        def __init__(self):
            self.x = 1.0

    assert declared_of(Part.class_type.instance_type) is None

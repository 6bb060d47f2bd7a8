"""The slots of a type are the parameters Numba gives it, with the roles the engine goes by."""

from collections import namedtuple

import numba
import numpy as np
import pytest
from numba import float32, float64, int64, types
from numba.core.registry import cpu_target

from activerules.values.abi import flatten, meminfo_offsets

Point = namedtuple("Point", "x a")

ARRAY_1D = ["meminfo", "parent", "size", "itemsize", "data", "shape", "stride"]


def roles(numba_type):
    return [slot.role for slot in flatten(numba_type)]


@pytest.mark.parametrize(
    ("numba_type", "llvm", "role"),
    [
        (float64, "double", "float"),
        (float32, "float", "float"),
        (int64, "i64", "int"),
        (types.uint8, "i8", "int"),
        (types.boolean, "i8", "int"),
        (types.none, "ptr", "dummy"),
        (types.voidptr, "ptr", "pointer"),
        (types.CPointer(float64), "ptr", "pointer"),
        (types.NPDatetime("s"), "i64", "int"),
    ],
)
def test_one_slot(numba_type, llvm, role):
    (slot,) = flatten(numba_type)
    assert (slot.llvm, slot.role) == (llvm, role)


@pytest.mark.parametrize("layout", ["C", "F", "A"])
@pytest.mark.parametrize("readonly", [False, True])
def test_arrays(layout, readonly):
    array = types.Array(float64, 3, layout, readonly=readonly)
    assert roles(array) == [*ARRAY_1D[:5], *["shape"] * 3, *["stride"] * 3]


def test_zero_dimensional_array():
    assert roles(types.Array(float64, 0, "C")) == ARRAY_1D[:5]


def test_complex_is_two_floats():
    assert roles(types.complex128) == ["float", "float"]


def test_tuples_are_the_sum_of_their_parts():
    nested = types.Tuple((float64, types.UniTuple(int64, 2), types.Tuple((float64[::1],))))
    assert roles(nested) == ["float", "int", "int", *ARRAY_1D]
    named = types.NamedTuple((float64, float64[::1]), Point)
    assert roles(named) == ["float", *ARRAY_1D]
    assert roles(types.UniTuple(float64[::1], 2)) == ARRAY_1D * 2


def test_optional_is_a_value_and_a_flag():
    assert roles(types.Optional(float64)) == ["float", "int"]


def test_omitted_is_nothing():
    assert roles(types.Omitted(2.0)) == []


def test_b2_a_type_without_a_special_shape_is_a_dummy():
    assert roles(types.Dispatcher(numba.njit(lambda x: x))) == ["dummy"]


RECORD = numba.from_dtype(np.dtype([("x", np.float64), ("n", np.int32)]))

EVERYTHING = [
    types.complex64,
    types.unicode_type,
    types.slice3_type,
    types.range_state64_type,
    types.List(float64, reflected=True),
    types.ListType(float64),
    types.DictType(int64, float64),
    types.FunctionType(float64(float64)),
    types.Tuple(()),
    types.literal(3),
    types.Bytes(types.uint8, 1, "C"),
    types.NumPyRandomGeneratorType("generator"),
    RECORD,
    types.Optional(types.Tuple((float64, float64[:, :]))),
    float64[:, ::1],
    types.Array(RECORD, 2, "A"),
]


@pytest.fixture(scope="module")
def context():
    """The CPU's target context with all of Numba's data models, as it is after any compile."""
    cpu_target.target_context.refresh()
    return cpu_target.target_context


@pytest.mark.parametrize("numba_type", EVERYTHING, ids=str)
def test_b1_slots_are_numbas_parameters(context, numba_type):
    expected = [
        "ptr" if str(llvm).endswith("*") else str(llvm)
        for llvm in context.get_arg_packer((numba_type,)).argument_types
    ]
    assert [slot.llvm for slot in flatten(numba_type)] == expected


VECTOR, MATRIX = types.int64[::1], float64[:, ::1]


@pytest.mark.parametrize(
    ("numba_type", "offsets"),
    [
        (float64, ()),
        (VECTOR, (0,)),
        (types.UniTuple(MATRIX, 2), (0, 72)),
        (types.Tuple((types.boolean, VECTOR, types.int8, MATRIX)), (8, 72)),
        (types.Tuple((float64, types.UniTuple(VECTOR, 2))), (8, 64)),
    ],
)
def test_meminfo_offsets(numba_type, offsets):
    assert meminfo_offsets(numba_type) == offsets

"""Arguments of types of packages that keep addresses as integers, as those of Awkward Array do."""

import numpy as np
import pytest
from numba import njit, types
from numba.extending import (
    NativeValue,
    intrinsic,
    make_attribute_wrapper,
    models,
    register_model,
    typeof_impl,
    unbox,
)

import activerules as ar


class Blocks:
    """Blocks of floats, and a table of their addresses."""

    def __init__(self, *blocks):
        self.blocks = blocks
        self.table = np.array([block.ctypes.data for block in blocks])
        self.address = self.table.ctypes.data


class BlocksType(types.Type):
    def __init__(self):
        super().__init__(name="Blocks")


@register_model(BlocksType)
class BlocksModel(models.StructModel):
    def __init__(self, manager, ty):
        super().__init__(manager, ty, [("table", types.CPointer(types.intp))])


make_attribute_wrapper(BlocksType, "table", "table")


@typeof_impl.register(Blocks)
def typeof_blocks(_blocks, _context):
    return BlocksType()


@unbox(BlocksType)
def unbox_blocks(_ty, blocks, c):
    address = c.pyapi.object_getattr_string(blocks, "address")
    struct = c.context.make_helper(c.builder, BlocksType())
    struct.table = c.builder.inttoptr(c.pyapi.long_as_longlong(address), struct.table.type)
    c.pyapi.decref(address)
    return NativeValue(struct._getvalue())


@intrinsic
def floats_at(_context, address):
    def code(_context, builder, signature, args):
        return builder.inttoptr(args[0], _context.get_value_type(signature.return_type))

    return types.CPointer(types.float64)(address), code


@njit
def weighted(blocks, w):
    total = 0.0
    for k in range(2):
        block = floats_at(blocks.table[k])
        for i in range(len(w)):
            total += np.sin(block[i] * w[i])
    return total


@njit
def weighted_at(table, w):
    total = 0.0
    for k in range(2):
        block = floats_at(table[k])
        for i in range(len(w)):
            total += np.sin(block[i] * w[i])
    return total


def test_const_memory_found_by_its_addresses():
    blocks = Blocks(np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 0.0]))
    w = np.array([0.3, -0.2, 0.7])
    expected = sum(block * np.cos(block * w) for block in blocks.blocks)
    np.testing.assert_allclose(ar.grad(weighted, argnums=1)(blocks, w), expected)
    _, along = ar.jvp(weighted, (blocks, w), (None, np.ones(3)))
    np.testing.assert_allclose(along, expected.sum())


def test_integers_of_an_array_may_be_addresses_of_active_memory():
    w = np.array([0.3, -0.2, 0.7])
    with pytest.raises(ar.MixedActivity, match="an address made from an integer"):
        ar.grad(weighted_at, argnums=1)(np.array([w.ctypes.data] * 2), w)


def test_active_floats_are_not_stored_at_an_address():
    @njit
    def stored(blocks, x):
        block = floats_at(blocks.table[0])
        block[0] = x * x
        return block[0] * x

    with pytest.raises(ar.MixedActivity, match="an address made from an integer"):
        ar.grad(stored, argnums=1)(Blocks(np.ones(1)), 2.0)

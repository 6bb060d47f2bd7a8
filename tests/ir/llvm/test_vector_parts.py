"""Bit casts between vectors of integers, lane by lane."""

import numpy as np
import pytest

from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.constant_parts import CannotSplit
from activerules.ir.llvm.model import Argument, Block, Function
from activerules.ir.llvm.printer import print_function
from activerules.ir.llvm.types import DOUBLE, I8, I16, I32, I64, PTR, VOID
from activerules.ir.llvm.vector_parts import recast
from tests.ir.harness import compile_text

BITS = {I8: 8, I16: 16, I32: 32, I64: 64}


@pytest.mark.parametrize("to", [I8, I16, I32, I64])
@pytest.mark.parametrize("given", [I8, I16, I32, I64])
def test_l1_lane_0_has_the_low_bits(given, to):
    """As the bytes lie in memory, on this machine as on every machine of Numba's."""
    counts = 128 // BITS[given], 128 // BITS[to]
    p, q = Argument("p", PTR), Argument("q", PTR)
    block = Block("entry")
    b = Builder(block)
    lanes = [b.load(given, b.gep(given, p, [b.const(I64, k)])) for k in range(counts[0])]
    for k, lane in enumerate(recast(b, lanes, [to] * counts[1])):
        assert lane.type == to
        b.store(lane, b.gep(to, q, [b.const(I64, k)]))
    b.ret()
    text = print_function(Function("f", VOID, [p, q], [block]))
    start, left = np.arange(3, 19, dtype="u1"), np.zeros(16, "u1")
    compile_text(text, None).function("f")(start.ctypes.data, left.ctypes.data)
    assert left.tolist() == start.tolist()


def test_l1_floats_have_no_lanes_of_another_size():
    with pytest.raises(CannotSplit):
        recast(Builder(Block("entry")), [Argument("x", DOUBLE)], [I32, I32])

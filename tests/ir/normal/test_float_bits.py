"""Floats that are copied, negated and taken apart as integers: the bits they leave behind."""

import numpy as np
import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.float_bits import restore_floats
from tests.ir.harness import compile_text

AS_INTEGERS = """
define void @f(ptr %p, i1 %c) {
entry:
  %q = getelementptr i64, ptr %p, i64 1
  %a = load i64, ptr %p
  %b = load i64, ptr %q
  br i1 %c, label %then, label %join
then:
  %minus = xor i64 %a, -9223372036854775808
  br label %join
join:
  %either = phi i64 [ %b, %entry ], [ %minus, %then ]
  %size = and i64 %either, 9223372036854775807
  %chosen = select i1 %c, i64 %size, i64 %either
  %x = bitcast i64 %chosen to double
  %low = trunc i64 %b to i32
  %shifted = lshr i64 %b, 32
  %high = trunc i64 %shifted to i32
  %negated = xor i32 %high, -2147483648
  %l = bitcast i32 %low to float
  %h = bitcast i32 %negated to float
  %to.x = getelementptr i64, ptr %p, i64 2
  %to.l = getelementptr i64, ptr %p, i64 3
  %to.h = getelementptr i32, ptr %to.l, i64 1
  %to.copy = getelementptr i64, ptr %p, i64 4
  store double %x, ptr %to.x
  store float %l, ptr %to.l
  store float %h, ptr %to.h
  store i64 %either, ptr %to.copy
  ret void
}
"""
MADE_OTHERWISE = """
define double @f(i64 %n) {
  %m = mul i64 %n, 3
  %x = bitcast i64 %m to double
  ret double %x
}
"""


def restored(text):
    module = parse_module(text)
    restore_floats(module)
    return module


@pytest.mark.parametrize("c", [False, True])
def test_b1_values_and_memory_keep_their_bits(c):
    """Also those of numbers that are none."""
    module = restored(AS_INTEGERS)
    casts = [i for i in module.functions["f"].instructions() if i.opcode == "bitcast"]
    assert not any(i.type.is_float for i in casts)
    before, after = (
        compile_text(t, None).function("f") for t in (AS_INTEGERS, print_module(module))
    )
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, np.inf, -np.nan, 1.5, 5e-324]).view("i8")
    for _ in range(40):
        start = np.where(
            rng.random(5) < 0.5, rng.choice(special, 5), rng.integers(-(2**63), 2**63 - 1, 5)
        )
        left = [start.copy(), start.copy()]
        for function, memory in zip((before, after), left, strict=True):
            function(memory.ctypes.data, c)
        np.testing.assert_array_equal(*left)
        assert (left[0] != start).any()


def test_b2_other_integers_are_left_alone():
    assert print_module(restored(MADE_OTHERWISE)) == print_module(parse_module(MADE_OTHERWISE))

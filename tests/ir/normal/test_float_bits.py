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
# `%w`, computed from %a and %b, holds the bits of a float
ONE_FLOAT = """
define void @f(ptr %p, i1 %c) {{
  %q = getelementptr i64, ptr %p, i64 1
  %to = getelementptr i64, ptr %p, i64 2
  %a = load i64, ptr %p
  %b = load i64, ptr %q
  {}
  %float = bitcast i64 %w to double
  store double %float, ptr %to
  ret void
}}
"""
SIGN, SIZE = -9223372036854775808, 9223372036854775807
AS_DOUBLE = {
    "sign of another": f"""
  %x = and i64 %a, {SIZE}
  %y = and i64 %b, {SIGN}
  %w = or i64 %y, %x""",
    "sign only": f"%w = and i64 %a, {SIGN}",
    "less than zero": f"%w = or i64 %a, {SIGN}",
    "frozen": "%w = freeze i64 %a",
    "nothing left": "%w = and i64 %a, 0",
    "everything left": "%w = and i64 %a, -1",
    "nothing set": "%w = or i64 0, %a",
    "nothing changed": "%w = xor i64 %a, 0",
    "of a literal": f"""
  %x = select i1 %c, i64 4607182418800017408, i64 %a
  %w = xor i64 %x, {SIGN}""",
    "shifted out": """
  %x = zext i64 %a to i128
  %y = lshr i128 %x, 64
  %w = trunc i128 %y to i64""",
    "shifted in": """
  %x = zext i64 %a to i128
  %y = shl i128 %x, 64
  %w = trunc i128 %y to i64""",
    "shifted there and back": """
  %x = zext i64 %a to i128
  %y = shl i128 %x, 64
  %z = lshr i128 %y, 64
  %w = trunc i128 %z to i64""",
    "joined of two": """
  %x = zext i64 %a to i128
  %h = zext i64 %b to i128
  %y = shl i128 %h, 64
  %z = or i128 %x, %y
  %s = lshr i128 %z, 64
  %w = trunc i128 %s to i64""",
    "one of three": """
  %l = lshr i64 %b, 32
  %u = shl i64 %l, 32
  %v = xor i64 %u, 0
  %k = lshr i64 %v, 32
  %m = shl i64 %k, 32
  %n = and i64 %m, 4294967295
  %w = or i64 %a, %n""",
    "of nothing known": "%w = select i1 true, i64 %a, i64 undef",
    "joined by xor": """
  %x = zext i64 %a to i128
  %h = zext i64 %b to i128
  %y = shl i128 %h, 64
  %z = xor i128 %y, %x
  %w = trunc i128 %z to i64""",
}
NO_FLOAT = {
    "product": "%w = mul i64 %a, 3",
    "all but one bit": "%w = lshr i64 %a, 1",
    "half in place of the other": "%w = shl i64 %a, 32",
    "half": "%w = and i64 %a, 4294967295",
    "bits of both": "%w = or i64 %a, %b",
    "number that is not known": """
  %n = add i64 %b, 1
  %w = lshr i64 %a, %n""",
    "address": "%w = select i1 %c, i64 %a, i64 ptrtoint (ptr @f to i64)",
    "argument": "%w = or i64 %n, 0",
    "part of a float": """
  %x = trunc i64 %a to i16
  %y = zext i16 %x to i64
  %w = or i64 %y, 0""",
}


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


@pytest.mark.parametrize("made", AS_DOUBLE.values(), ids=AS_DOUBLE)
def test_b1_a_float_of_bits_keeps_them(made):
    text = ONE_FLOAT.format(made)
    module = restored(text)
    assert "bitcast" not in print_module(module)
    before, after = (compile_text(t, None).function("f") for t in (text, print_module(module)))
    for a in (1.5, -1.5, -0.0, np.inf):
        for b in (2.5, -2.5):
            for c in (False, True):
                left = [np.array([a, b, 7.0]) for _ in range(2)]
                before(left[0].ctypes.data, c)
                after(left[1].ctypes.data, c)
                np.testing.assert_array_equal(*(each.view("i8") for each in left))


@pytest.mark.parametrize("made", NO_FLOAT.values(), ids=NO_FLOAT)
def test_b2_other_integers_are_left_alone(made):
    text = ONE_FLOAT.format(made).replace("i1 %c", "i1 %c, i64 %n", 1)
    assert print_module(restored(text)) == print_module(parse_module(text))

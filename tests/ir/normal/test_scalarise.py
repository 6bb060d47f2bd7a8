"""Aggregates and vectors that are passed around as values, taken apart."""

import numpy as np

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.llvm.types import VectorType
from activerules.ir.normal.leaves import is_composite
from activerules.ir.normal.scalarise import scalarise
from tests.ir.harness import compile_text

PARTS = """
define internal { double, [2 x float] } @g({ double, [2 x float] } %s, <2 x double> %v) noinline {
  %a = extractvalue { double, [2 x float] } %s, 0
  %b = extractelement <2 x double> %v, i64 1
  %c = fmul double %a, %b
  %t = insertvalue { double, [2 x float] } %s, double %c, 0
  ret { double, [2 x float] } %t
}
define double @f(ptr %at, ptr %to, i1 %which) {
entry:
  %s = load { double, [2 x float] }, ptr %at
  %v = load <2 x double>, ptr %at, align 8
  %w = fadd <2 x double> %v, splat (double 1.0)
  %swapped = shufflevector <2 x double> %w, <2 x double> poison, <2 x i32> <i32 1, i32 0>
  %x = select i1 %which, <2 x double> %w, <2 x double> %swapped
  %t = call { double, [2 x float] } @g({ double, [2 x float] } %s, <2 x double> %x)
  store { double, [2 x float] } %t, ptr %to
  %bits = bitcast <2 x double> %w to <2 x i64>
  %low = extractelement <2 x i64> %bits, i64 0
  %r = bitcast i64 %low to double
  ret double %r
}
"""
NOT_SPLIT = """
define double @f(<2 x double> %v) {
  %h = bitcast <2 x double> %v to <4 x float>
  %x = extractelement <4 x float> %h, i64 1
  %r = fpext float %x to double
  ret double %r
}
"""


def scalarised(text):
    module = parse_module(text)
    scalarise(module, "f")
    return module


def test_s1_the_signature_of_the_top_function_stays():
    for text in (PARTS, NOT_SPLIT):
        before, after = parse_module(text).functions["f"], scalarised(text).functions["f"]
        assert after.result == before.result
        assert [a.type for a in after.arguments] == [a.type for a in before.arguments]


def test_s2_scalars_and_memory_keep_their_bits():
    module = scalarised(PARTS)
    for function in (module.functions["f"], module.functions["g.parts"]):
        assert not any(is_composite(i.type) for i in function.instructions())
    left = []
    for text in (PARTS, print_module(module)):
        for which in (False, True):
            at, to = np.array([0.3, -1.7]), np.zeros(2)
            compiled = compile_text(text, None)
            result = compiled.function("f")(at.ctypes.data, to.ctypes.data, which)
            left.append((np.float64(result).tobytes(), at.tobytes(), to.tobytes()))
    assert left[:2] == left[2:]
    assert left[0] != left[1]


def test_s3_values_that_cannot_be_split_are_left_alone():
    module = scalarised(NOT_SPLIT)
    assert print_module(module) == print_module(parse_module(NOT_SPLIT))
    assert any(isinstance(i.type, VectorType) for i in module.functions["f"].instructions())

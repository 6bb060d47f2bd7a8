"""Structs of eight bytes that LLVM copies in an integer."""

import numpy as np
import pytest

from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_module
from activerules.ir.normal.struct_copies import move_structs
from tests.ir.harness import compile_text

PROGRAM = """
define float @f(ptr %p) {
entry:
  %one = getelementptr i64, ptr %p, i64 1
  %two = getelementptr i64, ptr %p, i64 2
  %three = getelementptr i64, ptr %p, i64 3
  %a = load i64, ptr %p, align 4
  store i64 %a, ptr %one, align 4
  %b = load i64, ptr %two, align 4
  store i64 0, ptr %two, align 4
  store i64 %b, ptr %three, align 4
  store i64 %b, ptr %p, align 4
  %x = load float, ptr %three, align 4
  ret float %x
}
"""


def moved(text):
    module = parse_module(text)
    move_structs(module)
    return print_module(module)


def test_b3_memory_has_the_bytes_it_had():
    text = moved(PROGRAM)
    assert "load i64" not in text
    assert text.count("call void @llvm.memmove") == 4
    given = np.arange(1.0, 9.0, dtype=np.float32)
    left = given.copy()
    assert compile_text(text, None).function("f")(left.ctypes.data) == 5.0
    np.testing.assert_array_equal(left, [5.0, 6.0, 1.0, 2.0, 0.0, 0.0, 5.0, 6.0])


LOAD = "%a = load i64, ptr %p, align 4"


@pytest.mark.parametrize(
    "text",
    [
        PROGRAM.replace(LOAD, "%a = load i64, ptr %p, align 8"),
        PROGRAM.replace(LOAD, "%a = load volatile i64, ptr %p, align 4"),
        PROGRAM.replace(LOAD, "%i = load i64, ptr %p, align 4\n  %a = add i64 %i, 1"),
        PROGRAM.replace("float", "double"),
    ],
)
def test_other_integers_stay(text):
    assert "i64, ptr %p, align" in moved(text)

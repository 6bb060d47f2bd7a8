"""Records that are assigned as a whole, before and after they become copies of bytes."""

import numpy as np
import pytest

from activerules.ir.text.byte_blocks import as_copies
from tests.ir.harness import compile_text

MOVED = """
define void @f(ptr %to, ptr %from) {
  %v = load [12 x i8], ptr %from, align 1
  store [12 x i8] %v, ptr %to, align 1
  ret void
}
"""
CHANGED_BETWEEN = MOVED.replace("  store [", "  store i8 7, ptr %from\n  store [")


@pytest.mark.parametrize("shift", [0, 3, -3, 12])
def test_b1_the_same_bytes_are_moved(shift):
    """Also where the two places overlap."""
    assert "@llvm.memmove" in as_copies(MOVED)
    left = []
    for text in (MOVED, as_copies(MOVED)):
        memory = np.arange(36, dtype="u1")
        start = memory.ctypes.data + 12
        compile_text(text, None).function("f")(start + shift, start)
        left.append(memory.tolist())
    assert left[0] == left[1]
    assert left[0][12 + shift : 24 + shift] == list(range(12, 24))


def test_b1_nothing_happens_between_the_two():
    assert as_copies(CHANGED_BETWEEN) == CHANGED_BETWEEN

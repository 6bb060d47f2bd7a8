"""Bits of floats that go through memory which only integer accesses reach."""

import pytest

from activerules.errors import FloatBitsInInteger
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Active

THROUGH_MEMORY = """
define double @f(double %x) {
  %kept = alloca i64
  %bits = bitcast double %x to i64
  %changed = CHANGED
  store volatile i64 %changed, ptr %kept
  %read = load volatile i64, ptr %kept
  %shifted = lshr i64 %read, 52
  %y = uitofp i64 %shifted to double
  %z = fmul double %y, %x
  ret double %z
}
"""


def test_k1_integers_of_stored_bits_are_known():
    """They are refused where a derivative flows; an integer of nothing else is none of them."""
    for change in ("add i64 %bits, 4503599627370496", "mul i64 %bits, 3"):
        with pytest.raises(FloatBitsInInteger):
            differentiate(THROUGH_MEMORY.replace("CHANGED", change), "f", [Active])
    whole = "add i64 4503599627370496, 4503599627370496"
    assert "f.gradient" in differentiate(THROUGH_MEMORY.replace("CHANGED", whole), "f", [Active])

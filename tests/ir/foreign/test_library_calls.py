"""What stands for functions of the C library: its results to the last bit, and its derivatives."""

from __future__ import annotations

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Const, Duplicated, compile_text

SPLIT = """
define void @f(ptr %x, ptr %e) {
  %v = load TYPE, ptr %x
  %part.at = getelementptr TYPE, ptr %x, i64 1
  %whole.at = getelementptr TYPE, ptr %x, i64 2
  %fraction.at = getelementptr TYPE, ptr %x, i64 3
  %part = call TYPE @modfSUFFIX(TYPE %v, ptr %whole.at)
  store TYPE %part, ptr %part.at
  %fraction = call TYPE @frexpSUFFIX(TYPE %v, ptr %e)
  store TYPE %fraction, ptr %fraction.at
  ret void
}
declare TYPE @modfSUFFIX(TYPE, ptr)
declare TYPE @frexpSUFFIX(TYPE, ptr)
"""
NUMBERS = (0.0, 0.3, 1.0, 2.0, 6.75, 1e-310, 1e-40, 5e-324, 1.7e308, 3.4e38, np.inf)


@pytest.mark.parametrize(("kind", "suffix"), [("double", ""), ("float", "f")])
def test_l1_modf_and_frexp_to_the_last_bit(kind: str, suffix: str) -> None:
    text = SPLIT.replace("TYPE", kind).replace("SUFFIX", suffix)
    compiled = compile_text(differentiate(text, "f", [Duplicated, Const], "forward"))
    with np.errstate(over="ignore", under="ignore"):
        numbers = np.array([*NUMBERS, *(-x for x in NUMBERS)]).astype(kind.replace("double", "f8"))
    for number in numbers:
        left = []
        for name in ("f", "f.forward"):
            x, exponent = np.zeros(4, numbers.dtype), np.zeros(1, "i4")
            x[0], tangent = number, np.ones(4, numbers.dtype)
            at = [x.ctypes.data, *([tangent.ctypes.data] if name != "f" else [])]
            compiled.function(name)(*at, exponent.ctypes.data)
            left.append((x.tobytes(), exponent[0] if np.isfinite(number) else 0))
        assert left[0] == left[1], number


def test_l2_exponents_and_whole_numbers_have_no_derivative() -> None:
    text = SPLIT.replace("TYPE", "double").replace("SUFFIX", "")
    forward = compile_text(differentiate(text, "f", [Duplicated, Const], "forward"))
    for number in (0.3, 6.75, -1.5, 1024.0, -3.0):
        x, exponent = np.array([number, 0.0, 0.0, 0.0]), np.zeros(1, "i4")
        tangent = np.array([2.0, np.nan, np.nan, np.nan])
        forward.function("f.forward")(x.ctypes.data, tangent.ctypes.data, exponent.ctypes.data)
        assert tangent.tolist() == [2.0, 2.0, 0.0, 2.0 * 2.0 ** -exponent[0]]

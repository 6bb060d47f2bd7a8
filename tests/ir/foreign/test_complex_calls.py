"""Products and quotients of complex numbers, which C leaves to its run time."""

import math
import re

import numpy as np
import pytest

from activerules.ir.foreign.complex_calls import by_parts
from tests.ir.harness import compile_text

TARGET = 'target triple = "x86_64"\n'
CALL = """
declare { double, double } @__KINDdc3(double, double, double, double)
declare double @activerules.ignore.f64(double)
define void @f(ptr %z) {
  %b.at = getelementptr double, ptr %z, i64 1
  %c.at = getelementptr double, ptr %z, i64 2
  %d.at = getelementptr double, ptr %z, i64 3
  %a = load double, ptr %z
  %b = load double, ptr %b.at
  %c = load double, ptr %c.at
  %d = load double, ptr %d.at
  %r = call { double, double } @__KINDdc3(double %a, double %b, double %c, double %d)
  %re = extractvalue { double, double } %r, 0
  %im = extractvalue { double, double } %r, 1
  store double %re, ptr %z
  store double %im, ptr %b.at
  ret void
}
"""
IGNORED = re.compile(r"^declare double @activerules.ignore.f64\(double\).*$", re.MULTILINE)
IGNORE = "define double @activerules.ignore.f64(double %x) {\n  ret double %x\n}"


@pytest.fixture(scope="module")
def run():
    def of(kind):
        text = by_parts(TARGET + CALL.replace("KIND", kind)).removeprefix(TARGET)
        assert f"call {{ double, double }} @__{kind}dc3" not in text
        compiled = compile_text(IGNORED.sub(IGNORE, text), None).function("f")

        def result(x, y):
            memory = np.array([x.real, x.imag, y.real, y.imag])
            compiled(memory.ctypes.data)
            return complex(memory[0], memory[1])

        return result

    return {kind: of(kind) for kind in ("mul", "div")}


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_z1_quotients_do_not_overflow_where_they_are_representable(run, size):
    rng = np.random.default_rng(0)
    for _ in range(20):
        x, y = (complex(*rng.normal(size=2)) * size for _ in range(2))
        expected = (x / size) / (y / size)
        assert run["div"](x, y) == pytest.approx(expected, rel=1e-12)


def test_z2_infinite_and_undefined_numbers_give_what_the_formulas_give(run):
    inf, nan = math.inf, math.nan
    numbers = [complex(inf, 0.5), complex(inf, nan), complex(0.5, nan), complex(0.5, -inf)]
    for z in numbers:
        w = complex(0.3, 2.0)
        found = run["mul"](z, w)
        formula = z.real * w.real - z.imag * w.imag, z.real * w.imag + z.imag * w.real
        np.testing.assert_array_equal([found.real, found.imag], formula)
        quotient = run["div"](w, z)
        assert math.isnan(quotient.real)
        assert math.isnan(quotient.imag)

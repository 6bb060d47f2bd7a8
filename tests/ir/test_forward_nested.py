"""Derivatives of generated forward derivatives, against closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest

from activerules.ir.foreign.differentiate import differentiate
from tests.ir.forward_harness import Const, Duplicated, Struct, check_forward
from tests.ir.harness import Active, check_gradient, compile_text

CUBIC = """
declare double @llvm.sin.f64(double)
define double @f(double %x) {
  %s = call double @llvm.sin.f64(double %x)
  %x2 = fmul double %x, %x
  %x3 = fmul double %x2, %x
  %r = fmul double %x3, %s
  ret double %r
}
"""


def derivatives(x: float) -> list[float]:
    """Of x³ sin x, from the zeroth to the third."""
    s, c = math.sin(x), math.cos(x)
    return [
        x**3 * s,
        3 * x**2 * s + x**3 * c,
        6 * x * s + 6 * x**2 * c - x**3 * s,
        6 * s + 18 * x * c - 9 * x**2 * s - x**3 * c,
    ]


def test_forward_of_forward_of_forward() -> None:
    text, name, count = CUBIC, "f", 1
    for order in (1, 2, 3):
        text = differentiate(text, name, [Duplicated] * count, mode="forward")
        name, count = name + ".forward", 2 * count
        # directions (1, 0, 0 ...): each level asks for the tangent along the outermost one only
        arguments = [0.0] * count
        arguments[0] = 0.7
        for level in range(order):
            arguments[2**level] = 1.0
        assert compile_text(text).function(name)(*arguments) == pytest.approx(
            derivatives(0.7)[order]
        )


def test_reverse_of_forward_is_a_hessian_row() -> None:
    text = differentiate(CUBIC, "f", [Duplicated], mode="forward")
    check_gradient(text, "f.forward", [Active, Active], [0.7, 0.3])


ROSENBROCK = """
define double @f(ptr %x, i64 %n) {
entry:
  %last = sub i64 %n, 1
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %sum = phi double [ 0.0, %entry ], [ %sum.next, %loop ]
  %j = add i64 %i, 1
  %p = getelementptr double, ptr %x, i64 %i
  %q = getelementptr double, ptr %x, i64 %j
  %u = load double, ptr %p
  %v = load double, ptr %q
  %u2 = fmul double %u, %u
  %d = fsub double %v, %u2
  %d2 = fmul double %d, %d
  %e = fsub double 1.0, %u
  %e2 = fmul double %e, %e
  %w = fmul double %d2, 100.0
  %t = fadd double %w, %e2
  %sum.next = fadd double %sum, %t
  %more = icmp slt i64 %j, %last
  br i1 %more, label %loop, label %end
end:
  ret double %sum.next
}
"""


def hessian(x: np.ndarray) -> np.ndarray:
    """Of the Rosenbrock function."""
    h = np.zeros((x.size, x.size))
    for i in range(x.size - 1):
        h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
        h[i + 1, i + 1] += 200
        h[i, i + 1] = h[i + 1, i] = -400 * x[i]
    return h


@pytest.mark.parametrize("opt", [0, 2])
def test_hessian_vector_product(opt: int) -> None:
    x, v = np.array([0.3, -0.8, 1.2, 0.5]), np.array([1.0, 0.2, -0.4, 0.7])
    text = differentiate(ROSENBROCK, "f", [Duplicated, Const], mode="forward")
    text = differentiate(text, "f.forward", [Duplicated, Duplicated, Const])
    x_bar, v_bar = np.ones(4), np.ones(4)
    hvp = compile_text(text, opt).function("f.forward.gradient")
    hvp(*(array.ctypes.data for array in (x, x_bar, v, v_bar)), 4, 1.0)
    np.testing.assert_allclose(x_bar - 1, hessian(x) @ v, rtol=1e-12)


SWAP = """
%Pair = type { ptr, ptr }
define double @f(ptr %pair, double %x) {
entry:
  %second.at = getelementptr %Pair, ptr %pair, i32 0, i32 1
  %a = load ptr, ptr %pair
  %b = load ptr, ptr %second.at
  %v = load double, ptr %a
  %w = load double, ptr %b
  %vx = fmul double %v, %x
  store double %vx, ptr %b
  %wx = fmul double %w, %vx
  store double %wx, ptr %a
  ret double %wx
}
"""


@pytest.mark.parametrize("width", [1, 3])
def test_pointers_in_memory(width: int) -> None:
    array = np.zeros(1, [("a", "u8"), ("b", "u8")])
    pair = Struct(array, {"a": np.array([0.7]), "b": np.array([-1.3])})
    check_forward(SWAP, "f", [Duplicated, Active], [pair, 0.4], width=width)


IGNORED = """
declare double @activerules.ignore.f64(double)
define double @f(double %x) {
  %c = call double @activerules.ignore.f64(double %x)
  %r = fmul double %c, %x
  ret double %r
}
"""


def test_ignored_values_are_ignored_in_every_derivative() -> None:
    text = differentiate(IGNORED, "f", [Duplicated], mode="forward")
    text = differentiate(text, "f.forward", [Duplicated, Const], mode="forward")
    compiled = compile_text(text)
    assert compiled.function("f.forward")(3.0, 1.0) == 3.0
    assert compiled.function("f.forward.forward")(3.0, 1.0, 1.0) == 0.0

"""Where a slope may be infinite or NaN, and what that makes of `strong_zero`."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.ir.derivatives.slopes import is_finite, is_steep
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.parser import parse_module

BODY = {
    "fmul double %x, 3.0": (False, True),
    "fmul double %x, %y": (False, False),
    "fmul double %x, %n": (False, True),
    "fmul double %x, %bounded": (False, True),
    "fmul double %x, %unbounded": (False, False),
    "fmul double %x, 0x7FF0000000000000": (False, False),
    "fdiv double %x, 3.0": (False, True),
    "fdiv double %x, 0.0": (True, False),
    "fdiv double %x, %n": (True, False),
    "fsub double %x, %y": (False, True),
    "fneg double %x": (False, True),
    "call double @llvm.pow.f64(double %x, double 2.0)": (False, False),
    "call double @llvm.pow.f64(double %x, double 0.5)": (True, False),
    "call double @llvm.pow.f64(double %n, double 3.0)": (False, True),
    "call double @llvm.sqrt.f64(double %x)": (True, False),
    "call double @llvm.sin.f64(double %x)": (False, False),
    "call double @llvm.sin.f64(double %n)": (False, True),
    "call double @llvm.fabs.f64(double %x)": (True, False),
    "call double @llvm.maxnum.f64(double %x, double %y)": (False, True),
    "call double @sinh(double %n)": (False, False),
}


def last_of(*body: str) -> Instruction:
    """The last instruction of a function of `%x`, `%y` and the integer `%k`."""
    lines = [*body, "ret double %r"]
    text = "\n".join(["define double @f(double %x, double %y, i64 %k) {", *lines, "}", ""])
    function = next(iter(parse_module(text).functions.values()))
    return function.blocks[0].instructions[-2]


@pytest.mark.parametrize("text", BODY)
def test_slope_with_respect_to_the_first_operand(text):
    r = last_of(
        "%n = sitofp i64 %k to double",
        "%sine = call double @llvm.sin.f64(double %n)",
        "%sum = fadd double %n, %sine",
        "%bounded = fmul double %sum, -2.5",
        "%square = fmul double %x, %x",
        "%unbounded = fadd double %square, %n",
        f"%r = {text}",
    )
    assert (is_steep(r, 0), is_finite(r, 0)) == BODY[text]


def test_a_bound_is_not_searched_for_without_end():
    """Each value is used twice by the next: the number of paths is 2 to the number of values."""
    chain = [f"%s{k + 1} = fadd double %s{k}, %s{k}" for k in range(200)]
    r = last_of("%s0 = fmul double 1.0, 1.0", *chain, "%r = fmul double %x, %s200")
    assert not is_finite(r, 0)


@njit
def weighted(x, w, n):
    """Products with numbers that are finite for certain, and some that need not be."""
    s = 0.0
    for i in range(n):
        s += (i * x[i] - 2.0 * x[i]) * w[i] + math.cos(i) * x[i] + x[i] / 3.0
    return s


@pytest.mark.parametrize("mode", [ar.Reverse, ar.Reverse.strong_zero()])
def test_strong_zero_changes_no_finite_gradient(mode):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=6), rng.normal(size=6)
    x_bar, w_bar = np.full(6, 2.0), np.full(6, 3.0)
    ar.autodiff(mode, weighted, ar.Duplicated(x, x_bar), ar.Duplicated(w, w_bar), 6)
    i = np.arange(6)
    np.testing.assert_allclose(x_bar - 2, (i - 2) * w + np.cos(i) + 1 / 3, rtol=1e-12)
    np.testing.assert_allclose(w_bar - 3, (i - 2) * x, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("padding", [math.inf, math.nan])
def test_strong_zero_at_factors_that_are_infinite_or_nan(padding):
    @njit
    def chosen(x, w):
        """All products are computed, and those with `w` infinite multiplied with zero."""
        s = 0.0
        for i in range(x.size):
            s += x[i] * w[i] * (1.0 if i < 2 else 0.0) if x[0] != 7.0 else 0.0
        return s

    x, w = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.25, padding])
    plain, strong = np.zeros(3), np.zeros(3)
    ar.autodiff(ar.Reverse, chosen, ar.Active, ar.Duplicated(x, plain), ar.Const(w))
    ar.autodiff(ar.Reverse.strong_zero(), chosen, ar.Active, ar.Duplicated(x, strong), ar.Const(w))
    np.testing.assert_array_equal(plain, [0.5, 0.25, math.nan])
    np.testing.assert_array_equal(strong, [0.5, 0.25, 0.0])

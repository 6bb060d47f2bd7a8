"""Floats to the power of integers: Numba's values and errors, and nothing on the tape."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.ir import differentiate

EXPONENTS = (0, 1, 2, 3, 4, 5, 11, -1, -2, -3, 0x10000, 0x10001, -0x10000, -0x10001)


@njit
def power(x, n):
    return x**n


@njit
def square(x):
    return x**2


@njit
def terms(x, c):
    y = 0.0
    for k in range(len(c)):
        y += c[k] * x**k + (c[k] - x) ** 2 + (1.0 + c[k] * x) ** -3
    return y


value_and_slope = ar.value_and_grad(power)


@pytest.mark.parametrize("n", EXPONENTS)
@pytest.mark.parametrize("x", [1.0 + 2.0**-13, -(1.0 - 2.0**-13)])
@pytest.mark.parametrize("single", [False, True])
def test_w1_values_of_integer_powers_are_those_of_numba(x, n, single):
    x = np.float32(x) if single else x
    value, slope = value_and_slope(x, n)
    assert value == power(x, n)
    np.testing.assert_allclose(slope, n * math.pow(x, n - 1), rtol=2e-2 if single else 1e-9)


@pytest.mark.parametrize(
    ("x", "n", "error"),
    [(0.0, -1, ZeroDivisionError), (2.0, -(2**63), OverflowError)],
)
def test_w1_errors_of_integer_powers_are_those_of_numba(x, n, error):
    for function in (power, value_and_slope):
        with pytest.raises(error):
            function(x, n)


def test_zero_has_the_slope_of_a_polynomial():
    assert [value_and_slope(0.0, n)[1] for n in range(4)] == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize(("x", "n"), [(1e150, -3), (1e200, -2), (1e100, -2), (-1e300, -1)])
def test_the_slope_of_an_inverse_is_finite_where_the_power_overflows(x, n):
    expected = n * math.pow(x, n - 1)
    np.testing.assert_allclose(value_and_slope(x, n)[1], expected, rtol=1e-14, atol=1e-320)
    np.testing.assert_allclose(ar.jvp(power, (x, n), (1.0, None))[1], expected, rtol=1e-14)


def test_integer_powers_need_no_tape():
    assert ar.tape_bytes(square, ar.Active(1.5)) == 0


def test_the_exponent_of_the_slope_is_not_negative():
    """-1 has all 64 bits set: 64 squarings, for the slope of `x**0`, which is zero."""
    text = """
declare double @activerules.ipow.f64(double, i64)
define double @f(double %x, i64 %n) {
  %r = call double @activerules.ipow.f64(double %x, i64 %n)
  ret double %r
}
"""
    assert "@llvm.umax.i64(i64 %n, i64 1)" in differentiate(text, "f", [ar.Active, ar.Const])


def test_derivatives_of_integer_powers_of_both_orders():
    c = np.array([0.3, -1.2, 0.7, 0.4, -0.2])
    ar.testing.check_grads(terms, (0.8, c), order=2)

"""Powers and roots of complex numbers: values of Numba, and the form that is differentiated."""

import cmath
import itertools

import numpy as np
import pytest
from numba import complex128, njit

import activerules as ar
from activerules.ir.text.normalise import normalise
from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES

PARTS = (0.0, -0.0, 1.0, -2.5, 0.3)


@njit
def power(z, w):
    return z**w


@njit
def square(z):
    return z**2


@njit
def root(z):
    return cmath.sqrt(z)


def bits(z):
    """The bits of a complex number; all NaN are alike."""
    return [np.float64(x if x == x else np.nan).tobytes() for x in (z.real, z.imag)]


@pytest.mark.parametrize("function", [square, root])
def test_c1_values_of_squares_and_roots_are_those_of_numba(function):
    for real, imag in itertools.product(PARTS, repeat=2):
        z = complex(real, imag)
        value, _ = ar.jvp(function, (z,), (1.0 + 0.0j,))
        assert bits(value) == bits(function(z)), z


def test_c1_values_of_powers_are_those_of_numba():
    for parts in itertools.product(PARTS, repeat=4):
        z, w = complex(*parts[:2]), complex(*parts[2:])
        try:
            expected = power(z, w)
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                ar.jvp(power, (z, w), (1.0 + 0.0j, 0.0j))
            continue
        value, _ = ar.jvp(power, (z, w), (1.0 + 0.0j, 0.0j))
        assert bits(value) == bits(expected), (z, w)


def test_c2_a_power_is_a_call_for_each_part_and_a_square_a_product():
    powers = normalised(power, complex128, complex128)
    assert all(f"call double @activerules.cpow.{part}" in powers for part in ("re", "im"))
    assert "call double @activerules.cpow" not in normalised(square, complex128)


def normalised(function, *argtypes):
    captured = capture(function, argtypes, rules=RULES)
    return normalise(captured.text, captured.symbol)

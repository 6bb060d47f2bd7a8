"""Functions of complex numbers: values of Numba, and the form that is differentiated."""

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


# where the slope is infinite
BRANCH_POINTS = {
    "sqrt": (0.0, -0.0),
    "arcsin": (1.0, -1.0),
    "arccos": (1.0, -1.0),
    "arctan": (1j, -1j),
    "arcsinh": (1j, -1j),
    "arccosh": (1.0, -1.0),
    "arctanh": (1.0, -1.0),
}
CASES = [
    *((getattr(np, name), points) for name, points in BRANCH_POINTS.items()),
    *((getattr(cmath, n.replace("arc", "a")), points) for n, points in BRANCH_POINTS.items()),
]


def of_parts(function):
    """A compiled function of the parts of a complex number, and that of the parts of its result."""

    @njit
    def value(x, y):
        return function(complex(x, y))

    @njit
    def sum_of_parts(x, y):
        w = function(complex(x, y))
        return w.real + 2 * w.imag

    return value, sum_of_parts


@pytest.mark.parametrize(("function", "points"), CASES)
def test_c1_c3_infinite_slopes_at_branch_points_and_values_of_numba(function, points):
    value, sum_of_parts = of_parts(function)
    gradient = ar.grad(sum_of_parts, (0, 1))
    for point in map(complex, points):
        assert not np.isfinite(gradient(point.real, point.imag)).any(), point
        for direction in ((1.0, 0.0), (0.0, 1.0)):
            _, slope = ar.jvp(sum_of_parts, (point.real, point.imag), direction)
            assert not np.isfinite(slope), point
    special = (0.0, -0.0, 1.0, -1.0, 0.3, -2.5, np.inf, -np.inf, np.nan)
    for x, y in itertools.product(special, repeat=2):
        found, _ = ar.jvp(value, (x, y), (1.0, 0.0))
        assert bits(found) == bits(value(x, y)), (x, y)


def test_the_slope_of_a_square_root_vanishes_at_infinity():
    _, sum_of_parts = of_parts(np.sqrt)
    for x, y in itertools.product((1.0, np.inf, -np.inf), repeat=2):
        if np.isinf(x) or np.isinf(y):
            assert ar.grad(sum_of_parts, (0, 1))(x, y) == (0.0, 0.0), (x, y)


# where terms of the slope cancel or overflow, though the value is ordinary
HALF_TURN = np.pi / 2
DELICATE = [
    (cmath.tanh, 1.0 + HALF_TURN * 1j, 1.0 / cmath.cosh(1.0 + HALF_TURN * 1j) ** 2),
    (cmath.tan, HALF_TURN + 1j, 1.0 / cmath.cos(HALF_TURN + 1j) ** 2),
    (np.tan, HALF_TURN - 1j, 1.0 / cmath.cos(HALF_TURN - 1j) ** 2),
    (cmath.tanh, 1e-9 + HALF_TURN * 1j, 1.0 / cmath.cosh(1e-9 + HALF_TURN * 1j) ** 2),
    (cmath.tanh, 0.3j, 1.0 / cmath.cosh(0.3j) ** 2),
    (cmath.tanh, 720.0 + 1j, 0.0),
    (cmath.tan, 1.0 - 720j, 0.0),
    (cmath.tanh, complex(np.inf, 1.0), 0.0),
    (np.sinc, 1e-9 + 2e-9j, -(np.pi**2) / 3 * (1e-9 + 2e-9j)),
    (np.sinc, 0j, 0.0),
]


@pytest.mark.parametrize(("function", "z", "slope"), DELICATE)
def test_c4_slopes_do_not_cancel_or_overflow(function, z, slope):
    value, _ = of_parts(function)
    for direction in ((1.0, 0.0), (0.0, 1.0)):
        found, along = ar.jvp(value, (z.real, z.imag), direction)
        assert bits(found) == bits(value(z.real, z.imag))
        np.testing.assert_allclose(along, slope * complex(*direction), rtol=1e-14)
    real, imag = njit(lambda x, y: value(x, y).real), njit(lambda x, y: value(x, y).imag)
    for of_part, factor in ((real, 1.0), (imag, 1j)):
        gradient = complex(*ar.grad(of_part, (0, 1))(z.real, z.imag))
        np.testing.assert_allclose(gradient, np.conj(slope) * factor, rtol=1e-14)


def test_c4_second_derivatives_of_sinc_at_zero():
    real = njit(lambda x: np.sinc(complex(x, 0.0)).real)
    np.testing.assert_allclose(ar.hvp(real)(0.0, 1.0), -(np.pi**2) / 3, rtol=1e-14)

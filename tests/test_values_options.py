"""Options of a mode that concern values: holomorphic derivatives, and zeros that stay zero."""

import cmath
import math

import numpy as np
import pytest
from numba import njit

import activerules as ar


@njit
def analytic(z, w, pair):
    return cmath.exp(z * w) / (z + 2j) + cmath.sqrt(w) * pair[0] ** pair[1]


def complex_step(f, z):
    """f'(z) of a holomorphic function, by central differences in both real directions."""
    h = 1e-5
    along = (f(z + h) - f(z - h)) / (2 * h)
    across = (f(z + 1j * h) - f(z - 1j * h)) / (2j * h)
    assert along == pytest.approx(across, rel=1e-8)
    return along


def test_holomorphic_gives_the_complex_derivative():
    z, w, pair = 0.3 + 0.4j, -1.2 + 0.5j, (1.5 - 1j, 2 + 0j)
    mode = ar.ReverseWithPrimal.holomorphic()
    (dz, dw, dpair), value = ar.autodiff(mode, analytic, *map(ar.Active, (z, w, pair)))
    assert value == analytic(z, w, pair)
    assert dz == pytest.approx(complex_step(lambda z: analytic(z, w, pair), z))
    assert dw == pytest.approx(complex_step(lambda w: analytic(z, w, pair), w))
    for k in range(2):

        def of_item(item, k=k):
            return analytic(z, w, (item, pair[1]) if k == 0 else (pair[0], item))

        assert dpair[k] == pytest.approx(complex_step(of_item, pair[k]))


def test_holomorphic_inside_njit():
    @njit
    def slope(z):
        return ar.autodiff(ar.Reverse.holomorphic(), cube, ar.Active(z))[0]

    assert slope(1 + 2j) == pytest.approx(3 * (1 + 2j) ** 2)


@njit
def cube(z):
    return z**3


@njit
def squared_modulus(z):
    return abs(z) ** 2


@njit
def first(a):
    return a[0]


def test_holomorphic_refuses_what_has_no_complex_derivative():
    mode = ar.Reverse.holomorphic()
    with pytest.raises(ar.NotAFloatReturn, match="not a complex number"):
        ar.autodiff(mode, squared_modulus, ar.Active(1j))
    with pytest.raises(ar.ActivityError, match="the mode is holomorphic"):
        ar.autodiff(mode, cube, ar.Active(1.0))
    with pytest.raises(ar.ActivityError, match="the mode is holomorphic"):
        ar.autodiff(mode, first, ar.Duplicated(np.ones(2) * 1j, np.zeros(2) * 1j))
    with pytest.raises(ar.NotAFloatReturn, match=r"Reverse.holomorphic\(\)"):
        ar.autodiff(ar.Reverse, cube, ar.Active(1j))


@njit
def masked_root(x, y):
    return math.sqrt(x) * y + x


def test_strong_zero_keeps_a_zero_cotangent_zero():
    """d sqrt(x) is infinite at 0, and y = 0 multiplies it."""
    plain = ar.autodiff(ar.Reverse, masked_root, ar.Active(0.0), ar.Active(0.0))
    assert math.isnan(plain[0])
    strong = ar.autodiff(ar.Reverse.strong_zero(), masked_root, ar.Active(0.0), ar.Active(0.0))
    assert strong == (1.0, 0.0)


@njit
def square(x):
    return x * x


@ar.augmented_primal(square)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(x.val * x.val, None, None)


@ar.reverse(square)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 1.0 if config.strong_zero else 2.0


def test_rules_see_strong_zero():
    f = njit(lambda x: square(x))
    assert ar.autodiff(ar.Reverse, f, ar.Active(3.0)) == (2.0,)
    assert ar.autodiff(ar.Reverse.strong_zero(), f, ar.Active(3.0)) == (1.0,)

"""Fourier transforms by rocket_fft: lengths, axes, normalisations and memory layouts."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient

pytest.importorskip("rocket_fft")

from activerules.interop import rocket_fft  # noqa: F401 (after the check that it is there)

REAL = np.linspace(0.2, 1.9, 12).reshape(4, 3)
COMPLEX = REAL + 1j * np.cos(REAL)
WEIGHTS = np.cos(np.arange(200.0) + 0.3)


def weighted(call):
    """Weighted sum of squares and imaginary parts of a transform."""
    source = f"""
def total(x):
    s, i = 0.0, 0
    for v in {call}.flat:
        s += WEIGHTS[i] * v.real * v.real + WEIGHTS[i + 60] * v.imag
        i += 1
    return s
"""
    scope = {"np": np, "WEIGHTS": WEIGHTS}
    exec(source, scope)
    return njit(scope["total"])


@pytest.mark.parametrize(
    ("call", "x"),
    [
        ("np.fft.fft(x, None, -1, 'ortho')", REAL[:, 1].copy()),
        ("np.fft.fft(x, 2)", REAL.T),  # cut, and in Fortran's order
        ("np.fft.ifft(x * (1 + 0.3j), 6, 0, norm='forward')", REAL),  # filled with zeros
        ("np.fft.rfft(x, 3, 0)", REAL),
        ("np.fft.rfft(x, 7, norm='ortho')", REAL),
        ("np.fft.irfft(x)", COMPLEX),  # of even length: one entry stands for itself
        ("np.fft.irfft(x, 5, 0, 'forward')", COMPLEX),
        ("np.fft.irfft(x, 2)", COMPLEX),
        ("np.fft.fft2(x)", COMPLEX),
        ("np.fft.ifftn(x, norm='ortho')", COMPLEX),
        ("np.fft.ifftn(x, None, None, 'ortho')", COMPLEX),
    ],
)
def test_both_modes_agree_with_differences(call, x):
    total = weighted(call)
    check_gradient(total, (x,))
    value, slope = ar.value_and_grad(total)(x)
    assert value == total(x)
    direction = np.sin(x)
    along = ar.jvp(total, (x,), (direction,))[1]
    assert along == pytest.approx(np.sum((np.conj(slope) * direction).real), rel=1e-12)


def test_frequencies_are_constant_in_a_spectral_derivative():
    @njit
    def energy(u):
        slope = np.fft.ifft(2j * np.pi * np.fft.fftfreq(u.size, 1.0 / u.size) * np.fft.fft(u))
        return 0.5 * np.sum(slope.real**2)

    check_gradient(energy, (np.exp(np.sin(2.0 * np.pi * np.arange(9) / 9)),))


@pytest.mark.parametrize("call", ["np.fft.hfft(x)", "np.fft.fft2(x, s=(2, 2))"])
def test_what_has_no_rule_is_refused(call):
    with pytest.raises(ar.UnknownCall):
        ar.grad(weighted(call))(COMPLEX)


def test_an_unknown_normalisation_is_the_error_of_the_function():
    with pytest.raises(ValueError, match="norm"):
        ar.grad(weighted("np.fft.fft(x, norm='none')"))(REAL)

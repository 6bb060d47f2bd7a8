"""Complex arguments, arrays and results of intermediate steps, in double and single precision."""

import cmath
import math

import numpy as np
from numba import njit

from programs import example


def pair(rng):
    return complex(rng.normal(), rng.normal())


def vector(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


@example(lambda rng: (pair(rng), pair(rng)))
@njit
def scalar_arithmetic(z, w):
    quotient = (z * w - 2j) / (w + z.conjugate() * 0.5)
    return quotient.real * abs(z) + np.conj(w).imag + (-z).real


@example(lambda rng: (pair(rng) + 1.5,))
@njit
def elementary_functions(z):
    s = cmath.exp(z) + cmath.log(z) + cmath.sqrt(z) + cmath.sin(z) + cmath.cosh(0.5 * z)
    s += cmath.tanh(z) + cmath.asin(z / 4) + cmath.atan(z / 4) + cmath.acosh(z + 2)
    radius, angle = cmath.polar(z)
    return s.real + 2 * s.imag + radius * angle + cmath.phase(z * z)


@example(lambda rng: (pair(rng), 2 + 0j, vector(rng, 2), 3))
@njit
def powers(z, w, a, n):
    return (z**w).real + 2 * (z**w).imag + (z**2 / z**n).imag + (a**2 * np.sqrt(a**n)).real.sum()


@example(lambda rng: (vector(rng, 5), vector(rng, 5)))
@njit
def array_expression(a, b):
    return np.sum((a * b - np.conj(a) / (b + 3)).imag) + np.sum(np.abs(a) ** 2)


@example(lambda rng: (vector(rng, 4), rng.normal(size=4)))
@njit
def real_and_complex_arrays(a, x):
    phases = a * x + np.exp(1j * x)
    return (phases * phases).sum().real + np.angle(a).sum()


@example(lambda rng: (vector(rng, 6),))
@njit
def recurrence_in_place(a):
    for i in range(1, len(a)):
        a[i] = a[i] * a[i - 1] + 1j


@example(lambda rng: (vector(rng, 5),))
@njit
def parts_exchanged(a):
    for i in range(len(a)):
        a[i] = complex(a[i].imag, a[i].real ** 2)
    return np.sum(a.real * a.imag)


@example(lambda rng: (vector(rng, 7).astype(np.complex64),))
@njit
def single_precision(a):
    s = np.complex64(0)
    for v in a:
        s += v * v * np.complex64(0.5j)
    return s.real - abs(s)


@example(lambda rng: (vector(rng, 5).astype(np.complex64), vector(rng, 5)))
@njit
def both_precisions(a, b):
    s = 0j
    for i in range(len(a)):
        s += a[i] * b[i]
        b[i] = a[i] * a[i]
    return s.imag


@example(lambda rng: (vector(rng, 5), 3), seeds=1)
@njit
def spectrum(a, k):
    s = 0.0
    for m in range(k):
        c = 0j
        for j in range(len(a)):
            c += a[j] * cmath.exp(-2j * math.pi * m * j / len(a))
        s += abs(c) * (m + 1)
    return s


@example(lambda rng: (vector(rng, 4),))
@njit
def value_through_branches(a):
    z = a[0]
    for i in range(1, len(a)):
        z = z * a[i] if z.real > 0 else z + a[i]
    w = a[1] if z.imag > 0 else 1 + 1j
    return (z * w).imag


@example(lambda rng: (vector(rng, 3, 4),), seeds=1)
@njit
def views_and_copies(a):
    b = np.zeros_like(a[0])
    b[1:] = a.T[:3, 1]
    b[1:3] *= 2j
    return np.prod(a[0]).real + np.mean(b).imag + np.abs(b).sum()

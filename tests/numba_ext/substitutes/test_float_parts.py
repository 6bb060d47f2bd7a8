"""Mantissas and exponents are those of Numba, of every kind of number."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar

NUMBERS = [0.0, -0.0, 0.5, -1.0, 1.0, 3.75, -1e300, 1e-300, math.inf, -math.inf, math.nan]


@njit
def parts(x):
    mantissa, exponent = math.frexp(x)
    return mantissa, mantissa + exponent


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_p1_values_are_those_of_numba(dtype):
    info = np.finfo(dtype)
    random = np.random.default_rng(2)
    usual = random.normal(size=200) * 10.0 ** random.uniform(-37, 37, size=200)
    smallest = [info.smallest_subnormal, 5 * info.smallest_subnormal, info.tiny, info.max]
    with np.errstate(over="ignore"):
        numbers = np.array([*NUMBERS, *smallest, *usual], dtype)
    for x in numbers:
        value, _ = ar.jvp(parts, (x,), (dtype(1),))
        expected = parts(x)
        assert np.array(value, dtype).tobytes() == np.array(expected, dtype).tobytes(), x

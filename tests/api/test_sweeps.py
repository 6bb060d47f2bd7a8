"""Several reverse sweeps over one tape (`jacrev`): nothing is left of the one before."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import directional_derivative


@njit
def weighed(x, y):
    """`y` is constant, and has active values from the first loop on."""
    for i in range(len(y)):
        y[i] = 2.0 * y[i] * x[i - 1] + 3.0 * x[i]
    return y * y[::-1]


@njit
def weighed_and_first(x, y):
    return np.sin(weighed(x, y)), y[0]


@njit
def stir(a, b):
    for i in range(len(a)):
        a[i] = a[i] * b[i] + b[i]


@ar.augmented_primal(stir)
def stir_augmented(config, ret: ar.Const, a: ar.Duplicated, b: ar.Duplicated):
    before = a.val.copy()
    stir(a.val, b.val)
    return ar.AugmentedReturn(None, None, before)


@ar.reverse(stir, saves="b")
def stir_reverse(config, dret: ar.Const, tape, a: ar.Duplicated, b: ar.Duplicated):
    for i in range(len(tape)):
        b.dval[i] += a.dval[i] * (tape[i] + 1.0)
        a.dval[i] *= b.val[i]


@njit
def stirred(x, y):
    """The rule has a shadow for `y`, which is constant before the call."""
    start = y.copy()
    stir(y, x)
    y[1:] *= x[:-1]
    return y * start + y[::-1]


@njit
def rebound(x, y):
    """In each iteration `y` is another array; the first is constant."""
    for _ in range(2):
        y = np.tanh(y * x + y[0])
    return y


@njit
def filled(x, y):
    """As a solver of differential equations wants it: the result is the constant argument."""
    y[0] *= x[0]
    for i in range(1, len(y)):
        y[i] = np.sin(x[i]) * y[i - 1]
    return y


@njit
def filled_and_last(x, y):
    return filled(x, y)[::-1], y[-1] * x[0]


@pytest.mark.parametrize(
    "f", [weighed, weighed_and_first, stirred, rebound, filled, filled_and_last]
)
@pytest.mark.parametrize("size", [1, 3, 9])  # one, less than four, more than four per sweep
def test_forms_s4_rows_with_an_overwritten_constant_argument(f, size):
    rng = np.random.default_rng(size)
    x, y, direction = rng.uniform(0.5, 1.5, size=(3, size))
    kept = y.copy()
    found = ar.jacrev(f)(x, y)
    np.testing.assert_array_equal(y, kept)
    blocks = found if isinstance(found, tuple) else (found,)
    for part, block in enumerate(blocks):

        def result(x, y, part=part):
            out = f(x, y)
            return out[part] if isinstance(out, tuple) else out

        expected, error = directional_derivative(result, (x, y), (direction, None))
        np.testing.assert_allclose(block @ direction, expected, rtol=1e-8, atol=10 * error + 1e-12)


def test_all_sweeps_release_their_scratch(unfreed):
    x, y = np.linspace(0.5, 1.5, 6), np.ones(6)
    of_lanes, of_rows = ar.jacrev(weighed), ar.jacrev(weighed_and_first)
    assert unfreed(lambda: of_lanes(x, y)) == 0
    assert unfreed(lambda: of_rows(x, y)) == 0

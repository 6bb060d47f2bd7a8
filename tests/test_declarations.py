"""What is declared of a function instead of a rule: inactive arguments, opting out, promises."""

import math

import numba
import numpy as np
import pytest
from numba import float64

import activerules as ar
from activerules.errors import RuleDefinitionError


@numba.njit
def wave(x, phase=0.5, k=2.0):
    return math.sin(k * x + phase)


ar.inactive(wave, args=("phase", 2))


@pytest.mark.parametrize("forms", [0, 1, 2])
def test_inactive_arguments_need_no_rule(forms):
    @numba.njit
    def program(x, p):
        if forms == 0:
            return wave(x * x, p, p)
        if forms == 1:
            return wave(x * x, phase=p)
        return wave(k=p, x=x * x)

    by_x, by_p = ar.grad(program, argnums=(0, 1))(0.7, 0.3)
    k, phase = [(0.3, 0.3), (2.0, 0.3), (0.3, 0.5)][forms]
    np.testing.assert_allclose(by_x, math.cos(k * 0.49 + phase) * k * 1.4)
    assert by_p == 0.0


def test_inactive_arguments_of_a_numpy_function():
    ar.inactive(np.interp, args="xp")
    x, xp, fp = 0.3, np.array([0.0, 1.0]), np.array([1.0, 3.0])

    @numba.njit
    def program(x, xp, fp):
        return np.interp(x, xp, fp)

    found = ar.grad(program, argnums=(0, 1, 2))(x, xp, fp)
    np.testing.assert_allclose(found[0], 2.0)
    np.testing.assert_allclose(found[1], 0.0)
    np.testing.assert_allclose(found[2], [0.7, 0.3])


def test_an_argument_that_is_not_there():
    with pytest.raises(RuleDefinitionError, match="no argument 'phases'"):
        ar.inactive(wave, args="phases")
    with pytest.raises(RuleDefinitionError, match="its arguments are x, phase, k"):
        ar.inactive(wave, args=3)


@numba.njit
def cube(x):
    return x * x * x


@ar.augmented_primal(cube)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(cube(x.val), None, None)


@ar.reverse(cube)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 100.0 * dret.val  # tells the rule from the body


def test_opting_out_by_type():
    @numba.njit
    def program(x):
        return float(cube(x))

    gradient = ar.grad(program)
    assert gradient(2.0) == 100.0
    ar.opt_out(cube, ar.Active[numba.float32])
    assert gradient(2.0) == 100.0
    assert gradient(np.float32(2.0)) == 12.0
    ar.opt_out(cube, ar.Annotation[float64])
    assert gradient(2.0) == 12.0


def test_a_rule_for_more_specific_types_is_stronger_than_opting_out():
    @numba.njit
    def f(x):
        return x * x

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active[float64]):
        return ar.AugmentedReturn(x.val * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active[float64]):
        return 100.0

    @numba.njit
    def program(x):
        return f(x)

    ar.opt_out(f, ar.Annotation)
    assert ar.grad(program)(3.0) == 100.0
    ar.opt_out(f)
    assert ar.grad(program)(3.0) == 6.0

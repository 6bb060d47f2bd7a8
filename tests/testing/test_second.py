"""`check_grads`: what it accepts, and that it finds a wrong second derivative."""

import math
from collections import namedtuple

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.errors import RuleCheckError
from activerules.testing import check_grads

Wave = namedtuple("Wave", "frequency amplitude shape count")


@njit
def summed(wave, x):
    total = 0.0
    for k in range(wave.count):
        total += wave.amplitude**2 * math.sin(wave.frequency * x) * wave.shape[k] ** 3
    return total


def test_arguments_that_are_tuples():
    check_grads(summed, (Wave(1.5, 2.0, np.array([0.3, -0.7, 1.1]), 3), 0.3))


@njit
def cubed(x):
    return x * x * x


@ar.forward(cubed)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    # right, but constant for who differentiates it again
    return cubed(x.val), ar.ignore_derivatives(3.0 * x.val * x.val) * x.dval


ar.opt_out(cubed, mode="reverse")


@njit
def with_a_wrong_second(x):
    return math.sin(x) + cubed(x)


def test_a_wrong_second_derivative_is_found():
    check_grads(with_a_wrong_second, (0.8,), order=1)
    with pytest.raises(RuleCheckError, match="second derivative with respect to argument 0"):
        check_grads(with_a_wrong_second, (0.8,))


@njit
def power_of_three_halves(x):
    y = abs(x)
    return y * math.sqrt(y) if y > 0.0 else 0.0


def test_an_infinite_second_derivative_is_not_called_right():
    with pytest.raises(RuleCheckError, match="do not resolve the derivative here"):
        check_grads(power_of_three_halves, (0.0,))


def test_complex_arguments_are_for_the_first_order():
    @njit
    def squared(z):
        return z.real * z.real + z.imag

    check_grads(squared, (1.0 + 2.0j,), order=1)
    with pytest.raises(ValueError, match="give order=1"):
        check_grads(squared, (1.0 + 2.0j,))


def test_arrays_of_records_are_checked_to_the_first_order():
    @njit
    def by_fields(points):
        return points[0].mass * points[0].mass

    points = np.ones(1, dtype=[("mass", "f8"), ("kind", "i8")])
    check_grads(by_fields, (points,), order=1)
    with pytest.raises(ValueError, match="give order=1"):
        check_grads(by_fields, (points,))


def test_what_has_no_argument_to_check_is_not_called_right():
    @njit
    def counted(points):
        return points[0].kind * 0.5

    with pytest.raises(ValueError, match="no argument has a derivative that is checked"):
        check_grads(counted, (np.ones(1, dtype=[("kind", "i8")]),))

    @njit
    def listed(x):
        return [x, x * x]

    with pytest.raises(ValueError, match="returns nothing that is checked"):
        check_grads(listed, (0.5,))


def test_any_return_is_checked_by_a_weighted_sum():
    @njit
    def parts(x, z):
        return (x[0] * z, 7, x[1]), z * x * x

    x, z = np.array([0.4, -1.2]), 0.7 - 0.2j
    check_grads(parts, (x, z), order=1)

    @njit
    def path(x):
        return [(i, i) for i in range(x.size)], np.sum(x * x)

    check_grads(path, (x,))

    @njit
    def listed(x):
        return [x, x * x], x

    with pytest.raises(ValueError, match="a list of floats is not checked where it is returned"):
        check_grads(listed, (0.5,))


def test_a_wrong_derivative_in_a_returned_array_is_found():
    @njit
    def row(x):
        return np.array([1.0, with_a_wrong_first(x)])

    with pytest.raises(RuleCheckError, match=r"row\(Active, Const\): derivative of argument 0"):
        check_grads(row, (0.8,), order=1)


def test_forward_mode_is_checked_by_what_is_written():
    @njit
    def into(out, x):
        out[0] = with_a_wrong_tangent(x)

    with pytest.raises(RuleCheckError, match="into: forward mode"):
        check_grads(into, (np.zeros(2), 0.8), order=1)


@njit
def with_a_wrong_first(x):
    return x * x


@ar.augmented_primal(with_a_wrong_first)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(x.val * x.val if config.needs_primal else None, None, x.val)


@ar.reverse(with_a_wrong_first)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 3.0 * tape * dret.val


@njit
def with_a_wrong_tangent(x):
    return x * x


@ar.forward(with_a_wrong_tangent)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return x.val * x.val, 3.0 * x.val * x.dval


ar.opt_out(with_a_wrong_tangent, mode="reverse")


def test_what_fastmath_leaves_alone_is_compared_exactly():
    @njit(fastmath=True)
    def picked(x, at, into):
        into[:2] = (x[at[0]] * x[1], 2.0)
        return x[at[1]]

    check_grads(picked, (np.array([0.4, -1.2]), np.array([0, 1]), np.zeros(3)), order=1)


@njit
def small_with_a_wrong_tangent(x):
    return 1e-10 * np.sum(x * x)


@ar.forward(small_with_a_wrong_tangent)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return small_with_a_wrong_tangent(x.val), 1e-10 * np.sum(x.val * x.dval)


ar.opt_out(small_with_a_wrong_tangent, mode="reverse")


def test_a_wrong_tangent_of_small_values_is_found():
    with pytest.raises(RuleCheckError, match="forward mode"):
        check_grads(small_with_a_wrong_tangent, (np.array([0.3, -0.7]),), order=1)

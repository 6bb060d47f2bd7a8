"""Active data that passes through memory marked Const, where a function with a rule, a copy of the
memory, or a function that is not inlined writes or reads it.
"""

import numpy as np
import pytest
from numba import njit

import activerules as ar

ARRAY = ar.Const | ar.Duplicated


@njit
def square(x, out):
    for i in range(len(x)):
        out[i] = x[i] * x[i]


@ar.augmented_primal(square, saves="x")
def square_augmented(config, ret: ar.Const, x: ARRAY, out: ARRAY):
    square(x.val, out.val)
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(square, saves="x")
def square_reverse(config, dret: ar.Const, tape, x: ARRAY, out: ARRAY):
    if ar.active(out):
        ar.accumulate(x, 2.0 * x.val * out.dval)
        out.dval[:] = 0.0


@ar.forward(square)
def square_forward(config, ret: ar.Const, x: ARRAY, out: ARRAY):
    if ar.active(out):
        if ar.active(x):
            out.dval[:] = 2.0 * x.val * x.dval
        else:
            out.dval[:] = 0.0
    square(x.val, out.val)


@njit
def fourth_powers(x, buffer, out):
    """Σ x⁴; only functions with rules see what is in the buffer."""
    square(x, buffer)
    square(buffer, out)
    return out.sum()


@njit
def through_a_copy(x, buffer, out):
    square(x, buffer)
    copy = buffer.copy()
    square(copy, out)
    return out.sum()


@njit
def fill(x, buffer, depth):
    """A function that is not inlined."""
    if depth > 0:
        fill(x, buffer, depth - 1)
    else:
        for i in range(len(x)):
            buffer[i] = x[i] * x[i]


@njit
def through_a_function(x, buffer, out):
    fill(x, buffer, 2)
    square(buffer, out)
    return out.sum()


@njit
def through_a_function_and_a_copy(x, buffer, out):
    fill(x, buffer, 2)
    copy = buffer.copy()
    for i in range(len(x)):
        out[i] = copy[i] * copy[i]
    return out.sum()


PROGRAMS = [fourth_powers, through_a_copy, through_a_function, through_a_function_and_a_copy]


@pytest.mark.parametrize("of_out", [ar.Const, ar.Duplicated])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_buffer_marked_const_gets_a_shadow_for_the_call(program, of_out):
    x, shadow = np.array([1.0, -2.0, 0.5]), np.array([0.1, 0.2, 0.3])
    out = (np.zeros(3),) if of_out is ar.Const else (np.zeros(3), np.zeros(3))
    arguments = (ar.Const(np.ones(3)), of_out(*out))
    ar.autodiff(ar.Reverse, program, ar.Active, ar.Duplicated(x, shadow), *arguments)
    np.testing.assert_allclose(shadow, [0.1, 0.2, 0.3] + 4 * x**3, rtol=1e-14)
    tangent = np.array([0.3, 0.1, -1.0])
    found = ar.autodiff(ar.Forward, program, ar.Duplicated, ar.Duplicated(x, tangent), *arguments)
    np.testing.assert_allclose(found, (4 * x**3 * tangent).sum(), rtol=1e-14)


@njit
def scaled_sum(x, work):
    work[:] = x * 3.0
    return work.sum()


@ar.augmented_primal(scaled_sum)
def scaled_sum_augmented(config, ret: ar.Active, x: ar.Duplicated, work: ar.Const):
    return ar.AugmentedReturn(scaled_sum(x.val, work.val), None, None)


@ar.reverse(scaled_sum)
def scaled_sum_reverse(config, dret: ar.Active, tape, x: ar.Duplicated, work: ar.Const):
    ar.accumulate(x, np.full(len(x.val), 3.0 * dret.val))


@njit
def sums_with_one_workspace(x, work):
    return scaled_sum(x, work) * scaled_sum(x, work)


def test_a_rule_for_const_alone_says_that_nothing_passes_through_the_argument():
    x, shadow = np.array([1.0, 2.0]), np.ones(2)
    ar.autodiff(
        ar.Reverse,
        sums_with_one_workspace,
        ar.Active,
        ar.Duplicated(x, shadow),
        ar.Const(np.zeros(2)),
    )
    np.testing.assert_allclose(shadow, 1.0 + 2 * 9 * 3.0, rtol=1e-14)

"""Rules of operators: for the types they are for, in expressions and augmented assignments."""

import operator

import numba
import numpy as np
from numba import float32

import activerules as ar

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
# Types of no other test: rules of operators hold for the process.
Cube = float32[:, :, ::1]


@ar.augmented_primal(operator.mod)
def _(config, ret: Duplicated, a: Duplicated[Cube], b: Duplicated[Cube]):
    y = a.val % b.val
    return ar.AugmentedReturn(y, np.zeros_like(y), None)


@ar.reverse(operator.mod)
def _(config, dret: Duplicated, tape, a: Duplicated[Cube], b: Duplicated[Cube]):
    ar.accumulate(a, float32(100.0) * dret.dval)  # tells the rule from the body


@ar.augmented_primal(operator.floordiv)
def _(config, ret: Active, a: Active[float32], b: Const[float32]):
    return ar.AugmentedReturn(a.val // b.val, None, None)


@ar.reverse(operator.floordiv)
def _(config, dret: Active, tape, a: Active[float32], b: Const[float32]):
    return float32(100.0) * dret.val, None


@numba.njit
def program(a, k):
    x = a[0, 0, 0]
    x //= k
    b = a.copy()
    b //= k  # in place: no business of the rule
    n = 7
    n //= 2
    return np.sum(float32(2.0) * (a % (a + k)) + a) + x + np.sum(b) + a[0, 0, 1] % k + n


def test_operators_in_expressions_and_assignments():
    a = np.array([[[1.0, 2.0, 3.0]]], np.float32)
    gradient = ar.grad(program)(a, np.float32(1.5))
    np.testing.assert_allclose(gradient, [[[301.0, 202.0, 201.0]]])
    calls = ar.explain(program, Duplicated(a, np.zeros_like(a)), Const(np.float32(1.5))).rules
    served = [call for call in calls if call.rule is not None]
    followed = [call for call in calls if call.followed]
    assert len(served) == 2
    assert {call.reason for call in followed} == {"no rule is for these types"}

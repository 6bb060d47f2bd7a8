# ruff: noqa: UP037  (quotes are what is tested)
"""Annotations of rules as strings, which name local variables, and in quotes as well."""

from __future__ import annotations

import numpy as np
import pytest
from numba import float32, njit, types

import activerules as ar
from activerules.annotations import Active, Const
from activerules.chainrules import NoTangent, frule, rrule
from activerules.errors import NoRuleForActivity


def square():
    def f(x):
        return x * x

    return njit(f)


def test_of_a_pair():
    f = square()
    Number = types.float64

    @ar.augmented_primal(f)
    def _(config, ret: "Active", x: "Active[Number] | Const"):
        return ar.AugmentedReturn(f(x.val), None, x.val)

    @ar.reverse(f)
    def _(config, dret: Active, tape: "Number", x: Active[Number] | Const):
        return 7.0 * tape * dret.val

    assert ar.grad(f)(3.0) == 21.0


def test_of_closures():
    f = square()
    Single = float32

    @rrule.register(f)
    def _(f, x: Single):
        return f(x), lambda dy: (NoTangent(), 7.0 * x * dy)

    @frule.register(f)
    def _(deltas, f, x: "Single"):
        return f(x), 7.0 * x * deltas[1]

    three, one = np.float32(3.0), np.float32(1.0)
    assert ar.grad(f)(three) == 21.0
    assert ar.jvp(f, (three,), (one,))[1] == 21.0
    with pytest.raises(NoRuleForActivity, match="float32"):
        ar.grad(f)(3.0)

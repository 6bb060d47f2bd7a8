"""Calls are typed once in a function; operators stay values that can be passed."""

import operator

import numpy as np
import pytest
from numba import njit, types
from numba.core.types.functions import BaseFunction

import activerules as ar
from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES


def lines(count: int):
    body = "\n    ".join("a[i] = a[i - 1] * x + i * x - a[i] / x" for _ in range(count))
    space: dict = {}
    exec(f"def f(a, x, i):\n    {body}\n    return a[i]", space)
    return njit(space["f"])


def test_lines_that_are_alike_are_typed_once(monkeypatch: pytest.MonkeyPatch):
    typed: list = []
    find = BaseFunction.get_call_type

    def noted(function, context, args, kws):
        typed.append((function, args))
        return find(function, context, args, kws)

    monkeypatch.setattr(BaseFunction, "get_call_type", noted)
    numbers = []
    for count in 2, 20:
        typed.clear()
        capture(lines(count), (types.float64[::1], types.float64, types.int64), rules=RULES)
        numbers.append(len(typed))
    assert numbers[0] == numbers[1] > 0


@njit
def applied(f, x, y):
    return f(x, y)


@njit
def doubled(f, x):
    return 2.0 * f(x, x)


@ar.augmented_primal(doubled)
def _augmented(config, ret: ar.Active, f: ar.Const, x: ar.Active):
    return ar.AugmentedReturn(doubled(f.val, x.val), None, None)


@ar.reverse(doubled)
def _reverse(config, dret: ar.Active, tape, f: ar.Const, x: ar.Active):
    return None, 4.0 * x.val * dret.val


def test_an_operator_is_an_argument_of_functions_with_rules_and_without():
    def f(x):
        return applied(operator.mul, x, 3.0) + doubled(operator.mul, x)

    assert ar.grad(njit(f))(2.0) == 3.0 + 4.0 * 2.0


def test_flags_of_a_callee_stay_its_own():
    """Of a call that both make, the implementation is compiled under the flags of each."""
    powers = njit(error_model="numpy")(lambda a, i: a[i] // a[i + 1])

    @njit
    def f(a, i):
        return (a[i] // a[i]) * powers(a, i) * a[i]

    a = np.array([2.0, 0.0, 1.0])
    assert ar.grad(njit(lambda x: powers(a, 1) * x))(3.0) == 0.0
    with pytest.raises(ZeroDivisionError):
        ar.grad(f)(a, 1)

"""Calls of functions with rules that need no rule: what is called, and when it is compiled."""

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.numba_ext.rules import primals
from activerules.numba_ext.target.capture import capture
from numba_ext.target.rule_views import Keeping

VECTOR = float64[::1]


@njit
def second_half(a):
    return a[a.size // 2 :]


@njit
def mean(a):
    return a.sum() / a.size


@njit
def uses_both(a):
    return second_half(a)[0] * mean(a)


def test_p1_functions_are_compiled_for_the_calls_there_are(monkeypatch):
    compiled = []
    monkeypatch.setattr(primals, "_checked", {})
    monkeypatch.setattr(primals, "checked_primal", lambda _, symbol: compiled.append(symbol))
    marked = capture(uses_both, (VECTOR,), rules=Keeping(second_half, mean)).marked.values()
    functions = primals.Primals()
    symbols = {one.name: functions.symbol(one, is_new=False) for one in marked}
    assert functions.libraries("") == []
    assert len(functions.libraries(f"call double @{symbols['mean']}(")) == 1
    assert compiled == []
    functions.libraries(f"call i32 @{symbols['second_half']}(")
    assert compiled == [symbols["second_half"]]


@ar.augmented_primal(second_half)
def _(config, ret: ar.Duplicated, a: ar.Duplicated):
    half = a.val[a.val.size // 2 :].copy()
    return ar.AugmentedReturn(half, np.zeros_like(half), None)


@ar.reverse(second_half)
def _(config, dret: ar.Duplicated, tape, a: ar.Duplicated):
    a.dval[a.val.size // 2 :] += dret.dval


@njit
def weighted(x, w):
    return x * second_half(w)[0]


def test_p2_a_result_that_shares_memory_with_an_argument_is_noticed():
    """The pair returns a copy; the function itself, called for a constant, does not."""
    w = np.array([1.0, 2.0, 3.0])
    with pytest.raises(ar.RuleReturnError, match="second_half or its rule returns shares"):
        ar.grad(weighted)(1.5, w)
    (call,) = capture(weighted, (float64, VECTOR), rules=Keeping(second_half)).marked.values()
    functions = primals.Primals()
    assert functions.symbol(call, is_new=False) != call.cpu_symbol
    assert functions.symbol(call, is_new=True) == call.cpu_symbol

"""A slice assignment that does not fit raises what it raises in Numba, and costs no text."""

import re

import numba
import numpy as np
import pytest
from numba import float64

import activerules as ar
from activerules.numba_ext.target.capture import capture
from activerules.testing import check_gradient
from numba_ext.target.rule_views import NOTHING

X = np.array([1.0, 2.0, 3.0, 4.0])


@numba.njit
def assigns(x, which):
    """A vector, a matrix and a list, each of another shape than the slice."""
    y = np.zeros((3, 2))
    y[:, 0] = x[0] * x[1]
    if which == 0:
        y[:, 1] = x[:2]
    if which == 1:
        y[:, 1:] = x.reshape(2, 2)
    if which == 2:
        y[1, :] = [x[0], x[1], x[2]]
    return y.sum()


@numba.njit
def catches(x):
    y, s = np.zeros(3), x[0] * x[1]
    try:
        y[:] = x[:2]
    except Exception:
        s *= x[2]
    return s + y.sum()


@pytest.mark.parametrize("which", range(3))
def test_s1_shape_errors_of_slices_are_those_of_numba(which):
    """S1"""
    with pytest.raises(ValueError, match="cannot assign slice of shape") as of_primal:
        assigns(X, which)
    for derivative in (ar.grad(assigns), ar.jacfwd(assigns)):
        with pytest.raises(ValueError, match="cannot assign slice of shape") as caught:
            derivative(X, which)
        assert type(caught.value) is type(of_primal.value)
        assert caught.value.args == of_primal.value.args


def test_shape_errors_of_slices_can_be_caught():
    """Numba itself assigns what it can before it looks for the handler."""
    check_gradient(catches, (X,))


def test_texts_of_shape_errors_are_not_made_in_compiled_code():
    text = capture(assigns, (float64[::1], numba.int64), rules=NOTHING).text
    assert "unicode" not in text


@numba.njit
def uses_arrays(x, y):
    z = (x + y[1:]).reshape(-1, 2) @ y[:2]
    z[1:] = np.take(x, np.array([0, 1]))[: len(z) - 1]
    return z.sum() + y[np.searchsorted(x, 0.5)] + np.concatenate((x, z)).sum()


def _returns(function):
    """The status codes that a function returns, directly or by a phi or select."""
    returned = set(re.findall(r"\bret i32 (%?[-\w.]+)", function))
    for name, operands in re.findall(r"(%[\w.]+) = (?:phi|select) (.*i32.*)", function):
        if name in returned:
            returned |= set(re.findall(r"(?:\[|i32) (-?\d+)\b", operands))
    return returned


def test_functions_that_only_raise_stay_calls():
    """Of all functions that these lead to, only the raising ones of ours have no other return."""
    text = capture(uses_arrays, (float64[::1], float64[::1]), rules=NOTHING).text
    functions = re.findall(r"^define [^\n]*%retptr\b.*?^}$", text, re.MULTILINE | re.DOTALL)
    only = [one for one in functions if _returns(one).isdisjoint({"0", "-2", "-3"})]
    assert len(functions) > 20
    assert len(only) == 2
    assert all("activerules.raise." in one for one in only)

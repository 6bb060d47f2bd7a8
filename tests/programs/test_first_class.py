"""Functions as values: chosen by a branch, kept in a list, called through a pointer."""

import math

import numpy as np
import pytest
from numba import cfunc, float64, njit
from numba.core.errors import NumbaExperimentalFeatureWarning

import activerules as ar
from activerules.testing import check_gradient

pytestmark = pytest.mark.filterwarnings("ignore", category=NumbaExperimentalFeatureWarning)
SIGNATURE = float64(float64, float64)


@njit(SIGNATURE)
def sine(x, y):
    return math.sin(x) * y


@njit(SIGNATURE)
def product(x, y):
    return x * y * y


@cfunc(SIGNATURE)
def c_product(x, y):
    return x * y


@njit
def chosen_by_a_branch(a, kind):
    if kind > 0:
        f = sine
    else:
        f = product
    s = 1.0
    for v in a:
        s = f(s, v) + v
    return s


@njit
def kept_in_a_list(x, k):
    functions = [sine, product]
    return functions[k](x, x)


@njit
def through_a_c_pointer(x):
    return c_product(x, x)


@pytest.mark.parametrize("kind", [0, 1])
def test_chosen_by_a_branch(kind):
    check_gradient(chosen_by_a_branch, (np.array([0.3, -0.7, 1.1]), kind))


@pytest.mark.parametrize("k", [0, 1])
def test_kept_in_a_list(k):
    check_gradient(kept_in_a_list, (1.5, k))


@njit(SIGNATURE)
def with_a_rule(x, y):
    return x - y


@ar.reverse(with_a_rule)
def _(config, dret: ar.Active, tape, x: ar.Active, y: ar.Active):
    return dret.val, -dret.val


@ar.augmented_primal(with_a_rule)
def _(config, ret: ar.Active, x: ar.Active, y: ar.Active):
    return ar.AugmentedReturn(with_a_rule(x.val, y.val), None, None)


@njit
def kept_with_a_rule(x, k):
    functions = [sine, with_a_rule]
    return functions[k](x, x)


def test_kept_in_a_list_with_a_rule():
    """The function runs on its own, so the advice is not to make it run."""
    kept_with_a_rule(1.5, 1)
    with pytest.raises(ar.NotCompilable, match="but not in the form") as caught:
        ar.grad(kept_with_a_rule)(1.5, 1)
    assert "first make" not in str(caught.value)


def test_through_a_c_pointer():
    with pytest.raises(ar.UnknownCall):
        ar.grad(through_a_c_pointer)(1.5)

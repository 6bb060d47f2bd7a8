"""Packages of compiled functions whose code is differentiated, without rules."""

import numpy as np
import pytest
from numba import njit

from activerules.testing import check_gradient

NODES = np.linspace(0.0, 3.0, 9)
POINTS = np.array([0.31, 1.27, 2.6])


def test_interpolation():
    package = pytest.importorskip("interpolation")
    interp = package.interp

    @njit
    def total(x, values):
        return np.sum(interp(NODES, values, x) ** 2)

    check_gradient(total, (POINTS, np.sin(NODES)))


def test_linear_splines():
    splines = pytest.importorskip("interpolation.splines")
    grid, eval_linear = splines.UCGrid((0.0, 3.0, 9)), splines.eval_linear

    @njit
    def total(x, values):
        return np.sum(eval_linear(grid, values, x.reshape((-1, 1))) ** 2)

    check_gradient(total, (POINTS, np.sin(NODES)))


def test_cubic_splines():
    splines = pytest.importorskip("interpolation.splines")
    grid, eval_cubic = splines.UCGrid((0.0, 3.0, 9)), splines.eval_cubic

    @njit
    def total(x, coefficients):
        return np.sum(eval_cubic(grid, coefficients, x.reshape((-1, 1))) ** 2)

    check_gradient(total, (POINTS, splines.filter_cubic(grid, np.sin(NODES))))


@njit
def excess(x, a):
    return np.exp(x) * x - a * x - 1.0


@njit
def excess_slope(x, a):
    return np.exp(x) * (x + 1.0) - a


@pytest.mark.parametrize("method", ["newton", "newton_secant", "brentq"])
def test_roots_of_quantecon(method):
    """The last steps are smooth in the parameters; a bisection's are not."""
    optimize = pytest.importorskip("quantecon.optimize")
    find = getattr(optimize, method)
    call = {
        "newton": "find(excess, 1.0, excess_slope, args=(a,))",
        "newton_secant": "find(excess, 1.0, args=(a,))",
        "brentq": "find(excess, 0.1, 3.0, args=(a,))",
    }[method]
    names = {"find": find, "excess": excess, "excess_slope": excess_slope}
    check_gradient(njit(eval(f"lambda a: {call}.root", names)), (1.1,))


def test_inequality_of_quantecon():
    quantecon = pytest.importorskip("quantecon")
    gini = quantecon.gini_coefficient
    check_gradient(njit(lambda x: gini(x)), (POINTS,))

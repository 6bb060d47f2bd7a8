"""Functions that are stored in objects or passed on as values, in code that is differentiated."""

import math

import numpy as np
import pytest
from numba import float64, njit
from numba.core.errors import NumbaExperimentalFeatureWarning
from numba.core.types import FunctionType
from numba.experimental import jitclass

import activerules as ar
from activerules.testing import check_gradient

pytestmark = pytest.mark.filterwarnings("ignore", category=NumbaExperimentalFeatureWarning)
SLOPE = float64[:](float64, float64[:])


@njit(SLOPE)
def riccati(t, y):
    return np.array((y[0] ** 2 - t**2, math.cos(y[1] * t)))


@njit(float64[:](FunctionType(SLOPE), float64, float64[:]))
def midpoint(slope, h, y):
    return y + h * slope(h / 2, y + h / 2 * slope(0.0, y))


@jitclass([("y", float64[:])])
class Started:
    """Takes a function, and calls it where it is made."""

    def __init__(self, slope, y):
        self.y = y + 0.1 * slope(0.0, y)


@jitclass([("y", float64[:]), ("slope", FunctionType(SLOPE))])
class Solver:
    """Keeps a function, and passes it on as a value where it is made."""

    def __init__(self, slope, y):
        self.slope = slope
        self.y = midpoint(self.slope, 0.1, y)

    def step(self):
        self.y = self.y + 0.1 * self.slope(0.1, self.y)


@njit
def of_started(y):
    return (Started(riccati, y).y ** 2).sum()


@njit
def of_solver(y):
    return (Solver(riccati, y).y ** 2).sum()


@njit
def of_steps(y):
    solver = Solver(riccati, y)
    solver.step()
    return (solver.y**2).sum()


@jitclass([("y", float64)])
class Sum:
    """Takes a tuple of functions."""

    def __init__(self, functions, y):
        self.y = functions[0](y) + functions[1](y)


@njit
def sine(x):
    return math.sin(x) * x


@njit
def cube(x):
    return x**3


@njit
def of_a_tuple(x):
    return Sum((sine, cube), x).y


@njit
def applied(x, function):
    return function(x) * x


@njit
def of_a_gradient(x):
    return ar.grad(applied)(x, sine) * ar.jvp(applied, (x, cube), (1.0, None))[1]


@pytest.mark.parametrize("function", [of_a_tuple, of_a_gradient])
def test_functions_are_passed_to_classes_and_to_differentiated_functions(function):
    check_gradient(function, (0.7,))


@pytest.mark.parametrize("function", [of_started, of_solver])
def test_v1_a_value_has_the_address_of_the_compiled_function_and_no_wrapper(function):
    """LLVM ends the process for a name that nothing defines."""
    check_gradient(function, (np.array([0.3, -0.2]),))


def test_an_attribute_that_is_called_is_not_advised_to_have_a_rule():
    with pytest.raises(ar.UnknownCall, match=r"into self\.slope, which has no derivative") as error:
        ar.grad(of_steps)(np.array([0.3, -0.2]))
    assert "augmented_primal" not in str(error.value)
    assert "call an @njit function in its place" in str(error.value)

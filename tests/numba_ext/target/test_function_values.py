"""Functions that are stored in objects or passed on as values, in code that is differentiated."""

import math
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba import cfunc, float64, njit
from numba.core.errors import NumbaExperimentalFeatureWarning
from numba.core.types import FunctionType, StructRef, unliteral
from numba.experimental import jitclass, structref

import activerules as ar
from activerules.testing import check_gradient, check_grads

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


class Functions(NamedTuple):
    """The two arguments of `combined` in one."""

    weighted: Any
    last: Any


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


@structref.register
class IterationType(StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, unliteral(ty)) for name, ty in fields)


class Iteration(structref.StructRefProxy):
    """Keeps a function by its type, which names the function."""


structref.define_proxy(Iteration, IterationType, ["function", "x"])


@njit
def iterated(iteration):
    iteration.x = iteration.function(iteration.x)


@njit
def of_an_iteration(x):
    iteration = Iteration(sine, x)
    iterated(iteration)
    iterated(iteration)
    return iteration.x


def test_each_derivative_has_a_struct_ref_with_its_own_form_of_a_function():
    check_gradient(of_an_iteration, (0.7,))
    x, x_dot = ar.Duplicated(0.7, 1.0), ar.Duplicated
    assert ar.autodiff(ar.Forward, of_an_iteration, x_dot, x) == pytest.approx(
        ar.grad(of_an_iteration)(0.7), rel=1e-12
    )


@njit
def combined(functions, x):
    (first, weights), second = functions
    return first(x) * weights[0] + second(x) * weights[1]


combined_again = ar.checkpoint(combined)


class Weekday(Enum):
    MONDAY = 1


@njit
def second_squared(x):
    return (x[0][1] ** 2).sum() * x[1]


@njit
def of_functions_for_a_rule(x, weights):
    return combined_again(((sine, weights), cube), x) * x


@njit
def of_named_functions_for_a_rule(x, weights):
    return combined_again(Functions((sine, weights), cube), x) * x


@pytest.mark.parametrize("function", [of_functions_for_a_rule, of_named_functions_for_a_rule])
def test_functions_with_rules_take_tuples_of_functions(function):
    check_grads(function, (0.7, np.array([1.5, -0.3])))


@pytest.mark.parametrize("constant", [sine, Weekday.MONDAY, np.datetime64("2020-01-01")])
def test_the_tangent_of_a_tuple_leaves_out_what_is_constant_as_its_cotangent_does(constant):
    x = (constant, np.array([0.7, 0.2])), 0.4
    value, tangent = ar.jvp(second_squared, (x,), (ar.make_zero(x),))
    assert (value, tangent) == (pytest.approx(0.53 * 0.4), 0.0)
    expected = (None, np.array([0.56, 0.16])), 0.53
    for derivative in (ar.grad(second_squared)(x), ar.jacfwd(second_squared)(x)):
        assert derivative[0][0] is None
        assert np.allclose(derivative[0][1], expected[0][1])
        assert derivative[1] == pytest.approx(expected[1])


@pytest.mark.parametrize("function", [of_started, of_solver, of_steps])
def test_v1_a_value_has_the_address_of_the_compiled_function_and_no_wrapper(function):
    """LLVM ends the process for a name that nothing defines."""
    check_gradient(function, (np.array([0.3, -0.2]),))


@njit(float64(float64))
def wave(x):
    return math.sin(x) * x


@njit(float64(float64))
def power(x):
    return math.exp(x * x) - x


@njit(float64(float64))
def uncalled(x):
    return x / (x - 0.7)


PAIR = (wave, power)


@njit
def of_a_choice(x, k):
    return PAIR[k](x) * x


@njit
def of_each(x):
    total = 1.0
    for function in PAIR:
        total *= function(x)
    return total


@njit
def of_a_list(x, k):
    functions = [power, wave]
    functions.append(uncalled)
    return functions[k](x) + functions[k](x * x)


@njit
def composed(functions, x):
    for function in functions:
        x = function(x)
    return x


@njit
def of_nested_derivatives(x):
    return ar.grad(of_each)(x) * composed(PAIR, x)


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (of_a_choice, (0.7, 0)),
        (of_a_choice, (0.7, 1)),
        (of_each, (0.7,)),
        (of_a_list, (0.7, 1)),
        (of_nested_derivatives, (0.7,)),
    ],
)
def test_v2_values_that_the_program_makes_are_called_by_name(function, args):
    check_grads(function, args)


@cfunc(float64(float64))
def callback(x):
    return x**3


CALLBACKS = (callback,)


@njit
def of_a_callback(x, k):
    return PAIR[k](x) * CALLBACKS[k](x)


@njit
def stepped(solver, y):
    return solver.slope(0.1, y)[0]


@njit
def made():
    return PAIR


@njit
def of_what_a_function_with_a_rule_returns(x, k):
    return made()[k](x) * PAIR[k](x)


@ar.augmented_primal(made)
def _(config, ret: ar.Const):
    return ar.AugmentedReturn(made(), None, None)


@ar.reverse(made)
def _(config, dret: ar.Const, tape):
    return ()


SOLVER = Solver(riccati, np.array([0.3, -0.2]))


@pytest.mark.parametrize(
    ("function", "args", "argnum"),
    [
        (of_a_callback, (0.7, 0), 0),
        (composed, (PAIR, 0.7), 1),
        (stepped, (SOLVER, np.array([0.3, -0.2])), 1),
        (of_what_a_function_with_a_rule_returns, (0.7, 0), 0),
    ],
)
def test_v2_values_from_elsewhere_are_refused(function, args, argnum):
    with pytest.raises(ar.UnknownCall, match=r"which has no derivative") as error:
        ar.grad(function, argnum)(*args)
    assert "augmented_primal" not in str(error.value)
    assert "call an @njit function in its place" in str(error.value)
    assert "if a tuple or an object holds it, make that in the function" in str(error.value)

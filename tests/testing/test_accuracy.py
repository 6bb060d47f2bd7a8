"""Where finite differences are taken, along what, and how exact they have to be."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.errors import RuleCheckError
from activerules.testing import arg, backward_fdm, central_fdm, check_rule, forward_fdm

X = np.array([0.4, -1.1, 0.9])


def with_pair(function, derivative):
    """The function with a pair for its only argument, a float."""

    @ar.augmented_primal(function)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(function(x.val), None, x.val)

    @ar.reverse(function)
    def _(config, dret: Active, tape, x: Active):
        return dret.val * derivative(tape)

    return function


def test_directions_of_a_symmetric_matrix():
    """The rule is right where the matrix stays symmetric, and only there."""

    @njit
    def of_upper_triangle(a, factor):
        return factor * a[0, 1] ** 2 + a[0, 0]

    @ar.augmented_primal(of_upper_triangle)
    def _(config, ret: Active, a: Duplicated, factor: Const):
        return ar.AugmentedReturn(of_upper_triangle(a.val, factor.val), None, a.val[0, 1])

    @ar.reverse(of_upper_triangle)
    def _(config, dret: Active, tape, a: Duplicated, factor: Const):
        half = factor.val * tape * dret.val
        ar.accumulate(a, np.array([[dret.val, half], [half, 0.0]]))

    a = np.array([[1.0, 0.7], [0.7, 2.0]])
    symmetric = np.array([[0.3, -1.2], [-1.2, 0.4]])
    args = (of_upper_triangle, arg(a, Duplicated), arg(3.0, Const))
    check_rule(*args, compiled=False, directions=(symmetric, None))
    check_rule(*args, compiled=False, directions={"a": symmetric})
    with pytest.raises(RuleCheckError, match="along a random direction"):
        check_rule(*args, compiled=False)
    with pytest.raises(RuleCheckError, match="along the direction asked for"):
        check_rule(*args, compiled=False, directions={"a": np.triu(symmetric)})
    for wrong, message in (
        ({"b": symmetric}, "no argument 'b'"),
        ((symmetric,), "1 for 2 arguments"),
        (3.0, "a float, expected a tuple"),
        ((symmetric, 1.0), "argument 1 is Const, and nothing is compared along one"),
        ({"factor": 1.0}, "argument 1 is Const, and nothing is compared along one"),
        ((symmetric, None, None), "3 for 2 arguments"),
        ((0.0 * symmetric, None), "argument 0 is zero, and compares nothing"),
        ((1j * symmetric, None), "an array of complex128, expected real numbers"),
        ((["a"], None), "of type list, expected numbers"),
        ((np.ones(3), None), r"has the shape \(3,\), the argument \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            check_rule(*args, compiled=False, directions=wrong)
    with pytest.raises(ValueError, match="argument 1 has no derivative"):
        check_rule(*args[:2], arg(3, Const), compiled=False, directions=(None, 1.0))


@njit
def noisy_square(x):
    return x * x + 1e-3 * np.sin(1e13 * x)


@njit
def noisy_square_again(x):
    return noisy_square(x)


def test_tolerances_for_noisy_functions():
    with_pair(noisy_square, lambda x: 2 * x)
    with pytest.raises(RuleCheckError, match="an error that resolves"):
        check_rule(noisy_square, 0.7, compiled=False)
    check_rule(noisy_square, 0.7, compiled=False, rtol=0.2)
    check_rule(noisy_square, 0.7, compiled=False, atol=0.2)
    with_pair(noisy_square_again, lambda x: 10 * x)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(noisy_square_again, 0.7, compiled=False, rtol=0.2)


def test_differences_that_stay_on_one_side():
    @njit
    def from_two(x):
        if x < 2.0:
            raise ValueError("below 2")
        return x**3

    with_pair(from_two, lambda x: 3 * x * x)
    with pytest.raises(ValueError, match="below 2"):
        check_rule(from_two, 2.0, compiled=False)
    check_rule(from_two, 2.0, compiled=False, fdm=forward_fdm(5))
    check_rule(from_two, 2.1, compiled=False, fdm=central_fdm(3, max_range=0.05))


@njit
def doubles(x, y):
    y[:] = 2.0 * x


@ar.augmented_primal(doubles)
def doubles_augmented(config, ret: Const, x: Duplicated | Const, y: Duplicated):
    y.val[:] = 2.0 * x.val
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(doubles)
def doubles_reverse(config, dret: Const, tape, x: Duplicated | Const, y: Duplicated):
    ar.accumulate(x, 2.0 * y.dval)
    y.dval[:] = 0.0


def test_a_function_that_writes_into_an_argument():
    check_rule(doubles, X, arg(np.ones(3), Duplicated), compiled=False)


@pytest.mark.parametrize("point", [np.nan, np.inf])
def test_a_point_without_finite_differences_is_refused(point):
    with pytest.raises(RuleCheckError, match="an argument or the result is NaN or infinite"):
        check_rule(doubles, np.array([1.0, point]), arg(np.ones(2), Duplicated), compiled=False)


def test_a_kink_is_named_where_a_rule_differs_from_finite_differences():
    def rectified(slope):
        function = njit(lambda x: max(x, 0.0))
        return with_pair(function, lambda x: slope if x > 0.0 else 0.0)

    check_rule(rectified(1.0), 0.7, compiled=False)
    check_rule(rectified(1.0), 0.0, compiled=False, fdm=backward_fdm(5))
    with pytest.raises(RuleCheckError, match="slopes of the function on the two sides of this"):
        check_rule(rectified(1.0), 0.0, compiled=False)
    with pytest.raises(RuleCheckError) as wrong:
        check_rule(rectified(1.5), 0.7, compiled=False)
    assert wrong.value.instead == []

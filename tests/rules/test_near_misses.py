"""Calls that no rule of a user serves although one seems to: a warning says which, and why."""

import linecache
import warnings

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar

Active, Const, Duplicated, Annotation = ar.Active, ar.Const, ar.Duplicated, ar.Annotation

pytestmark = pytest.mark.usefixtures("rules_of_this_test")


@pytest.fixture
def missed():
    """The texts of the warnings of a call of a derivative, each at a line of the program."""

    def run(derivative, *args):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            derivative(*args)
        assert all(one.category is ar.UnusedRuleWarning for one in caught)
        lines = [linecache.getline(one.filename, one.lineno) for one in caught]
        assert all("return" in line for line in lines)
        return [str(one.message) for one in caught]

    return run


def define_norm(annotation=Duplicated):
    @ar.augmented_primal(np.linalg.norm)
    def _(config, ret: Active, x: annotation):
        return ar.AugmentedReturn(np.linalg.norm(x.val), None, None)

    @ar.reverse(np.linalg.norm)
    def _(config, dret: Active, tape, x: annotation):
        ar.accumulate(x, 100.0 * x.val)


X = np.array([3.0, 4.0])


def test_another_number_of_arguments(missed):
    define_norm()

    @njit
    def program(x):
        return np.linalg.norm(x) + np.linalg.norm(x, 1)

    np.testing.assert_array_equal(ar.grad(lambda x: np.linalg.norm(x))(X), 100 * X)
    (text,) = missed(ar.grad(program), X)
    assert "it takes 1 argument, and the call passes 2 (x, ord); the library's rule" in text
    assert f"{__file__}:" in text
    report = ar.explain(program, Duplicated(X, np.zeros(2)))
    assert sum("it takes 1 argument" in call.rule for call in report.rules) == 1


def test_a_rule_for_other_types_is_no_near_miss(missed):
    define_norm(Duplicated[float64[:, ::1]])

    @njit
    def program(x):
        return np.linalg.norm(x) + np.linalg.norm(x, 1)

    assert missed(ar.grad(program), X) == []


def define_sum():
    @ar.augmented_primal(np.sum)
    def _(config, ret: Annotation, x: Duplicated, axis: Const):
        y = np.sum(x.val, axis.val)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(np.sum)
    def _(config, dret: Annotation, tape, x: Duplicated, axis: Const):
        ar.accumulate(x, np.full(x.val.shape, 7.0))


def test_an_argument_given_by_name_is_not_taken_for_another(missed):
    """`dtype` in place of `axis`: the rule would sum along an axis."""
    define_sum()

    @njit
    def by_name(x):
        return x.sum(axis=0)[0] + np.sum(x, axis=0)[0]

    @njit
    def other_name(x):
        return np.sum(x, dtype=np.float64)

    x = np.ones((2, 3))
    np.testing.assert_array_equal(ar.grad(by_name)(x), np.full((2, 3), 14.0))
    (text,) = missed(ar.grad(other_name), x)
    assert "it takes (x, axis), and the call (a, dtype); its body" in text
    np.testing.assert_array_equal(ar.grad(other_name)(x), np.ones((2, 3)))


def define_solve(annotation):
    @ar.augmented_primal(np.linalg.solve)
    def _(config, ret: Duplicated, A: annotation, b: Duplicated):
        y = np.linalg.solve(A.val, b.val)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(np.linalg.solve)
    def _(config, dret: Duplicated, tape, A: annotation, b: Duplicated):
        ar.accumulate(b, 5.0 * dret.dval)


@njit
def solution(a, b):
    return np.linalg.solve(a, b)[0]


def test_another_activity(missed):
    define_solve(Const)
    a = 2.0 * np.eye(2)
    assert missed(ar.grad(solution, argnums=1), a, X) == []
    np.testing.assert_array_equal(ar.grad(solution, argnums=1)(a, X), [5.0, 0.0])
    (text,) = missed(ar.grad(solution), a, X)
    assert "`A` is Duplicated, and it admits Const; the library's rule serves it" in text
    np.testing.assert_array_equal(ar.grad(solution)(a, X), [[-0.75, -1.0], [0.0, 0.0]])


def test_each_call_is_reported_where_it_is():
    """The same function with the same types, in two programs, the second compiled later."""

    @ar.forward(np.hypot)
    def _(config, ret: Duplicated, x: Duplicated, y: Const):
        return np.hypot(x.val, y.val), x.dval

    def first(x):
        return np.hypot(x, x)

    def second(x):
        return np.hypot(x, x)

    for program in (first, second):
        with pytest.raises(ar.NoRuleForActivity, match="`y` is Duplicated") as caught:
            ar.jvp(program, (1.0,), (1.0,))
        (location,) = [at for label, _, at in caught.value.where if label == "at the call"]
        assert location == f"{__file__}:{program.__code__.co_firstlineno + 1}"


@njit
def forward_only(x):
    return x * x


@ar.forward(forward_only)
def _(config, ret: Duplicated, x: Duplicated):
    return forward_only(x.val), 2.0 * x.val * x.dval


def test_reverse_mode_of_a_function_with_a_forward_rule_alone():
    @njit
    def program(x):
        return 3.0 * forward_only(x)

    with pytest.warns(ar.MissingReverseWarning, match=r"forward_only has a forward rule and no"):
        assert ar.grad(program)(2.0) == 12.0
    ar.opt_out(forward_only, mode="reverse")
    assert ar.grad(lambda x: forward_only(x))(2.0) == 4.0
    assert ar.jvp(program, (2.0,), (1.0,)) == (12.0, 12.0)


def test_functions_of_the_same_name_are_warned_about_separately():
    def one():
        return njit(lambda x: x * x)

    def other():
        return njit(lambda x: x * x)

    for function in (one(), other()):

        @ar.forward(function)
        def _(config, ret: Duplicated, x: Duplicated):
            return x.val * x.val, 2.0 * x.val * x.dval

        with pytest.warns(ar.MissingReverseWarning, match="has a forward rule and no reverse pair"):
            assert ar.grad(function)(2.0) == 4.0

"""Forward rules: values, lanes, and what is refused."""

import math

import numba
import numpy as np
import pytest
from numba import float64, types

import activerules as ar
from activerules.errors import NoRuleForActivity, RuleReturnError
from activerules.numba_ext.rules.forward_of_pair import forward_of_pair
from activerules.numba_ext.target.capture import capture
from activerules.rules.registry import RULES
from activerules.rules.views import ForwardView
from activerules.testing import check_rule


@numba.njit
def damped(x, n):
    return math.exp(-n * x)


@ar.forward(damped)
def damped_forward(config, ret: ar.Duplicated, x: ar.Duplicated, n: ar.Const):
    y = math.exp(-n.val * x.val)
    return y, -n.val * y * x.dval


@numba.njit
def program(x):
    return damped(x, 3)


def test_forward_rule_of_floats():
    y = math.exp(-1.2)
    tangent, primal = ar.autodiff(ar.ForwardWithPrimal, program, ar.Duplicated(0.4, 0.5))
    np.testing.assert_allclose([primal, tangent], [y, -1.5 * y])
    lanes = ar.autodiff(ar.Forward, program, ar.BatchDuplicated(0.4, (0.5, 1.0, 2.0)))
    np.testing.assert_allclose(lanes, [-1.5 * y, -3.0 * y, -6.0 * y])
    assert ar.autodiff(ar.Forward, program, ar.Const, ar.Const(0.4)) is None


@numba.njit
def doubled_into(a):
    for i in range(a.size):
        a[i] = a[i] * a[i]


@ar.forward(doubled_into)
def doubled_forward(config, ret: ar.Const, a: ar.Duplicated):
    for i in range(a.val.size):
        a.dval[i] *= 2.0 * a.val[i]
    doubled_into(a.val)


@numba.njit
def calls_doubled(a):
    doubled_into(a)


def test_forward_rules_f2_lanes_of_a_function_that_writes_into_its_argument():
    a = np.array([1.0, -2.0, 3.0])
    lanes = tuple(np.eye(3)[k] for k in range(3))
    ar.autodiff(ar.Forward, calls_doubled, ar.BatchDuplicated(a, lanes))
    np.testing.assert_allclose(a, [1.0, 4.0, 9.0])
    np.testing.assert_allclose(lanes, np.diag([2.0, -4.0, 6.0]))


@numba.njit
def cubes(a):
    return a * a * a


@ar.forward(cubes)
def cubes_forward(config, ret: ar.Duplicated, a: ar.Duplicated):
    if a.dval[0] < 0.0:
        raise ValueError("this direction has no derivative")
    return cubes(a.val), 3.0 * a.val**2 * a.dval


@numba.njit
def sum_of_cubes(a):
    return cubes(a).sum()


def test_forward_rules_f3_what_earlier_lanes_returned_is_released(unfreed):
    """Of three lanes the last one raises: nothing more is lost than if the first one does."""

    def fails(*lanes):
        with pytest.raises(ValueError, match="no derivative"):
            ar.autodiff(ar.Forward, sum_of_cubes, ar.BatchDuplicated(a, lanes))

    a, good, bad = np.array([[1.0, 2.0], [0.5, -1.0], [-1.0, 0.5]])
    lost = unfreed(lambda: fails(bad, good, good.copy()))
    assert unfreed(lambda: fails(good, good.copy(), bad)) == lost


def test_a_batch_rule_is_preferred_for_a_batch():
    @numba.njit
    def f(x):
        return x * x

    @ar.forward(f)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return x.val * x.val, 2.0 * x.val * x.dval

    @ar.forward(f)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        # a hundred times too large, to be told from the other
        return x.val * x.val, (200.0 * x.val * x.dval[0], 200.0 * x.val * x.dval[1])

    @numba.njit
    def calls(x):
        return f(x)

    assert ar.autodiff(ar.Forward, calls, ar.Duplicated(3.0, 1.0)) == 6.0
    lanes = ar.autodiff(ar.Forward, calls, ar.BatchDuplicated(3.0, (1.0, 0.5)))
    assert lanes == (600.0, 300.0)


@numba.njit
def outer(a, x):
    return a * x


@ar.forward(outer)
def outer_forward(config, ret: ar.Duplicated, a: ar.Duplicated, x: ar.Duplicated):
    return outer(a.val, x.val), a.dval * x.val + a.val * x.dval


@numba.njit
def uses_outer(a, x):
    return outer(np.ones(3), x).sum() * outer(a, 2.0).sum() + outer(a, x).sum()


def test_tangents_of_zero_where_the_call_has_constants():
    a, x = np.array([1.0, 2.0, 3.0]), 0.5
    a_dot, x_dot = np.array([0.1, -0.3, 0.2]), 0.7
    found = ar.autodiff(ar.Forward, uses_outer, ar.Duplicated(a, a_dot), ar.Duplicated(x, x_dot))
    s, t = a.sum(), a_dot.sum()
    np.testing.assert_allclose(found, 6 * x_dot * s + 6 * x * t + t * x + s * x_dot)
    lanes = (a_dot, 2.0 * a_dot)
    both = ar.autodiff(ar.Forward, uses_outer, ar.BatchDuplicated(a, lanes), ar.Const(x))
    np.testing.assert_allclose(both, [6 * x * t + t * x, 2 * (6 * x * t + t * x)])


def test_a_result_that_shares_memory_is_noticed():
    @numba.njit
    def f(a):
        return a * 1.0

    @ar.forward(f)
    def _(config, ret: ar.Duplicated, a: ar.Duplicated):
        return a.val.copy(), a.dval

    @numba.njit
    def calls(a):
        return f(a).sum()

    with pytest.raises(RuleReturnError, match="shares memory"):
        ar.autodiff(ar.Forward, calls, ar.Duplicated(np.ones(2), np.ones(2)))


def test_a_tangent_of_another_shape_is_refused_in_second_derivatives_too():
    @numba.njit
    def f(a):
        return a * a

    @ar.forward(f)
    def _(config, ret: ar.Duplicated, a: ar.Duplicated):
        return a.val * a.val, 2.0 * a.val[:1] * a.dval[:1]

    @numba.njit
    def calls(a):
        return f(a).sum()

    a = np.ones(3)
    for derivative in (lambda: ar.jvp(calls, (a,), (a,)), lambda: ar.hvp(calls, a, a)):
        with pytest.raises(RuleReturnError, match="shape and strides of the primal"):
            derivative()


def rule_of(body):
    """A function whose forward rule is `body`, called by a program."""

    @numba.njit
    def f(x):
        return x * x

    @numba.njit
    def calls(x):
        return f(x)

    ar.forward(f)(body)
    return calls


def wrong_type(config, ret: ar.Duplicated, x: ar.Duplicated):
    return x.val, "text"


def no_primal(config, ret: ar.Duplicated, x: ar.Duplicated):
    return x.dval


@pytest.mark.parametrize("body", [wrong_type, no_primal])
def test_forward_rules_f1_what_a_forward_rule_returns_is_checked(body):
    with pytest.raises(RuleReturnError, match=r"expected \(float64, float64\) as primal and tan"):
        ar.autodiff(ar.ForwardWithPrimal, rule_of(body), ar.Duplicated(1.0, 1.0))


def test_no_forward_rule_for_an_activity():
    def only_const(config, ret: ar.Const, x: ar.Const):
        return x.val * x.val

    with pytest.raises(NoRuleForActivity, match="no forward rule for f") as caught:
        ar.autodiff(ar.Forward, rule_of(only_const), ar.Duplicated(1.0, 1.0))
    assert "@forward(f)\n" in str(caught.value)


def test_a_function_without_forward_rule_is_its_body():
    @numba.njit
    def f(x):
        return x * x

    @numba.njit
    def calls(x):
        return f(x)

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(x.val * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 2.0 * x.val * dret.val

    assert not capture(calls, (float64,), rules=ForwardView(RULES)).marked
    assert capture(calls, (float64,), rules=RULES).marked
    assert RULES.find_forward(f, (float64, float64), ("duplicated", "duplicated")) is None


def test_a_capture_tells_of_its_own_calls_alone():
    @numba.njit
    def f(x):
        return x * x

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(x.val * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 2.0 * x.val * dret.val

    helper = numba.njit(lambda x: f(x) + 1.0)
    programs = [lambda x: f(x), lambda x: helper(x), lambda x: 2.0 * helper(x), lambda x: x]
    view = ForwardView(RULES)
    found = [capture(one, (float64,), rules=view).followed for one in programs]
    assert [len(calls) for calls in found] == [1, 1, 1, 0]
    assert found[1] == found[2] != found[0]


@numba.njit
def squared_in_place(p):
    x, a = p
    for k in range(x.size):
        x[k] = math.floor(a * x[k] ** 2 * 1e9) / 1e9


@ar.augmented_primal(squared_in_place)
def _(config, ret: ar.Const, p: ar.MixedDuplicated):
    squares = p.val[0] ** 2
    squared_in_place(p.val)
    return ar.AugmentedReturn(None, None, squares)


@ar.reverse(squared_in_place, saves="p")
def _(config, dret: ar.Const, tape, p: ar.MixedDuplicated):
    """Writes into all that it may: the tape, and its copy of what is saved."""
    x, a = p.val
    tape *= p.dval[0]
    p.dval[0][:] *= 2.0 * a * x
    x[:] = np.nan
    return ((None, np.sum(tape)),)


def test_forward_of_pair_p1_p3_a_tuple_whose_array_is_written():
    """Its tangents are those of a' x² + 2 a x x', for the array and its primal as they were."""
    pair_type = types.Tuple((float64[::1], float64))
    call = capture(lambda p: squared_in_place(p), (pair_type,), rules=RULES)
    (marked,) = call.marked.values()
    asked = "duplicated", "const"
    kinds, pair = RULES.find_behind(squared_in_place, [pair_type, types.none], asked)
    rule = forward_of_pair(marked, pair, kinds.kinds, (True,), looped=False)
    x, x_dot, a, a_dot = np.array([1.3, 0.7]), np.array([0.5, -2.0]), 1.7, 0.3
    expected = a_dot * x**2 + 2.0 * a * x * x_dot, a * x**2
    numba.njit(rule.function)(None, None, ar.Duplicated((x, a), (x_dot, a_dot)))
    np.testing.assert_allclose((x_dot, x), expected, rtol=1e-8)


def test_a_rule_without_annotations_runs_once_per_lane():
    @numba.njit
    def product(x, y):
        return x * x * y

    @ar.forward(product)
    def _(config, ret, x, y):
        tangent = 0.0
        if ar.active(x):
            tangent += 2.0 * x.val * y.val * x.dval
        if ar.active(y):
            tangent += x.val * x.val * y.dval
        return product(x.val, y.val), tangent

    lanes = ar.BatchDuplicated(3.0, (1.0, -0.5))
    assert ar.autodiff(ar.Forward, product, lanes, ar.Const(2.0)) == (12.0, -6.0)
    check_rule(product, 3.0, 2.0)


@numba.njit
def mixed(x, n):
    return x * x[1], n + 1, x[0] * x[0], 1j * x[2], True


@numba.njit
def changed(x, n):
    x[0] *= x[1]
    return n + 1


@ar.augmented_primal(mixed)
def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated, n: ar.Const):
    y = mixed(x.val, n.val)
    shadow = np.zeros_like(y[0])
    return ar.AugmentedReturn(y, (shadow, 0, 0.0, 0j, True), x.val.copy())


@ar.reverse(mixed)
def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated, n: ar.Const):
    by_array, _, by_square, by_complex, _ = dret.dval
    x.dval[:] += by_array * tape[1]
    x.dval[1] += (by_array * tape).sum()
    x.dval[0] += 2.0 * tape[0] * by_square
    x.dval[2] += by_complex.imag
    return None, None


@ar.augmented_primal(changed)
def _(config, ret: ar.Const, x: ar.Duplicated, n: ar.Const):
    before = x.val.copy()
    return ar.AugmentedReturn(changed(x.val, n.val), None, before)


@ar.reverse(changed)
def _(config, dret: ar.Const, tape, x: ar.Duplicated, n: ar.Const):
    bar = x.dval[0]
    x.dval[0] = bar * tape[1]
    x.dval[1] += bar * tape[0]
    return None, None


@numba.njit
def of_pairs(x):
    y = x * x
    a, n, b, c, flag = mixed(y, 2)
    y[0] = y[2] * a[0]
    m = changed(y, n)
    return (a * a).sum() * n * b * c.imag * y[0] * m if flag else 0.0


def test_second_derivatives_by_pairs_whose_results_have_constant_parts():
    def gradient(x):
        y = x * x
        squares, product = np.sum(y * y), y[0] ** 3 * y[1] ** 4 * y[2] ** 2
        return 24.0 * x * product * (2.0 * y + squares * np.array([3.0, 4.0, 2.0]) / y)

    x, v = np.array([0.8, 0.3, 1.2]), np.array([0.2, -0.5, 0.7])
    np.testing.assert_allclose(ar.grad(of_pairs)(x), gradient(x), rtol=1e-12)
    expected = gradient(x + 1e-30j * v).imag / 1e-30
    np.testing.assert_allclose(ar.hvp(of_pairs, x, v), expected, rtol=1e-12)

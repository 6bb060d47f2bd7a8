"""Forward rules are compared with finite differences and with the pair, lane by lane."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.annotations.activity import Const, Duplicated
from activerules.chainrules import frule
from activerules.errors import RuleCheckError
from activerules.testing import check_rule
from testing.pairs import OUT, X, squares_pair, squares_reverse, weighted


def test_forward_rules_are_checked():
    def register(function, factor):
        @frule.register(function)
        def _(deltas, f, scale, x):
            _, dscale, dx = deltas
            e = np.exp(x)
            return scale * e, dscale * e + factor * scale * e * dx

    right, wrong = weighted(), weighted()
    register(right, 1.0)
    register(wrong, 1.5)
    check_rule(right, 1.3, X, compiled=False)
    with pytest.raises(RuleCheckError, match="tangent of the result"):
        check_rule(wrong, 1.3, X, compiled=False)


def test_a_rule_for_batches_returns_a_tangent_per_lane():
    @njit
    def twice(x):
        return 2.0 * x

    @ar.forward(twice)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        return twice(x.val), (2.0 * x.dval[0],)

    with pytest.raises(RuleCheckError, match="is a tuple of 2, not"):
        check_rule(twice, 0.7, compiled=False)


@pytest.mark.parametrize("factor", [2.0, 2.0 + 1e-6])
def test_what_a_forward_rule_writes_is_compared_with_the_pair(factor):
    squares = squares_pair(squares_reverse)

    @ar.forward(squares)
    def _(config, ret: Const, out: Duplicated, x: Duplicated | Const):
        squares(out.val, x.val)
        out.dval[:] = factor * x.val * x.dval if ar.active(x) else 0.0

    if factor == 2.0:
        check_rule(squares, OUT, X, compiled=False)
    else:
        with pytest.raises(RuleCheckError, match=r"tangent of the result|forward against"):
            check_rule(squares, OUT, X, compiled=False)


@pytest.mark.parametrize("swapped", [False, True])
def test_rules_for_batches_are_checked_lane_by_lane(swapped):
    @njit
    def halved(x):
        return 0.5 * x

    @ar.forward(halved)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        first, second = x.dval
        tangents = (0.5 * first, 0.5 * second)
        return 0.5 * x.val, tangents[::-1] if swapped else tangents

    if swapped:
        with pytest.raises(RuleCheckError, match="tangent of the result"):
            check_rule(halved, X, compiled=False)
    else:
        check_rule(halved, X, compiled=False)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("x.val[:] = 0.0", "argument 0 after the rule"),
        ("c.val[:] = 0.0", "argument 1 after the rule"),
        ("x.dval[:] = 0.0", "tangent of argument 0 after the rule"),
    ],
)
def test_a_forward_rule_leaves_its_arguments_as_the_function_does(wrong, message):
    @njit
    def product(x, c):
        return np.sum(x * c)

    @ar.forward(product)
    def _(config, ret: Duplicated, x: Duplicated, c: Const):
        value, tangent = product(x.val, c.val), np.sum(x.dval * c.val)
        if wrong.startswith("x.val"):
            x.val[:] = 0.0
        elif wrong.startswith("c.val"):
            c.val[:] = 0.0
        else:
            x.dval[:] = 0.0
        return value, tangent

    with pytest.raises(RuleCheckError, match=message):
        check_rule(product, Duplicated(X, X), Const(X + 1.0), compiled=False)


def test_a_forward_rule_writes_what_the_function_writes():
    @njit
    def squares(x, out):
        out[:] = x * x

    @ar.forward(squares)
    def _(config, ret: Const, x: Duplicated, out: Duplicated):
        out.dval[:] = 2.0 * x.val * x.dval

    with pytest.raises(RuleCheckError, match="argument 1 after the rule"):
        check_rule(squares, X, OUT, compiled=False)


@pytest.mark.parametrize("wrong", ["value", "tangent", "shape"])
def test_a_forward_rule_returns_new_arrays_in_the_shape_of_the_result(wrong):
    @njit
    def copied(x):
        return x.copy()

    @ar.forward(copied)
    def _(config, ret: Duplicated, x: Duplicated):
        value = x.val if wrong == "value" else x.val.copy()
        if wrong == "shape":
            return value, x.dval.copy().reshape(1, 3)
        return value, x.dval if wrong == "tangent" else x.dval.copy()

    message = "expected one in the shape" if wrong == "shape" else "shares memory"
    with pytest.raises(RuleCheckError, match=message):
        check_rule(copied, X, compiled=False)

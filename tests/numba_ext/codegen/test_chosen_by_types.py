"""Functions compiled after a rule was registered use it, whatever was compiled before."""

import pytest
from numba import njit

import activerules as ar


def gradient(f):
    return njit(lambda x: ar.grad(f)(x))


def value_and_gradient(f):
    return njit(lambda x: ar.value_and_grad(f)(x)[1])


def jacobian(f):
    return njit(lambda x: ar.jacrev(f)(x))


def recomputed(f):
    return njit(lambda x: ar.grad(ar.checkpoint(f))(x))


def pullback(f):
    return njit(lambda x: ar.vjp(f, x)[1](1.0)[0])


def second(f):
    return njit(lambda x: ar.hvp(f, x, 1.0))


@pytest.mark.parametrize(
    ("make", "body", "rule"),
    [
        (gradient, 4.0, 20.0),
        (value_and_gradient, 4.0, 20.0),
        (jacobian, 4.0, 20.0),
        (recomputed, 4.0, 20.0),
        (pullback, 4.0, 20.0),
        (second, 2.0, 10.0),
    ],
)
def test_new_callers_take_up_a_rule(make, body, rule):
    @njit
    def square(x):
        return x * x

    @njit
    def called(x):
        return square(x)

    before = make(called)
    assert before(2.0) == body

    @ar.augmented_primal(square)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(square(x.val), None, x.val)

    @ar.reverse(square)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 10.0 * tape * dret.val  # not the derivative: only the rule gives this

    @ar.forward(square)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return square(x.val), 10.0 * x.val * x.dval

    assert before(2.0) == body  # as documented
    assert make(called)(2.0) == rule

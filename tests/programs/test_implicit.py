"""A solver whose rule is the implicit function theorem, used inside a loop."""

import math

import numpy as np
from numba import njit

import activerules as ar
from activerules.testing import check_gradient


@njit
def bisect(a, b):
    """The root of x + a sin(x) = b, for 0 <= a < 1, to the last bit; its halvings have derivative
    zero almost everywhere, so only a rule can differentiate it."""
    lo, hi = b - 1.0, b + 1.0
    while True:
        middle = 0.5 * (lo + hi)
        if middle <= lo or middle >= hi:
            return middle
        if middle + a * math.sin(middle) < b:
            lo = middle
        else:
            hi = middle


@ar.augmented_primal(bisect)
def bisect_augmented(config, ret: ar.Active, a: ar.Active | ar.Const, b: ar.Active | ar.Const):
    x = bisect(a.val, b.val)
    return ar.AugmentedReturn(x, None, x)


@ar.reverse(bisect)
def bisect_reverse(config, dret: ar.Active, tape, a: ar.Active | ar.Const, b: ar.Active | ar.Const):
    """With F(x, a, b) = x + a sin(x) - b = 0:  ā = -x̄ F_a / F_x,  b̄ = -x̄ F_b / F_x."""
    b_bar = dret.val / (1.0 + a.val * math.cos(tape))
    return -b_bar * math.sin(tape), b_bar


@njit
def one_root(a, b):
    return bisect(a, b) ** 2


@njit
def roots_in_a_loop(strengths, b):
    total = 0.0
    for i in range(len(strengths)):
        b = bisect(strengths[i], b) + 0.1 * b
        total += b * b
    return total


@njit
def root_in_a_branch_of_a_while(a, b):
    total = 0.0
    while b > 0.3:
        if total < 1.0:
            b = bisect(a, b) * 0.8
        else:
            b *= 0.5
        total += b
    return total


@njit
def root_with_one_constant(a):
    return bisect(a, 0.7) + bisect(0.2, 0.7 * a)


def test_one_root():
    check_gradient(one_root, (0.4, 0.9))


def test_roots_in_a_loop():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        check_gradient(roots_in_a_loop, (rng.uniform(0.1, 0.8, size=5), 0.9))


def test_root_in_a_branch_of_a_while():
    check_gradient(root_in_a_branch_of_a_while, (0.35, 1.9))


def test_the_rule_serves_const_arguments_too():
    check_gradient(root_with_one_constant, (0.35,))
    check_gradient(one_root, (0.4, 0.9), (ar.Const, ar.Active))
    check_gradient(one_root, (0.4, 0.9), (ar.Active, ar.Const))

"""The functions that the tests of `check` name on the command line."""

import math

from numba import njit

import activerules as ar


@njit
def decay(x, rate, n):
    s = 0.0
    for i in range(n):
        s += math.exp(-rate * x[i])
    return s


@njit
def square(x):
    return x * x


@ar.augmented_primal(square)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(square(x.val), None, x.val)


@ar.reverse(square)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return (3.0 * tape * dret.val,)  # wrong: 2 x


@njit
def uses_wrong_rule(x, k):
    return square(x) + k


@njit
def an_array(x):
    return x * 2.0


@njit
def an_integer(x):
    return int(x)


@njit
def below_one(x):
    if x < 1e3:
        raise ValueError("too small")
    return x


@njit
def item(x, i):
    return x[i]


@njit
def kept_by_index(x, i):
    x[i] = 2.0 * item(x, i)


@njit
def untyped(x):
    return x.nothing


@njit
def jumps(x):
    return 1.0 if x > 1.0 else 0.0


def plain(x):
    return x


constant = 3.0


@njit
def of_many_kinds(pair, columns, every_second, which, z):
    s = pair[0] * pair[1] + (z * z).real
    for k in which:
        s += columns[k, 0] * every_second[k]
    return s


@njit
def of_chosen(x, mask, doubles):
    total = 0.0
    for i in range(len(x)):
        if mask[i]:
            total += x[i] * x[i]
    return 2.0 * total if doubles else total

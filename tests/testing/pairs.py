"""Functions with rules of their own, for the tests of `check_rule`."""

import numpy as np
from numba import njit

import activerules as ar
from activerules.annotations.activity import Const, Duplicated
from activerules.testing import arg

X = np.array([0.4, -1.1, 0.9])
OUT = arg(np.ones(3), Duplicated)


def weighted():
    """A new function, so that each test has rules of its own."""

    @njit
    def weighted(scale, x):
        return scale * np.exp(x)

    return weighted


def squares_pair(reverse):
    @njit
    def squares(out, x):
        out[:] = x * x

    @ar.augmented_primal(squares)
    def _(config, ret: Const, out: Duplicated, x: Duplicated | Const):
        squares(out.val, x.val)
        return ar.AugmentedReturn(None, None, 2.0 * x.val)

    ar.reverse(squares, saves="x")(reverse)
    return squares


def squares_reverse(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    ar.accumulate(x, 2.0 * x.val * out.dval)
    out.dval[:] = 0.0


def spends_its_tape(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    tape *= out.dval
    ar.accumulate(x, tape)
    out.dval[:] = 0.0


def assigns_a_shadow(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    if ar.active(x):
        x.dval += tape * out.dval
    out.dval[:] = 0.0


def writes_into_what_is_written(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    squares_reverse(config, dret, tape, out, x)
    if config.overwritten[0]:
        out.val[:] = 0.0

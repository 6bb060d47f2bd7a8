"""Operands and shapes are broadcast as in Numba, and expressions keep constant lengths constant."""

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient


def values(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


def check(f, *args):
    """The value of Numba, bit for bit, and the gradient."""
    check_gradient(f, args)


@njit
def joined(a, b, c):
    """Array expressions and `np.where`, of operands of any number of axes."""
    d = a * b + c
    e = np.where(a > b, c, a * d)
    return np.sum(d * e) + np.sum(np.where(True, a, c))


OPERANDS = [
    ((3, 4), (3, 4), (4,)),
    ((3, 1), (1, 4), (1,)),
    ((0, 3), (1, 3), (1,)),
    ((1, 3), (0, 1), (3,)),
    ((2, 3, 1), (1, 4), ()),
]


@pytest.mark.parametrize("shapes", OPERANDS, ids=str)
def test_b1_operands_are_broadcast_as_in_numba(shapes):
    check(joined, *(values(*shape) + k for k, shape in enumerate(shapes)))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 3), (1,)), ((3, 4), (3, 4), (3,))], ids=str)
def test_b1_operands_that_do_not_fit_are_refused_as_in_numba(shapes):
    args = [values(*shape) for shape in shapes]
    for function in (joined, ar.grad(joined)):
        with pytest.raises(ValueError, match=r"unable to broadcast argument \d to output array"):
            function(*args)


@njit
def by_shapes(x, n, m, one):
    s = np.broadcast_shapes((n, one), (), m, (one, one, one))
    return x * s[0] + x**2 * s[1] + x**3 * s[2] * len(np.broadcast_shapes((), ()) + s)


def test_b1_shapes_are_joined_as_in_numba():
    check(by_shapes, 1.5, 3, 4, 1)
    apart = "shape mismatch: objects cannot be broadcast"
    for lengths, words in (((-3, 4, 1), "negative dimensions"), ((3, 4, 2), apart)):
        for function in (by_shapes, ar.grad(by_shapes)):
            with pytest.raises(ValueError, match=words):
                function(1.5, *lengths)


POSES = np.dtype([("rotation", "f8", (3, 3)), ("camera", "i8")])


@njit
def by_pose(x, n):
    poses = np.zeros(n, dtype=POSES)
    for k in range(n):
        poses[k].camera = k + 1
        poses[k].rotation[:] = np.outer(x, x) * k
    total = 0.0
    for k in range(n):
        total += np.sum(poses[k].rotation ** 2 - poses[k].rotation) * poses[k].camera
    return total


def test_expressions_of_a_matrix_in_a_record_stay_inside_it():
    """Its lengths are constants, so the loop over it does not reach the integer behind it."""
    check(by_pose, values(3), 3)

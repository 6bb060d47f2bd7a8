"""Recursion in forward and split mode: the same derivative as in reverse mode, and no leaks."""

import numpy as np
from numba import njit

import activerules as ar
from programs.recursion import bodies_in_a_tree, halves, powers_in_a_loop


def test_forward_agrees_with_reverse():
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=7), rng.normal(size=7)
    value, slope = ar.jvp(powers_in_a_loop, (x,), (v,))
    assert np.isclose(value, powers_in_a_loop(x))
    assert np.isclose(slope, ar.grad(powers_in_a_loop)(x) @ v)


def test_compiled_callers_have_the_version_for_arguments_that_overlap():
    """Its callees have metadata of their own, whose numbers LLVM reads."""
    m = np.random.default_rng(2).normal(size=4)

    @njit
    def gradient(m, roots):
        return ar.grad(bodies_in_a_tree)(m, roots)

    expected = ar.grad(bodies_in_a_tree)(m, np.full(8, -1))
    np.testing.assert_array_equal(gradient(m, np.full(8, -1)), expected)


def test_a_tape_of_recursion_is_swept_twice():
    """`halves` returns an array made by recursion; its pullback may be called again."""
    x = np.random.default_rng(1).normal(size=4)
    value, pull = ar.vjp(halves, x)
    np.testing.assert_allclose(value, halves(x))
    step = 1e-6
    for cotangent in np.eye(4):
        (bar,) = pull(cotangent)
        expected = [
            cotangent @ (halves(x + step * e) - halves(x - step * e)) / (2.0 * step)
            for e in np.eye(4)
        ]
        np.testing.assert_allclose(bar, expected, rtol=1e-6, atol=1e-8)
        np.testing.assert_array_equal(pull(cotangent)[0], bar)


def test_nothing_is_leaked(unfreed):
    """What a callee hands out is held by the tape, and dropped with it."""
    x = np.ones(4)

    def derivatives():
        _, pull = ar.vjp(halves, x)
        pull(x)

    assert unfreed(derivatives) == 0


@njit
def below_diagonal(n, m):
    if n > m:
        return below_diagonal(m, n).T
    mask = np.full((n, m), False)
    for i in range(n):
        mask[i, i:] = True
    return mask


@njit
def sum_below_diagonal(x):
    mask = below_diagonal(x.shape[0], x.shape[1])
    s = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if mask[i, j]:
                s += x[i, j] * x[i, j]
    return s


def test_results_of_an_inactive_recursion_are_kept_by_the_tape(unfreed):
    """The reverse sweep reads the mask, which the primal has released by then."""
    x = np.arange(1.0, 1201.0).reshape(60, 20)
    expected = 2.0 * np.tril(x)
    _, pull = ar.vjp(sum_below_diagonal, x)
    taken = [np.full(1200 + k, 255, np.uint8) for k in range(0, 160, 8)]
    np.testing.assert_array_equal(pull(1.0)[0], expected)
    del taken  # memory that was released would have become one of these
    assert unfreed(lambda: ar.vjp(sum_below_diagonal, x)[1](1.0)) == 0


@njit
def push(kept, x, n):
    kept.append(x * x)
    if n > 0:
        push(kept, x, n - 1)


@njit
def of_pushed_arrays(x):
    kept = [x]
    push(kept, x, 2)
    s = 0.0
    for a in kept:
        s += a.sum()
    return s


def test_a_list_that_a_callee_lengthens_releases_its_tangents(unfreed):
    """The sum of x and of three times its squares."""
    x, v = np.array([0.5, -1.5]), np.array([1.0, 2.0])
    assert np.isclose(ar.jvp(of_pushed_arrays, (x,), (v,))[1], (1.0 + 6.0 * x) @ v)
    assert unfreed(lambda: ar.jvp(of_pushed_arrays, (x,), (v,))) == 0

"""What a nest of loops reads again is kept once: counted in bytes."""

import math

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.testing import check_gradient
from programs import dynamics

# bytes of control flow: per run of an inner loop, per step of the outer, and in the frame
CONTROL = 64


@njit
def with_scratch(x, weights, scratch, sums, steps):
    """`scratch[i]` and `sums[i]` are the same in all iterations of the innermost loops."""
    total = 0.0
    for t in range(steps):
        for i in range(len(x)):
            scratch[i] = x[i] * (1.0 + 0.1 * t)
            sums[i] = 0.0
        for i in range(len(x)):
            for j in range(len(x)):
                sums[j] += weights[i, j] * scratch[i]
                if weights[i, j] > 0.5:
                    total += scratch[i] * weights[j, i] * sums[i]
        total += sums[0]
    return total


@njit
def recurrent(weights, state, steps):
    """Each row of the weights meets the whole state, which then changes."""
    new = np.empty_like(state)
    for _ in range(steps):
        for i in range(len(state)):
            new[i] = 0.0
            for j in range(len(state)):
                new[i] += weights[i, j] * state[j]
        for i in range(len(state)):
            state[i] = math.tanh(new[i])
    return state[0]


@njit
def pairs(x, v, steps):
    """Pairs of bodies: `j` starts behind `i`."""
    for _ in range(steps):
        for i in range(len(x) - 1):
            for j in range(i + 1, len(x)):
                r = x[j] - x[i]
                force = r / (1.0 + r * r)
                v[i] += force
                v[j] -= force
        for i in range(len(x)):
            x[i] += 0.01 * v[i]
    return x[0]


@njit
def smoothed(kernel, x, steps):
    """A convolution, in place: windows of the signal overlap."""
    y = np.empty(len(x) - len(kernel) + 1)
    for _ in range(steps):
        for i in range(len(y)):
            y[i] = 0.0
            for k in range(len(kernel)):
                y[i] += kernel[len(kernel) - 1 - k] * x[i + k]
        for i in range(len(y)):
            x[i] = y[i] * y[i]
    return x[0]


@njit
def sum_of_sines(x):
    return np.sum(np.sin(x))


def array(*shape):
    return np.random.default_rng(3).uniform(0.1, 1.0, size=shape)


def duplicated(*shape):
    return ar.Duplicated(array(*shape), np.zeros(shape))


N = 30


@pytest.mark.parametrize("steps", [1, 4])
def test_what_an_inner_loop_does_not_change_is_kept_outside(steps):
    args = duplicated(N), duplicated(N, N), duplicated(N), duplicated(N), ar.Const(steps)
    used = ar.tape_bytes(with_scratch, *args)
    # scratch[i] once per row, sums[i] in the condition, which changes
    kept = 8 * (N + N * N) * steps
    assert used <= kept + N * N * steps + CONTROL * (1 + steps * N)


@pytest.mark.parametrize("steps", [1, 4])
def test_what_every_row_reads_is_kept_once(steps):
    used = ar.tape_bytes(recurrent, duplicated(N, N), duplicated(N), ar.Const(steps))
    states = 8 * 2 * N * steps
    assert states <= used <= states + CONTROL * (1 + steps)


@pytest.mark.parametrize("steps", [1, 4])
def test_what_triangles_read_is_kept_once(steps):
    used = ar.tape_bytes(pairs, duplicated(N), duplicated(N), ar.Const(steps))
    assert 8 * N * steps <= used <= 8 * 2 * N * steps + CONTROL * (1 + steps)


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("columns", [3, 50])
def test_of_wide_rows_what_every_pair_reads_is_kept_once(steps, columns):
    x, v = duplicated(N, columns), duplicated(N, columns)
    used = ar.tape_bytes(dynamics.planets, x, v, duplicated(N), ar.Const(steps))
    # a number per pair would take more
    assert 8 * 3 * N * steps <= used <= 8 * 3 * N * 8 * steps + CONTROL * (1 + steps * 2)


@pytest.mark.parametrize("steps", [1, 4])
def test_what_windows_share_is_kept_once(steps):
    used = ar.tape_bytes(smoothed, duplicated(5), duplicated(N), ar.Const(steps))
    assert 8 * N * steps <= used <= 8 * 2 * N * steps + CONTROL * (1 + steps)


def test_arguments_that_are_still_there_are_not_kept():
    assert ar.tape_bytes(sum_of_sines, duplicated(N)) <= CONTROL


@pytest.mark.parametrize("n", [1, 2, 7])
def test_gradients(n):
    check_gradient(with_scratch, (array(n), array(n, n), array(n), array(n), 3))
    check_gradient(recurrent, (array(n, n), array(n), 3))
    check_gradient(pairs, (array(n), array(n), 3))
    check_gradient(smoothed, (array(n), array(n + 3), 3))


def test_a_pullback_may_be_called_again_when_the_arguments_have_changed():
    """In split mode all that is read is kept, since the caller may write it."""
    weights, state = array(4, 4), array(4)
    _, pullback = ar.vjp(recurrent, weights, state, 3)
    first = pullback(1.0)
    weights[:] = 0.0
    state[:] = 7.0
    for a, b in zip(first, pullback(1.0), strict=True):
        np.testing.assert_array_equal(a, b)
    expected = ar.grad(recurrent, argnums=(0, 1))(array(4, 4), array(4), 3)
    for a, b in zip(first[:2], expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)

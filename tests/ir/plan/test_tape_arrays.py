"""Arrays in rows of the tape, and those that may outlive it."""

import numpy as np
import pytest
from numba import njit
from numba.core.runtime import rtsys

import activerules as ar
from activerules.ir.plan import planning
from activerules.testing import check_gradient


@njit
def oscillator(y, steps, kept, large):
    """Products of small arrays, and of two arrays of `large` numbers."""
    for k in range(steps):
        step = np.array([y[1], -y[0] * y[0]])
        y = y + 0.1 * step * step
        kept[k] = y[0] * step[1]
    long = np.full(large, y[0]) * y[1]
    return np.sum(long * long) / large + y[0] * y[1]


@njit
def returned(y, steps):
    """The array of the last step goes to the caller, those before it do not."""
    for _ in range(steps):
        y = 0.3 * y * y[0] + np.array([0.5 * y[1], 1.0])
    return y


@njit
def rows(a, w, limit):
    """Rows changed in place, of which Numba makes copies that it frees; products of arrays that
    nothing else holds on to, and of a vector that is a constant.
    """
    total = 0.0
    for i in range(1, len(a)):
        a[i] += np.dot(2.0 * a[i - 1], w) * a[i - 1]
        total += np.dot(np.full(3, 0.5), a[i] * w)
    if total > limit:
        raise ValueError("too large")
    return total


def made(call):
    """How many blocks of memory NRT allocated in a call, and how many of them are left."""
    before = rtsys.get_allocation_stats()
    call()
    after = rtsys.get_allocation_stats()
    return after.mi_alloc - before.mi_alloc, after.mi_alloc - after.mi_free - (
        before.mi_alloc - before.mi_free
    )


def test_o2_arrays_of_any_size_are_in_rows_and_released_with_the_tape():
    y = np.array([0.5, 0.3])
    check_gradient(oscillator, (y, 7, np.zeros(7), 9_000))

    def allocations(steps, large):
        kept = ar.Duplicated(np.zeros(steps), np.zeros(steps))
        args = ar.Duplicated(y, np.zeros(2)), steps, kept, large
        count, left = made(lambda: ar.autodiff(ar.Reverse, oscillator, ar.Active, *args))
        assert left == 0
        return count

    few = allocations(50, 10)
    assert few < 20, "fewer than the steps: the arrays of a step are not allocated by NRT"
    assert allocations(100, 10) == allocations(50, 9_000) == few


def test_o3_copies_that_are_freed_by_hand_are_in_rows():
    a, w = np.random.default_rng(1).normal(size=(5, 3)), np.array([0.4, -0.3, 0.2])
    check_gradient(rows, (a, w, 1e3))

    def gradient(limit):
        both = ar.Duplicated(a.copy(), np.zeros((5, 3))), ar.Duplicated(w, np.zeros(3))
        return ar.autodiff(ar.Reverse, rows, ar.Active, *both, limit)

    def failing():
        with pytest.raises(ValueError, match="too large"):
            gradient(-1e3)

    for call in (lambda: gradient(1e3), failing):
        before = rtsys.get_allocation_stats()
        call()
        after = rtsys.get_allocation_stats()
        assert after.alloc - before.alloc == after.free - before.free
        assert after.mi_alloc - before.mi_alloc == after.mi_free - before.mi_free


def test_o1_an_array_that_is_returned_outlives_the_tape():
    y = np.array([0.5, 0.3])
    value, pull = ar.vjp(returned, y, 30)
    kept = value.copy()
    (slope, _) = pull(np.array([1.0, 0.5]))
    del pull
    for _ in range(100):
        ar.vjp(returned, y + 1.0, 3)
    np.testing.assert_array_equal(value, kept)
    step = 1e-6
    found = [
        (returned(y + step * e, 30) - returned(y - step * e, 30)) @ [1.0, 0.5] / (2 * step)
        for e in np.eye(2)
    ]
    np.testing.assert_allclose(slope, found, rtol=1e-6)


@njit
def steps(a, x, count):
    for _ in range(count):
        x = np.dot(a, x * 0.5)
    return np.sum(x)


@njit
def scaled(x):
    return 2.0 * x


@ar.augmented_primal(scaled)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    return ar.AugmentedReturn(scaled(x.val), np.zeros_like(x.val), None)


@ar.reverse(scaled)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
    ar.accumulate(x, 2.0 * dret.dval)


@njit
def of_user(x):
    return np.sum(scaled(x))


def test_rules_of_numpy_functions_get_no_owner_of_arrays_that_outlive_their_tape(monkeypatch):
    found = []

    def recorded(*args):
        ownership = plan_ownership(*args)
        found.extend(len(owners) for owners in ownership.unowned.values())
        return ownership

    plan_ownership = planning.plan_ownership
    monkeypatch.setattr(planning, "plan_ownership", recorded)
    a, x = np.array([[0.2, 0.4], [-0.3, 0.6]]), np.array([1.0, 2.0])
    check_gradient(steps, (a, x, 3))
    assert found, "the program has a rule"
    assert set(found) == {2}, "neither the caller's matrix nor a temporary vector"
    found.clear()
    _, pullback = ar.vjp(steps, a, x, 3)
    assert set(found) == {1}, "a caller may let go of the matrix between the sweeps"
    a_bar, x_bar, _ = pullback(1.0)
    np.testing.assert_allclose(ar.grad(steps, (0, 1))(a, x, 3)[0], a_bar)
    np.testing.assert_allclose(ar.grad(steps, (0, 1))(a, x, 3)[1], x_bar)
    found.clear()
    check_gradient(of_user, (x,))
    assert set(found) == {0}, "rules of users may keep arrays"


def in_use(monkeypatch, function):
    """How many shadows of each call that allocates in a loop are in use at a time."""
    found = []

    def recorded(*args):
        reused = reused_shadows(*args)
        found.append([reused[site] for site in reused])
        return reused

    reused_shadows = planning.reused_shadows
    with monkeypatch.context() as context:
        context.setattr(planning, "reused_shadows", recorded)
        ar.grad(njit(function))(np.ones(3), np.ones(3))
    (numbers,) = found
    return sorted(numbers)


def within(a, b):
    """What a step makes is used in that step; the sum of a row is not in an array."""
    total = 0.0
    for k in range(4):
        c = np.empty(3)
        for i in range(3):
            c[i] = a[i] * b[k % 3]
        total += c[k % 3] * c[0]
    return total


def handed_on(a, b):
    """An array and a matrix for the next step, of another size in each."""
    m = np.outer(a, b)
    while a.shape[0] > 1:
        a = a[1:] * b[:-1] + 0.1 * a[:-1]
        b = b[:-1] * a
    return a[0] * m[1, 2]


def wave(a, b):
    """The last two steps."""
    before, now = a, a * b
    for _ in range(5):
        before, now = now, 2.0 * now - before + 0.1 * b * now * now
    return np.sum(before * now)


def now_and_then(a, b):
    """An array that is replaced in every third step, and used in each."""
    c = a
    for k in range(7):
        if k % 3 == 1:
            c = c * b
        b = 0.5 * b + c * c
    return np.sum(b * c)


def collected(a, b):
    """Arrays in a list, and one that leaves the loop at an unknown step."""
    items = [a]
    first = a
    for k in range(5):
        c = items[k] * b
        items.append(c * c)
        if c[0] < 1e-3:
            first = items[k // 2]
            break
    return np.sum(first * items[-1])


@pytest.mark.parametrize(
    ("function", "numbers"),
    [(within, [1]), (handed_on, [2, 2]), (wave, [3]), (now_and_then, [2]), (collected, [1])],
)
def test_o4_shadows_are_used_again_when_their_arrays_are_not(function, numbers, monkeypatch):
    """The loop of `now_and_then` has two sites, of which one may keep an array for any time; so has
    that of `collected`, in a list."""
    assert in_use(monkeypatch, function) == numbers
    a, b = np.random.default_rng(3).uniform(0.5, 1.2, size=(2, 3))
    check_gradient(njit(function), (a, b))


@njit
def unset(a, b):
    """In every second step the first entry is whatever was there."""
    total = 0.0
    for k in range(4):
        c = np.empty(3)
        for i in range(k % 2, 3):
            c[i] = a[i] * b[i]
        total += np.sum(c)
    return total


def test_o4_what_an_array_never_held_is_cleared_too():
    """The cotangent of such an entry would be added to that of an earlier array."""
    a, b = np.random.default_rng(4).uniform(0.5, 1.2, size=(2, 3))
    np.testing.assert_allclose(ar.grad(unset)(a, b), np.array([2.0, 4.0, 4.0]) * b)

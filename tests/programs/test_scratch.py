"""Const arrays that the program mixes with active memory get a shadow for the time of the call."""

import numpy as np
import pytest
from numba import float64, literal_unroll, njit, types
from numba.experimental import jitclass
from numba.typed import Dict, List

import activerules as ar
from activerules.testing import central_fdm, check_gradient, directional_derivative

RNG = np.random.default_rng(11)


@njit
def carried(a, x, n):
    for _ in range(n):
        x = np.tanh(a @ x)
    return np.sum(x * x)


@njit
def carried_through_rules(a, x, n):
    total = 0.0
    for _ in range(n):
        x = np.linalg.solve(a, x)
        total += x[0] * x[1]
        x = a @ x
        x[0] = np.sin(x[1])
    return total


@njit
def through_scratch(x, scratch):
    for i in range(x.size):
        scratch[i] = x[i] * x[i]
    s = 0.0
    for i in range(x.size):
        s += scratch[i] * x[i]
    return s


@njit
def chosen(x, y, first):
    z = x if first else y
    s = 0.0
    for i in range(z.size):
        s += z[i] ** 2
    return s


@njit
def overwritten_choice(x, y, first):
    z = x if first else y
    z[0] = z[1] * x[2]
    return z[0] * z[1] + y[0]


@njit
def beside_zeros(x, w):
    """Each entry is one of memory that the function allocates, or of the Const array it fills."""
    zeros, s = np.zeros(x.size), 0.0
    for _ in range(2):
        z = np.where(x > 0.0, zeros, w)
        w[::2] = x[::2] ** 2
        s += np.sum(z * z * x)
    return s


@jitclass([("slopes", float64[:]), ("shifts", float64[:])])
class Lines:
    def __init__(self, slopes, shifts):
        self.slopes = slopes
        self.shifts = shifts


@njit
def composed(lines, x, n):
    return x if n == 0 else composed(lines, x * lines.slopes[n] + lines.shifts[n], n - 1)


@njit
def in_an_object(x, shifts):
    """A function that calls itself, given one object with both arrays in it."""
    return composed(Lines(x, shifts), x[0], 2)


PARTICLES = np.array(
    [(1.0, 2.0, 3), (2.0, 0.5, 1), (0.5, 1.5, 2)],
    dtype=[("position", "f8"), ("velocity", "f8"), ("kind", "i8")],
)


@njit
def drifted(x, particles):
    """Records, with a field that has no derivative, whose other fields become active."""
    total = 0.0
    for i in range(len(particles)):
        particles[i].position *= x[i]
        total += particles[i].position * particles[i].velocity ** particles[i].kind
    particles.velocity[0] = x[2]
    return total + np.sum(particles.velocity * particles.position)


def rows():
    return List([RNG.normal(size=3) for _ in range(2)])


def table():
    made = Dict.empty(types.unicode_type, float64[::1])
    made["a"] = RNG.normal(size=3)
    return made


@njit
def mixed(constant, x):
    return np.sum(np.where(x > 0.0, constant, x) * x)


@njit
def value_chosen(constants, x):
    return mixed(constants["a"], x)


@njit
def field_chosen(lines, x):
    return mixed(lines.slopes, x) * lines.shifts[0]


@njit
def item_of_tuple_chosen(constants, x):
    return mixed(constants[0][0], x) * constants[1]


@njit
def collected(constants, x):
    """A list with constant and active arrays; lengths are read from both."""
    both = List()
    for row in constants:
        both.append(row)
    both.append(x * x)
    return np.sum([both[0] * x, both[2] * x][1] + both[0][::-1] * both[2])


@njit
def written_in_a_list(rows, x):
    rows[0][:] = x * x
    rows[1] = rows[0] * x
    return np.sum(rows[1] * x)


@ar.checkpoint
@njit
def total(rows, x):
    s = 0.0
    for row in rows:
        s += np.sum(row * x)
    return s


@njit
def in_an_argument_of_a_rule(constant, x):
    both = List()
    both.append(constant)
    both.append(x * x)
    return total(both, x)


HOLDERS = [
    (in_an_argument_of_a_rule, lambda: RNG.normal(size=3)),
    (value_chosen, table),
    (field_chosen, lambda: Lines(RNG.normal(size=3), RNG.normal(size=3))),
    (item_of_tuple_chosen, lambda: ((RNG.normal(size=3),), 1.5)),
    (collected, rows),
    (written_in_a_list, rows),
]


@pytest.mark.parametrize(("function", "make"), HOLDERS)
def test_constant_arrays_in_lists_tuples_and_objects(function, make, unfreed):
    x, v = np.array([0.5, -1.5, 0.8]), RNG.normal(size=3)
    check_gradient(function, (make(), x), (ar.Const, ar.Duplicated))
    constant = make()
    expected, error = directional_derivative(function, (constant, x), (None, v))

    def forward():
        return ar.autodiff(
            ar.Forward, function, ar.Duplicated, ar.Const(constant), ar.Duplicated(x, v)
        )

    def reverse():
        shadowed = ar.Duplicated(x, np.zeros(3))
        ar.autodiff(ar.Reverse, function, ar.Active, ar.Const(constant), shadowed)

    assert forward() == pytest.approx(expected, abs=error + 1e-9)
    assert unfreed(forward) == unfreed(reverse) == 0


@njit
def with_workspace(workspace, lines, x):
    workspace.slopes[:] = np.sin(lines.slopes * x)
    lines.shifts[0] *= x
    return np.sum(workspace.slopes * lines.shifts)


def test_a_constant_object_beside_an_active_one_of_its_class():
    """What is written into the one is no change of what the other refers to."""
    (u, v, p, q), x = RNG.normal(size=(4, 3)), 0.7

    def shifted(t):
        return with_workspace(Lines(u.copy(), u.copy()), Lines(p + t * v, q.copy()), x)

    expected = central_fdm(5, 1)(shifted, 0.0)
    shadow = Lines(np.zeros(3), np.zeros(3))
    annotated = (ar.Const(Lines(u.copy(), u.copy())), ar.Duplicated(Lines(p, q.copy()), shadow))
    ar.autodiff(ar.Reverse, with_workspace, ar.Active, *annotated, ar.Const(x))
    assert shadow.slopes @ v == pytest.approx(expected, rel=1e-9)
    tangent = Lines(v, np.zeros(3))
    annotated = (ar.Const(Lines(u.copy(), u.copy())), ar.Duplicated(Lines(p, q.copy()), tangent))
    found = ar.autodiff(ar.Forward, with_workspace, ar.Duplicated, *annotated, ar.Const(x))
    assert found == pytest.approx(expected, rel=1e-9)


@njit
def differences(rows, x):
    s, last = 0.0, rows[0]
    for row in rows:
        s += np.sum((row * x - last) ** 2)
        last = row * x
    return s


def test_hessian_with_constant_arrays_of_a_list():
    """A temporary shadow is new: nothing compares it with others in the code that is derived."""
    constants = rows()
    found = ar.hessian(differences, 1)(constants, RNG.normal(size=3))
    expected = 2 * constants[0] ** 2 + 2 * (constants[1] - constants[0]) ** 2
    np.testing.assert_allclose(found, np.diag(expected), atol=1e-12)


CASES = [
    (drifted, (RNG.normal(size=3), PARTICLES), (ar.Duplicated, ar.Const)),
    (in_an_object, (RNG.normal(size=3), RNG.normal(size=3)), (ar.Duplicated, ar.Const)),
    (
        carried,
        (RNG.normal(size=(3, 3)), RNG.normal(size=3), 4),
        (ar.Duplicated, ar.Const, ar.Const),
    ),
    (
        carried,
        (RNG.normal(size=(3, 3)), RNG.normal(size=3), 0),
        (ar.Duplicated, ar.Const, ar.Const),
    ),
    *(
        (carried_through_rules, (np.eye(3) * 2 + 0.1, RNG.normal(size=3), n), activities)
        for n in (0, 1, 3)
        for activities in (
            (ar.Duplicated, ar.Const, ar.Const),
            (ar.Const, ar.Duplicated, ar.Const),
        )
    ),
    (through_scratch, (RNG.normal(size=4), RNG.normal(size=4)), (ar.Duplicated, ar.Const)),
    (
        through_scratch,
        (RNG.normal(size=8)[::2], RNG.normal(size=8)[::-2]),
        (ar.Duplicated, ar.Const),
    ),
    (beside_zeros, (RNG.normal(size=8), RNG.normal(size=8)), (ar.Duplicated, ar.Const)),
    *(
        (f, (RNG.normal(size=3), RNG.normal(size=3), first), activities)
        for f in (chosen, overwritten_choice)
        for first in (True, False)
        for activities in (
            (ar.Duplicated, ar.Const, ar.Const),
            (ar.Const, ar.Duplicated, ar.Const),
        )
    ),
]


@pytest.mark.parametrize(("function", "args", "activities"), CASES)
def test_derivative_by_the_active_argument(function, args, activities):
    check_gradient(function, args, activities)


def test_forward_mode_by_the_active_argument():
    """Forward mode stores the tangents of constant records in a scratch shadow, too."""
    x, v = RNG.normal(size=(2, 3))
    activities = (ar.Duplicated(x, v), ar.Const(PARTICLES.copy()))
    found = ar.autodiff(ar.Forward, drifted, ar.Duplicated, *activities)
    expected, error = directional_derivative(drifted, (x, PARTICLES), (v, None))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=error)


def test_the_scratch_is_released(unfreed):
    x, dx, scratch = RNG.normal(size=4), np.zeros(4), np.zeros(4)

    def call():
        ar.autodiff(ar.Reverse, through_scratch, ar.Duplicated(x, dx), ar.Const(scratch))

    def refused():
        with pytest.raises(ar.ShadowMismatch):
            ar.autodiff(ar.Reverse, through_scratch, ar.Duplicated(x, dx), ar.Const(x))

    assert unfreed(call) == 0
    assert unfreed(refused) == 0


def test_integers_mixed_with_active_memory_are_to_be_passed_as_floats():
    """An array of integers can have no shadow. Which array the loop reads is known as it runs, if
    LLVM makes one loop of the two; older releases keep them apart, and the gradient is right.
    """

    @njit
    def scaled(a, x, k):
        total = 0.0
        for values in literal_unroll((x, k)):
            for i in range(values.size):
                total += values[i] * a
        return total

    x, k = np.array([1.0, 2.0]), np.array([3, 4])
    advice = ["k.astype(np.float64), if no item is an index"]
    try:
        np.testing.assert_array_equal(ar.grad(scaled, 1)(1.5, x, k), [1.5, 1.5])
    except ar.MixedActivity as error:
        advice = error.instead[1:]
    assert advice == ["k.astype(np.float64), if no item is an index"]
    np.testing.assert_array_equal(ar.grad(scaled, 1)(1.5, x, k.astype(np.float64)), [1.5, 1.5])


@pytest.mark.parametrize("copy", [False, True])
def test_indices_in_a_list_with_active_memory_are_to_be_copied_in_the_function(copy):
    """A list of sparse rows: what is made in the function has a shadow, floats or not."""

    @njit
    def weighted(weights, x, columns):
        if copy:
            columns = columns.copy()
        rows = List()
        for row in weights:
            rows.append((columns, row))
        total = 0.0
        for column, row in rows:
            for k in range(len(row)):
                total += row[k] * x[column[k]] ** 2
        return total

    args = RNG.normal(size=(2, 3)), RNG.normal(size=4), np.array([2, 0, 2])
    if copy:
        check_gradient(weighted, args)
        return
    with pytest.raises(ar.MixedActivity) as caught:
        ar.grad(weighted, (0, 1))(*args)
    assert caught.value.instead[0].endswith("columns = columns.copy()")


def test_a_list_of_python_mixed_with_active_memory_is_to_be_a_typed_one():
    constants, x = [np.ones(3), np.array([1.0, 2.0, -3.0])], np.array([0.5, -1.5, 0.8])

    @njit
    def chosen_item(constants, x):
        return np.sum(np.where(x > 0.0, constants[1], x) * x)

    with pytest.raises(ar.MixedActivity) as caught:
        ar.grad(chosen_item, 1)(constants, x)
    assert caught.value.instead == ["numba.typed.List(constants)"]
    np.testing.assert_array_equal(ar.grad(chosen_item, 1)(List(constants), x), [1.0, -3.0, -3.0])


@pytest.mark.parametrize("copy", [False, True])
def test_an_array_of_integers_is_returned_as_a_copy(copy):
    @njit
    def chosen(x, order):
        return 2.0 * x[order], order.copy() if copy else order

    x, order = np.array([1.0, -2.0, 3.0]), np.array([2, 0])
    if not copy:
        with pytest.raises(ar.ActiveMemoryInConst, match="a result may lead to memory") as caught:
            ar.vjp(chosen, x, order)
        assert caught.value.instead == ["order.copy()"]
    else:
        _, pullback = ar.vjp(chosen, x, order)
        np.testing.assert_array_equal(pullback((np.array([1.0, 0.5]), None))[0], [1.0, 0.0, 2.0])

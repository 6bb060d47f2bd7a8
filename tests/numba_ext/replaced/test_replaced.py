"""Objects with a shadow whose arrays are replaced by new ones.

Before the call the shadow holds the cotangents of what is in the fields in the end, after it the
gradient with respect to the initial contents; finite differences judge both modes.
"""

import math

import numpy as np
import pytest
from numba import float64, from_dtype, int64, njit, typed, types
from numba.experimental import jitclass

import activerules as ar
from activerules.errors import NotYetSupported, ShadowMismatch
from activerules.numba_ext.replaced.transfer import transferring
from activerules.testing import central_fdm

Active, Duplicated = ar.Active, ar.Duplicated
ARRAY = float64[:]


@jitclass(
    [
        ("x", ARRAY),
        ("v", ARRAY),
        ("order", int64[:]),
        ("k", float64),
        ("pair", types.Tuple((ARRAY, float64, int64))),
    ]
)
class System:
    def __init__(self, x, v, order, k, pair):
        self.x = x
        self.v = v
        self.order = order
        self.k = k
        self.pair = pair


@njit
def simulated(s, n):
    """Every way in which fields change: new arrays, views, exchanged, put back, the same twice."""
    for i in range(n):
        s.v = s.v * s.k
        s.x = s.x + s.v
        if i == 1:
            s.x, s.v = s.v, s.x
            s.order = s.order[::-1].copy()
    old = s.pair[0]
    s.pair = (s.v, s.pair[1] * s.k, s.pair[2] + 1)
    total = s.pair[0][s.order[0]] * s.pair[2]
    s.pair = (old, s.pair[1], 1)
    s.k = s.k * s.x[1]
    s.v = s.v[::-1]
    if n == 3:
        s.x = s.v
        s.v[0] *= s.k
    return total + s.x[1] * old[0]


def new(numbers):
    pair, order = (numbers[7:10].copy(), float(numbers[10]), 2), np.array([2, 0, 1])
    return System(numbers[:3].copy(), numbers[3:6].copy(), order, float(numbers[6]), pair)


def read(s):
    return np.concatenate([s.x, s.v, [s.k], s.pair[0], [s.pair[1]]])


def after(function, *args):
    """The numbers of the first argument and the value, after a call."""
    value = function(*args)
    return np.append(read(args[0]), value)


@pytest.fixture
def numbers():
    return np.random.default_rng(5).uniform(0.4, 1.2, size=(2, 11))


def test_r1_local_objects_c2_object_runtime_o1_arrays_of_an_object_are_replaced(numbers):
    n = 3
    point, seed = numbers
    s, shadow = new(point), new(seed)
    first, first_shadow = s.x, shadow.x
    _, value = ar.autodiff(ar.ReverseWithPrimal, simulated, Active, Duplicated(s, shadow), n)
    expected = after(simulated, new(point), n)
    np.testing.assert_array_equal(np.append(read(s), value), expected)
    np.testing.assert_array_equal(first, point[:3])
    assert np.shares_memory(shadow.x, first_shadow)
    direction = np.random.default_rng(1).normal(size=11)
    along = lambda t: after(simulated, new(point + t * direction), n) @ [*seed, 1.0]  # noqa: E731
    slope, error = central_fdm(5).estimate(along, 0.0)
    assert read(shadow) @ direction == pytest.approx(slope, abs=1e-9 * abs(slope) + 10 * error)


def test_forward_mode_of_replaced_arrays(numbers):
    point, seed = numbers
    s, shadow = new(point), new(seed)
    tangent = ar.autodiff(ar.Forward, simulated, Duplicated(s, shadow), 3)
    np.testing.assert_array_equal(read(s), after(simulated, new(point), 3)[:-1])
    weights = np.random.default_rng(1).normal(size=12)
    along = lambda t: after(simulated, new(point + t * seed), 3) @ weights  # noqa: E731
    slope, error = central_fdm(5).estimate(along, 0.0)
    found = np.append(read(shadow), tangent) @ weights
    assert found == pytest.approx(slope, abs=1e-9 * abs(slope) + 10 * error)


@jitclass([("x", ARRAY)])
class One:
    def __init__(self, x):
        self.x = x


@njit
def made_constant(one, x):
    one.x = x
    return 0.0


def test_a_constant_that_replaces_an_array_has_no_tangent():
    """Nor has it one that comes of an infinite tangent of the array."""
    one, tangent = One(np.zeros(2)), One(np.full(2, np.inf))
    ar.autodiff(ar.Forward, made_constant, Duplicated(one, tangent), np.ones(2))
    assert tangent.x.tolist() == [0.0, 0.0]


@njit
def multiplied(one, *factors):
    for factor in factors:
        one.x = factor * one.x
    return one.x[0]


@jitclass([("one", One.class_type.instance_type), ("y", ARRAY)])
class Outer:
    def __init__(self, one, y):
        self.one = one
        self.y = y


@njit
def simulated_in_two_objects(o, n):
    for i in range(n):
        o.one.x = o.one.x + 0.3 * o.y
        o.y = np.sin(o.y) * o.one.x[0]
        if i == 1:
            o.one.x, o.y = o.y, o.one.x
    return o.one.x[1] * o.y[2]


def outer_of(numbers):
    return Outer(One(numbers[:3].copy()), numbers[3:].copy())


def in_outer(o):
    return np.append(o.one.x, o.y)


def test_arrays_are_replaced_in_an_object_and_in_one_of_its_fields():
    rng = np.random.default_rng(3)
    point, seed, direction = rng.uniform(0.4, 1.2, size=(3, 6))

    def along(t):
        o = outer_of(point + t * direction)
        value = simulated_in_two_objects(o, 3)
        return value + in_outer(o) @ seed

    slope, error = central_fdm(5).estimate(along, 0.0)
    shadow = outer_of(seed)
    ar.autodiff(
        ar.Reverse, simulated_in_two_objects, Active, Duplicated(outer_of(point), shadow), 3
    )
    assert in_outer(shadow) @ direction == pytest.approx(slope, abs=1e-9 + 10 * error)
    shadow = outer_of(direction)
    tangent = ar.autodiff(
        ar.Forward, simulated_in_two_objects, Duplicated(outer_of(point), shadow), 3
    )
    found = tangent + in_outer(shadow) @ seed
    assert found == pytest.approx(slope, abs=1e-9 + 10 * error)


@njit
def overwritten_and_replaced(one, y):
    one.x[0] *= 2.0
    total = 0.0
    for k in range(len(y)):
        total += math.sin(one.x[k] * y[k])
    one.x = y.copy()
    return total


@njit
def overwritten_and_replaced_in_list(rows, y):
    rows[0][0] *= 2.0
    total = 0.0
    for k in range(len(y)):
        total += math.sin(rows[0][k] * y[k])
    rows[0] = y.copy()
    return total


@pytest.mark.parametrize(
    ("function", "made", "inside"),
    [
        (overwritten_and_replaced, One, lambda one: one.x),
        (overwritten_and_replaced_in_list, lambda x: typed.List([x]), lambda rows: rows[0]),
    ],
    ids=["object", "list"],
)
def test_an_array_that_is_overwritten_then_replaced_lives_until_it_was_read_again(
    function, made, inside
):
    """The function releases it; large arrays that are released are overwritten by the allocator."""
    x, y, seed = np.random.default_rng(2).uniform(0.4, 1.2, size=(3, 1000))
    shadow, y_bar = made(seed.copy()), np.zeros(1000)
    ar.autodiff(
        ar.Reverse, function, Active, Duplicated(made(x.copy()), shadow), Duplicated(y, y_bar)
    )
    doubled = np.append(2.0 * x[:1], x[1:])
    slope = np.cos(doubled * y)
    np.testing.assert_allclose(y_bar, slope * doubled + seed, rtol=1e-12)
    slope[0] *= 2.0
    np.testing.assert_allclose(inside(shadow), slope * y, rtol=1e-12)


@njit
def replaced_in_tuples(rows, s):
    (a, (b, c)), (d, (e, g)) = rows[0], rows[1]
    total = (a * b).sum() * c + (d * e).sum() * g
    rows[0] = (b * s * a, (a, c * g))
    x, (y, z) = rows[0]
    return total * y[0] * z + (x * e).sum()


def tuples_of(v):
    first = v[:2].copy(), (v[2:4].copy(), v[4])
    return typed.List([first, (v[5:7].copy(), (v[7:9].copy(), v[9]))])


def test_arrays_in_tuples_in_a_list_are_replaced():
    """In the end the shadow has zeros, so that only the value has a cotangent."""
    point, direction = np.random.default_rng(3).uniform(0.4, 1.2, size=(2, 11))
    shadow, tangent = tuples_of(np.zeros(11)), tuples_of(direction)
    first = shadow[0]
    args = Duplicated(tuples_of(point), shadow), Active(point[10])
    _, by_s = ar.autodiff(ar.Reverse, replaced_in_tuples, Active, *args)
    assert np.shares_memory(shadow[0][0], first[0])
    found = sum(
        (a * da).sum() + (b * db).sum() + c * dc
        for (a, (b, c)), (da, (db, dc)) in zip(shadow, tangent, strict=True)
    )
    value = lambda t: replaced_in_tuples(  # noqa: E731
        tuples_of(point + t * direction), point[10] + t * direction[10]
    )
    slope, error = central_fdm(5).estimate(value, 0.0)
    found += by_s * direction[10]
    assert found == pytest.approx(slope, abs=1e-9 * abs(slope) + 10 * error)


def test_arguments_without_names_and_a_function_without_one():
    found = []
    for function in (multiplied, njit(lambda one, a, b: multiplied(one, a, b))):
        shadow = One(np.zeros(1))
        args = Duplicated(One(np.full(1, 2.0)), shadow), Active(3.0), Active(5.0)
        found.append((*ar.autodiff(ar.Reverse, function, Active, *args)[1:], shadow.x[0]))
    assert found == [(10.0, 6.0, 15.0)] * 2


@njit
def beside_arrays(one, rows, named):
    one.x = 2.0 * one.x
    return one.x[0] * rows[0][0] * named["a"][0]


def test_a_replaced_array_in_a_list_or_dictionary_is_refused():
    """With shadows that are one array, which would have the cotangents of two."""

    def derived(share_row, share_value):
        given = []
        for x, row, value in ((2.0, 3.0, 5.0), (0.0, 0.0, 0.0)):
            one, named = One(np.full(1, x)), typed.Dict()
            named["a"] = one.x if share_value else np.full(1, value)
            given.append((one, typed.List([one.x if share_row else np.full(1, row)]), named))
        ar.autodiff(ar.Reverse, beside_arrays, Active, *map(Duplicated, *given))
        return given[1]

    one, rows, named = derived(False, False)
    assert (one.x[0], rows[0][0], named["a"][0]) == (2.0 * 3.0 * 5.0, 4.0 * 5.0, 4.0 * 3.0)
    for shared in ((True, False), (False, True)):
        with pytest.raises(NotYetSupported, match="reached by another path"):
            derived(*shared)


ROW = np.dtype([("m", np.float64), ("n", np.int64)])


@jitclass([("x", ARRAY), ("rows", from_dtype(ROW)[:])])
class Table:
    def __init__(self, x, rows):
        self.x = x
        self.rows = rows


@njit
def with_records(table):
    table.x = table.x * table.rows[0].m
    table.rows[0].m *= table.x[0]
    return table.rows[0].m


def test_arrays_of_records_beside_arrays_that_are_replaced():
    """The derivatives of x m², with respect to x and m."""
    x, m = 2.0, 3.0
    table, shadow = (Table(np.full(1, a), np.array([(b, 1)], ROW)) for a, b in ((x, m), (0.0, 0.0)))
    ar.autodiff(ar.Reverse, with_records, Active, Duplicated(table, shadow))
    assert (shadow.x[0], shadow.rows["m"][0]) == (m * m, 2.0 * x * m)


@jitclass([("a", ARRAY), ("b", ARRAY)])
class Two:
    def __init__(self, a, b):
        self.a = a
        self.b = b


@njit
def grown(s, x, n):
    s.a = s.a * s.b
    if n == 1:
        s.b = s.a[:2].copy()
    if n == 2:
        s.a = x
    if n == 3:
        raise ValueError("three")
    return np.sum(s.a * s.a)


@njit
def cut(s):
    s.b = s.a[:2].copy()
    return s.b * s.b, np.ones(2)


@njit
def old_one(s):
    old = s.a
    s.a = s.b * 2.0
    return old


def pair(*arrays):
    return Duplicated(Two(*np.ones((2, 3))), Two(*arrays or np.ones((2, 3))))


def test_transfer_s2_what_has_no_derivative_is_refused(unfreed):
    """Nothing is lost, and the objects are what the function made of them."""
    x = np.ones(3)

    def raising(error, text, args):
        def run():
            with pytest.raises(error, match=text):
                ar.autodiff(ar.Reverse, *args())

        assert unfreed(run) == 0

    raising(ShadowMismatch, "a different shape", lambda: (grown, pair(), ar.Const(x), 1))
    raising(ShadowMismatch, r"a different shape[\s\S]*def cut\(s\)", lambda: (cut, pair()))
    raising(ValueError, "three", lambda: (grown, pair(), ar.Const(x), 3))
    raising(NotYetSupported, "reached by another path", lambda: (old_one, ar.Const, pair()))
    s, zero = Two(x.copy(), 2.0 * x), Two(np.ones(3), np.zeros(3))
    ar.autodiff(ar.Reverse, grown, Duplicated(s, zero), ar.Const(x), 1)
    assert (s.b.tolist(), zero.b.tolist()) == ([2.0, 2.0], [5.0, 5.0, 5.0])
    one, zero = np.ones((2, 3))
    with pytest.raises(NotYetSupported, match="reached by another path"):
        ar.autodiff(ar.Reverse, grown, Duplicated(Two(one, one), Two(zero, zero)), ar.Const(x), 0)


@njit
def swapped(s):
    s.a, s.b = s.b, s.a
    return np.sum(s.a * s.a)


def test_transfer_s1_arrays_that_are_swapped_have_their_own_cotangents():
    s, shadow = Two(np.full(3, 2.0), np.full(3, 5.0)), Two(np.full(3, 0.5), np.full(3, 0.25))
    ar.autodiff(ar.Reverse, swapped, Duplicated(s, shadow))
    assert (s.a.tolist(), s.b.tolist()) == ([5.0] * 3, [2.0] * 3)
    # the array that `a` was is `b` in the end, and the square is of what `b` was
    assert (shadow.a.tolist(), shadow.b.tolist()) == ([0.25] * 3, [0.5 + 10.0] * 3)


def test_r2_split_mode_of_replaced_arrays(unfreed):
    """Also where the augmented primal is the first derivative that needs what gives arrays back."""
    transferring.cache_clear()
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, njit(grown.py_func), Active, Duplicated, ar.Const, ar.Const
    )

    def run():
        s, shadow = Two(np.full(3, 2.0), np.full(3, 5.0)), Two(*np.zeros((2, 3)))
        args = Duplicated(s, shadow), ar.Const(np.ones(3)), ar.Const(0)
        tape, value, _ = augmented(*args)
        assert (value, s.a.tolist()) == (300.0, [10.0] * 3)
        s.a[:] = 7.0
        s.b = s.a
        shadow.a[:] = 1.0
        reverse(*args, 1.0, tape)
        assert (shadow.a.tolist(), shadow.b.tolist()) == ([105.0] * 3, [42.0] * 3)

    assert unfreed(run) == 0

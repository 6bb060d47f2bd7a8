"""`Tangent[P]`, `ProjectTo`, `add_inplace` and `canonicalize` inside `@njit`: what Python gives."""

from typing import NamedTuple

import numba
import numpy as np
import pytest
from numba import literal_unroll, njit, typed
from numba.core.errors import TypingError
from numba.core.runtime import rtsys
from numba.experimental import jitclass

import activerules as ar
from activerules.chainrules import (
    InplaceableThunk,
    NoTangent,
    One,
    ProjectTo,
    Tangent,
    Thunk,
    ZeroTangent,
    add_inplace,
    canonicalize,
    extern,
    frule,
    is_inplaceable_destination,
    rrule,
    unthunk,
)
from activerules.errors import RuleReturnError, TangentMismatch
from activerules.testing import check_gradient, check_rule


class Point(NamedTuple):
    x: float
    y: float


@njit
def algebra(s):
    t = Tangent[Point](x=1.0)
    u = 2.0 * t + Tangent[Point](y=s) - Tangent[Point](x=s) / 2.0
    fields = u.x, t.y, u[0], u[-1], len(t), tuple(u)
    return Point(1.0, 2.0) + u, u, +t, -t, canonicalize(t), u.conjugate(), fields


@njit
def of_tuples(x):
    t = Tangent[tuple](1.0, x, (1.0, x))
    primal = 1.0, x, (0.5, 0.5)
    return primal + t, t + t, t * 3.0, t[2]


def test_structural_x2_a_compiled_tangent_is_that_of_python():
    assert algebra(3.0) == algebra.py_func(3.0)
    assert of_tuples(2.0) == of_tuples.py_func(2.0)
    assert of_tuples(2.0)[1] == Tangent[tuple](2.0, 4.0, (2.0, 4.0))


def test_structural_x1_fields_of_arrays_go_in_and_out_without_a_leak():
    @njit
    def halved(t):
        return (t + t) / 4.0

    x = np.arange(3.0)
    found = halved(Tangent[Point](x=x))
    assert np.array_equal(found.x, x / 2)
    assert found.y == ZeroTangent()
    before = rtsys.get_allocation_stats()
    for _ in range(5):
        halved(Tangent[Point](x=x))
    after = rtsys.get_allocation_stats()
    assert after.alloc - before.alloc == after.free - before.free


def test_an_object_moves_by_a_tangent_made_outside():
    @jitclass([("k", numba.float64), ("m", numba.float64)])
    class Spring:
        def __init__(self, k, m):
            self.k = k
            self.m = m

    tangent_of = Tangent[Spring]

    @njit
    def moved(dm):
        spring = Spring(1.0, 2.0) + tangent_of(m=dm)
        return spring.k, spring.m

    assert moved(0.5) == (1.0, 2.5)


def test_what_is_no_field_or_no_tangent_is_refused():
    @njit
    def unknown_field():
        return Tangent[Point](z=1.0)

    @njit
    def other_primal():
        primal = 1.0, 2.0
        return primal + Tangent[Point](x=1.0)

    @njit
    def moved(primal, tangent):
        return primal + tangent

    with pytest.raises(TypingError, match="no field 'z'"):
        unknown_field()
    with pytest.raises(TypingError, match="it is not a Point"):
        other_primal()
    assert moved((1.0, 2.0), Tangent[tuple](0.5)) == (1.5, 2.0)
    with pytest.raises(TypingError, match="no such entries"):
        moved((1.0,), Tangent[tuple](1.0, 2.0))


@njit
def projected(x, dx):
    return ProjectTo(x)(dx)


@pytest.mark.parametrize(
    ("x", "dx"),
    [
        (1.0, 2 + 3j),
        (1j, 2.0),
        (3, 2.0),
        (1.0, ZeroTangent()),
        (1.0, One()),
        (np.ones(2), np.ones(2) * (2 + 3j)),
        (np.ones(2, np.float32), np.ones(2)),
        ((1.0, (1.0, 4)), (1j, (2.0, None))),
        (Point(1.0, 2.0), Tangent[Point](y=2j)),
    ],
)
def test_projection_j1_a_projection_is_that_of_python(x, dx):
    found, expected = projected(x, dx), ProjectTo(x)(dx)
    assert type(found) is type(expected)
    if isinstance(x, np.ndarray):
        assert found.dtype == x.dtype
        assert np.array_equal(found, expected)
    else:
        assert found == expected


def test_a_projection_of_a_list_is_refused_not_zero():
    with pytest.raises(TypingError, match="no ProjectTo of ListType"):
        projected((2, typed.List([1.0])), (None, typed.List([1.0])))


def test_a_projection_remembers_shapes():
    with pytest.raises(TangentMismatch):
        projected(np.ones(2), np.ones(3))
    with pytest.raises(TypingError, match="is not a tangent of"):
        projected(np.ones(2), 1.0)


@pytest.mark.parametrize("x", [1.0, np.float32(1.0), 1j, np.ones((2, 3)), (1.0, np.ones(2))])
def test_a_projection_goes_to_python_and_back(x):
    made = njit(lambda x: ProjectTo(x))(x)
    assert repr(made) == repr(ProjectTo(x))
    if not isinstance(x, tuple):
        assert np.array_equal(njit(lambda project, dx: project(dx))(made, 2.0 * x), made(2.0 * x))


def test_a_pullback_may_capture_projections():
    @njit
    def product(x, z):
        return x * z

    @rrule.register(product)
    def _(f, x, z):
        to_x, to_z = ProjectTo(x), ProjectTo(z)
        return x * z, lambda dy: (NoTangent(), to_x(z.conjugate() * dy), to_z(x * dy))

    check_rule(product, 1.5, 1.0 + 2.0j)


def test_sums_in_place():
    @njit
    def added(x, y):
        return add_inplace(x, extern(unthunk(y))), is_inplaceable_destination(x)

    x = np.ones((3, 3))[:, :2]
    assert added(x, np.ones((3, 2)))[1]
    assert np.array_equal(x, np.full((3, 2), 2.0))
    assert added(1.0, 2.0) == (3.0, False)
    assert added(x, ZeroTangent())[0].base is not None
    with pytest.raises(TangentMismatch):
        added(x, np.ones((2, 2)))
    (array, number), _ = added((x, 1.0), (np.ones((3, 2)), 2.0))
    assert np.array_equal(array, np.full((3, 2), 3.0))
    assert number == 3.0
    assert added(np.ones(1, np.int64), np.full(1, 0.5))[0][0] == 1.5
    assert added(Point(1.0, 2.0), Point(2.0, 3.0))[0] == Point(3.0, 5.0)


def test_a_pullback_may_return_a_tangent_and_thunks_with_names():
    @njit
    def volume(p, height):
        return p.x * p.x * p.y * height

    @rrule.register(volume)
    def _(f, p, height):
        def pullback(dy):
            def of_height():
                return p.x * p.x * p.y * dy

            by_point = Thunk(lambda: Tangent[Point](x=2 * p.x * p.y * height * dy))
            return NoTangent(), InplaceableThunk(lambda to: to, by_point), Thunk(of_height)

        return f(p, height), pullback

    @njit
    def program(x, y, height):
        return volume(Point(x, y), height)

    # The rule leaves the derivative by `y` out: it is zero, as a field that is not given.
    found = ar.grad(program, (0, 1, 2))(2.0, 3.0, 5.0)
    assert found == (2 * 2.0 * 3.0 * 5.0, 0.0, 2.0 * 2.0 * 3.0)


def test_a_cotangent_of_a_tuple_has_no_more_entries_than_it():
    @njit
    def product(pair):
        return pair[0] * pair[1]

    @rrule.register(product)
    def _(f, pair):
        return f(pair), lambda dy: (NoTangent(), Tangent[tuple](pair[1] * dy, pair[0] * dy, dy))

    with pytest.raises(RuleReturnError, match="it has 2 entries") as caught:
        ar.grad(product)((2.0, 3.0))
    assert "as the tangent or cotangent of (float64, float64)" in str(caught.value)


def test_an_frule_may_return_a_tangent_of_a_tuple_with_an_array():
    @njit
    def both(x, s):
        return x * s, s * s

    @frule.register(both)
    def _(deltas, f, x, s):
        _, x_dot, s_dot = deltas
        return f(x, s), Tangent[tuple](x_dot * s + x * s_dot, 2.0 * s * s_dot)

    @njit
    def program(x, s):
        y, t = both(x, s)
        return t * np.sum(y)

    found = ar.jvp(program, (np.array([1.0, 2.0]), 3.0), (np.array([0.5, 0.0]), 2.0))
    assert found[1] == 3 * 3.0**2 * 3.0 * 2.0 + 3.0**3 * 0.5


@pytest.mark.parametrize("of_count", [0, 0.0, False, None, NoTangent(), ZeroTangent()])
def test_an_frule_may_return_any_zero_for_an_integer(of_count):
    @njit
    def counted(x, s):
        return x * s, len(x), s > 1.0

    @frule.register(counted)
    def _(deltas, f, x, s):
        return f(x, s), (x * deltas[2], of_count, of_count)

    @njit
    def program(x, s):
        y, n, large = counted(x, s)
        return n * np.sum(y) if large else s

    assert ar.jvp(program, (np.array([1.0, 2.0]), 3.0), (np.zeros(2), 2.0))[1] == 12.0


def test_tangents_inside_a_differentiated_function():
    @njit
    def step(x):
        p = Point(x, 1.0) + 2.0 * Tangent[Point](x=x * x)
        return p.x * p.y + Tangent[Point](x=x).y

    check_gradient(step, (1.5,))


@njit
def length(a, b):
    squares = 0.0
    for entry in Tangent[Point](x=a, y=b):
        squares += entry * entry
    return squares


@njit
def of_one_entry(a):
    s = 0.0
    for entry in Tangent[Point](y=a):
        s = s + entry
    return s


@njit
def summed_arrays(x, y):
    s = 0.0
    for entry in Tangent[Point](x=x, y=y):
        s += entry.sum()
    return s


@njit
def unrolled(a):
    s = 0.0
    for entry in literal_unroll(tuple(Tangent[Point](y=a))):
        s = s + entry
    return s


def test_loops_over_entries(unfreed):
    check_gradient(length, (1.0, 2.0))
    assert unfreed(lambda: summed_arrays(np.ones(2), np.ones(3))) == 0
    assert summed_arrays(np.ones(2), np.ones(3)) == 5.0
    assert unrolled(2.0) == 2.0
    with pytest.raises(TypingError, match="entries are of different types"):
        of_one_entry(1.0)


@njit
def linear_of_zero(x):
    zero = ZeroTangent()
    return np.dot(zero, x) + np.sum(zero * x) + np.sum(np.outer(x, zero)) + np.sum(x)


def test_a_cotangent_of_an_object_is_refused_with_advice():
    @jitclass([("k", numba.float64)])
    class Spring:
        def __init__(self, k):
            self.k = k

        def force(self, x):
            return self.k * x

    force, tangent_of = Spring.class_type.jit_methods["force"], Tangent[Spring]

    @rrule.register(force)
    def _(f, self, x):
        return self.k * x, lambda dy: (NoTangent(), tangent_of(k=x * dy), self.k * dy)

    with pytest.raises(RuleReturnError, match="no derivatives with respect to objects"):
        ar.grad(njit(lambda k: Spring(k).force(2.0)))(1.0)


def test_linear_functions_of_numpy_keep_a_zero():
    x = np.array([1.0, 2.0])
    assert linear_of_zero(x) == linear_of_zero.py_func(x) == 3.0

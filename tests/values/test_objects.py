"""Records, arrays of records, jitclass instances and StructRefs as arguments with a shadow.

The judge are finite differences along a direction through the object's own floats: `floats_of`
gives the arrays they are in, in the primal and in a shadow alike.
"""

import math

import numpy as np
import pytest
from numba import float64, int64, njit, types
from numba.experimental import jitclass, structref
from numba.typed import Dict, List

import activerules as ar
from activerules.testing import central_fdm

PARTICLE = np.dtype([("mass", np.float64), ("charge", np.float64), ("kind", np.int64)])
PACKED = np.dtype([("kind", np.int32), ("x", np.float64), ("y", np.float64, (2,))])


@jitclass([("k", float64), ("n", int64), ("a", float64[:]), ("order", int64[:])])
class Spring:
    def __init__(self, k, a, order):
        self.k = k
        self.n = 3
        self.a = a
        self.order = order

    def energy(self, y):
        s = 0.0
        for i in range(self.order.size):
            s += self.k * y * self.a[self.order[i]] * (self.order[i] + self.n)
        return s

    def stiffen(self, factor):
        self.k *= factor
        self.n += 1


@jitclass([("stiff", Spring.class_type.instance_type), ("mass", float64)])
class Wheel:
    def __init__(self, spring, mass):
        self.stiff = spring
        self.mass = mass


@structref.register
class BodyType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class Body(structref.StructRefProxy):
    def __new__(cls, mass, position, span, count):
        return structref.StructRefProxy.__new__(cls, mass, position, span, count)

    @property
    def arrays(self):
        return arrays_of_body(self)


@njit
def arrays_of_body(body):
    return np.array([body.mass, body.span[0], body.span[1]]), body.position


@njit
def set_body(body, values):
    body.mass, body.span = values[0], (values[1], values[2])


structref.define_proxy(Body, BodyType, ["mass", "position", "span", "count"])


# --- the floats of an object ---


def read(x):
    """All floats of an object, in one array."""
    if isinstance(x, np.ndarray | np.void):
        names = x.dtype.names
        return np.concatenate([np.ravel(x[n]) for n in names if n != "kind"]) if names else x.copy()
    if isinstance(x, Body):
        return np.concatenate(x.arrays)
    if hasattr(x, "stiff"):
        return np.append(read(x.stiff), x.mass)
    return np.append(x.a, x.k)


def write(x, values):
    """The opposite of `read`."""
    if isinstance(x, np.ndarray | np.void):
        for name in [n for n in x.dtype.names or () if n != "kind"]:
            size = np.size(x[name])
            x[name] = values[:size].reshape(np.shape(x[name]))
            values = values[size:]
        if not x.dtype.names:
            x[...] = values
    elif isinstance(x, Body):
        set_body(x, values[:3])
        x.arrays[1][:] = values[3:]
    elif hasattr(x, "stiff"):
        write(x.stiff, values[:-1])
        x.mass = values[-1]
    else:
        x.a[:] = values[:-1]
        x.k = values[-1]


def new(kind, rng):
    """A random object of a kind."""
    match kind:
        case "particles":
            x = np.zeros(4, PARTICLE)
            x["kind"] = [3, 1, 2, 2]
        case "packed":
            x = np.zeros(3, PACKED)
            x["kind"] = [1, 2, 3]
        case "record":
            x = np.zeros(1, PARTICLE)
            x["kind"] = 2
            x = x[0]
        case "spring":
            x = Spring(0.0, np.zeros(4), np.array([2, 0, 3, 3]))
        case "wheel":
            x = Wheel(new("spring", rng), 0.0)
        case "body":
            x = Body(0.0, np.zeros(3), (0.0, 0.0), 3)
        case "array":
            x = np.zeros(4)
    write(x, rng.normal(size=read(x).size))
    return x


# --- programs ---


@njit
def momentum(particles, y):
    s = 0.0
    for i in range(particles.size):
        s += particles[i].mass * math.sin(particles[i].charge) * particles[i].kind * y
    return s


@njit
def particles_changed(particles, y):
    s = 0.0
    for k in range(2 * particles.size):
        one, other = particles[k % 4], particles[(k + 1) % 4]
        one.charge *= other.mass * y
        one.mass = math.sin(one.charge + other.mass)
        one.kind += 1
        s += one.mass * one.kind
    return s


@njit
def fields_as_arrays(particles, y):
    return (particles.mass * particles["charge"]).sum() * y + particles.mass[1] ** 2


@njit
def packed_records(vectors, y):
    s = 0.0
    for v in vectors:
        v.x *= y
        s += v.x * v.y[0] * v.y[1] + v.kind * v.y[1]
        for j in range(v.kind % 2 + 1):  # 12 bytes into a vector, or 20, 28 ...
            v.y[j] += v.x * v.kind
            s += v.y[j] ** 2
        v.kind += 1
    return s + vectors["y"][:, 0].sum() * vectors[0].kind


@njit
def one_record(particle, y):
    particle.mass *= y
    return particle.mass * particle.charge * particle.kind


@njit
def spring_energy(spring, y):
    s = 0.0
    for i in range(3):
        spring.stiffen(math.sin(y + i))
        spring.a[i] += y * spring.k * spring.a[i + 1]
        spring.order[i] = (spring.order[i] + 1) % 4
        s += spring.energy(y)
    return s


@njit
def wheel_energy(wheel, y):
    wheel.stiff.k *= wheel.mass
    wheel.mass *= wheel.stiff.a[1] * y
    wheel.stiff.a[0] = wheel.mass * wheel.stiff.a[0]
    return wheel.stiff.energy(wheel.mass) * wheel.mass


@njit
def body_moved(body, y):
    for i in range(body.count):
        body.position[i] += math.sin(body.mass * y) * body.position[(i + 1) % 3]
        body.mass *= body.position[i] * body.span[0]
    body.count += 1
    return body.mass * body.position.sum() * body.span[1] * body.count


PROGRAMS = [
    (momentum, "particles"),
    (particles_changed, "particles"),
    (fields_as_arrays, "particles"),
    (packed_records, "packed"),
    (one_record, "record"),
    (spring_energy, "spring"),
    (wheel_energy, "wheel"),
    (body_moved, "body"),
]
NAMES = [program.__name__ for program, _ in PROGRAMS]


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def slope(program, kind, direction, y_dot):
    """The derivative along a direction in the object's floats and in y, by finite differences."""

    def along(t):
        x = new(kind, np.random.default_rng(1))
        write(x, read(x) + t * direction)
        return program(x, 0.7 + t * y_dot)

    return central_fdm(5, 1).estimate(along, 0.0)


@pytest.mark.parametrize(("program", "kind"), PROGRAMS, ids=NAMES)
def test_gradient_and_tangent(program, kind, rng):
    x, before = new(kind, np.random.default_rng(1)), new(kind, rng)
    direction, y_dot = rng.normal(size=read(x).size), 0.3
    expected, error = slope(program, kind, direction, y_dot)

    shadow = new(kind, np.random.default_rng(2))
    seeds = read(shadow)
    args = ar.Duplicated(x, shadow), ar.Active(0.7)
    (_, y_bar), value = ar.autodiff(ar.ReverseWithPrimal, program, ar.Active, *args)

    other = new(kind, np.random.default_rng(1))
    assert program(other, 0.7) == value  # the primal is done as it is
    np.testing.assert_array_equal(read(other), read(x))
    # what the shadow held before is the cotangent of what the program leaves in the object
    extra, _ = _slope_of_state(program, kind, direction, y_dot, seeds)
    found = read(shadow) @ direction + y_bar * y_dot
    assert abs(found - expected - extra) <= 1e-8 * (1 + abs(found)) + 100 * error

    tangent = new(kind, rng)
    write(tangent, direction)
    out, out_dot = ar.jvp(program, (new(kind, np.random.default_rng(1)), 0.7), (tangent, y_dot))
    assert out == value
    assert abs(out_dot - expected) <= 1e-8 * (1 + abs(expected)) + 100 * error
    assert read(before).size == read(x).size


def _slope_of_state(program, kind, direction, y_dot, weights):
    """The derivative of what the program leaves in the object, weighted."""

    def along(t):
        x = new(kind, np.random.default_rng(1))
        write(x, read(x) + t * direction)
        program(x, 0.7 + t * y_dot)
        return read(x) @ weights

    return central_fdm(5, 1).estimate(along, 0.0)


# --- several objects, shared memory, what is refused ---


@njit
def two_springs(first, second, y):
    first.a[0] *= second.k * y
    second.k += first.a[0]
    return first.energy(y) * second.energy(1.0)


def springs(order=None):
    order = np.array([0, 1]) if order is None else order
    return Spring(1.5, np.array([1.0, 2.0]), order), Spring(0.0, np.zeros(2), order)


def gradient(function, *args):
    return ar.autodiff(ar.Reverse, function, ar.Active, *args)


def test_two_instances_and_one_instance_twice():
    """An instance passed twice is one object, and so is its shadow."""

    def value(k, twice):
        one, other = (Spring(k, np.array([1.0, 2.0]), np.array([0, 1])) for _ in range(2))
        return two_springs(one, one if twice else other, 0.7)

    for twice in (False, True):
        (one, one_bar), (other, other_bar) = springs(), springs()
        if twice:
            other, other_bar = one, one_bar
        args = (ar.Duplicated(one, one_bar), ar.Duplicated(other, other_bar), 0.7)
        gradient(two_springs, *args)
        expected = central_fdm(5, 1)(lambda k, twice=twice: value(k, twice), 1.5)
        found = one_bar.k if twice else one_bar.k + other_bar.k
        assert found == pytest.approx(expected, rel=1e-8)


def test_integers_may_be_shared_with_the_shadow():
    """Nothing is written to the shadow's integers, be they the primal's own."""
    order = np.array([0, 1])
    spring, shadow = springs(order)
    gradient(spring_ordered, ar.Duplicated(spring, shadow), 0.7)
    assert order.tolist() == [1, 1]
    assert shadow.n == 3
    np.testing.assert_allclose(shadow.a, [0.0, 2 * 0.7 * 1.5 * 4])


@njit
def spring_ordered(spring, y):
    spring.order[0] = 1
    spring.n += 0
    return spring.energy(y)


ROW = types.ListType(float64)


@jitclass([("x", float64[:]), ("rows", types.ListType(ROW))])
class WithLists:
    def __init__(self, x):
        self.x = x
        row = List.empty_list(float64)
        for v in x:
            row.append(v)
        self.rows = List.empty_list(ROW)
        self.rows.append(row)


@jitclass([("x", float64[:]), ("table", types.DictType(float64, float64))])
class WithDict:
    def __init__(self, x):
        self.x = x
        self.table = Dict.empty(float64, float64)


@njit
def of_lists(one, y):
    row = one.rows[0]
    row[0] *= row[1] * y
    return row[0] * one.x[1] * row[-1]


@njit
def of_dict(one):
    return one.x[0]


@njit
def of_array(x):
    return x[0].mass


def other_length():
    return Spring(0.0, np.zeros(3), np.array([0, 1]))


def overlapping():
    spring, _ = springs()
    return spring, Spring(0.0, spring.a, spring.order)


MISUSES = {
    "the object itself": (springs()[0],) * 2,
    "an array of the object": overlapping(),
    "an array of another length": (springs()[0], other_length()),
    "another class": (springs()[0], Wheel(springs()[0], 1.0)),
}


@pytest.mark.parametrize("which", MISUSES)
def test_wrong_shadow(which):
    primal, shadow = MISUSES[which]
    before = primal.a.tolist()
    with pytest.raises(ar.ShadowMismatch, match="`spring"):
        gradient(spring_energy, ar.Duplicated(primal, shadow), 0.7)
    with pytest.raises(ar.ShadowMismatch, match="`spring"):
        ar.jvp(spring_energy, (primal, 0.7), (shadow, 0.0))
    assert primal.a.tolist() == before


def test_wrong_shadow_of_records():
    particles = np.ones(4, PARTICLE)
    for shadow in (np.ones(3, PARTICLE), particles[::-1], np.zeros(4, PACKED), np.zeros(4)):
        with pytest.raises(ar.ShadowMismatch, match="`particles`"):
            gradient(momentum, ar.Duplicated(particles, shadow), 0.7)


@njit
def put_into_an_integer(particles, y):
    particles.view(np.float64)[2] = y * y
    return particles[0].mass * particles[0].kind


def test_refused():
    particles = np.zeros(2, PARTICLE)
    with pytest.raises(ar.FloatBitsInInteger):
        gradient(put_into_an_integer, ar.Duplicated(particles, ar.make_zero(particles)), 0.7)
    with pytest.raises(ar.NotYetSupported, match=r"`one\.table`"):
        gradient(of_dict, ar.Duplicated(WithDict(np.ones(1)), WithDict(np.zeros(1))))
    integers = np.zeros(2, np.dtype([("n", np.int64)]))
    with pytest.raises(ar.ActivityError, match="Const"):
        gradient(of_array, ar.Duplicated(integers, integers))


def test_lists_in_an_object(unfreed):
    x, y = np.array([2.0, 3.0, 5.0]), 0.7
    one = WithLists(x)
    shadow = ar.make_zero(one)
    (_, y_bar) = gradient(of_lists, ar.Duplicated(one, shadow), ar.Active(y))
    # y row0 row1 x1 row2
    assert y_bar == pytest.approx(2.0 * 3.0 * 3.0 * 5.0)
    assert list(shadow.rows[0]) == pytest.approx([y * 45.0, y * 30.0, y * 18.0])
    assert shadow.x.tolist() == pytest.approx([0.0, y * 30.0, 0.0])
    shadow.rows[0].append(0.0)
    with pytest.raises(ar.ShadowMismatch, match=r"`one\.rows\[…\]` has a different shape"):
        gradient(of_lists, ar.Duplicated(one, shadow), ar.Active(y))
    run = lambda: gradient(of_lists, ar.Duplicated(one, ar.make_zero(one)), ar.Active(y))  # noqa: E731
    assert unfreed(run) == 0


@njit
def array_forgotten(spring, y):
    s = 0.0
    for v in spring.a:
        s += math.sin(v * y)
    spring.a = np.zeros(2)
    return s


def test_const_object_whose_array_is_replaced():
    """The old array is freed before the reverse sweep, which needs what was in it."""
    spring, _ = springs()
    found = gradient(array_forgotten, spring, ar.Active(0.7))
    assert found[1] == pytest.approx(math.cos(0.7) + 2 * math.cos(1.4))
    assert spring.a.tolist() == [0.0, 0.0]


@njit
def raises_late(spring, y):
    spring.k *= y
    if spring.n == 3:
        raise ValueError("three")
    return spring.energy(y)


def test_nothing_is_leaked(unfreed):
    def run():
        for program, kind in (PROGRAMS[0], PROGRAMS[5], PROGRAMS[7]):
            x, shadow = (new(kind, np.random.default_rng(1)) for _ in range(2))
            gradient(program, ar.Duplicated(x, shadow), ar.Active(0.7))
        spring, shadow = springs()
        with pytest.raises(ValueError, match="three"):
            gradient(raises_late, ar.Duplicated(spring, shadow), ar.Active(0.7))
        assert read(shadow).tolist() == [0.0, 0.0, 0.0]

    assert unfreed(run) == 0


def test_in_a_tuple_and_inside_njit():
    @njit
    def of_tuple(both):
        return both[0][1].mass * both[1].sum() * both[2].k

    @njit
    def call(particles, particles_bar, x, x_bar, spring, spring_bar):
        both, bars = (particles, x, spring), (particles_bar, x_bar, spring_bar)
        return ar.autodiff(ar.Reverse, of_tuple, ar.Active, ar.Duplicated(both, bars))

    particles, particles_bar = new("particles", np.random.default_rng(3)), np.zeros(4, PARTICLE)
    x, x_bar = np.array([1.0, 2.0]), np.zeros(2)
    spring, spring_bar = springs()
    call(particles, particles_bar, x, x_bar, spring, spring_bar)
    assert particles_bar["mass"].tolist() == [0.0, 3.0 * 1.5, 0.0, 0.0]
    assert spring_bar.k == particles["mass"][1] * 3.0
    np.testing.assert_allclose(x_bar, particles["mass"][1] * 1.5)


def test_gradient_by_an_array_of_records():
    particles = new("particles", np.random.default_rng(3))
    found = ar.grad(momentum)(particles, 0.7)
    np.testing.assert_allclose(
        found["charge"], particles["mass"] * np.cos(particles["charge"]) * particles["kind"] * 0.7
    )
    assert found["kind"].tolist() == [0, 0, 0, 0]


def test_zero_of_an_object_and_grad():
    """It has the class of the object, zeros in place of floats, and integers like those."""
    wheel = new("wheel", np.random.default_rng(1))
    zero = ar.make_zero(wheel)
    assert read(zero).tolist() == [0.0] * 6
    assert zero.stiff.order is not None
    assert (zero.stiff.n, zero.stiff.order.tolist()) == (3, [2, 0, 3, 3])
    assert read(ar.make_zero(new("body", np.random.default_rng(1)))).tolist() == [0.0] * 6
    assert ar.make_zero(new("record", np.random.default_rng(1)))["mass"] == 0.0

    shadow = ar.make_zero(wheel)
    copy = new("wheel", np.random.default_rng(1))
    gradient(wheel_energy, ar.Duplicated(copy, shadow), 0.7)
    np.testing.assert_array_equal(read(ar.grad(wheel_energy)(wheel, 0.7)), read(shadow))


@pytest.mark.parametrize("derive", [ar.grad, ar.vjp], ids=["grad", "vjp"])
def test_a_new_derivative_by_a_record_has_no_owner(derive):
    record = new("record", np.random.default_rng(1))
    with pytest.raises(ar.NotYetSupported, match=r"`particle`[\s\S]*an array of one record"):
        ar.grad(one_record)(record, 0.7) if derive is ar.grad else ar.vjp(one_record, record, 0.7)


@jitclass([("value", float64), ("kind", int64)])
class Term:
    def __init__(self, value, kind):
        self.value = value
        self.kind = kind


@njit
def evaluated(terms, k, x):
    if terms[k].kind == 0:
        return terms[k].value * x
    return terms[k].value * evaluated(terms, k + 1, x)


@njit
def of_kinds_in_a_tuple(values, x):
    """LLVM makes a constant table of the tuple; its integers are stored beside pointers."""
    kinds = (3, 1, 2, 0)
    terms = List()
    for k in range(4):
        terms.append(Term(values[k], kinds[k]))
    return evaluated(terms, 0, x)


def test_integers_of_a_constant_table_are_not_pointers():
    values = np.array([0.5, -2.0, 3.0, 1.5])
    assert ar.grad(of_kinds_in_a_tuple)(values, 0.7) == pytest.approx(-3.15 / values)

"""Rules whose arguments are arrays of records."""

from functools import partial

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.errors import RuleArgumentsOverlap, ShadowMismatch
from activerules.testing import check_gradient, check_rule
from activerules.testing.numeric import gradient_fd

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn
BODY = np.dtype([("u", "f8"), ("k", "i8"), ("v", "f8", 2)], align=True)
X = np.random.default_rng(21).normal(size=(4, 3))
Y = 0.7


def bodies_of(x):
    bodies = np.zeros(len(x), BODY).view(np.recarray)
    bodies["u"], bodies["v"], bodies["k"] = x[:, 0], x[:, 1:], np.arange(len(x))
    return bodies


def numbers_of(bodies):
    return np.column_stack([bodies["u"], bodies["v"]])


@njit
def energy(bodies, y):
    """Reads only."""
    total = 0.0
    for i in range(bodies.size):
        total += bodies[i].u * bodies[i].v[0] ** 2
    return total * y


@ar.augmented_primal(energy, saves=("bodies",))
def _(config, ret: Active, bodies: Duplicated, y: Active):
    return Result(energy(bodies.val, y.val), None, None)


@ar.reverse(energy)
def _(config, dret: Active, tape, bodies: Duplicated, y: Active):
    for i in range(bodies.val.size):
        body, bar = bodies.val[i], bodies.dval[i]
        bar.u += dret.val * y.val * body.v[0] ** 2
        bar.v[0] += dret.val * y.val * 2.0 * body.u * body.v[0]
    return None, dret.val * energy(bodies.val, 1.0)


@ar.forward(energy)
def _(config, ret: Duplicated, bodies: Duplicated, y: Duplicated):
    total = energy(bodies.val, y.dval)
    for i in range(bodies.val.size):
        body, dot = bodies.val[i], bodies.dval[i]
        total += y.val * (dot.u * body.v[0] ** 2 + 2.0 * body.u * body.v[0] * dot.v[0])
    return energy(bodies.val, y.val), total


@njit
def push(bodies, y):
    """Changes its argument."""
    for i in range(bodies.size):
        bodies[i].v[1] = bodies[i].u * y + bodies[i].k


@ar.augmented_primal(push)
def _(config, ret: Const, bodies: Duplicated, y: Active):
    before = bodies.val["u"].copy()
    push(bodies.val, y.val)
    return Result(None, None, before)


@ar.reverse(push)
def _(config, dret: Const, tape, bodies: Duplicated, y: Active):
    y_bar = 0.0
    for i in range(tape.size):
        bar = bodies.dval[i].v[1]
        bodies.dval[i].v[1] = 0.0
        bodies.dval[i].u += bar * y.val
        y_bar += bar * tape[i]
    return None, y_bar


@ar.forward(push)
def _(config, ret: Const, bodies: Duplicated, y: Duplicated):
    push(bodies.val, y.val)
    for i in range(bodies.val.size):
        bodies.dval[i].v[1] = bodies.dval[i].u * y.val + bodies.val[i].u * y.dval


@njit
def walk(bodies, y):
    """Views with rules, and everything is overwritten after they ran."""
    total = energy(bodies, y)
    push(bodies[::2], total)
    total += energy(bodies[::-1], y * total) + bodies[2].v[1]
    push(bodies[1:], y)
    bodies["u"][:] *= total
    bodies[0].v[0] = bodies[1].v[1] + bodies[2].u
    return total + bodies[3].v[1] * bodies[0].v[0]


@njit
def walk_of_numbers(x, y):
    """The same, of records that are made here."""
    bodies = np.zeros(x.shape[0], BODY)
    for i in range(x.shape[0]):
        bodies[i].u = x[i, 0]
        bodies[i].v[0] = x[i, 1]
        bodies[i].v[1] = x[i, 2]
        bodies[i].k = i
    return walk(bodies, y)


def test_arrays_of_records_of_a_caller(unfreed):
    def run():
        shadow = bodies_of(np.full((4, 3), 0.5))
        bars = ar.autodiff(ar.Reverse, walk, Active, Duplicated(bodies_of(X), shadow), Active(Y))
        return numbers_of(shadow), bars[1]

    def again(x, y):
        bodies = bodies_of(x)
        return walk(bodies, y) + 0.5 * numbers_of(bodies).sum()

    x_bar, y_bar = run()
    assert np.allclose(x_bar, gradient_fd(again, (X, Y)), rtol=1e-6)
    assert np.isclose(y_bar, gradient_fd(again, (X, Y), 1), rtol=1e-6)
    assert not unfreed(run)


def test_arrays_of_records_of_the_program_in_both_modes(unfreed):
    check_gradient(walk_of_numbers, (X, Y))
    wanted = gradient_fd(walk_of_numbers, (X, Y))
    assert np.allclose(ar.jacfwd(walk_of_numbers)(X, Y), wanted, rtol=1e-6)
    with ar.debug_mode():
        assert np.allclose(ar.grad(walk_of_numbers)(X, Y), wanted, rtol=1e-6)
    assert not unfreed(lambda: ar.grad(walk_of_numbers)(X, Y))


def test_constant_records_get_a_shadow_to_throw_away(unfreed):
    @njit
    def program(bodies, y):
        push(bodies.copy(), y)
        return energy(bodies, y**2)

    bodies = bodies_of(X)
    check_gradient(program, (bodies, Y), (Const, Active))
    assert bodies.tobytes() == bodies_of(X).tobytes()
    assert not unfreed(lambda: ar.grad(program, argnums=1)(bodies, Y))


def test_rules_of_arrays_of_records_are_checked():
    check_rule(energy, bodies_of(X), Y)
    check_rule(push, bodies_of(X), Y)


def test_a_shadow_of_another_length_is_refused():
    with pytest.raises(ShadowMismatch):
        ar.autodiff(ar.Reverse, walk, Active, Duplicated(bodies_of(X), bodies_of(X[:3])), Active(Y))


@njit
def add_up(bodies, out):
    for i in range(bodies.size):
        out[i] += bodies[i].u ** 2


@ar.augmented_primal(add_up, saves=("bodies",))
def _(config, ret: Const, bodies: Duplicated, out: Duplicated):
    add_up(bodies.val, out.val)
    return Result(None, None, None)


@ar.reverse(add_up)
def _(config, dret: Const, tape, bodies: Duplicated, out: Duplicated):
    for i in range(bodies.val.size):
        bodies.dval[i].u += 2.0 * bodies.val[i].u * out.dval[i]


def test_an_array_beside_records_may_not_be_a_field_of_them():
    def program(bodies, y):
        out = np.ones(bodies.size) * y
        add_up(bodies, out)
        bodies["u"][:] = 0.0
        return out[0] * out[3]

    def program_of_a_field(bodies, y):
        add_up(bodies, bodies["u"])
        return bodies[0].u * y

    def gradient(function):
        shadow = bodies_of(np.zeros((4, 3)))
        pair = Duplicated(bodies_of(X), shadow)
        ar.autodiff(ar.Reverse, njit(function), Active, pair, Active(Y))
        return shadow["u"]

    a, d = X[[0, 3], 0]
    wanted = [2 * a * (Y + d**2), 0.0, 0.0, 2 * d * (Y + a**2)]
    assert np.allclose(gradient(program), wanted)
    with pytest.raises(RuleArgumentsOverlap):
        gradient(program_of_a_field)


@njit
def blend(p, q):
    for i in range(p.size):
        p[i].u *= q[i].u


@ar.augmented_primal(blend)
def _(config, ret: Const, p: Duplicated, q: Duplicated):
    tape = p.val["u"].copy(), q.val["u"].copy()
    blend(p.val, q.val)
    return Result(None, None, tape)


@ar.reverse(blend)
def _(config, dret: Const, tape, p: Duplicated, q: Duplicated):
    for i in range(tape[0].size):
        q.dval[i].u += tape[0][i] * p.dval[i].u
        p.dval[i].u *= tape[1][i]


def test_two_arrays_of_records_may_not_share_what_is_written():
    @njit
    def program(x, first, second):
        bodies = np.zeros(4, BODY)
        bodies["u"][:] = x
        blend(bodies[first : first + 2], bodies[second : second + 2])
        return np.sum(bodies["u"] ** 2)

    check_gradient(program, (X[:, 0], 0, 2), (Duplicated, Const, Const))
    with pytest.raises(RuleArgumentsOverlap):
        ar.grad(program)(X[:, 0], 0, 1)


def test_an_array_of_records_on_a_tape_or_returned_is_refused():
    @njit
    def same(bodies):
        return bodies

    @ar.augmented_primal(same)
    def _(config, ret, bodies: Duplicated):
        return Result(bodies.val, bodies.dval, None)

    @ar.reverse(same)
    def _(config, dret, tape, bodies: Duplicated):
        return None

    @njit
    def program(bodies, y):
        return same(bodies)[0].u * y

    with pytest.raises(ar.NotYetSupported):
        ar.autodiff(ar.Reverse, program, Active, Duplicated(bodies_of(X), bodies_of(X)), Active(Y))


@njit
def leap(bodies, y):
    for i in range(bodies.size):
        force = -np.sin(bodies[i].u) - y * bodies[i].v[0]
        bodies[i].v[0] += 0.1 * force
        bodies[i].u += 0.1 * bodies[i].v[0]


def test_a_checkpointed_step_of_particles(unfreed):
    def simulation(step):
        @njit
        def run(x, y):
            bodies = np.zeros(x.shape[0], BODY)
            for i in range(x.shape[0]):
                bodies[i].u, bodies[i].v[0] = x[i, 0], x[i, 1]
            for _ in range(20):
                step(bodies, y)
            return np.sum(bodies["u"] ** 2)

        return run

    kept, plain = simulation(ar.checkpoint(leap)), simulation(leap)
    wanted = ar.grad(plain, argnums=(0, 1))(X, Y)
    found = ar.grad(kept, argnums=(0, 1))(X, Y)
    for a, b in zip(found, wanted, strict=True):
        assert np.allclose(a, b, rtol=1e-12)
    assert np.allclose(ar.jacfwd(kept)(X, Y), wanted[0], rtol=1e-12)
    assert not unfreed(lambda: ar.grad(kept)(X, Y))


JOINT = np.dtype([("m", "f8", (2, 2)), ("w", "f4", 2)])


@njit
def cubes(v):
    return np.sum(v**3)


@ar.augmented_primal(cubes, saves="v")
def _(config, ret: Active, v: Duplicated):
    return Result(cubes(v.val), None, None)


@ar.reverse(cubes)
def _(config, dret: Active, tape, v: Duplicated):
    ar.accumulate(v, dret.val * 3.0 * v.val**2)


@njit
def chained(joints, y):
    """Rules of the library and one of a user, for arrays in records that are overwritten then."""
    total = y
    for joint in joints:
        total += (joint.m @ joint.m).sum() * cubes(joint.w) + cubes(joint.m)
        joint.m[0] *= total
        joint.w[1] = joint.m[0, 1]
    return total


def test_arrays_in_records_are_saved_for_rules(unfreed):
    """Numba has no cast from the copies to the type of an array in a record."""
    joints = np.zeros(3, JOINT)
    rng = np.random.default_rng(5)
    joints["m"], joints["w"] = rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
    for activities in [(Duplicated, Active), (Const, Active)]:
        check_gradient(chained, (joints, 0.3), activities)
        again = partial(check_gradient, chained, (joints, 0.3), activities)
        assert unfreed(again) == 0


@njit
def squared(joints):
    """A copy of an array in a record with floats of both precisions, whose layout the rule says."""
    total = 0.0
    for joint in joints:
        before = joint.m.copy()
        joint.m[:] = before @ before
        total += joint.m[0, 1] * joint.w[0]
    return total


def test_arrays_in_records_are_copied_for_rules():
    joints = np.zeros(3, JOINT)
    rng = np.random.default_rng(6)
    joints["m"], joints["w"] = rng.normal(size=(3, 2, 2)), rng.normal(size=(3, 2))
    check_gradient(squared, (joints,))

"""Objects, records, lists and dictionaries where the reverse runs later or for several cotangents:
split mode, `vjp`, batches.

One program has an argument of each kind and writes to most. Finite differences judge its pullback;
split mode and batches are compared with a call of the combined mode per cotangent.
"""

import numpy as np
import pytest
from numba import float64, int64, njit
from numba.experimental import jitclass
from numba.typed import Dict, List

import activerules as ar
from activerules.testing import central_fdm

PARTICLE = np.dtype([("mass", np.float64), ("kind", np.int64), ("at", np.complex128, (2,))])


@jitclass([("length", float64), ("ends", float64[::1]), ("order", int64[:])])
class Rod:
    def __init__(self, length, ends, order):
        self.length = length
        self.ends = ends
        self.order = order


@jitclass([("rod", Rod.class_type.instance_type), ("mass", float64)])
class Lever:
    def __init__(self, rod, mass):
        self.rod = rod
        self.mass = mass


@njit
def program(lever, weights, values, particles, y):
    s = lever.mass * y
    for i in range(lever.rod.order.size):
        k = lever.rod.order[i]
        lever.rod.ends[k] *= np.sin(lever.rod.length * values[i]) + y
        values[k] = lever.rod.ends[k] * weights["b"]
        s += values[k] * particles[i].mass * particles[i].kind
    particles[0].mass *= s
    lever.rod.length *= weights["a"]
    return s * values.pop() + particles[0].mass * abs(particles[1].at[1]) + lever.rod.length


@njit
def squares(x):
    return x * x


@ar.augmented_primal(squares)
def _(config, ret: ar.Duplicated, x: ar.Duplicated):
    y = x.val * x.val
    shadow = np.zeros_like(y)
    return ar.AugmentedReturn(y, shadow, (x.val.copy(), shadow))


@ar.reverse(squares)
def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
    """The shadow is the tape's own, so that every lane wants a sweep of the primal."""
    ar.accumulate(x, 2.0 * tape[0] * tape[1])


@njit
def by_rule(lever, weights, values, particles, y):
    x = squares(lever.rod.ends)
    values[1] *= x[0] * particles[0].mass * weights["a"]
    lever.rod.ends[1] = x[1] * values.pop() * y
    return lever.rod.ends[1] * values[1] * x[2]


def of(numbers):
    """The four objects, with these numbers in them."""
    ends, values, weights = numbers[:3], List(numbers[3:7]), Dict()
    for key, value in zip("ba", numbers[7:9], strict=True):
        weights[key] = value
    particles = np.zeros(2, PARTICLE)
    particles["mass"], particles["kind"] = numbers[9:11], [2, 3]
    particles["at"].view(np.float64)[...] = numbers[11:19].reshape(2, 4)
    rod = Rod(numbers[19], ends.copy(), np.array([2, 0]))
    return Lever(rod, numbers[20]), weights, values, particles


def read(lever, weights, values, particles):
    """The numbers in four such objects, in the order of `of`."""
    floats = [particles["mass"], particles["at"].view(np.float64).ravel()]
    by_key = [weights[key] for key in "ba"]
    ends = lever.rod.ends
    return np.concatenate([ends, list(values), by_key, *floats, [lever.rod.length, lever.mass]])


def random(seed):
    return np.random.default_rng(seed).uniform(0.5, 1.5, size=21)


def one_by_one(function, lanes):
    """What calls of width one leave in their shadows, the derivative by `y` and the value."""
    found = []
    for lane in lanes:
        shadow = of(lane)
        args = [ar.Duplicated(*pair) for pair in zip(of(random(1)), shadow, strict=True)]
        bars, value = ar.autodiff(ar.ReverseWithPrimal, function, ar.Active, *args, ar.Active(0.7))
        found.append((read(*shadow), bars[-1], value))
    return found


def change(lever, weights, values, particles):
    """Everything a caller may do to its objects between the sweeps."""
    lever.rod.length, lever.mass = 1e6, 1e6
    lever.rod.ends[:] = 1e6
    lever.rod.order[:] = 1
    lever.rod = Rod(1e6, np.zeros(1), np.zeros(1, np.int64))
    for k in range(20):
        weights[f"new {k}"] = 1e6
    del weights["a"]
    values[0] = 1e6
    for _ in range(20):
        values.append(1e6)
    particles["mass"], particles["kind"] = 1e6, 7


def test_a_pullback_is_used_twice_after_its_primals_have_changed(unfreed):
    direction = random(3)
    expected, error = central_fdm(5, 1).estimate(
        lambda t: program(*of(random(1) + t * direction), 0.7 + t), 0.0
    )
    objects = of(random(1))
    out, pullback = ar.vjp(program, *objects, 0.7)
    assert out == program(*of(random(1)), 0.7)
    change(*objects)
    for scale in (1.0, -2.0):
        *bars, y_bar = pullback(scale)
        assert [type(bar) for bar in bars] == [type(x) for x in objects]
        slope = read(*bars) @ direction + y_bar
        assert slope == pytest.approx(scale * expected, abs=1e-8 * abs(slope) + 10 * error)
        assert bars[3]["kind"].tolist() == [0, 0]
        bars[2].append(1.0)  # they are the caller's own
        bars[1]["new"] = 1.0

    def run():
        _, pullback = ar.vjp(program, *of(random(1)), 0.7)
        pullback(1.0)
        pullback(2.0)

    assert unfreed(run) == 0


KINDS = (ar.Duplicated,) * 4


def test_identity_i1_split_mode_keeps_what_its_caller_changes(unfreed):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, program, ar.Active, *KINDS, ar.Active
    )
    ((expected, y_bar, value),) = one_by_one(program, [random(2)])

    def run():
        objects, shadow = of(random(1)), of(random(2))
        args = [ar.Duplicated(*pair) for pair in zip(objects, shadow, strict=True)]
        tape, found, _ = augmented(*args, ar.Active(0.7))
        change(*objects)
        assert (found, reverse(*args, ar.Active(0.7), 1.0, tape)[-1]) == (value, y_bar)
        np.testing.assert_allclose(read(*shadow), expected, rtol=1e-14)

    assert unfreed(run) == 0


def replaced_array(lever, *others):
    lever.rod.ends = np.zeros(3)


def replaced_object(lever, *others):
    lever.rod = Rod(0.0, lever.rod.ends, lever.rod.order)


def grown(lever, weights, values, particles):
    for _ in range(9):
        values.append(0.0)


def shortened(lever, weights, values, particles):
    values.pop()


def another_key(lever, weights, values, particles):
    weights.popitem()
    weights["c"] = 0.0


def another_place(lever, weights, values, particles):
    del weights["b"]
    weights["b"] = 0.0


@pytest.mark.parametrize(
    "action", [replaced_array, replaced_object, grown, shortened, another_key, another_place]
)
def test_identity_i2_a_shadow_that_is_not_the_same_is_refused(action):
    """What was added to it would be lost, or be written into memory that is free by now."""
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, program, ar.Active, *KINDS, ar.Active
    )
    objects, shadow = of(random(1)), of(random(2))
    args = [ar.Duplicated(*pair) for pair in zip(objects, shadow, strict=True)]
    tape, _, _ = augmented(*args, ar.Active(0.7))
    action(*shadow)
    with pytest.raises(ar.TapeError, match="another shadow of it"):
        reverse(*args, ar.Active(0.7), 1.0, tape)


@pytest.mark.parametrize("function", [program, by_rule])
def test_every_lane_of_a_batch_is_a_call_of_its_own(function, unfreed):
    expected = one_by_one(function, [random(2), random(3)])

    def run():
        lanes = of(random(2)), of(random(3))
        args = [
            ar.BatchDuplicated(x, shadows)
            for x, shadows in zip(of(random(1)), zip(*lanes, strict=True), strict=True)
        ]
        bars, value = ar.autodiff(ar.ReverseWithPrimal, function, ar.Active, *args, ar.Active(0.7))
        for lane, y_bar, (shadow, expected_y, expected_value) in zip(
            lanes, bars[-1], expected, strict=True
        ):
            assert (y_bar, value) == (pytest.approx(expected_y, rel=1e-13), expected_value)
            np.testing.assert_allclose(read(*lane), shadow, rtol=1e-13)

    assert unfreed(run) == 0


def test_a_batch_in_split_mode(unfreed):
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, by_rule, ar.Active, *(ar.BatchDuplicated,) * 4, ar.Active
    )
    expected = one_by_one(by_rule, [random(2), random(3)])

    def run(action=None):
        objects, lanes = of(random(1)), (of(random(2)), of(random(3)))
        args = [
            *(
                ar.BatchDuplicated(x, shadows)
                for x, shadows in zip(objects, zip(*lanes, strict=True), strict=True)
            ),
            ar.Active(0.7),
        ]
        tape, _, _ = augmented(*args)
        change(*objects)
        if action is not None:
            action(*lanes[1])
        y_bars = reverse(*args, (1.0, 1.0), tape)[-1]
        for lane, y_bar, (shadow, expected_y, _) in zip(lanes, y_bars, expected, strict=True):
            assert y_bar == pytest.approx(expected_y, rel=1e-13)
            np.testing.assert_allclose(read(*lane), shadow, rtol=1e-13)

    assert unfreed(run) == 0
    for action in (grown, another_key):
        with pytest.raises((ar.ShadowMismatch, ar.TapeError)):
            run(action)


@njit
def of_one(particle, y):
    return squares(np.array([particle.mass, y])).sum()


def test_a_record_has_no_working_shadow():
    record, *shadows = np.ones(3, PARTICLE)
    batch = ar.BatchDuplicated(record, tuple(shadows))
    with pytest.raises(ar.NotYetSupported, match="an array of one record"):
        ar.autodiff(ar.Reverse, of_one, ar.Active, batch, 0.7)


@njit
def picked(pair, y):
    return (pair[0] * pair[1]).sum() * y


@njit
def pulled(count):
    """The integers are held by nothing but this function and the pullbacks."""
    numbers = np.arange(3)
    total = 0.0
    for _ in range(count):
        _, pullback = ar.vjp(picked, (np.ones(3), numbers), 2.0)
        total += pullback(1.0)[0][0].sum()
    return total, numbers


def test_integers_in_a_tuple_outlive_pullbacks(unfreed):
    total, numbers = pulled(50)
    assert (total, numbers.tolist()) == (50 * 6.0, [0, 1, 2])
    assert unfreed(lambda: pulled(3)) == 0

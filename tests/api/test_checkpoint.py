"""checkpoint, and the rule that functions with inactive arrays get: both compute anew."""

import random

import numba
import numpy as np
import pytest

import activerules as ar
from activerules.errors import RuleDefinitionError
from activerules.testing import check_gradient


@numba.njit
def step(u, v, rate, steps=4):
    """Writes into `u`, reads `v`, returns a float."""
    total = 0.0
    for _ in range(steps):
        for i in range(1, u.size):
            u[i] += rate * np.sin(u[i - 1]) * v[i]
        total += u[-1] ** 2
    return total


checked_step = ar.checkpoint(step)


@numba.njit
def evolve(u0, v, rate):
    u = u0.copy()
    total = 0.0
    for _ in range(3):
        total += checked_step(u, v, rate) + checked_step(u, v, rate, steps=2)
    return total + u.sum()


@numba.njit
def evolve_plainly(u0, v, rate):
    u = u0.copy()
    total = 0.0
    for _ in range(3):
        total += step(u, v, rate) + step(u, v, rate, 2)
    return total + u.sum()


def test_checkpointed_steps_have_the_same_derivative():
    u, v = np.array([0.3, -0.2, 0.5]), np.array([1.0, 0.4, -0.7])
    assert checked_step.py_func.__name__ == "step"
    assert evolve(u, v, 0.3) == evolve_plainly(u, v, 0.3)
    argnums = (0, 1, 2)
    for mine, plain in zip(
        ar.grad(evolve, argnums)(u, v, 0.3),
        ar.grad(evolve_plainly, argnums)(u, v, 0.3),
        strict=True,
    ):
        np.testing.assert_allclose(mine, plain, rtol=1e-12)
    forward = ar.autodiff(ar.Forward, evolve, ar.Const(u), ar.Const(v), ar.Duplicated(0.3, 1.0))
    np.testing.assert_allclose(forward, ar.grad(evolve_plainly, 2)(u, v, 0.3))


def test_a_function_is_checkpointed_once():
    """A call in a loop compiles its derivative once."""
    assert ar.checkpoint(step) is ar.checkpoint(step)
    assert ar.checkpoint(step, fastmath=True) is not ar.checkpoint(step)


def reversed_waves(x):
    return np.sin(x)[::-1]


def every_other(x):
    return np.concatenate((x, 2.0 * x))[::2]


def real_parts(x):
    return np.exp(1j * x).real


@pytest.mark.parametrize("function", [reversed_waves, every_other, real_parts])
def test_results_with_strides_of_their_own(function):
    strided = ar.checkpoint(numba.njit(function))

    @numba.njit
    def energy(x):
        y = strided(x)
        y[0] *= x[1]
        return (y * y * x).sum()

    x = np.array([0.3, -0.2, 0.5, 0.7])
    check_gradient(energy, (x,))
    tangent = ar.autodiff(ar.Forward, energy, ar.Duplicated(x, np.ones(4)))
    np.testing.assert_allclose(tangent, ar.grad(energy)(x).sum(), rtol=1e-12)


def test_zeros_are_as_strong_as_outside():
    @ar.checkpoint
    def padded(x, table):
        return np.where(table > 1e6, 0.0, x * table)

    @numba.njit
    def total(x, table):
        return padded(x, table).sum()

    x, table = np.ones(2), np.array([np.inf, 4.0])
    for mode, expected in ((ar.Reverse, [np.nan, 4.0]), (ar.Reverse.strong_zero(), [0.0, 4.0])):
        shadow = np.zeros(2)
        ar.autodiff(mode, total, ar.Duplicated(x, shadow), table)
        np.testing.assert_array_equal(shadow, expected)


def test_what_only_derivatives_call_has_no_machine_code():
    inner = numba.njit(lambda x: np.sin(x))
    kept = ar.checkpoint(inner)
    assert ar.grad(numba.njit(lambda x: kept(kept(x))))(0.5) == pytest.approx(
        np.cos(np.sin(0.5)) * np.cos(0.5), rel=1e-14
    )
    assert not inner.overloads
    assert not kept.overloads
    assert kept(0.5) == np.sin(0.5)


@numba.njit
def softened(x):
    return x / np.sqrt(1.0 + np.sum(x * x))


checked_softened = ar.checkpoint(softened)


def test_a_checkpointed_function_that_returns_an_array():
    @numba.njit
    def program(x):
        y = checked_softened(x)
        return np.sum(y * checked_softened(2.0 * y))

    check_gradient(program, (np.array([0.3, -1.2, 0.8]),))


@numba.njit
def advance(x, steps):
    for _ in range(steps):
        x = x + 0.01 * np.sin(x)
    return x


segment = ar.checkpoint(advance)


@numba.njit
def in_segments(x, count, steps):
    for _ in range(count):
        x = segment(x, steps)
    return x


def test_memory_of_a_long_loop():
    x = ar.Active(0.4)
    plain = ar.tape_bytes(advance, x, ar.Const(10_000))
    segmented = ar.tape_bytes(in_segments, x, ar.Const(100), ar.Const(100))
    one_segment = ar.tape_bytes(advance, x, ar.Const(100))
    assert plain >= 80_000
    assert segmented + one_segment < plain / 20
    np.testing.assert_allclose(
        ar.grad(in_segments)(0.4, 100, 100), ar.grad(advance)(0.4, 10_000), rtol=1e-12
    )


def test_parameters_that_are_not_positional():
    with pytest.raises(RuleDefinitionError, match="more than positional"):
        ar.checkpoint(lambda *x: x[0])


# --- inactive arrays of a function without a rule ---


@numba.njit
def blend(x, table, weights):
    total = 0.0
    for i in range(table.size):
        total += weights[i] * np.sin(x * table[i])
    return total


ar.inactive(blend, args="table")


@numba.njit
def blended(x, table, weights):
    return blend(x, table * x, weights) ** 2


def test_inactive_arrays_need_no_rule():
    x, table, weights = 0.7, np.array([0.5, 1.5]), np.array([1.0, -0.4])
    by_x, by_table, by_weights = ar.grad(blended, argnums=(0, 1, 2))(x, table, weights)
    seen = table * x
    value = blend(x, seen, weights)
    np.testing.assert_allclose(by_x, 2 * value * np.sum(weights * seen * np.cos(x * seen)))
    np.testing.assert_allclose(by_table, 0.0)
    np.testing.assert_allclose(by_weights, 2 * value * np.sin(x * seen))
    tangent = ar.autodiff(
        ar.Forward, blended, ar.Duplicated(x, 1.0), ar.Const(table), ar.Const(weights)
    )
    np.testing.assert_allclose(tangent, by_x)


def test_an_inactive_array_the_function_writes_into():
    @numba.njit
    def fill(a, x):
        a[:] = x
        return x

    ar.inactive(fill, args="a")

    @numba.njit
    def program(x):
        a = np.ones(2) * x
        return fill(a, x) + a[0]

    with pytest.raises(ar.UnsupportedIR, match="may write into active memory"):
        ar.grad(program)(2.0)


def test_results_in_fortrans_order():
    """Numba's own copy of such an array is in C's."""
    transposed = ar.checkpoint(lambda x: x.T * 2.0)

    @numba.njit
    def program(x):
        y = transposed(x)
        return y[0, 1] * y[1, 2]

    x = np.linspace(-1.0, 2.0, 9).reshape(3, 3)
    expected = np.zeros((3, 3))
    expected[1, 0], expected[2, 1] = 4.0 * x[2, 1], 4.0 * x[1, 0]
    np.testing.assert_allclose(ar.grad(program)(x), expected, rtol=1e-14)


@numba.njit
def squash(a):
    for place in np.ndindex(a.shape):
        a[place] = np.sin(a[place]) * a[place]


checked_squash = ar.checkpoint(squash)


def squashed(a):
    return np.sin(a) * a, np.cos(a) * a + np.sin(a)


def sliced():
    return np.arange(24.0).reshape(4, 6)[::2, ::-2]


def records_field():
    records = np.zeros(3, np.dtype([("a", np.float64), ("k", np.int32)]))
    records["a"] = 0.3, -0.8, 1.5
    return records["a"]


@pytest.mark.parametrize(
    "make",
    [lambda: np.array([0.3, -0.8, 1.5])[::-1], sliced, records_field, lambda: sliced()[:0]],
    ids=["reversed", "sliced", "records", "empty"],
)
def test_arrays_that_are_written_have_any_strides(make):
    """What the reverse finds of the array lies in memory as its shadow does."""
    a, bar = make(), make()
    value, slope = squashed(a)
    seed = bar.copy()
    ar.autodiff(ar.Reverse, checked_squash, ar.Duplicated(a, bar))
    np.testing.assert_allclose(a, value, rtol=1e-14)
    np.testing.assert_allclose(bar, seed * slope, rtol=1e-12)


def test_an_array_of_any_strides_that_belongs_to_an_object():
    @numba.experimental.jitclass([("a", numba.float64[:])])
    class Held:
        def __init__(self, a):
            self.a = a

    program = ar.checkpoint(lambda held: squash(held.a))
    a, bar = np.array([0.3, -0.8, 1.5])[::-1], np.array([1.0, 2.0, -3.0])[::-1]
    value, slope = squashed(a)
    seed = bar.copy()
    ar.autodiff(ar.Reverse, program, ar.Duplicated(Held(a), Held(bar)))
    np.testing.assert_allclose(a, value, rtol=1e-14)
    np.testing.assert_allclose(bar, seed * slope, rtol=1e-12)


def test_a_rule_of_the_users_differentiates_what_was_saved():
    written = numba.njit(lambda a: squash(a))

    @ar.augmented_primal(written, saves="a")
    def _(config, ret: ar.Const, a: ar.Duplicated):
        squash(a.val)
        return ar.AugmentedReturn(None, None, None)

    @ar.reverse(written)
    def _(config, dret: ar.Const, tape, a: ar.Duplicated):
        ar.autodiff(ar.Reverse, squash, ar.Const, a)

    a, bar = sliced(), sliced()
    slope, seed = squashed(a)[1], bar.copy()
    ar.autodiff(ar.Reverse, written, ar.Duplicated(a, bar))
    np.testing.assert_allclose(bar, seed * slope, rtol=1e-12)


def squashed_twice(a):
    checked_squash(a)
    checked_squash(a)
    return 2.0 * a


def slope_of_squashed_twice(a):
    value, slope = squashed(a)
    return 2.0 * squashed(value)[1] * slope


def test_a_reverse_runs_any_number_of_times_from_what_was_saved():
    a, bar = np.array([0.3, -0.8, 1.5]), np.array([1.0, 2.0, -3.0])
    _, pullback = ar.vjp(squashed_twice, a.copy())
    slope = slope_of_squashed_twice(a)
    for _ in range(2):
        np.testing.assert_allclose(pullback(bar)[0], slope * bar, rtol=1e-12)
    np.testing.assert_allclose(ar.jacrev(squashed_twice)(a.copy()), np.diag(slope), rtol=1e-12)


def test_debug_mode_lets_a_reverse_run_the_function_again():
    a, bar = np.array([0.3, -0.8, 1.5]), np.array([1.0, 2.0, -3.0])
    with ar.chainrules.debug_mode():
        _, pullback = ar.vjp(squashed_twice, a.copy())
        found = pullback(bar)[0]
    np.testing.assert_allclose(found, slope_of_squashed_twice(a) * bar, rtol=1e-12)


def test_the_reverse_draws_what_the_function_drew():
    """Also where others draw in between; afterwards the program goes on with new numbers."""
    draw = numba.njit(lambda: np.random.random())
    scaled = ar.checkpoint(lambda x, y: x * draw() + y * random.random())

    @numba.njit
    def several(x):
        return scaled(x, x * x) * draw() * scaled(x * x, x)

    seeded = numba.njit(lambda: (np.random.seed(2), random.seed(2)))
    gradient = ar.value_and_grad(several)
    gradient(0.7)
    seeded()
    value, found = gradient(0.7)
    following = draw()
    seeded()
    a, b, c = draw(), draw(), draw()
    assert following == draw()
    p, q = random_numbers(), random_numbers()
    assert value == pytest.approx((0.7 * a + 0.49 * p) * b * (0.49 * c + 0.7 * q))
    slope = (a + 1.4 * p) * b * (0.49 * c + 0.7 * q) + (0.7 * a + 0.49 * p) * b * (1.4 * c + q)
    assert found == pytest.approx(slope)
    seeded()
    assert ar.jvp(several, (0.7,), (1.0,)) == pytest.approx((value, slope))
    seeded()
    out, pullback = ar.chainrules.rrule(scaled, 0.7, 0.3)
    draw()
    assert pullback(2.0)[1:] == pytest.approx((2.0 * a, 2.0 * p))
    assert out == pytest.approx(0.7 * a + 0.3 * p)
    constant = ar.checkpoint(numba.njit(lambda: 3.0))
    assert ar.grad(lambda x: x * constant())(2.0) == 3.0


@numba.njit
def random_numbers():
    return random.random()


@numba.njit
def nested_sines(x, depth):
    return x if depth == 0 else np.sin(x * nested_cosines(x, depth - 1))


@numba.njit
def nested_cosines(x, depth):
    return x if depth == 0 else np.cos(x * nested_sines(x, depth - 1))


def test_a_recursive_function_is_compiled_once_more():
    """Another dispatcher of the function, for a checkpoint or for options, calls the first one."""
    checkpointed = ar.checkpoint(nested_sines, error_model="numpy")
    assert checkpointed(0.7, 4) == pytest.approx(nested_sines(0.7, 4))
    check_gradient(nested_sines, (0.7, 4))
    slope = ar.grad(nested_sines)(0.7, 4)
    assert ar.grad(checkpointed)(0.7, 4) == pytest.approx(slope)
    assert ar.grad(nested_sines, error_model="numpy")(0.7, 4) == pytest.approx(slope)


@numba.njit
def by_exponents(x, exponents, same):
    s = 0.0
    for i in range(len(x)):
        exponents[i] = 2
        s += x[i] ** same[i]
    return s


@numba.njit
def exponents_apart(x):
    return checkpointed_exponents(x, np.zeros(3, np.int64), np.full(3, 3))


@numba.njit
def exponents_twice(x):
    exponents = np.zeros(3, np.int64)
    return checkpointed_exponents(x, exponents, exponents[:])


checkpointed_exponents = ar.checkpoint(by_exponents)


@numba.njit
def counted(x, calls, seen):
    calls[()] += 1
    seen[0] = calls[()]
    return x[0] ** 2


def test_constant_arrays_that_share_written_memory_are_refused():
    """The second run has copies of them, which do not share it."""
    x = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(ar.grad(exponents_apart)(x), 3 * x**2, rtol=1e-14)
    with pytest.raises(ar.RuleArgumentsOverlap, match="`same` and `exponents` share memory"):
        ar.grad(exponents_twice)(x)
    with_a_counter = ar.grad(ar.checkpoint(counted))
    assert with_a_counter(x, np.array(0), np.zeros(1, np.int64))[0] == 2.0

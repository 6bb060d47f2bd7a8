"""What is declared of a function instead of a rule: inactive arguments, opting out, promises."""

import math

import numba
import numpy as np
import pytest
from numba import float64, get_num_threads, get_thread_id, njit, prange
from numba.experimental import jitclass

import activerules as ar
from activerules.chainrules import rrule, scalar_rule
from activerules.errors import ActiveMemoryInConst, RuleDefinitionError


@numba.njit
def wave(x, phase=0.5, k=2.0):
    return math.sin(k * x + phase)


ar.inactive(wave, args=("phase", 2))


@pytest.mark.parametrize("forms", [0, 1, 2])
def test_inactive_arguments_need_no_rule(forms):
    @numba.njit
    def program(x, p):
        if forms == 0:
            return wave(x * x, p, p)
        if forms == 1:
            return wave(x * x, phase=p)
        return wave(k=p, x=x * x)

    by_x, by_p = ar.grad(program, argnums=(0, 1))(0.7, 0.3)
    k, phase = [(0.3, 0.3), (2.0, 0.3), (0.3, 0.5)][forms]
    np.testing.assert_allclose(by_x, math.cos(k * 0.49 + phase) * k * 1.4)
    assert by_p == 0.0


@pytest.mark.usefixtures("rules_of_this_test")
def test_marked_calls_m5_inactive_arguments_of_a_numpy_function():
    ar.inactive(np.interp, args="xp")
    x, xp, fp = 0.3, np.array([0.0, 1.0]), np.array([1.0, 3.0])

    @numba.njit
    def program(x, xp, fp):
        return np.interp(x, xp, fp)

    found = ar.grad(program, argnums=(0, 1, 2))(x, xp, fp)
    np.testing.assert_allclose(found[0], 2.0)
    np.testing.assert_allclose(found[1], 0.0)
    np.testing.assert_allclose(found[2], [0.7, 0.3])


@jitclass([("w", float64[:])])
class Weights:
    def __init__(self, w):
        self.w = w


@njit
def total(first, second, y):
    return first.w.sum() * 2.0 + second[0].a * 3.0 + y * y


ar.inactive(total, args=("first", "second"))


def test_inactive_arguments_that_are_objects_or_records():
    @njit
    def program(weights, records, y):
        return total(weights, records, y) + weights.w[0] + records[1].a

    weights = Weights(np.array([1.0, 2.0, 3.0]))
    records = np.array([(1.0, 1), (2.0, 2)], dtype=[("a", float), ("k", int)])
    found = ar.grad(program, argnums=(0, 1, 2))(weights, records, 2.0)
    np.testing.assert_array_equal(found[0].w, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(found[1]["a"], [0.0, 1.0])
    assert found[2] == 4.0


def second_derivatives(program, x, y):
    """Hessians made in every order of the modes."""
    gradient = ar.grad(program, (0, 1))

    @njit
    def slope(x, y, x_dot, y_dot):
        return ar.jvp(program, (x, y), (x_dot, y_dot))[1]

    columns = [slope_of(gradient, x, y, *d) for d in ((1.0, 0.0), (0.0, 1.0))]
    rows = [ar.grad(slope, (0, 1))(x, y, *d) for d in ((1.0, 0.0), (0.0, 1.0))]
    return ar.hessian(program, (0, 1))(x, y), np.transpose(columns), rows


def slope_of(gradient, x, y, x_dot, y_dot):
    return ar.jvp(gradient, (x, y), (x_dot, y_dot))[1]


@njit
def powers(x, y):
    return x * x * y**3


ar.inactive(powers, args="y")
scalar_rule(powers, lambda Ω, x, y: (2 * x * y**3, 3 * x**2 * y**2))


@njit
def powers_of_array(x, y):
    return x * x * y[0] ** 3


ar.inactive(powers_of_array, args="y")


@njit
def powers_of_tuple(x, y):
    return x * x * y[0] ** 3


ar.inactive(powers_of_tuple, args="y")
rrule.register(powers_of_tuple)(
    lambda f, x, y: (f(x, y), lambda dy: (None, 2 * x * y[0] ** 3 * dy, (dy, None)))
)


@njit
def powers_with_scratch(x, y):
    y[0] = x * x
    return y[0] * y[1] ** 3


ar.inactive(powers_with_scratch, args="y")


@njit
def with_scratch(x, y):
    memory = np.array([0.0, y])
    return powers_with_scratch(x, memory)


@njit
def powers_of_list(x, y):
    return x * x * y[0] ** 3


ar.inactive(powers_of_list, args="y")


@pytest.mark.parametrize(
    "program",
    [
        njit(lambda x, y: powers(x, y)),
        njit(lambda x, y: powers_of_array(x, np.array([0.0, y])[::-1])),
        njit(lambda x, y: powers_of_tuple(x, (y, 3))),
        with_scratch,
        njit(lambda x, y: powers_of_list(x, [2.0]) + 0.0 * y),
    ],
    ids=["number", "array", "tuple", "written", "list of constants"],
)
def test_forward_rules_f4_an_inactive_argument_is_constant_in_second_derivatives(program):
    """So Hessians are symmetric."""
    for hessian in second_derivatives(program, 1.5, 2.0):
        np.testing.assert_allclose(hessian, [[16.0, 0.0], [0.0, 0.0]])


def test_forward_rules_f4_an_inactive_list_of_active_numbers_is_refused():
    @njit
    def program(x, y):
        return powers_of_list(x, [y])

    assert ar.grad(program, (0, 1))(1.5, 2.0) == (24.0, 0.0)
    with pytest.raises(ActiveMemoryInConst, match="declared inactive leads to active data"):
        ar.hessian(program, (0, 1))(1.5, 2.0)


def test_inactive_argument_that_does_not_exist():
    with pytest.raises(RuleDefinitionError, match="no argument 'phases'"):
        ar.inactive(wave, args="phases")
    with pytest.raises(RuleDefinitionError, match="its arguments are x, phase, k"):
        ar.inactive(wave, args=3)


@numba.njit
def cube(x):
    return x * x * x


@ar.augmented_primal(cube)
def _(config, ret: ar.Active, x: ar.Active):
    return ar.AugmentedReturn(cube(x.val), None, None)


@ar.reverse(cube)
def _(config, dret: ar.Active, tape, x: ar.Active):
    return 100.0 * dret.val  # tells the rule from the body


def test_opting_out_by_type():
    @numba.njit
    def program(x):
        return float(cube(x))

    gradient = ar.grad(program)
    assert gradient(2.0) == 100.0
    ar.opt_out(cube, ar.Active[numba.float32])
    assert gradient(2.0) == 100.0
    assert gradient(np.float32(2.0)) == 12.0
    ar.opt_out(cube, ar.Annotation[float64])
    assert gradient(2.0) == 12.0
    (call,) = ar.explain(program, ar.Active(2.0)).rules
    assert (call.followed, call.reason) == (True, "opt_out")
    assert "cube   its body is differentiated: opt_out" in str(ar.explain(program, ar.Active(2.0)))


def test_opting_out_of_one_mode():
    """It differentiates the body in that mode, whatever rules there are."""

    @numba.njit
    def same(x):
        return x

    @ar.augmented_primal(same)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(x.val, None, None)

    @ar.reverse(same)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 7.0 * dret.val

    @ar.forward(same)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return x.val, 9.0 * x.dval

    @numba.njit
    def program(x):
        return same(x)

    def slopes():
        return ar.grad(program)(1.0), ar.jvp(program, (1.0,), (1.0,))[1]

    assert slopes() == (7.0, 9.0)
    ar.opt_out(same, mode="forward")
    assert slopes() == (7.0, 1.0)
    ar.opt_out(same, mode="reverse")
    assert slopes() == (1.0, 1.0)


def test_a_rule_for_more_specific_types_is_stronger_than_opting_out():
    @numba.njit
    def f(x):
        return x * x

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active[float64]):
        return ar.AugmentedReturn(x.val * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active[float64]):
        return 100.0

    @numba.njit
    def program(x):
        return f(x)

    ar.opt_out(f, ar.Annotation)
    assert ar.grad(program)(3.0) == 100.0
    ar.opt_out(f)
    assert ar.grad(program)(3.0) == 6.0


def test_opting_out_of_being_inactive():
    """The body is differentiated, whichever of the two is declared first."""

    @numba.njit
    def f(x):
        return x * x

    @numba.njit
    def program(x):
        return x * f(x)

    def slopes(x):
        return ar.grad(program)(x), ar.jvp(program, (x,), (1.0,))[1], ar.hessian(program)(x)

    ar.inactive(f)
    assert slopes(2.0) == (4.0, 4.0, 0.0)
    ar.opt_out(f, ar.Active[np.float32])
    assert slopes(2.0) == (4.0, 4.0, 0.0)
    assert ar.grad(program)(np.float32(2.0)) == 12.0
    ar.opt_out(f)
    ar.inactive(f)
    assert slopes(2.0) == (12.0, 12.0, 12.0)
    assert rrule(f, 2.0) is None
    (call,) = ar.explain(program, ar.Active(2.0)).rules
    assert (call.followed, call.reason) == (True, "opt_out")


def test_opting_out_by_activity():
    @numba.njit
    def f(x, y):
        return x * x * y

    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active | ar.Const, y: ar.Active | ar.Const):
        return ar.AugmentedReturn(f(x.val, y.val), None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active | ar.Const, y: ar.Active | ar.Const):
        return 100.0, 200.0

    @ar.forward(f)
    def _(config, ret: ar.Duplicated, x: ar.Annotation, y: ar.Annotation):
        return f(x.val, y.val), 300.0

    @numba.njit
    def program(x, y):
        return f(x, y)

    ar.opt_out(f, ar.Active, ar.Const)
    assert ar.grad(program, (0, 1))(2.0, 3.0) == (100.0, 200.0)
    assert ar.grad(program, 1)(2.0, 3.0) == 200.0
    assert ar.grad(program, 0)(2.0, 3.0) == 12.0
    assert ar.jvp(program, (2.0, 3.0), (1.0, 1.0))[1] == 300.0
    assert ar.jvp(program, (2.0, 3.0), (1.0, None))[1] == 12.0
    (call,) = ar.explain(program, ar.Active(2.0), ar.Const(3.0)).rules
    assert "its body, computed again" in call.rule


def test_inactive_functions_that_write():
    @numba.njit
    def reset(a):
        a[:] = 1.0

    ar.inactive(reset)

    @numba.njit
    def program(x):
        b = x.copy()
        reset(b)
        return b.sum() + x.sum()

    with pytest.raises(ar.UnsupportedIR, match="may write into active memory"):
        ar.grad(program)(np.ones(3))


def test_integers_a_function_with_rules_writes():
    @numba.njit
    def bump(k):
        k[0] += 1
        return 1.0

    @ar.augmented_primal(bump)
    def _(config, ret: ar.Annotation, k: ar.Const):
        return ar.AugmentedReturn(bump(k.val), None, None)

    @ar.reverse(bump)
    def _(config, dret: ar.Annotation, tape, k: ar.Const):
        return None

    @numba.njit
    def program(x, k):
        s = 0.0
        for _ in range(3):
            s += x[k[0]] * x[k[0]] * bump(k)
        return s

    found = ar.grad(program)(np.array([1.0, 2.0, 3.0, 4.0]), np.zeros(1, np.int64))
    np.testing.assert_allclose(found, [2.0, 4.0, 6.0, 0.0])


# --- saves ---


@numba.njit
def energy(a):
    return np.dot(a, a)


@ar.augmented_primal(energy)
def _(config, ret: ar.Active, a: ar.Duplicated):
    return ar.AugmentedReturn(energy(a.val), None, None)


@ar.reverse(energy, saves="a")
def _(config, dret: ar.Active, tape, a: ar.Duplicated):
    ar.accumulate(a, 2.0 * dret.val * a.val)


@numba.njit
def kept(a):
    return energy(a)


@numba.njit
def overwritten(a):
    b = a.copy()
    total = 0.0
    for k in range(3):
        total += energy(b)
        b[:] = b * (k + 2.0)
    return total


def test_declared_reads_are_saved_where_they_are_overwritten():
    a = np.array([1.0, -2.0])
    np.testing.assert_allclose(ar.grad(kept)(a), 2.0 * a)
    np.testing.assert_allclose(ar.grad(overwritten)(a), 2.0 * a * (1 + 4 + 36))
    assert ar.tape_bytes(kept, ar.Duplicated(a, np.zeros(2))) < ar.tape_bytes(
        overwritten, ar.Duplicated(a, np.zeros(2))
    )


def test_saves_names_an_argument():
    with pytest.raises(RuleDefinitionError, match="'b', which is not an argument"):

        @ar.reverse(energy, saves="b", replace=True)
        def _(config, dret: ar.Active, tape, a: ar.Duplicated): ...


# --- results that are arguments ---


def tail_rule(shadow_of, primal_of):
    @numba.njit
    def tail(a):
        return a[1:]

    @ar.augmented_primal(tail)
    def _(config, ret: ar.Duplicated, a: ar.Duplicated):
        return ar.AugmentedReturn(primal_of(a.val), shadow_of(a.dval), None)

    @ar.reverse(tail)
    def _(config, dret: ar.Duplicated, tape, a: ar.Duplicated):
        a.dval[1:] += dret.dval

    @numba.njit
    def program(a):
        b = tail(a)
        return b.sum() * a[0]

    return tail, program


@numba.njit
def itself(x):
    return x[1:]


@numba.njit
def copied(x):
    return x[1:].copy()


@numba.njit
def zeroed(x):
    return np.zeros(x.size - 1)


@pytest.mark.parametrize(
    ("shadow_of", "primal_of"), [(zeroed, itself), (itself, copied)], ids=["primal", "shadow"]
)
def test_a_result_that_is_part_of_an_argument_is_noticed(shadow_of, primal_of):
    _, program = tail_rule(shadow_of, primal_of)
    a = np.array([2.0, 3.0, 4.0])
    with pytest.raises(ar.RuleReturnError, match="tail or its rule returns shares memory"):
        ar.grad(program)(a)


def test_a_result_in_new_memory():
    _, program = tail_rule(zeroed, copied)
    np.testing.assert_allclose(ar.grad(program)(np.array([2.0, 3.0, 4.0])), [7.0, 2.0, 2.0])


def test_a_view_where_no_rule_is_needed():
    tail, _ = tail_rule(zeroed, copied)

    @numba.njit
    def program(a, n):
        c = np.ones(n)
        d = tail(c)
        d[0] = a[0]
        return c[1] * a[1]

    with pytest.raises(ar.RuleReturnError, match="shares memory"):
        ar.grad(program)(np.array([2.0, 3.0]), 3)


def test_arrays_without_a_derivative_may_stand_where_active_ones_do():
    """A sign and a product of constants: each is what active arrays come in the place of."""

    @numba.njit
    def program(x, a, b, n):
        y = np.sign(b)
        z = a @ b
        for _ in range(n):
            y = y * x
            z = z * x
        return np.sum(y * z)

    a, b = np.array([[2.0, 1.0], [1.0, 3.0]]), np.array([0.5, -2.0])
    x, x_dot = np.array([1.5, -0.7]), np.array([0.3, 0.8])
    expected = 4 * np.sign(b) * (a @ b) * x**3
    x_bar = np.ones(2)
    ar.autodiff(ar.Reverse, program, ar.Duplicated(x, x_bar), ar.Const(a), ar.Const(b), ar.Const(2))
    np.testing.assert_allclose(x_bar, 1 + expected)
    tangent = ar.autodiff(ar.Forward, program, ar.Duplicated(x, x_dot), a, b, 2)
    np.testing.assert_allclose(tangent, expected @ x_dot)


@njit(parallel=True)
def squares_by_thread(x):
    parts = np.zeros(get_num_threads())
    for i in prange(x.size):
        parts[get_thread_id()] += x[i] * x[i]
    x[0] = parts.sum()
    return x


def test_numbers_of_threads_have_no_derivative():
    _, pull = ar.vjp(squares_by_thread, np.array([0.5, 2.0, -3.0]))
    np.testing.assert_array_equal(pull(np.array([1.0, 0.0, 1.0]))[0], [1.0, 4.0, -5.0])


@njit
def start(x):
    return x.copy()


ar.inactive(start)


@njit
def from_the_start(x):
    y = start(x)
    y[0] += x[0] * x[1]
    return (y * y).sum()


def test_what_an_inactive_function_returned_is_written_to():
    x = np.array([1.5, -0.7])
    expected = 2.0 * (x[0] + x[0] * x[1]) * x[::-1]
    np.testing.assert_allclose(ar.grad(from_the_start)(x), expected)
    np.testing.assert_allclose(ar.jacfwd(from_the_start)(x), expected)

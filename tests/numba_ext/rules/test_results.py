"""Functions with rules that return tuples: of arrays, and of arrays with numbers beside them."""

from collections import namedtuple

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import NoTangent, frule, rrule
from activerules.errors import NotYetSupported, RuleReturnError, RuleViolation
from activerules.testing import check_gradient, check_rule

X, Y = np.array([1.1, -2.3, 3.2]), np.array([0.3, 0.5, -0.7])


@njit
def polar(x, y):
    return np.sqrt(x * x + y * y), np.arctan2(y, x)


@ar.augmented_primal(polar, saves=("x", "y"))
def polar_augmented(config, ret: ar.Duplicated, x: ar.Duplicated, y: ar.Duplicated):
    r, phi = np.sqrt(x.val**2 + y.val**2), np.arctan2(y.val, x.val)
    return ar.AugmentedReturn((r, phi), (np.zeros_like(r), np.zeros_like(phi)), (r.copy(),))


@ar.reverse(polar)
def polar_reverse(config, dret: ar.Duplicated, tape, x: ar.Duplicated, y: ar.Duplicated):
    r = tape[0]
    r_bar, phi_bar = dret.dval
    ar.accumulate(x, (r_bar * x.val - phi_bar * y.val / r) / r)
    ar.accumulate(y, (r_bar * y.val + phi_bar * x.val / r) / r)
    return None, None


@njit
def scaled(x, a):
    """An array, two numbers around a count: MixedDuplicated."""
    return x * a, (x * x).sum() * a, 3, a * a


@ar.augmented_primal(scaled, saves=("x",))
def scaled_augmented(config, ret: ar.MixedDuplicated, x: ar.Duplicated, a: ar.Active):
    out = x.val * a.val, (x.val * x.val).sum() * a.val, 3, a.val * a.val
    return ar.AugmentedReturn(out, (np.zeros_like(out[0]), 0.0, 0, 0.0), None)


@ar.reverse(scaled)
def scaled_reverse(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated, a: ar.Active):
    out_bar, sum_bar, _, square_bar = dret.dval
    ar.accumulate(x, out_bar * a.val + 2.0 * x.val * sum_bar * a.val)
    by_a = (out_bar * x.val).sum() + sum_bar * (x.val * x.val).sum() + 2.0 * a.val * square_bar
    return None, by_a


ar.opt_out(polar, mode="forward")
ar.opt_out(scaled, mode="forward")


@njit
def turned(x, y, steps):
    for _ in range(steps):
        r, phi = polar(x, y)
        r[0] *= phi[1]  # the program's own arrays
        x = 0.5 * r + phi
        y = np.cos(phi) * r + 0.1
    return (x * y).sum()


@njit
def repeated(x, a, steps):
    total = 0.0
    for _ in range(steps):
        y, s, count, square = scaled(x, a)
        x = y * 0.3 + 0.1
        a = 0.1 * s + square * count * 0.01
        total += y[0] * s
    return total + x.sum() * a


@njit
def partly(x, a, which):
    """A part of the result is used, or one made elsewhere is."""
    if which == 4:
        y, s, _, _ = 2.0 * x, a, 1, a
    else:
        y, s, count, square = scaled(x, a)
        if which == 1:
            return s * square * count
        if which == 2:
            return y.sum()
        if which == 3:
            return count * a
    y[0] *= 2.0
    return y.sum() * s


PROGRAMS = [(turned, (X, Y, 3)), (repeated, (X, 0.3, 3))]
PROGRAMS += [(partly, (X, 0.3, which)) for which in range(5)]


@pytest.mark.parametrize(("program", "args"), PROGRAMS, ids=lambda x: getattr(x, "__name__", ""))
def test_rules_of_functions_that_return_tuples_serve(program, args, unfreed):
    check_gradient(program, args)
    gradient = ar.value_and_grad(program, (0, 1))  # what was checked
    assert unfreed(lambda: gradient(*args)) == 0


def test_rules_serve_calls_with_tuple_results():
    """A rule that is wrong on purpose."""

    @njit
    def pair(x):
        return 2.0 * x, x.sum()

    @ar.augmented_primal(pair)
    def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated):
        return ar.AugmentedReturn((2.0 * x.val, x.val.sum()), (np.zeros_like(x.val), 0.0), None)

    @ar.reverse(pair)
    def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated):
        ar.accumulate(x, 5.0 * dret.dval[0] + 7.0 * dret.dval[1])

    @njit
    def program(x):
        y, s = pair(x)
        return y.sum() + s

    np.testing.assert_array_equal(ar.grad(program)(X), 12.0)
    with ar.debug_mode(), pytest.raises(RuleViolation, match="finite differences"):
        ar.grad(program)(X)


def test_each_row_of_a_jacobian_is_served():
    of_array, of_sum, of_count, of_square = ar.jacrev(scaled, 1)(X, 0.3)
    np.testing.assert_allclose(of_array, X)
    assert (of_sum, of_count, of_square) == pytest.approx((X @ X, None, 0.6))


def test_second_derivatives_go_through_the_rules():
    hessian, gradient, step = ar.hessian(repeated)(X, 0.3, 2), ar.grad(repeated), 1e-5
    ahead, back = (
        np.array([gradient(X + sign * step * e, 0.3, 2) for e in np.eye(3)]) for sign in (1, -1)
    )
    np.testing.assert_allclose(hessian, (ahead - back) / (2 * step), rtol=1e-7)


def test_split_mode_keeps_the_shadows_of_each_call():
    augmented, reverse = ar.autodiff_thunk(
        ar.ReverseSplitWithPrimal, repeated, ar.Active, ar.Duplicated, ar.Active, ar.Const
    )
    tapes = []
    for scale in (1.0, 2.0):
        both = ar.Duplicated(scale * X, np.ones(3))
        tapes.append((both, augmented(both, ar.Active(0.3), 3)[0]))
    for both, tape in reversed(tapes):
        _, by_a, _ = reverse(both, ar.Active(0.3), 3, 1.0, tape)
        expected = ar.grad(repeated, (0, 1))(both.val, 0.3, 3)
        np.testing.assert_allclose(both.dval - 1.0, expected[0], rtol=1e-14)
        assert by_a == pytest.approx(expected[1], rel=1e-14)


@njit
def pair_that_raises(x, a, fails):
    out = a * x, (x * x).sum()
    if fails:
        raise ValueError("as the rule does")
    return out


@njit
def twice_by_itself(x, a):
    y, s = pair_that_raises(x, a, a > 1.0)
    y, _ = pair_that_raises(y, a, a < 0.0)
    return y.sum() * s


def test_no_more_is_lost_where_rules_raise_than_if_the_function_had_raised(unfreed):
    @njit
    def pair(x, a):
        return a * x, (x * x).sum()

    @ar.augmented_primal(pair, saves=("x",))
    def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated, a):
        out = a.val * x.val, (x.val * x.val).sum()
        if a.val > 1.0:
            raise ValueError("too large")
        return ar.AugmentedReturn(out, (np.zeros_like(out[0]), 0.0), None)

    @ar.reverse(pair)
    def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated, a):
        if a.val < 0.0:
            raise ValueError("negative")
        ar.accumulate(x, a.val * dret.dval[0] + 2.0 * dret.dval[1] * x.val)
        return None, None

    @njit
    def twice(x, a):
        y, s = pair(x, a)
        y, _ = pair(y, a)
        return y.sum() * s

    check_gradient(twice, (X, 0.5), (ar.Duplicated, ar.Const))
    for a, message in ((2.0, "too large"), (-0.5, "negative")):

        def fails(a=a, message=message):
            with pytest.raises(ValueError, match=message):
                ar.grad(twice)(X, a)

        def by_itself(a=a):
            with pytest.raises(ValueError, match="as the rule does"):
                twice_by_itself(X, a)

        assert unfreed(fails) <= unfreed(by_itself)


def test_a_closure_rule_and_a_forward_rule_return_tuples(unfreed):
    @njit
    def pair(x, a):
        return x * a, (x * x).sum() * a

    @rrule.register(pair)
    def _(f, x, a):
        s = (x * x).sum()

        def pullback(bar):
            y_bar, s_bar = bar
            by_a = (y_bar * x).sum() + s_bar * s
            return NoTangent(), y_bar * a + 2.0 * x * s_bar * a, by_a

        return (x * a, s * a), pullback

    @frule.register(pair)
    def _(deltas, f, x, a):
        _, dx, da = deltas
        return f(x, a), (dx * a + x * da, np.sum(2.0 * a * x * dx) + (x * x).sum() * da)

    @njit
    def program(x, a):
        for _ in range(3):
            y, s = pair(x, a)
            x = y + 0.1
            a = 0.5 * a + 0.01 * s
        return x.sum() * a

    check_rule(pair, X, 0.3)
    check_gradient(program, (X, 0.3))
    gradient = ar.value_and_grad(program, (0, 1))
    by_x, by_a = gradient(X, 0.3)[1]
    assert ar.jvp(program, (X, 0.3), (Y, 1.0))[1] == pytest.approx(by_x @ Y + by_a)
    assert unfreed(lambda: gradient(X, 0.3)) == 0
    assert unfreed(lambda: ar.jvp(program, (X, 0.3), (Y, 1.0))) == 0
    out, pullback = rrule(pair, X, 0.3)
    np.testing.assert_allclose(out[0], 0.3 * X)
    np.testing.assert_allclose(pullback((Y, 0.0))[1], 0.3 * Y)


def test_check_rule_knows_what_the_reverse_may_not_read():
    check_rule(polar, X, Y, compiled=False)
    check_rule(scaled, X, 0.3)


State = namedtuple("State", ["place", "rest"])


@njit
def advanced(state, h):
    speed, mass = state.rest
    return State(state.place + h * speed, (speed - h * np.sin(state.place) / mass, mass * 0.9))


step = ar.checkpoint(advanced)


@njit
def evolution(x, v, h):
    state = State(x, (v, 1.0))
    for _ in range(4):
        state = step(state, h)
    return (state.place * state.rest[0]).sum() * state.rest[1]


def evolved(x, v, h):
    """The same in NumPy, for real and for complex numbers."""
    state = State(x, (v, 1.0))
    for _ in range(4):
        state = advanced.py_func(state, h)
    return (state.place * state.rest[0]).sum() * state.rest[1]


def slope(x, v, h):
    """The gradient with respect to x, by complex steps."""
    return np.array([evolved(x + 1e-30j * e, v, h).imag / 1e-30 for e in np.eye(3)])


STENCIL = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}  # of eighth order, antisymmetric


def test_a_checkpointed_step_returns_its_state(unfreed):
    gradient = ar.grad(evolution, (0, 1, 2))
    by_x, by_v, by_h = gradient(X, Y, 0.2)
    np.testing.assert_allclose(by_x, slope(X, Y, 0.2), rtol=1e-13)
    expected = [evolved(X, Y + 1e-30j * e, 0.2).imag / 1e-30 for e in np.eye(3)]
    np.testing.assert_allclose(by_v, expected, rtol=1e-13)
    assert by_h == pytest.approx(evolved(X, Y, 0.2 + 1e-30j).imag / 1e-30, rel=1e-13)
    assert unfreed(lambda: gradient(X, Y, 0.2)) == 0
    ahead = 2e-2  # each entry of the gradient is of its own entry of x
    expected = sum(
        w * (slope(X + k * ahead, Y, 0.2) - slope(X - k * ahead, Y, 0.2))
        for k, w in STENCIL.items()
    )
    found = ar.hessian(evolution)(X, Y, 0.2)
    np.testing.assert_allclose(found, np.diag(expected / ahead), rtol=1e-12, atol=1e-15)


def test_numbers_alone_come_out_of_a_checkpointed_step():
    step = ar.checkpoint(lambda x, v: (x + 0.1 * v, v - 0.1 * np.sin(x)))

    @njit
    def run(x, v):
        for _ in range(4):
            x, v = step(x, v)
        return x + v * v

    check_gradient(run, (1.0, 0.3))


def test_complex_arrays_and_numbers_beside_them():
    checkpointed = ar.checkpoint(lambda x: (x * x, np.sum(x)))

    @njit
    def through(x):
        y, s = checkpointed(x)
        return (y * s).sum()

    x = X + 0.5j * Y
    out, pullback = ar.vjp(through, x)
    assert abs(out - (x * x).sum() * x.sum()) < 1e-13
    derivative = 2.0 * x * x.sum() + (x * x).sum()
    np.testing.assert_allclose(pullback(1.0 + 0j)[0], np.conj(derivative), rtol=1e-14)


def _with_a_view(x):
    y = x * x
    return y, y[1:]


def _with_its_argument(x):
    return x * x, x[1:]


@pytest.mark.parametrize("function", [_with_a_view, _with_its_argument])
def test_r2_rule_compiler_r3_arrays_that_share_memory_are_refused(unfreed, function):
    checkpointed = ar.checkpoint(njit(function))

    @njit
    def program(x):
        y, z = checkpointed(x)
        return y.sum() * z.sum()

    @njit
    def refuse(y, z):
        if y[1] == z[0]:
            raise ValueError("as the check does")

    @njit
    def program_that_refuses(x):
        y = x * x
        z = y[1:]
        refuse(y, z)
        return y.sum() * z.sum()

    def fails():
        with pytest.raises(RuleReturnError, match="shares memory"):
            ar.grad(program)(X)

    def by_itself():
        with pytest.raises(ValueError, match="as the check does"):
            program_that_refuses(X)

    assert unfreed(fails) <= unfreed(by_itself)


def test_a_shadow_of_another_shape_is_refused():
    @njit
    def pair(x):
        return x * x, x.sum()

    @ar.augmented_primal(pair)
    def _(config, ret: ar.MixedDuplicated, x: ar.Duplicated):
        return ar.AugmentedReturn((x.val * x.val, x.val.sum()), (np.zeros(1), 0.0), None)

    @ar.reverse(pair)
    def _(config, dret: ar.MixedDuplicated, tape, x: ar.Duplicated):
        ar.accumulate(x, 2.0 * dret.dval[0][0] * x.val)

    @njit
    def program(x):
        y, s = pair(x)
        return y.sum() * s

    with pytest.raises(RuleReturnError, match="shape and strides of the primal"):
        ar.grad(program)(X)


def test_r1_arrays_of_several_types_are_refused():
    checkpointed = ar.checkpoint(lambda x: (x * x, np.argsort(x)))

    @njit
    def program(x):
        y, z = checkpointed(x)
        return y[z[0]]

    with pytest.raises(NotYetSupported, match="floats of one precision"):
        ar.grad(program)(X)


def test_an_inactive_function_returns_arrays_that_stand_where_active_ones_do(unfreed):
    @ar.inactive
    @njit
    def start(x):
        return np.floor(x), np.ceil(x), 0.5

    @njit
    def program(x):
        a, b, scale = start(x)
        for _ in range(3):
            a = a * x + b * scale
            b = a * 0.1
        return a.sum()

    check_gradient(program, (X,))
    assert unfreed(lambda: ar.value_and_grad(program)(X)) == 0


def test_a_rule_for_a_duplicated_result_is_asked_for_its_shadow_where_the_result_is_not_used():
    @njit
    def squares(out, x):
        out[:] = x * x
        return 2.0 * x

    @ar.augmented_primal(squares)
    def _(config, ret: ar.Duplicated, out: ar.Duplicated, x: ar.Duplicated):
        y = squares(out.val, x.val)
        return ar.AugmentedReturn(y, np.zeros_like(y) if config.needs_shadow else None, None)

    @ar.reverse(squares, saves="x")
    def _(config, dret: ar.Duplicated, tape, out: ar.Duplicated, x: ar.Duplicated):
        ar.accumulate(x, 2.0 * x.val * out.dval + 2.0 * dret.dval)
        out.dval[:] = 0.0

    @njit
    def unused(x):
        out = np.zeros_like(x)
        squares(out, x)
        return np.sum(out) * x[0]

    check_gradient(unused, (X,))


def test_the_cotangent_of_a_number_that_is_not_used_is_zero_for_rules_without_annotations():
    @njit
    def bent(v, p):
        """Changes `v`, and returns numbers."""
        v[0] = np.sin(v[0] * p)
        return v[1] * p, v[1] + 1j * p

    @ar.augmented_primal(bent)
    def _(config, ret, v: ar.Duplicated, p: ar.Active):
        kept = v.val[0], v.val[1]
        return ar.AugmentedReturn(bent(v.val, p.val), None, kept)

    @ar.reverse(bent)
    def _(config, dret, tape, v: ar.Duplicated, p: ar.Active):
        first, second = tape
        product_bar, z_bar = dret.val
        angle_bar = v.dval[0] * np.cos(first * p.val)
        v.dval[0] = angle_bar * p.val
        v.dval[1] += product_bar * p.val + z_bar.real
        return None, angle_bar * first + product_bar * second + z_bar.imag

    @njit
    def change_only(v, p):
        bent(v, p)
        return v[0] * v[1]

    @njit
    def compare(v, p):
        product, _ = bent(v, p)
        return v[0] * v[1] if product > -50.0 else p

    @njit
    def all_of_it(v, p):
        product, z = bent(v, p)
        return v[0] * v[1] + product * z.imag + z.real

    for program in (change_only, compare, all_of_it):
        check_gradient(program, (np.array([0.3, 0.7]), 2.0), (ar.Duplicated, ar.Active))
    check_rule(bent, np.array([0.3, 0.7]), 2.0)


def test_a_rule_for_a_constant_result_alone_finds_the_result():
    @njit
    def counted(v):
        v *= 2.0
        return 3.0

    @ar.augmented_primal(counted)
    def _(config, ret: ar.Const, v: ar.Duplicated):
        return ar.AugmentedReturn(counted(v.val), None, None)

    @ar.reverse(counted)
    def _(config, dret: ar.Const, tape, v: ar.Duplicated):
        v.dval[:] *= dret.val - 1.0

    @njit
    def program(v):
        counted(v)
        return v[0] * v[1]

    check_gradient(program, (np.array([0.3, 0.7]),), (ar.Duplicated,))


@njit
def named_product(x):
    return x[0] * x[1], "product"


@njit
def numbered_products(x):
    return x * x[0], str(len(x))


@njit
def name_of(x):
    return "name", x[0]


ar.inactive(name_of)


def test_a_text_that_is_returned():
    """It is part of the type, so that the result has less memory than one with a text in it."""

    @njit
    def uses_name(x):
        y = x * x
        name, number = name_of(y)
        return number * y[1] * len(name)

    def uses_rule(x):
        return np.sum(checkpointed(x * x)[0])

    x = np.array([0.3, 0.7])
    np.testing.assert_allclose(ar.grad(uses_name)(x), [0.0, 8.0 * x[0] ** 2 * x[1]], rtol=1e-14)
    for function in (named_product, numbered_products):
        checkpointed = ar.checkpoint(function)
        with pytest.raises(NotYetSupported, match="has a rule and returns"):
            ar.grad(njit(uses_rule))(x)

"""`frule` and `rrule` called from Python: the scalar table, pairs, and what has no rule."""

import cmath
import itertools
import math
import operator
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import (
    NoTangent,
    Tangent,
    ZeroTangent,
    frule,
    non_differentiable,
    opt_out,
    rrule,
    scalar_rule,
)
from activerules.chainrules.diffrules import HOLOMORPHIC_ROWS, REAL_ROWS
from activerules.chainrules.table import PARTNERS
from activerules.errors import ArityError, RuleCheckError, TangentMismatch
from activerules.ir.derivatives.numeric import row_named
from activerules.ir.derivatives.table import FUNCTIONS, function_of
from activerules.testing import central_fdm, check_rule

ANSWER = -1.0531613736418153
POINTS = {1: [(0.37,), (1.7,), (-0.6,)], 2: [(0.7, 1.9), (2.3, 0.6), (1.5, 2.0)]}


def name_of(function):
    module = getattr(function, "__module__", None) or "np"
    return f"{module}.{getattr(function, '__name__', function)}"


def points(function, arity):
    """The points in the domain of a function; ldexp takes an integer."""
    for x in POINTS[arity]:
        x = (x[0], 2) if name_of(function).endswith("ldexp") else x
        with np.errstate(invalid="ignore"):
            try:
                y = function(*x)
            except ValueError:
                continue
        if np.isfinite(y):
            yield x


def partial_fd(function, x, i):
    def along(t):
        return float(function(*(t if k == i else v for k, v in enumerate(x))))

    return central_fdm(5).estimate(along, x[i], step=0.01)


REAL = [(f, len(row_named(row).partials)) for f, row in PARTNERS.items()]
REAL += [(f, arity) for f, arity, _ in REAL_ROWS]


def label(value):
    return name_of(value) if callable(value) else ""


@pytest.mark.parametrize(("function", "arity"), REAL, ids=label)
def test_real_scalar_functions(function, arity):
    checked = 0
    for x in points(function, arity):
        y, pullback = rrule(function, *x)
        assert y == function(*x)
        own, *cotangents = pullback(2.0)
        assert own is NoTangent()
        for i in range(arity):
            deltas = [1.0 if k == i else ZeroTangent() for k in range(arity)]
            forward = frule((NoTangent(), *deltas), function, *x)
            assert float(forward[1]) == float(cotangents[i]) / 2.0
            if isinstance(x[i], float):
                expected, error = partial_fd(function, x, i)
                slack = 1e-9 * max(1.0, abs(expected)) + 10 * error
                assert abs(float(cotangents[i]) / 2.0 - expected) <= slack
        checked += 1
    assert checked


@pytest.mark.parametrize(
    ("function", "arity"),
    [(f, arity) for f, arity, _ in HOLOMORPHIC_ROWS],
    ids=label,
)
def test_holomorphic_functions(function, arity):
    x = (0.4 + 0.3j, 1.2 - 0.7j)[:arity]
    _, pullback = rrule(function, *x)
    h = 1e-5
    for i in range(arity):
        ahead, back = (
            function(*(v + s * h if k == i else v for k, v in enumerate(x))) for s in (1, -1)
        )
        slope = (ahead - back) / (2 * h)
        deltas = [1j if k == i else ZeroTangent() for k in range(arity)]
        _, forward = frule((NoTangent(), *deltas), function, *x)
        assert abs(complex(forward) - 1j * slope) < 1e-8
        assert abs(complex(pullback(1j)[1 + i]) - 1j * slope.conjugate()) < 1e-8


def test_the_table_of_the_engine_is_all_there():
    """Every function the engine knows by a C name has a Python partner, where Python has it."""
    rows = {function_of(name) or name for name in PARTNERS.values()}
    no_python_partner = {"exp10", "powi", "fdim", "fma", "round", "roundeven", "nearbyint", "logb"}
    no_python_partner |= {"canonicalize", "arithmetic.fence", "cpow.re", "cpow.im", "ipow"}
    no_python_partner |= {"with_value", "inverse_power"}
    no_python_partner |= {"minnum"}  # that of two NaN is not that of np.fmin
    assert set(FUNCTIONS) - rows == no_python_partner


@pytest.mark.parametrize("x", [3, 3.0, np.float64(3.0)])
def test_the_worked_example_by_rrules(x):
    a, a_pullback = rrule(math.sin, x)
    b, b_pullback = rrule(operator.add, 0.2, a)
    c, c_pullback = rrule(math.asin, b)
    _, b_bar = c_pullback(1.0)
    _, _, a_bar = b_pullback(b_bar)
    _, x_bar = a_pullback(a_bar)
    assert c == math.asin(0.2 + math.sin(3.0))
    assert x_bar == ANSWER


def test_the_worked_example_by_frules():
    a, a_dot = frule((NoTangent(), 1.0), math.sin, 3)
    b, b_dot = frule((NoTangent(), ZeroTangent(), a_dot), operator.add, 0.2, a)
    _, c_dot = frule((NoTangent(), b_dot), math.asin, b)
    assert c_dot == ANSWER


def test_the_worked_example_by_finite_differences_and_by_the_engine():
    def f(x):
        return math.asin(0.2 + math.sin(x))

    value, error = central_fdm(5, 1).estimate(f, 3.0)
    assert abs(value - ANSWER) < 10 * error < 1e-9
    assert ar.grad(f)(3.0) == pytest.approx(ANSWER, rel=1e-15)


def test_no_rule_is_none():
    assert rrule(len, "abc") is None
    assert frule((NoTangent(), 1.0), sorted, [1.0]) is None
    assert rrule(math.sin, "abc") is None
    with pytest.raises(ArityError, match="2 tangents"):
        frule((NoTangent(), 1.0), operator.add, 1.0, 2.0)


def test_a_call_without_arguments_names_the_decorator():
    with pytest.raises(ArityError, match=r"@rrule\.register\(.+\) to define one"):
        rrule(njit(lambda x: x))
    assert rrule(njit(lambda: 1.0)) is None


def test_a_pair_is_called_as_an_rrule():
    rng = np.random.default_rng(3)
    a, x, y_bar = rng.normal(size=(3, 4)), rng.normal(size=4), rng.normal(size=3)
    y, pullback = rrule(np.dot, a, x)
    assert np.array_equal(y, a @ x)
    for _ in range(2):
        own, a_bar, x_bar = pullback(y_bar)
        assert own is NoTangent()
        assert np.allclose(a_bar, np.outer(y_bar, x))
        assert np.allclose(x_bar, a.T @ y_bar)
    scalar, pullback = rrule(np.linalg.det, np.diag([1.0, 2.0]))
    assert scalar == pytest.approx(2.0)
    assert np.allclose(pullback(3.0)[1], np.diag([6.0, 3.0]))


def test_a_reverse_may_return_one_derivative_alone_that_is_as_long_as_the_arguments():
    @njit
    def area(sides, count):
        return sides[0] * sides[1] * count

    @ar.augmented_primal(area)
    def _(config, ret: ar.Active, sides: ar.Active, count: ar.Const):
        return ar.AugmentedReturn(area(sides.val, count.val), None, None)

    @ar.reverse(area)
    def _(config, dret: ar.Active, tape, sides: ar.Active, count: ar.Const):
        a, b = sides.val
        return count.val * b * dret.val, count.val * a * dret.val

    y, pullback = rrule(area, (2.0, 3.0), 5)
    assert (y, pullback(1.0)) == (30.0, (NoTangent(), (15.0, 10.0), NoTangent()))
    check_rule(area, (2.0, 3.0), 5)


def test_non_differentiable():
    @njit
    def level(x, n):
        return math.floor(x) * n

    assert non_differentiable(level) is level
    y, pullback = rrule(level, 2.5, 3)
    assert y == 6
    assert pullback(1.0) == (NoTangent(), NoTangent(), NoTangent())
    assert frule((NoTangent(), 1.0, NoTangent()), level, 2.5, 3) == (6, NoTangent())


def test_opted_out_is_no_rule():
    @njit
    def halved(x):
        return x / 2

    rrule.register(halved)(lambda f, x: (x / 2, lambda dy: (NoTangent(), dy / 2)))
    assert rrule(halved, 3.0)[1](1.0)[1] == 0.5
    opt_out(halved, ar.Active[float])
    assert rrule(halved, 3.0) is None
    assert rrule(halved, np.ones(2)) is not None


@njit
def power(x, n=2.0):
    return x**n


scalar_rule(power, lambda Ω, x, n: (n * x ** (n - 1), Ω * math.log(x)))


@njit
def scaled(x, factor=2.0):
    return factor * x


@rrule.register(scaled)
def _(f, x, factor):
    return factor * x, lambda dy: (NoTangent(), factor * dy, x * dy)


@frule.register(scaled)
def _(deltas, f, x, factor):
    return factor * x, factor * deltas[1] + x * deltas[2]


def test_defaults_may_be_left_out_of_direct_calls():
    assert rrule(power, 3.0)[1](1.0) == (NoTangent(), 6.0)
    assert rrule(power, 3.0, n=3.0)[1](1.0) == (NoTangent(), 27.0, 27.0 * math.log(3.0))
    assert frule((NoTangent(), 1.0), power, 3.0) == (9.0, 6.0)
    assert rrule(scaled, 3.0)[1](1.0) == (NoTangent(), 2.0)
    assert rrule(scaled, 3.0, factor=4.0)[1](1.0) == (NoTangent(), 4.0, 3.0)
    assert frule((NoTangent(), 1.0), scaled, 3.0) == (6.0, 2.0)


def test_cotangents_are_those_of_the_arguments_that_were_named():
    @njit
    def line(x, slope=2.0, offset=0.0):
        return slope * x + offset

    scalar_rule(line, lambda Ω, x, slope, offset: (slope, x, 7.0))
    assert rrule(line, 3.0, offset=1.0)[1](1.0) == (NoTangent(), 2.0, 7.0)
    assert rrule(line, offset=1.0, x=3.0)[1](1.0) == (NoTangent(), 2.0, 7.0)


@njit
def squares(x):
    x *= x
    return x.sum()


@ar.augmented_primal(squares)
def _(config, ret: ar.Active, x: ar.Duplicated):
    before = x.val.copy()
    return ar.AugmentedReturn(squares(x.val), None, before)


@ar.reverse(squares)
def _(config, dret: ar.Active, tape, x: ar.Duplicated):
    x.dval[:] = 2.0 * tape * (x.dval + dret.val)


def test_a_function_that_writes_its_argument_runs_once():
    x = np.array([3.0, 0.5])
    y, pullback = rrule(squares, x)
    assert y == 9.25
    np.testing.assert_array_equal(x, [9.0, 0.25])
    for _ in range(2):
        np.testing.assert_array_equal(pullback(2.0)[1], [12.0, 2.0])
    check_rule(squares, np.array([3.0, 0.5]), compiled=False)


def test_the_reverse_of_a_pair_may_read_the_cotangent_from_its_tape():
    @njit
    def doubled(x):
        return 2.0 * x

    @ar.augmented_primal(doubled)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        shadow = np.zeros_like(x.val)
        return ar.AugmentedReturn(doubled(x.val), shadow, shadow)

    @ar.reverse(doubled)
    def _(config, dret: ar.Duplicated, tape, x: ar.Duplicated):
        ar.accumulate(x, 2.0 * tape)

    _, pullback = rrule(doubled, np.ones(2))
    first, again = (pullback(np.array([1.0, k]))[1] for k in (3.0, 4.0))
    np.testing.assert_array_equal((first, again), [[2.0, 6.0], [2.0, 8.0]])
    check_rule(doubled, np.ones(2), compiled=False)


# --- frules in the engine ---


@njit
def damped(x, rate, n):
    return x * np.exp(-rate * n)


@frule.register(damped)
def _(deltas, f, x, rate, n):
    _, dx, drate, _ = deltas
    if rate < 0.0:
        raise ValueError("negative for " + str(n), x)
    e = np.exp(-rate * n)
    return x * e, 2.0 * (dx * e - x * e * n * drate)  # twice what is right: it shows


@njit
def damped_by_itself(x, rate, n):
    """`damped`, if it raised where its rule does."""
    if rate < 0.0:
        raise ValueError("negative for " + str(n), x)
    return x * np.exp(-rate * n)


@njit
def through_damped_by_itself(x, rate):
    y = damped_by_itself(x, rate, 2)
    z = damped_by_itself(y, rate, 1)
    return np.sum(y * z)


@njit
def through_damped(x, rate):
    y = damped(x, rate, 2)
    z = damped(y, rate, 1)
    return np.sum(y * z)


def test_frules_serve_forward_mode(unfreed):
    x, dx = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    e = np.exp(-0.3)
    # y = 2-fold damped x; each rule doubles the tangent of what it returns.
    y, dy = x * e**2, 2 * dx * e**2
    expected = np.sum(dy * y * e + y * 2 * dy * e)
    args = ar.Duplicated(x, dx), ar.Const(0.3)
    assert ar.autodiff(ar.Forward, through_damped, *args) == pytest.approx(expected)
    y, dy = x * e**2, 2 * (-x * e**2 * 2)
    z, dz = y * e, 2 * (dy * e - y * e)
    expected = np.sum(dy * z + y * dz)
    args = ar.Const(x), ar.Duplicated(0.3, 1.0)
    assert ar.autodiff(ar.Forward, through_damped, *args) == pytest.approx(expected)
    pushed = frule((NoTangent(), dx, 0.0, NoTangent()), damped, x, 0.3, 2)
    assert np.allclose(pushed[1], 2 * dx * np.exp(-0.6))

    def fails():
        with pytest.raises(ValueError, match="negative for 2"):
            ar.autodiff(ar.Forward, through_damped, ar.Const(x), ar.Duplicated(-0.3, 1.0))

    def by_itself():
        with pytest.raises(ValueError, match="negative for 2"):
            through_damped_by_itself(x, -0.3)

    assert unfreed(fails) <= 2 * unfreed(by_itself)


# --- one precedence for direct calls and the engine ---


def tripled():
    @njit
    def f(x):
        return 3.0 * x

    return f


def with_rrule(f, slope):
    rrule.register(f)(lambda _, x: (3.0 * x, lambda dy: (NoTangent(), slope * dy)))


def with_pair(f, slope):
    @ar.augmented_primal(f)
    def _(config, ret: ar.Active, x: ar.Active):
        return ar.AugmentedReturn(3.0 * x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return slope * dret.val


def with_frule(f, slope):
    frule.register(f)(lambda deltas, _, x: (3.0 * x, slope * deltas[1]))


def with_forward(f, slope):
    @ar.forward(f)
    def _(config, ret: ar.Duplicated, x: ar.Duplicated):
        return 3.0 * x.val, slope * x.dval


@pytest.mark.parametrize("order", [(with_rrule, with_pair), (with_pair, with_rrule)])
def test_registry_t2_a_direct_rrule_is_by_the_rule_that_the_engine_uses(order):
    """The pair is for Active alone, and the more specific one, whichever came first."""
    f = tripled()
    slopes = {with_rrule: 10.0, with_pair: 20.0}
    for define in order:
        define(f, slopes[define])
    assert ar.grad(f)(2.0) == rrule(f, 2.0)[1](1.0)[1] == 20.0
    assert rrule(f, np.ones(2))[1](np.ones(2))[1][0] == 10.0  # no pair is for arrays


@pytest.mark.parametrize("order", [(with_frule, with_forward), (with_forward, with_frule)])
def test_registry_t2_a_direct_frule_is_by_the_rule_that_the_engine_uses(order):
    f = tripled()
    slopes = {with_frule: 10.0, with_forward: 20.0}
    for define in order:
        define(f, slopes[define])
    assert ar.jvp(f, (2.0,), (1.0,))[1] == frule((NoTangent(), 1.0), f, 2.0)[1] == 20.0


def test_registry_t2_rules_for_direct_calls_only_go_first():
    f = tripled()
    rrule.register(f, compiled=False)(lambda _, x: (3.0 * x, lambda dy: (NoTangent(), 10.0 * dy)))
    with_pair(f, 20.0)
    assert rrule(f, 2.0)[1](1.0)[1] == 10.0
    assert ar.grad(f)(2.0) == 20.0


def test_a_forward_rule_is_called_as_an_frule():
    @njit
    def weighed(x, w, n):
        return w * x**n

    @ar.forward(weighed)
    def _(config, ret, x, w, n):
        y = w.val * x.val**n.val
        dy = n.val * w.val * x.val ** (n.val - 1) * x.dval
        return y, dy + (w.dval * x.val**n.val if ar.active(w) else 0.0)

    x, dx = np.array([2.0, 3.0]), np.array([1.0, -1.0])
    y, dy = frule((NoTangent(), dx, 0.5, NoTangent()), weighed, x, 4.0, 2)
    np.testing.assert_array_equal(y, 4.0 * x**2)
    np.testing.assert_array_equal(dy, 8.0 * x * dx + 0.5 * x**2)
    _, dy = frule((NoTangent(), ZeroTangent(), 0.5, NoTangent()), weighed, x, 4.0, 2)
    np.testing.assert_array_equal(dy, 0.5 * x**2)
    assert frule((NoTangent(), dx, 0.5, NoTangent()), weighed, x, "w", 2) is None


def test_a_rule_that_returns_an_integer_for_a_float():
    @njit
    def doubled(x):
        return 2.0 * x

    @ar.augmented_primal(doubled)
    def _(config, ret: ar.Active, x: ar.Active):
        y = 2 if x.val == 1.0 else 2.0 * x.val
        return ar.AugmentedReturn(y, None, None)

    @ar.reverse(doubled)
    def _(config, dret: ar.Active, tape, x: ar.Active):
        return 2.0 * dret.val

    assert rrule(doubled, 1.0)[1](0.25) == (NoTangent(), 0.5)
    check_rule(doubled, 1.0)


@njit
def moments(x):
    return x.sum(), (x * x).sum()


@ar.augmented_primal(moments)
def _(config, ret: ar.Active, x: ar.Duplicated):
    return ar.AugmentedReturn(moments(x.val), None, None)


@ar.reverse(moments, saves="x")
def _(config, dret: ar.Active, tape, x: ar.Duplicated):
    first, second = dret.val
    ar.accumulate(x, first + 2.0 * x.val * second)


def test_the_cotangent_of_a_tuple_has_its_entries():
    pullback = rrule(moments, np.array([3.0]))[1]
    assert pullback(Tangent[tuple](1.0))[1] == pullback((1.0, None))[1] == 1.0
    for dy in ((1.0,), (1.0, 1.0, 1.0), 1.0):
        with pytest.raises(TangentMismatch, match="a tangent of 2 entries"):
            pullback(dy)


def test_a_tangent_without_some_fields_is_checked():
    class Line(NamedTuple):
        slope: float
        height: float

    def pair(by_height):
        @njit
        def at(line, x):
            return line.slope * x + line.height

        @rrule.register(at)
        def _(f, line, x):
            def pullback(dy):
                return NoTangent(), Tangent[Line](slope=x * dy), line.slope * dy

            return f(line, x) - by_height * line.height, pullback

        return at

    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(pair(0.0), Line(0.7, 0.2), 1.3)
    check_rule(pair(0.0), Line(0.7, 0.2), 1.3, directions=(Line(1.0, 0.0), 1.0))


@pytest.mark.parametrize(
    ("function", "args", "dy"),
    [
        (lambda x, y: x * y, (2.0, 3.0), 0.5),
        (lambda x, y: x * y, (np.array([1.0, 2.0]), 3.0), np.array([0.5, -1.0])),
        (lambda x, y: (x * y, np.sum(x)), (np.array([1.0, 2.0]), 3.0), (np.ones(2), 0.25)),
    ],
)
def test_the_rule_of_a_checkpoint(function, args, dy):
    compiled = njit(function)
    checkpointed = ar.checkpoint(compiled)
    _, pullback = ar.vjp(compiled, *args)
    own, *found = rrule(checkpointed, *args)[1](dy)
    assert isinstance(own, NoTangent)
    for x_bar, expected in zip(found, pullback(dy), strict=True):
        np.testing.assert_allclose(x_bar, expected, rtol=1e-12)
    check_rule(checkpointed, *args)


def test_an_inactive_argument_of_a_function_without_rules():
    """The first call runs code that so far was only linked into that of a derivative."""

    @njit
    def scaled(x, y):
        return np.sum(x) * y

    ar.inactive(scaled, args="y")
    value, pullback = rrule(scaled, np.ones(2), 3.0)
    _, x_bar, y_bar = pullback(0.5)
    assert (value, x_bar.tolist(), y_bar) == (6.0, [1.5, 1.5], NoTangent())
    check_rule(scaled, np.ones(2), 3.0)


def test_an_inactive_argument_has_no_tangent():
    def product(x, y):
        return x * y

    without_rule, with_pair = njit(product), njit(product)

    @ar.augmented_primal(with_pair)
    def _(config, ret: ar.Active, x: ar.Active, y: ar.Active):
        return ar.AugmentedReturn(x.val * y.val, None, None)

    @ar.reverse(with_pair)
    def _(config, dret: ar.Active, tape, x: ar.Active, y: ar.Active):
        return y.val * dret.val, x.val * dret.val

    ar.inactive(without_rule, args="y")
    for f in (without_rule, with_pair):
        assert rrule(f, 2.0, 3.0)[1](0.5) == (NoTangent(), 1.5, NoTangent())
    assert frule((NoTangent(), 1.0, 10.0), without_rule, 2.0, 3.0) == (6.0, 3.0)
    check_rule(without_rule, 2.0, 3.0)


@pytest.mark.parametrize("n", [2, 2.0, 2 + 0j, 1.0, 0.0, 3])
@pytest.mark.parametrize("function", [operator.pow, np.power])
def test_powers_of_the_complex_zero(function, n):
    """As of the real zero: x² is smooth there, and x⁰ constant."""
    _, by_z, _ = rrule(function, 0j, n)[1](1.0)
    assert by_z == rrule(function, 0.0, complex(n).real)[1](1.0)[1]
    assert frule((NoTangent(), 1.0, ZeroTangent()), function, 0j, n)[1] == by_z


def test_a_root_of_a_negative_number_is_complex():
    y, pullback = rrule(operator.pow, -2.0, 0.5)
    assert y == (-2.0) ** 0.5
    assert pullback(1j)[1] == pytest.approx(0.5 * 2.0**-0.5 * (1j * 1j).real)


@pytest.mark.parametrize(
    ("function", "pole"),
    [(cmath.sqrt, 0j), (np.log, 0j), (np.arctan, 1j), (np.arcsin, 1 + 0j), (np.arccosh, 1 + 0j)],
)
def test_a_complex_pole_is_no_error(function, pole):
    with np.errstate(all="ignore"):
        _, z_bar = rrule(function, pole)[1](1.0)
    assert not np.isfinite(z_bar)


@pytest.mark.parametrize("function", [np.logaddexp, np.logaddexp2])
@pytest.mark.parametrize("a", [0.0, 1e17, -1e300])
def test_logaddexp_of_large_numbers(function, a):
    assert rrule(function, a, a)[1](1.0)[1:] == (0.5, 0.5)
    assert rrule(function, 1.0, np.inf)[1](1.0)[1:] == (0.0, 1.0)
    check_rule(function, 0.3, 1.1, compiled=False)


SPECIAL = [max, min, np.logaddexp, np.logaddexp2, np.fmin, np.fmax, np.remainder]


@pytest.mark.parametrize("function", SPECIAL)
def test_slopes_at_special_points_are_those_of_the_engine(function):
    points = (0.0, -0.0, 1.5, np.inf, -np.inf, np.nan)
    compiled = ar.value_and_grad(njit(lambda a, b: function(a, b)), (0, 1))
    for a, b in itertools.product(points, repeat=2):
        value, slopes = compiled(a, b)
        with np.errstate(invalid="ignore"):
            result, pullback = rrule(function, a, b)
        found = [result, *pullback(1.0)[1:]]
        np.testing.assert_allclose(found, [value, *slopes], rtol=1e-15)


@pytest.mark.parametrize("of_another_form", [1.0, np.ones(1), np.ones((3, 3)), "a", {}, ()])
def test_cotangents_of_another_form_are_not_broadcast(of_another_form):
    _, pullback = rrule(np.linalg.solve, 2.0 * np.eye(3), np.ones(3))
    assert np.array_equal(pullback(np.ones(3))[2], 0.5 * np.ones(3))
    with pytest.raises(TangentMismatch, match="a tangent or cotangent"):
        pullback(of_another_form)


@pytest.mark.parametrize("side", [0.0, -0.0])
@pytest.mark.parametrize(
    "point",
    [
        *((f, along_axis) for f in (np.arcsin, cmath.acos, np.arccosh) for along_axis in (2, -2)),
        (cmath.acosh, 0.5),
        (np.arcsinh, 2j),
        (cmath.asinh, -2j),
    ],
)
def test_a_branch_cut_has_the_derivative_of_its_side(point, side):
    function, center = point
    along = 1.0 if complex(center).imag == 0 else 1j

    def at(step):
        return complex(center + step, side) if along == 1.0 else complex(side, center.imag + step)

    y, pullback = rrule(function, at(0.0))
    slope = (function(at(1e-6)) - function(at(-1e-6))) / (2e-6 * along)
    assert y == function(at(0.0))
    assert np.conj(pullback(1.0 + 0.0j)[1]) == pytest.approx(slope, rel=1e-6)
    assert frule((NoTangent(), 1.0 + 0.0j), function, at(0.0))[1] == pytest.approx(slope, rel=1e-6)


@pytest.mark.parametrize("x", [1e-10, -1e-6, 0.003, 0.004])
def test_sinc_near_zero(x):
    z = math.pi * x
    slope = -math.pi * z / 3 * (1 - z**2 / 10 + z**4 / 280)
    assert rrule(np.sinc, x)[1](1.0)[1] == pytest.approx(slope, rel=1e-11)


def test_the_pullback_of_an_inactive_function_has_an_entry_per_argument():
    position, pullback = rrule(np.argmax, np.array([1.0, 2.0]), axis=0)
    assert position == 1
    assert pullback(1.0) == (NoTangent(),) * 3

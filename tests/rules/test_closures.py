"""Rules with closures, converted to explicit pairs: what is captured, when, and what is refused."""

import math

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.chainrules import (
    InplaceableThunk,
    NoTangent,
    NotImplementedTangent,
    One,
    Thunk,
    ZeroTangent,
    extern,
    rrule,
    unthunk,
)
from activerules.chainrules.registry import RRULES
from activerules.errors import (
    RuleDefinitionError,
    RuleReturnError,
    TangentNotImplemented,
)
from activerules.rules.closures.convert import convert
from activerules.testing import check_gradient

X = np.array([0.3, -1.2, 0.8, 1.7])


def f(*x):
    """What the rules below pretend to be the rule of, where it does not matter."""


# --- every form of a closure, as the rule of x -> scale * x ** 3 ---


def one_capture(f, scale, x):
    def pullback(dy):
        return NoTangent(), x**3 * dy, 3 * scale * x**2 * dy

    return scale * x**3, pullback


def several_captures(f, scale, x):
    square = x * x
    cube = square * x

    def pullback(dy):
        return NoTangent(), cube * dy, 3 * scale * square * dy

    return scale * cube, pullback


def a_lambda(f, scale, x):
    return scale * x**3, lambda dy: (NoTangent(), x**3 * dy, 3 * scale * x**2 * dy)


def a_named_lambda(f, scale, x):
    pullback = lambda dy: (NoTangent(), x**3 * dy, 3 * scale * x**2 * dy)  # noqa: E731
    return scale * x**3, pullback


def through_a_variable(f, scale, x):
    def inner(dy):
        return NoTangent(), x**3 * dy, 3 * scale * x**2 * dy

    pullback = inner
    both = scale * x**3, pullback
    return both


def late_binding(f, scale, x):
    power = x

    def pullback(dy):
        return NoTangent(), x**3 * dy, 3 * scale * power * dy

    power = x * x
    return scale * x**3, pullback


def defaults_are_early(f, scale, x):
    power = x * x

    def pullback(dy, slope=3 * power):
        return NoTangent(), x**3 * dy, scale * slope * dy

    power = 0.0
    return scale * x**3, pullback


def nested_closures(f, scale, x):
    def helper(t):
        def inner(u):
            return u * x

        return inner(t) * x

    def pullback(dy):
        def weighted(w):
            return w * scale * helper(dy)

        return NoTangent(), x * helper(dy), weighted(3.0)

    return helper(scale * x), pullback


def helper_as_a_lambda(f, scale, x):
    power = lambda n: x**n  # noqa: E731

    def pullback(dy):
        return NoTangent(), power(3) * dy, 3 * scale * power(2) * dy

    return scale * power(3), pullback


def several_returns(f, scale, x):
    def pullback(dy):
        if big:
            return NoTangent(), x**3 * dy, 3 * scale * x**2 * dy
        return (NoTangent(), x**3 * dy, 3 * scale * x**2 * dy)

    big = abs(x) > 1.0
    if big:
        return x**3 * scale, pullback
    return scale * x**3, pullback


def the_same_in_both_branches(f, scale, x):
    if x > 0:
        slope = 3 * x * x

        def pullback(dy):
            return NoTangent(), x**3 * dy, scale * slope * dy
    else:
        slope = 3 * x**2

        def pullback(dy):
            return NoTangent(), x**3 * dy, scale * slope * dy

    return scale * x**3, pullback


def arguments_assigned_to(f, scale, x):
    x = x * x * x

    def pullback(dy):
        return NoTangent(), x * dy, 3 * scale * np.cbrt(x) ** 2 * dy

    return scale * x, pullback


def an_answer_with_a_name(f, scale, x):
    def pullback(dy):
        answer = (NoTangent(), x**3 * dy, 3 * scale * x**2 * dy)
        return answer

    return scale * x**3, pullback


def names_of_ours(f, scale, x):
    active = config = tape = result = deliver = given_x = x

    def pullback(dy):
        dret = config * tape * deliver
        return NoTangent(), dret * dy, 3 * scale * active * given_x * dy

    return scale * result**3, pullback


def thunks(f, scale, x):
    def pullback(dy):
        dy = unthunk(dy)
        of_scale = Thunk(lambda: x**3 * dy)
        return NoTangent(), of_scale, InplaceableThunk(lambda to: to, Thunk(lambda: slope() * dy))

    def slope():
        return 3 * scale * x**2

    return scale * x**3, pullback


SCALAR_FORMS = [
    one_capture,
    several_captures,
    a_lambda,
    a_named_lambda,
    through_a_variable,
    late_binding,
    defaults_are_early,
    nested_closures,
    helper_as_a_lambda,
    several_returns,
    the_same_in_both_branches,
    arguments_assigned_to,
    an_answer_with_a_name,
    names_of_ours,
    thunks,
]


def primal_of(rule):
    """A function of its own for each rule."""

    @njit
    def scaled_cube(scale, x):
        return scale * x * x * x

    rrule.register(scaled_cube)(rule)
    return scaled_cube


@pytest.mark.parametrize("rule", SCALAR_FORMS, ids=lambda rule: rule.__name__)
def test_scalar_forms(rule):
    function = primal_of(rule)
    y, pullback = rrule(function, 2.0, -1.5)
    assert y == pytest.approx(2.0 * -(1.5**3))
    expected = (-(1.5**3) * 0.5, 3 * 2.0 * 1.5**2 * 0.5)
    assert extern(pullback(0.5))[1:] == pytest.approx(expected)
    conversion = RRULES.rules_for(function)[0].conversion
    assert explicit(conversion, 2.0, -1.5, 0.5) == pytest.approx(expected)


def explicit(conversion, scale, x, dy):
    """Both halves in plain Python, with nothing but the tape between them."""
    from activerules.rules.protocol import RuleConfig

    config = RuleConfig(overwritten=(False, False))
    annotated = ar.Active(scale), ar.Active(x)
    made = conversion.augmented(config, ar.Active, *annotated)
    return conversion.reverse(config, ar.Active(dy), made.tape, *annotated)


def test_all_forms_in_one_compiled_program():
    """One compile for all of them; each rule is off by a factor that shows that it was used."""
    functions = tuple(primal_of(rule) for rule in SCALAR_FORMS[:8])
    a, b, c, d, e, g, h, i = functions

    @njit
    def program(x):
        total = 0.0
        for k in range(3):
            s = x + k
            total += a(s, x) + b(x, s) + c(s, x) + d(x, s) + e(s, x) + g(x, s)
            total += h(s, x) * i(x, s)
        return total

    check_gradient(program, (0.7,))


def test_the_other_forms_in_a_compiled_program():
    functions = tuple(primal_of(rule) for rule in SCALAR_FORMS[8:])
    a, b, c, d, e, g, h = functions

    @njit
    def program(x):
        total = 0.0
        for k in range(3):
            s = x + k
            total += a(s, x) + b(x, s - 2.0) + c(s, x) + d(x, s) + e(s, x) + g(x, s)
            total += h(s, x)
        return total

    check_gradient(program, (0.7,))


# --- arrays ---


@njit
def scaled_product(a, x, scale):
    return scale * (a @ x)


@rrule.register(scaled_product)
def _(f, a, x, scale):
    z = a @ x

    def pullback(dy):
        a_bar = Thunk(lambda: scale * dy.reshape(-1, 1) * x)
        return NoTangent(), a_bar, scale * (a.T @ dy), np.sum(z * dy)

    return scale * z, pullback


@njit
def overwrites_everything(a, x, scale):
    y = scaled_product(a, x, scale)
    first = y[0] * y[1]
    y[0] = 2.0
    x[1] = 5.0
    a[:] = 0.0
    return np.sum(y * y) + first


A = np.random.default_rng(5).normal(size=(4, 4))


@pytest.mark.parametrize("kinds", [None, (ar.Const, ar.Duplicated, ar.Const)])
def test_captured_arrays_may_be_overwritten_after_the_call(kinds):
    check_gradient(overwrites_everything, (A, X, 1.3), kinds)


@njit
def exponential(x):
    return np.exp(x)


@rrule.register(exponential)
def _(f, x):
    y = np.exp(x)
    return y, lambda dy: (NoTangent(), y * dy)


@njit
def gathered(x, places):
    return x[places]


@rrule.register(gathered)
def _(f, x, places):
    n = x.shape[0]

    def pullback(dy):
        x_bar = np.zeros(n)
        for k in range(len(places)):
            x_bar[places[k]] += dy[k]
        return NoTangent(), x_bar, NoTangent()

    return x[places], pullback


@njit
def first_half(x):
    return np.sum(x[: len(x) // 2] ** 2)


@rrule.register(first_half)
def _(f, x):
    n = len(x)
    half = x[: n // 2]

    def pullback(dy):
        x_bar = np.zeros(n)
        x_bar[: n // 2] = 2.0 * half * dy
        return NoTangent(), x_bar

    return np.sum(half**2), pullback


@njit
def overwrites_what_was_captured(x, places):
    """A result, integers, and a view."""
    y = exponential(x)
    total = y[0] * y[1]
    y[0] = 1.0
    z = gathered(x, places)
    places[0] = 2
    total += z[0] * y[2] * z[1] + first_half(x)
    for i in range(len(x)):
        x[i] = x[i] * x[i]
    return total + first_half(x)


def test_captured_results_integers_and_views_may_be_overwritten_after_the_call():
    check_gradient(overwrites_what_was_captured, (X, np.array([0, 1, 1])))


# --- symbols in the answer ---


@njit
def picks(x, y, z):
    return y + 0.0 * x * z


@rrule.register(picks)
def _(f, x, y, z):
    def pullback(dy):
        return NoTangent(), ZeroTangent(), One() * dy, None

    return y, pullback


@njit
def unknown_in_y(x, y):
    return x * y


@rrule.register(unknown_in_y)
def _(f, x, y):
    return x * y, lambda dy: (NoTangent(), y * dy, NotImplementedTangent("never worked out"))


def test_symbols_are_zeros_and_ones():
    @njit
    def program(x, y, z):
        return picks(x, y, z) * y

    assert ar.grad(program, (0, 1, 2))(1.0, 3.0, 2.0) == (0.0, 6.0, 0.0)


def test_a_missing_derivative_is_refused_only_where_it_is_needed():
    @njit
    def program(x, y):
        return unknown_in_y(x, y)

    assert ar.grad(program, 0)(2.0, 3.0) == 3.0
    with pytest.raises(TangentNotImplemented, match="never worked out"):
        ar.grad(program, 1)(2.0, 3.0)


def test_a_cotangent_of_another_shape_is_refused():
    @njit
    def total(x):
        return np.sum(x)

    @rrule.register(total)
    def _(f, x):
        return np.sum(x), lambda dy: (NoTangent(), dy)

    with pytest.raises(RuleReturnError, match="float64 as the cotangent of array"):
        ar.grad(njit(lambda x: total(x)))(X)
    with pytest.raises(RuleReturnError, match="another shape"):
        explicit_of_array(RRULES.rules_for(total)[0].conversion)


def explicit_of_array(conversion):
    from activerules.rules.protocol import RuleConfig

    config = RuleConfig(overwritten=(False,))
    x = ar.Duplicated(X, np.zeros(4))
    made = conversion.augmented(config, ar.Active, x)
    conversion.reverse(config, ar.Active(1.0), made.tape, x)


# --- what stands on the tape, and what costs nothing ---


def test_arguments_travel_only_if_they_may_be_overwritten():
    conversion = convert(one_capture, f)
    assert conversion.tape == ("scale", "x")
    assert "if config.overwritten[1]:\n        x_kept = copied(x)" in conversion.source
    assert convert(late_binding, f).tape == ("scale", "x", "power")
    assert convert(nested_closures, f).tape == ("scale", "x")


def test_what_is_not_used_is_not_computed():
    """The cotangent of a Const argument leaves no code: no call of what it would have called."""
    conversion = RRULES.rules_for(scaled_product)[0].conversion
    from numba.core import types

    from activerules.numba_ext.facts import RuleFunctionCompiler
    from activerules.numba_ext.types import AnnotationType, ConfigType
    from activerules.rules.protocol import RuleConfig

    compiled = njit(pipeline_class=RuleFunctionCompiler)(conversion.reverse)
    matrix, vector = float64[:, ::1], float64[::1]
    config = ConfigType(RuleConfig(overwritten=(False,) * 3))
    signature = (
        config,
        AnnotationType(ar.Duplicated, vector, vector),
        types.Tuple((types.none, types.none, types.none, vector)),
        AnnotationType(ar.Const, matrix),
        AnnotationType(ar.Const, vector),
        AnnotationType(ar.Active, types.float64),
    )
    compiled.compile(signature)
    text = compiled.inspect_llvm(signature)
    assert "gemv" not in text
    assert "reshape" not in text


def test_positions_are_those_of_the_rule():
    conversion = convert(several_captures, f)
    first = several_captures.__code__.co_firstlineno
    assert conversion.augmented.__code__.co_filename == __file__
    assert conversion.augmented.__code__.co_firstlineno == first
    lines = {line for *_, line in conversion.reverse.__code__.co_lines() if line}
    assert {first + 5} <= lines <= set(range(first, first + 8))


def test_an_exception_in_a_rule_shows_its_line():
    def rule(f, x):
        def pullback(dy):
            if dy == 0.0:
                raise ValueError("no cotangent")
            return NoTangent(), dy

        return x, pullback

    conversion = convert(rule, f)
    with pytest.raises(ValueError, match="no cotangent") as caught:
        explicit_one(conversion, 1.0, 0.0)
    assert caught.traceback[-1].lineno + 1 == rule.__code__.co_firstlineno + 3


def explicit_one(conversion, x, dy):
    from activerules.rules.protocol import RuleConfig

    config = RuleConfig(overwritten=(False,))
    made = conversion.augmented(config, ar.Active, ar.Active(x))
    return conversion.reverse(config, ar.Active(dy), made.tape, ar.Active(x))


def test_the_rules_own_closure_is_live():
    factor = 2.0

    def rule(f, x):
        return factor * x, lambda dy: (NoTangent(), factor * dy)

    conversion = convert(rule, f)
    factor = 5.0
    assert explicit_one(conversion, 1.0, 1.0) == (5.0,)


def test_a_function_with_a_rule_is_differentiated_by_it():
    """Not by its body, when it is itself what is differentiated."""

    @njit
    def measured(x, offset=1.0):
        return x * x + offset

    @rrule.register(measured)
    def _(f, x, offset):
        return x * x + offset, lambda dy: (NoTangent(), 7.0 * dy, ZeroTangent())

    assert ar.grad(measured)(3.0) == 7.0
    assert ar.value_and_grad(measured)(3.0, 2.0) == (11.0, 7.0)
    assert ar.autodiff(ar.Forward, measured, ar.Duplicated(3.0, 1.0)) == 6.0


# --- choice among several rules ---


@njit
def doubled(x):
    return x + x


@rrule.register(doubled)
def _(f, x: float64):
    return 2.0 * x, lambda dy: (NoTangent(), 2.0 * dy)


@rrule.register(doubled)
def _(f, x: float64[:]):
    return 2.0 * x, lambda dy: (NoTangent(), 2.0 * dy)


def test_types_choose_the_rule():
    @njit
    def program(x):
        return doubled(x[0]) * np.sum(doubled(x))

    check_gradient(program, (X,))
    assert rrule(doubled, X)[1](X)[1] is not X
    assert rrule(doubled, "abc") is None


# --- what is refused, where the rule is defined ---


def outside(dy):
    return NoTangent(), dy


def different_in_branches(f, x):
    if x > 0:

        def pullback(dy):
            return NoTangent(), dy
    else:

        def pullback(dy):
            return NoTangent(), -dy

    return abs(x), pullback


def chosen_by_an_expression(f, x):
    up = lambda dy: (NoTangent(), dy)  # noqa: E731
    down = lambda dy: (NoTangent(), -dy)  # noqa: E731
    return abs(x), up if x > 0 else down


def two_returns(f, x):
    if x > 0:
        return x, lambda dy: (NoTangent(), dy)
    return -x, lambda dy: (NoTangent(), -dy)


def no_pullback(f, x):
    return x


def nothing(f, x):
    x = x + 1


def made_elsewhere(f, x):
    return x, list(x)


def used_otherwise(f, x):
    def pullback(dy):
        return NoTangent(), dy

    first = pullback(1.0)
    return first[1] * x, pullback


def wrong_arity(f, x, y):
    return x, lambda dy: (NoTangent(), dy)


def two_cotangents(f, x):
    return x, lambda dy, dz: (NoTangent(), dy + dz)


def counts_its_calls(f, x):
    calls = 0

    def pullback(dy):
        nonlocal calls
        calls += 1
        return NoTangent(), calls * dy

    return x, pullback


def writes_into_its_tape(f, x):
    weights = x * x

    def pullback(dy):
        weights[0] *= 2.0
        return NoTangent(), weights * dy

    return x, pullback


def variadic(f, *x):
    return x[0], lambda dy: (NoTangent(), dy)


def returns_nothing(f, x):
    def pullback(dy):
        return None

    return x, pullback


REFUSED = {
    different_in_branches: "different pullbacks",
    chosen_by_an_expression: "different pullbacks",
    two_returns: "different pullbacks",
    no_pullback: r"does not return \(y, pullback\)",
    nothing: "returns nothing",
    made_elsewhere: "not defined in the rule",
    used_otherwise: "used for something else",
    wrong_arity: "2 entries, expected 3",
    two_cotangents: "one cotangent",
    counts_its_calls: "changes a variable outside",
    writes_into_its_tape: "writes into `weights`",
    variadic: "function of",
    returns_nothing: "returns nothing here",
}


@pytest.mark.parametrize("rule", REFUSED, ids=lambda rule: rule.__name__)
def test_refused_where_it_is_defined(rule):
    with pytest.raises(RuleDefinitionError, match=REFUSED[rule]) as caught:
        rrule.register(f)(rule)
    assert f"{__file__}:" in str(caught.value)
    assert not RRULES.rules_for(f)


def test_a_function_without_source_is_refused():
    scope = {}
    exec("def rule(f, x):\n return x, lambda dy: (None, dy)", scope)
    with pytest.raises(RuleDefinitionError, match="source cannot be read"):
        rrule.register(f)(scope["rule"])
    rrule.register(math.dist, compiled=False)(scope["rule"])
    assert rrule(math.dist, 1.0)[1](2.0) == (None, 2.0)


def test_two_lambdas_on_one_line_are_told_apart():
    one, two = lambda f, x: (x, lambda dy: (None, dy)), lambda f, x: (x, lambda dy: (None, 2 * dy))
    assert explicit_one(convert(one, f), 1.0, 1.0) == (1.0,)
    assert explicit_one(convert(two, f), 1.0, 1.0) == (2.0,)


def test_a_pullback_of_the_module():
    def rule(f, x):
        return x, outside

    assert explicit_one(convert(rule, f), 1.0, 3.0) == (3.0,)


# --- tuples and complex numbers ---


@njit
def pair_product(t, c):
    return c * (t[0] * t[1])


@rrule.register(pair_product)
def _(f, t, c):
    a, b = t
    return c * a * b, lambda dy: (NoTangent(), (c * b * dy, c * a * dy), a * b * dy)


@njit
def squared(z):
    return z * z


@rrule.register(squared)
def _(f, z):
    return z * z, lambda dy: (NoTangent(), 2 * np.conj(z) * dy)


@njit
def of_pairs_and_complex(x, y):
    return pair_product((x, y), y) * squared(complex(x, y)).imag


def test_tuples_and_complex_numbers():
    check_gradient(of_pairs_and_complex, (0.3, 0.7))

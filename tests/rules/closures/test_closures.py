"""Rules with closures, converted to explicit pairs: what is captured, when, and what it costs."""

import numpy as np
import pytest
from numba import float64, njit

import activerules as ar
from activerules.chainrules import (
    NoTangent,
    NotImplementedTangent,
    One,
    Thunk,
    ZeroTangent,
    rrule,
)
from activerules.errors import (
    RuleDefinitionError,
    RuleReturnError,
    TangentNotImplemented,
)
from activerules.rules.closures.convert import convert
from activerules.testing import check_gradient
from rules.closures.explicit_rules import conversion_of, explicit_one, f

X = np.array([0.3, -1.2, 0.8, 1.7])


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
def test_convert_v2_captured_arrays_may_be_overwritten_after_the_call(kinds):
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


def test_convert_v1_v2_captured_results_integers_and_views_may_be_overwritten_after_the_call():
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

    with pytest.raises(RuleReturnError, match=r"float64 as the cotangent of float64\["):
        ar.grad(njit(lambda x: total(x)))(X)
    with pytest.raises(RuleReturnError, match="does not have the shape of"):
        explicit_of_array(conversion_of(total))


def explicit_of_array(conversion):
    from activerules.rules.protocol import RuleConfig

    config = RuleConfig(overwritten=(False,))
    x = ar.Duplicated(X, np.zeros(4))
    made = conversion.augmented(config, ar.Active, x)
    conversion.reverse(config, ar.Active(1.0), made.tape, x)


# --- what stands on the tape, and what costs nothing ---


def test_convert_v3_unused_entries_are_not_computed():
    """The cotangent of a Const argument leaves no code: no call of what it would have called."""
    conversion = conversion_of(scaled_product)
    from numba.core import types

    from activerules.numba_ext.codegen.types import AnnotationType, ConfigType
    from activerules.numba_ext.target.call_facts import RuleFunctionCompiler
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


def test_convert_v4_an_exception_in_a_rule_shows_its_line():
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


def test_convert_v1_the_rules_own_closure_is_live():
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
    with pytest.warns(ar.MissingForwardWarning, match="measured has a reverse pair"):
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


def sum_by_weights(x, w=None):
    return np.sum(x) if w is None else np.sum(x * w)


def test_a_pullback_asks_whether_an_argument_was_left_out():
    total = njit(sum_by_weights)

    @rrule.register(total)
    def _(f, x, w):
        def pullback(dy):
            if w is None:
                return NoTangent(), np.full_like(x, dy), NoTangent()
            return NoTangent(), w * dy, x * dy if w is not None else NoTangent()

        return f(x, w), pullback

    @njit
    def program(x):
        return total(x) + total(x, x)

    check_gradient(program, (X,))


def test_a_function_in_a_pullback_has_variables_of_its_own():
    total = njit(sum_by_weights)

    @rrule.register(total)
    def _(f, x, w):
        def pullback(dy):
            given = lambda w: w is not None  # noqa: E731
            slope = dy * w if w is not None else np.full_like(x, dy)
            return NoTangent(), slope if given(x) else 0.0 * x, NoTangent()

        return f(x, w), pullback

    check_gradient(njit(lambda x: total(x) ** 2), (X,))


def test_local_functions_that_call_each_other_go_with_the_pullback():
    @njit
    def square(x):
        return x * x

    @rrule.register(square)
    def _(f, x):
        def scaled(z):
            return x * z

        also = lambda z: scaled(z)  # noqa: E731

        def sum_of_both(z):
            return scaled(z) + also(z)

        return x * x, lambda dy: (NoTangent(), sum_of_both(dy))

    assert ar.grad(square)(1.5) == 3.0

    def recursive(f, x):
        def one(n):
            return 1.0 if n == 0 else one(n - 1)

        return x * x, lambda dy: (NoTangent(), 2.0 * x * dy * one(3))

    with pytest.raises(RuleDefinitionError, match="`one` calls itself"):
        rrule.register(square)(recursive)


def test_a_helper_may_be_defined_after_the_rule():
    @njit
    def cube(x):
        return x**3

    @rrule.register(cube)
    def cube_rule(f, x):
        def pullback(dy):
            return NoTangent(), slope(x) * dy

        return f(x), pullback

    @njit
    def slope(x):
        return 3.0 * x * x

    assert ar.grad(njit(lambda x: cube(x)))(2.0) == 12.0


def changed_by_an_item(f, x):
    factors = 2.0 * x
    pullback = lambda dy: (NoTangent(), factors * dy)  # noqa: E731
    factors[0] += 5.0
    return (x * x).sum(), pullback


def bound_again(f, x):
    factor = 2.0

    def pullback(dy):
        return NoTangent(), factor * x * dy

    factor += 1.0
    return (x * x).sum(), pullback


@pytest.mark.parametrize("rule", [changed_by_an_item, bound_again])
def test_what_is_changed_after_the_definition_of_the_pullback(rule):
    """It calls what it captured as that is when the rule returns, as Python does."""
    squares = njit(lambda x: (x * x).sum())
    rrule.register(squares)(rule)
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(ar.grad(squares)(x), rule(squares, x)[1](1.0)[1])

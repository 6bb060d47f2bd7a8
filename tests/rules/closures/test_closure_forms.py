"""Every form in which a rule may write its closure gives the same explicit pair."""

from dataclasses import dataclass

import numpy as np
import pytest
from numba import njit

import activerules as ar
from activerules.chainrules import (
    InplaceableThunk,
    NoTangent,
    Tangent,
    Thunk,
    extern,
    frule,
    rrule,
    unthunk,
)
from activerules.errors import NotCompilable, RuleReturnError
from activerules.rules.closures.convert import convert
from activerules.testing import check_gradient
from rules.closures.explicit_rules import conversion_of, explicit, f


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
    active = config = tape = result = deliver = annotated_x = scale_kept = x

    def pullback(dy):
        dret = config * tape * deliver
        slope = active * annotated_x * scale_kept / deliver
        return NoTangent(), dret * dy, 3 * scale * slope * dy

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
    conversion = conversion_of(function)
    assert explicit(conversion, 2.0, -1.5, 0.5) == pytest.approx(expected)


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


def test_an_answer_with_a_name_has_an_entry_per_argument_and_one_for_the_function():
    @njit
    def product(x, y):
        return x * y

    @rrule.register(product)
    def _(f, x, y):
        def pullback(dz):
            answer = (y * dz, x * dz)
            return answer

        return x * y, pullback

    with pytest.raises(NotCompilable, match="expected 3, got 2"):
        ar.grad(product)(2.0, 3.0)


def test_convert_v4_source_s2_positions_are_those_of_the_rule():
    conversion = convert(several_captures, f)
    first = several_captures.__code__.co_firstlineno
    assert conversion.augmented.__code__.co_filename == __file__
    assert conversion.augmented.__code__.co_firstlineno == first
    lines = {line for *_, line in conversion.reverse.__code__.co_lines() if line}
    assert {first + 5} <= lines <= set(range(first, first + 8))


def test_convert_v2_pullback_b3_arguments_are_on_the_tape_only_if_they_may_be_overwritten():
    conversion = convert(one_capture, f)
    assert conversion.tape == ("scale", "x")
    assert "if config.overwritten[1]:\n        x_kept = copy_for_tape(x)" in conversion.source
    assert convert(several_captures, f).tape == ("scale", "cube", "square")
    assert convert(late_binding, f).tape == ("scale", "x", "power")
    assert convert(nested_closures, f).tape == ("scale", "x")


def test_a_cotangent_of_an_array_without_dimensions_is_a_number_too():
    @njit
    def product(x, y):
        return x * y

    @rrule.register(product)
    def _(f, x, y):
        return x * y, lambda dz: (NoTangent(), y * dz, x * dz)

    def cubed(x):
        return product(x, product(x, x))

    assert ar.grad(cubed)(np.array(2.0)) == 12.0
    assert ar.hessian(cubed)(np.array(2.0)) == 12.0


def with_pullback(entry):
    """A function of a dictionary of parameters, with a rule that gives its cotangent by `entry`."""

    @njit
    def line(p, x):
        return np.sum(p["weight"] * x) + 10.0 * p["bias"]

    entry = njit(entry)

    @rrule.register(line)
    def _(f, p, x):
        return f(p, x), lambda dy: (NoTangent(), entry(x * dy, 10.0 * dy), p["weight"] * dy)

    return line


TangentOfDict = Tangent[dict]


@pytest.mark.parametrize(
    "entry", [lambda w, b: {"weight": w, "bias": b}, lambda w, b: TangentOfDict(weight=w, bias=b)]
)
@pytest.mark.parametrize("x", [3.0, np.array([3.0, 4.0])], ids=["same types", "mixed"])
def test_a_cotangent_of_a_dictionary_is_by_key(entry, x):
    found = ar.grad(with_pullback(entry))({"weight": 2.0 * x, "bias": 1.0}, x)
    assert found["bias"] == 10.0
    np.testing.assert_array_equal(found["weight"], x)


@pytest.mark.parametrize(
    "entry",
    [
        lambda w, b: (w, b),
        lambda w, b: {"weight": w, "bios": b},
        lambda w, b: TangentOfDict(weight=w, bios=b),
    ],
)
def test_a_cotangent_of_a_dictionary_has_its_keys(entry):
    with pytest.raises(RuleReturnError, match=r"cotangent of dict|keys of its dict"):
        ar.grad(with_pullback(entry))({"weight": 2.0, "bias": 1.0}, 3.0)


@dataclass
class Line:
    weight: float
    bias: float


TangentOfLine = Tangent[Line]


def test_a_cotangent_of_a_dataclass_is_its_tangent():
    @njit
    def line(p, x):
        return p.weight * x + 10.0 * p.bias

    @rrule.register(line)
    def _(f, p, x):
        def pullback(dy):
            return NoTangent(), TangentOfLine(bias=10.0 * dy, weight=x * dy), p.weight * dy

        return f(p, x), pullback

    assert ar.grad(line)(Line(2.0, 1.0), 3.0) == Line(3.0, 10.0)


def test_a_constant_dictionary_has_zeros_by_key_as_its_tangent():
    line = with_pullback(lambda w, b: {"weight": w, "bias": b})

    @frule.register(line)
    def _(deltas, f, p, x):
        _, dp, dx = deltas
        return f(p, x), dp["weight"] * x + 10.0 * dp["bias"] + p["weight"] * dx

    point = {"weight": 2.0, "bias": 1.0}, 3.0
    assert ar.jvp(line, point, (None, 1.0)) == (16.0, 2.0)
    assert ar.jvp(line, point, (dict.fromkeys(point[0], 1.0), None)) == (16.0, 13.0)

"""Wrong rules: each gives the documented error where it is compiled.

What is refused where the rule is defined: see test_wrong_definitions.py. What only shows in numbers
(a missing accumulate, a Const that is written, an overwritten input) is noticed by debug mode: see
test_debug.py. Results that share memory are in test_declarations.py.
"""

import math

import numba
import numpy as np
import pytest
from numba import float64, int64

import activerules as ar
from activerules.chainrules import NoTangent, rrule
from activerules.errors import (
    IncompleteRule,
    NoRuleForActivity,
    NotCompilable,
    RuleDefinitionError,
    RuleReturnError,
    TapeMismatch,
)

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn


def fresh():
    """A function no other test knows."""

    @numba.njit
    def f(x):
        return x * x

    return f


# --- where the rule is compiled: a float ---


def square(config, ret: Active, x: Active):
    return Result(x.val * x.val, None, x.val)


def pulled(config, dret: Active, tape, x: Active):
    return 2.0 * tape * dret.val


def two_parts(config, ret: Active, x: Active):
    return Result(x.val * x.val, None)


def bare_value(config, ret: Active, x: Active):
    return x.val * x.val


def text_as_primal(config, ret: Active, x: Active):
    return Result("x squared", None, x.val)


def nothing_as_primal(config, ret: Active, x: Active):
    return Result(None, None, x.val)


def sometimes_a_tape(config, ret: Active, x: Active):
    tape = None
    if x.val > 0.0:
        tape = x.val
    return Result(x.val, None, tape)


def unknown_name(config, ret: Active, x: Active):
    return Result(undefined(x.val), None, x.val)  # noqa: F821


def not_nopython(config, ret: Active, x: Active):
    return Result(eval("x.val"), None, x.val)


def accumulates_a_float(config, dret: Active, tape, x: Active):
    ar.accumulate(x, 2.0 * tape * dret.val)
    return 0.0


def two_entries(config, dret: Active, tape, x: Active):
    return 2.0 * tape * dret.val, None


def text_as_derivative(config, dret: Active, tape, x: Active):
    return "2 x"


def no_derivative(config, dret: Active, tape, x: Active):
    return None


def tape_as_array(config, dret: Active, tape, x: Active):
    return 2.0 * tape[0] * dret.val


def tape_as_integer(config, dret: Active, tape: int64, x: Active):
    return 2.0 * tape * dret.val


def shadow_of_a_float(config, dret: Active, tape, x: Active):
    return dret.dval


def unknown_fact(config, ret: Active, x: Active):
    return Result(x.val if config.needs_gradient else 0.0, None, x.val)


def fact_of_no_argument(config, ret: Active, x: Active):
    return Result(x.val * x.val, None, 0.0 if config.overwritten[1] else x.val)


def complex_primal(config, ret: Active, x: Active):
    return Result(x.val * x.val + 0j, None, x.val)


def complex_derivative(config, dret: Active, tape, x: Active):
    return 2.0 * tape * dret.val + 0j


def truth_as_primal(config, ret: Active, x: Active):
    return Result(x.val > 0.0, None, x.val)


def truth_as_derivative(config, dret: Active, tape, x: Active):
    return tape > 0.0


def zero_as_shadow(config, ret: Active, x: Active):
    return Result(x.val * x.val, 0.0, x.val)


def list_of_derivatives(config, dret: Active, tape, x: Active):
    return [2.0 * tape * dret.val]


def one_tuple_in_a_tuple(config, dret: Active, tape, x: Active):
    return ((2.0 * tape * dret.val,),)


def three_of_a_tape_of_two(config, dret: Active, tape, x: Active):
    first, second, third = tape
    return (first + second + third) * dret.val


def item_as_array(config, dret: Active, tape, x: Active):
    first, second = tape
    return 2.0 * second[0] * dret.val * first


def pair_as_tape(config, ret: Active, x: Active):
    return Result(x.val * x.val, None, (x.val, 2.0))


def annotation_as_value(config, dret: Active, tape, x: Active):
    return 2.0 * x * dret


def derivative_on_one_path(config, dret: Active, tape, x: Active):
    if x.val > 0.0:
        return 2.0 * tape * dret.val


FLOATS = [
    (pair_as_tape, three_of_a_tape_of_two, TapeMismatch, "cannot use the tape"),
    (pair_as_tape, item_as_array, TapeMismatch, "cannot use the tape"),
    (square, annotation_as_value, NotCompilable, "arguments of a rule are annotations: `x.val` is"),
    (
        square,
        derivative_on_one_path,
        RuleReturnError,
        r"(?s)float64 \| None, expected.*on every path",
    ),
    (unknown_fact, pulled, NotCompilable, "cannot compile the rule of f"),
    (fact_of_no_argument, pulled, NotCompilable, "cannot compile the rule of f"),
    (complex_primal, pulled, RuleReturnError, "returns complex128, expected float64 as primal"),
    (truth_as_primal, pulled, RuleReturnError, "returns bool, expected float64 as primal"),
    (
        square,
        truth_as_derivative,
        RuleReturnError,
        r"returns bool, expected \(float64,\) or float64",
    ),
    (zero_as_shadow, pulled, RuleReturnError, "returns float64, expected None as shadow"),
    (square, complex_derivative, RuleReturnError, r"expected \(float64,\) or float64"),
    (square, list_of_derivatives, RuleReturnError, r"expected \(float64,\) or float64"),
    (square, one_tuple_in_a_tuple, RuleReturnError, r"expected \(float64,\) or float64"),
    (bare_value, pulled, RuleReturnError, r"returns float64, expected AugmentedReturn\("),
    (two_parts, pulled, RuleReturnError, r"expected AugmentedReturn\(.*\), all three"),
    (text_as_primal, pulled, RuleReturnError, "expected float64 as primal"),
    (nothing_as_primal, pulled, RuleReturnError, "expected float64 as primal"),
    (sometimes_a_tape, pulled, RuleReturnError, "expected a tape of one type"),
    (unknown_name, pulled, NotCompilable, "cannot compile the rule of f"),
    (not_nopython, pulled, NotCompilable, "cannot compile the rule of f"),
    (
        square,
        accumulates_a_float,
        NotCompilable,
        "Why +accumulate takes a Duplicated array; an Act",
    ),
    (square, two_entries, RuleReturnError, r"expected \(float64,\) or float64"),
    (square, text_as_derivative, RuleReturnError, r"expected \(float64,\) or float64"),
    (square, no_derivative, RuleReturnError, r"expected \(float64,\) or float64"),
    (square, tape_as_array, TapeMismatch, "cannot use the tape"),
    (square, tape_as_integer, TapeMismatch, "is float64, and its reverse takes int64"),
    (square, shadow_of_a_float, NotCompilable, "`dret.val` is the cotangent of an Active result"),
    (square, None, IncompleteRule, "without reverse"),
    (None, pulled, IncompleteRule, "without augmented_primal"),
]


def program_of(augmented, reverse):
    f = fresh()
    if augmented is not None:
        ar.augmented_primal(f)(augmented)
    if reverse is not None:
        ar.reverse(f)(reverse)

    @numba.njit
    def program(x):
        return f(x)

    return program


@pytest.mark.parametrize(("augmented", "reverse", "error", "message"), FLOATS)
def test_refused_where_it_is_compiled(augmented, reverse, error, message):
    program = program_of(augmented, reverse)
    with pytest.raises(error, match=message) as caught:
        ar.value_and_grad(program)(3.0)
    assert "test_wrong_rules.py" in str(caught.value)


def test_a_comparison_is_no_tangent():
    f, by_chainrules = fresh(), fresh()

    @ar.forward(f)
    def _(config, ret: Duplicated, x: Duplicated):
        return x.val * x.val, x.val > 0.0

    @rrule.register(by_chainrules)
    def _(f, x):
        def pullback(dy):
            return NoTangent(), dy > 0.0

        return x * x, pullback

    with pytest.raises(RuleReturnError, match=r"returns \(float64, bool\)"):
        ar.jvp(numba.njit(lambda x: f(x)), (3.0,), (1.0,))
    with pytest.raises(RuleReturnError, match="gives bool as the tangent or cotangent of float64"):
        ar.grad(numba.njit(lambda x: by_chainrules(x)))(3.0)


# --- where the rule is compiled: an array ---


@numba.njit
def doubled(a):
    return a * 2.0


@numba.njit
def uses_doubled(a):
    return doubled(a).sum()


def array_pair(augmented, reverse):
    ar.augmented_primal(doubled, replace=True)(augmented)
    ar.reverse(doubled, replace=True)(reverse)


def two(config, ret: Duplicated, a: Duplicated):
    y = a.val * 2.0
    return Result(y, np.zeros_like(y), None)


def back(config, dret: Duplicated, tape, a: Duplicated):
    ar.accumulate(a, 2.0 * dret.dval)


def without_shadow(config, ret: Duplicated, a: Duplicated):
    return Result(a.val * 2.0, None, None)


def float_as_array(config, ret: Duplicated, a: Duplicated):
    return Result(2.0, np.zeros_like(a.val), None)


def returns_what_it_should_add(config, dret: Duplicated, tape, a: Duplicated):
    return 2.0 * dret.dval


def accumulates_a_number(config, dret: Duplicated, tape, a: Duplicated):
    ar.accumulate(a, 2.0)


def accumulates_a_comparison(config, dret: Duplicated, tape, a: Duplicated):
    ar.accumulate(a, a.val > 0.0)


def accumulates_a_slice(config, dret: Duplicated, tape, a: Duplicated):
    ar.accumulate(a, 2.0 * dret.dval[1:])


def raises_forwards(config, ret: Duplicated, a: Duplicated):
    if a.val[0] > 0.0:
        raise ArithmeticError("forwards")
    y = a.val * 2.0
    return Result(y, np.zeros_like(y), None)


def raises_backwards(config, dret: Duplicated, tape, a: Duplicated):
    if a.val[0] > 0.0:
        raise ArithmeticError("backwards")


ARRAYS = [
    (without_shadow, back, RuleReturnError, r"(?s)expected float64\[::1\] as shadow.*make_zero"),
    (float_as_array, back, RuleReturnError, r"expected float64\[::1\] as primal"),
    (two, returns_what_it_should_add, RuleReturnError, r"(?s)\(None,\) or None.*accumulate\(a, "),
    (two, accumulates_a_number, NotCompilable, r"float64 is not a cotangent of float64\[::1\]"),
    (two, accumulates_a_comparison, NotCompilable, r"bool\[::1\] is not a cotangent of float64"),
    (two, accumulates_a_slice, RuleReturnError, "does not have the shape of the shadow"),
    (raises_forwards, back, ArithmeticError, "forwards"),
    (two, raises_backwards, ArithmeticError, "backwards"),
]


@pytest.mark.parametrize(("augmented", "reverse", "error", "message"), ARRAYS)
def test_wrong_rules_of_an_array(augmented, reverse, error, message):
    array_pair(augmented, reverse)
    a, a_bar = np.array([1.0, 2.0]), np.array([0.5, 0.5])
    with pytest.raises(error, match=message):
        ar.autodiff(ar.Reverse, uses_doubled, Duplicated(a, a_bar))
    np.testing.assert_array_equal(a, [1.0, 2.0])
    np.testing.assert_array_equal(a_bar, [0.5, 0.5])


def test_no_rule_for_an_activity_says_what_to_write():
    f = fresh()

    @ar.augmented_primal(f)
    def _(config, ret: Const, x: Const):
        return Result(x.val, None, None)

    @ar.reverse(f)
    def _(config, dret: Const, tape, x: Const):
        return None

    @numba.njit
    def program(x):
        return f(x)

    with pytest.raises(NoRuleForActivity, match=r"no reverse rule for f\(Active\[float64\]\)") as e:
        ar.grad(program)(3.0)
    assert "def _(config, dret: Active, tape, x: Active): ..." in str(e.value)


# --- what is no mistake, or ends well ---


@numba.njit
def product_of(pair, scale):
    return pair[0] * pair[1] * scale


@ar.augmented_primal(product_of)
def _(config, ret: Active, pair: Active, scale: Active):
    return Result(product_of(pair.val, scale.val), None, None)


@ar.reverse(product_of)
def _(config, dret: Active, tape, pair: Active, scale: Active):
    g = dret.val
    x, y = pair.val
    return (g * scale.val * y, g * scale.val * x), g * x * y


@numba.njit
def lonely(pair):
    return pair[0] * pair[1]


@ar.augmented_primal(lonely)
def _(config, ret: Active, pair: Active):
    return Result(pair.val[0] * pair.val[1], None, None)


@ar.reverse(lonely)
def _(config, dret: Active, tape, pair: Active):
    return dret.val * pair.val[1], dret.val * pair.val[0]


@numba.njit
def products(x, y):
    return product_of((x, y), 2.0) + lonely((x, y))


def test_a_tuple_of_derivatives_is_the_derivative_of_a_tuple():
    assert ar.grad(products, (0, 1))(3.0, 5.0) == (15.0, 9.0)
    served = {call.name: call.rule for call in ar.explain(products, Active(3.0), Active(5.0)).rules}
    assert served["product_of"].endswith("; `scale` is Const here: its derivative is dropped")


@numba.njit
def unread(a):
    return a.sum()


@ar.augmented_primal(unread)
def _(config, ret: Active, a: ar.DuplicatedNoNeed):
    return Result(a.val.sum(), None, None)


@ar.reverse(unread)
def _(config, dret: Active, tape, a: ar.DuplicatedNoNeed):
    ar.accumulate(a, np.full(a.val.shape, 100.0 * dret.val))


def test_a_rule_that_does_not_read_a_value():
    np.testing.assert_array_equal(ar.grad(unread)(np.ones(2)), [100.0, 100.0])


def test_a_rule_that_needs_itself():
    f = fresh()

    @numba.njit
    def program(x):
        return f(x) + 1.0

    @ar.augmented_primal(f)
    def _(config, ret: Active, x: Active):
        return Result(f(x.val), None, None)

    @ar.reverse(f)
    def _(config, dret: Active, tape, x: Active):
        return ar.autodiff(ar.Reverse, program, Active(x.val))[0] * dret.val

    with pytest.raises(ar.ActiverulesError, match="the rule of f needs itself"):
        ar.grad(program)(3.0)


def test_a_rule_that_asks_for_the_derivative_it_defines():
    f = fresh()

    @ar.augmented_primal(f)
    def _(config, ret: Active, x: Active):
        return Result(f(x.val), None, None)

    @ar.reverse(f)
    def _(config, dret: Active, tape, x: Active):
        return 10.0 * ar.autodiff(ar.Reverse, f, Active(x.val))[0] * dret.val

    @numba.njit
    def program(x):
        return f(x)

    with pytest.raises(RuleDefinitionError, match="needs itself"):
        ar.grad(program)(3.0)


@pytest.mark.usefixtures("rules_of_this_test")
@pytest.mark.parametrize("builtin", [math.sinh, abs])
def test_rules_of_what_numba_inlines_fire(builtin):
    @ar.augmented_primal(builtin, replace=True)
    def _(config, ret: Active, x: Active[numba.float32]):
        return Result(builtin(x.val), None, None)

    @ar.reverse(builtin, replace=True)
    def _(config, dret: Active, tape, x: Active[numba.float32]):
        return numba.float32(100.0) * dret.val

    @numba.njit
    def program(x):
        return builtin(x)

    ar.opt_out(builtin, Active[float64])
    assert ar.grad(program)(np.float32(0.5)) == 100.0
    np.testing.assert_allclose(ar.grad(program)(0.5), math.cosh(0.5) if builtin != abs else 1.0)


def test_a_shadow_is_added_to_and_not_replaced():
    @numba.njit
    def total(x):
        return x.sum()

    @ar.augmented_primal(total)
    def _augmented(config, ret: Active, x: Duplicated):
        return Result(x.val.sum(), None, None)

    @ar.reverse(total)
    def _replaces(config, dret: Active, tape, x: Duplicated):
        x.dval += dret.val

    with pytest.raises(NotCompilable, match=r"x\.dval\[:\] \+= …"):
        ar.grad(numba.njit(lambda x: total(x)))(np.ones(2))


def test_a_half_of_other_annotations_is_shown_beside_the_half_that_lacks_one():
    f = fresh()
    ar.augmented_primal(f)(square)

    @ar.reverse(f)
    def reverse(config, dret: Active, tape, x: Active[float64]): ...

    with pytest.raises(IncompleteRule, match="with reverse, but without augmented_primal") as error:
        ar.grad(f)(3.0)
    shown = {label: (text, line) for label, text, line in error.value.where}
    text, line = shown["not its other half"]
    assert text == "f(x: Active) -> Active"
    assert line.endswith(f":{square.__code__.co_firstlineno}")


def test_an_integer_for_an_active_argument_is_told_how_to_admit_it():
    @numba.njit
    def scaled(x, a):
        return a * x

    def pair(scale):
        @ar.augmented_primal(scaled)
        def _(config, ret: Active, x: Active, a: scale):
            return Result(scaled(x.val, a.val), None, None)

        @ar.reverse(scaled)
        def _(config, dret: Active, tape, x: Active, a: scale):
            return dret.val * a.val, dret.val * x.val

    pair(Active)
    with pytest.raises(NoRuleForActivity) as error:
        ar.grad(scaled)(1.5, 3)
    assert error.value.instead[0].endswith("admit constants:\na: Active | Const")
    pair(Active | Const)
    assert ar.grad(scaled)(1.5, 3) == 3.0


def test_an_integer_for_a_duplicated_argument_is_refused_as_it_has_no_tangent():
    @numba.njit
    def scaled(x, a):
        return a * x

    def define(scale):
        @ar.forward(scaled)
        def _(config, ret: Duplicated, x: Duplicated, a: scale):
            da = a.dval if ar.active(a) else 0.0
            return scaled(x.val, a.val), x.dval * a.val + x.val * da

    define(Duplicated)
    assert ar.jvp(scaled, (1.5, 3.0), (1.0, None)) == (4.5, 3.0)
    with pytest.raises(NoRuleForActivity) as error:
        ar.jvp(scaled, (1.5, 3), (1.0, None))
    assert error.value.instead[0].endswith("admit constants:\na: Duplicated | Const")
    define(Duplicated | Const)
    assert ar.jvp(scaled, (1.5, 3), (1.0, None)) == (4.5, 3.0)


@pytest.mark.parametrize(
    ("shadow", "cotangent", "words"),
    [
        (np.zeros(2), np.ones(3), "the shape of the shadow"),
        (np.zeros(2), np.array([True, False]), "truth values are not cotangents"),
        ((np.zeros(2), np.zeros(2)), (np.ones(2),), "the length of the tuple"),
        (0.0, 1.0, "takes a Duplicated array; an Active derivative is returned"),
    ],
)
def test_a_rule_that_python_runs_accumulates_something_else(shadow, cotangent, words):
    with pytest.raises(RuleReturnError, match=words):
        ar.accumulate(Duplicated(shadow, shadow), cotangent)


def test_parts_of_a_cotangent_may_be_missing():
    shadows = np.zeros(2), np.zeros(2)
    ar.accumulate(Duplicated(shadows, shadows), (np.ones(2), None))
    ar.accumulate(Duplicated(shadows, shadows), None)
    np.testing.assert_array_equal(shadows, [[1.0, 1.0], [0.0, 0.0]])

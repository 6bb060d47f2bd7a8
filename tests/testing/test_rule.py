"""`check_rule` passes right rules and finds what is wrong with others."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from numba import float64, int64, njit, typed, types
from numba.experimental import jitclass, structref
from numba.extending import overload

import activerules as ar
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.chainrules import NoTangent, Thunk, frule, rrule, scalar_rule
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.testing import arg, central_fdm, check_rule, forward_fdm, well_conditioned
from activerules.testing.spoiling import spoil

X = np.array([0.4, -1.1, 0.9])


def weighted(name="weighted"):
    """A new function, so that each test has rules of its own."""

    @njit
    def weighted(scale, x):
        return scale * np.exp(x)

    return weighted


def right_augmented(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    y = scale.val * e
    return ar.AugmentedReturn(y, np.zeros_like(y), e)


def right_reverse(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, scale.val * tape * dret.dval)
    return np.sum(tape * dret.dval), None


def checked(augmented=right_augmented, reverse=right_reverse, *, compiled=False):
    function = weighted()
    ar.augmented_primal(function)(augmented)
    ar.reverse(function)(reverse)
    check_rule(function, 1.3, X, compiled=compiled)


def test_a_right_pair_passes_interpreted_and_compiled():
    checked(compiled=True)


def test_library_rules_pass():
    a = well_conditioned(3)
    for args in [
        (np.linalg.solve, a, X),
        (np.linalg.inv, a),
        (np.dot, a, X),
        (np.vdot, X, X[::-1]),
    ]:
        check_rule(*args, compiled=False)


def test_the_scalar_table_is_checked_by_its_direct_calls():
    for args in [(math.sin, 0.3), (math.atan2, 0.3, -0.8), (np.logaddexp, 0.2, 0.5)]:
        check_rule(*args)


def tape_of_arguments(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    y = scale.val * np.exp(x.val)
    return ar.AugmentedReturn(y, np.zeros_like(y), x.val)


def reads_arguments(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(tape)
    ar.accumulate(x, scale.val * e * dret.dval)
    return np.sum(e * dret.dval), None


def reads_what_it_does_not_save(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    ar.accumulate(x, scale.val * np.exp(x.val) * dret.dval)
    return np.sum(tape * dret.dval), None


def tape_is_the_result(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    y = scale.val * np.exp(x.val)
    return ar.AugmentedReturn(y, np.zeros_like(y), y)


def reads_that_result(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, tape * dret.dval)
    return np.sum(tape / scale.val * dret.dval), None


def reads_the_result(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, dret.val * dret.dval)
    return np.sum(tape * dret.dval), None


def tape_of_two(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    y = scale.val * e
    return ar.AugmentedReturn(y, np.zeros_like(y), (e, e[1:]))


def writes_into_one_of_two(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    tape[1][...] = np.exp(x.val[1:])
    ar.accumulate(x, scale.val * tape[0] * dret.dval)
    return np.sum(tape[0] * dret.dval), None


def returns_its_argument(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    x.val[:] = scale.val * e
    return ar.AugmentedReturn(x.val, np.zeros_like(e), e)


def wrong_factor(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, 2.0 * scale.val * tape * dret.dval)
    return np.sum(tape * dret.dval), None


def overwrites_the_shadow(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    if ar.active(x):
        x.dval[:] = scale.val * tape * dret.dval
    return np.sum(tape * dret.dval), None


def forgets_the_scale(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, scale.val * tape * dret.dval)


def writes_into_the_primal(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    ar.accumulate(x, scale.val * tape * dret.dval)
    x.val[:] = 0.0
    return np.sum(tape * dret.dval), None


def wrong_primal(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    y = scale.val * e + 1e-3
    return ar.AugmentedReturn(y, np.zeros_like(y), e)


def changes_its_argument(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    x.val[0] = 0.0
    y = scale.val * e
    return ar.AugmentedReturn(y, np.zeros_like(y), e)


def shadow_is_not_zero(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    return ar.AugmentedReturn(scale.val * e, np.ones_like(e), e)


WRONG = [
    (right_augmented, reads_what_it_does_not_save, r"`reverse` reads `x`, .* add it to `saves`"),
    (tape_of_two, writes_into_one_of_two, "shares memory with another"),
    (returns_its_argument, right_reverse, "shares memory with an argument"),
    (right_augmented, wrong_factor, "derivative of argument 1 along a random direction: found"),
    (right_augmented, overwrites_the_shadow, "derivative of argument 1"),
    (right_augmented, forgets_the_scale, "derivative of argument 0: found None"),
    (right_augmented, writes_into_the_primal, "argument 1 after the rule|overwritten between"),
    (wrong_primal, right_reverse, "result: found"),
    (changes_its_argument, right_reverse, "argument 1 after the rule"),
    (shadow_is_not_zero, right_reverse, "not made of arrays of zeros"),
]


@pytest.mark.parametrize(("augmented", "reverse", "message"), WRONG)
def test_wrong_pairs_are_found(augmented, reverse, message):
    with pytest.raises(RuleCheckError, match=message):
        checked(augmented, reverse)


def test_a_tape_may_hold_arguments_and_the_result():
    checked(tape_of_arguments, reads_arguments)
    checked(tape_is_the_result, reads_that_result)
    checked(reverse=reads_the_result)


@pytest.mark.parametrize(
    "values",
    [[0, 2, 3, 5], [1, 0, 1], [3], [3, 3], [0], [-1], [0.2, 3.7, 3.9], [2.5], [0.0], [np.nan, 1.0]],
)
def test_what_is_overwritten_is_no_other_index_than_was_there(values):
    array = np.array(values)
    before = array.copy()
    spoil(array)
    assert not np.array_equal(array, before)
    n = int(max(np.nanmax(before), 0)) + 1
    assert all(-n <= int(v) < n for v in array[~np.isnan(array)])


def test_what_is_indexed_by_is_named_where_it_is_not_saved():
    @njit
    def chosen(index, x):
        return x[index[0]] * x[index[1]]

    def pair(saves):
        @ar.augmented_primal(chosen)
        def _(config, ret: Active, index: Const, x: Duplicated):
            return ar.AugmentedReturn(chosen(index.val, x.val), None, None)

        @ar.reverse(chosen, saves=saves)
        def _(config, dret: Active, tape, index: Const, x: Duplicated):
            i, j = index.val
            x.dval[i] += dret.val * x.val[j]
            x.dval[j] += dret.val * x.val[i]

    index = np.array([2, 0])
    for saves, named in [("x", "`index`"), ((), "`index`, `x`"), ("index", "`x`")]:
        pair(saves)
        with pytest.raises(RuleCheckError, match=f"`reverse` reads {named}, which may be overw"):
            check_rule(chosen, index, X, compiled=False)
    pair(("index", "x"))
    check_rule(chosen, index, X, compiled=False)


def test_compiled_halves_check_their_indices():
    @njit
    def last(x):
        return x[-1]

    @ar.augmented_primal(last)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(last(x.val), None, None)

    @ar.reverse(last)
    def _(config, dret: Active, tape, x: Duplicated):
        x.dval[spare_index(len(x.val))] += dret.val

    with pytest.raises(IndexError, match="out of bounds"):
        check_rule(last, X)


def test_a_function_that_is_no_noalias_function():
    @ar.noalias
    @njit
    def tail(x):
        return x[1:]

    ar.augmented_primal(tail)(tail_augmented)
    ar.reverse(tail)(tail_reverse)
    with pytest.raises(RuleCheckError, match="tail is declared `noalias`, and returns memory of"):
        check_rule(tail, X, compiled=False)


def tail_augmented(config, ret: Duplicated, x: Duplicated):
    return ar.AugmentedReturn(x.val[1:].copy(), np.zeros(len(x.val) - 1), None)


def tail_reverse(config, dret: Duplicated, tape, x: Duplicated):
    x.dval[1:] += dret.dval


def test_a_promise_to_keep_no_shadow_is_checked():
    def doubled(x):
        return 2.0 * x

    @ar.augmented_primal(doubled, keeps_shadow=False)
    def _(config, ret: Duplicated, x: Duplicated):
        y = 2.0 * x.val
        return ar.AugmentedReturn(y, np.zeros_like(y), (1, x.dval))

    @ar.reverse(doubled)
    def _(config, dret: Duplicated, tape, x: Duplicated):
        tape[1][...] += 2.0 * dret.dval

    with pytest.raises(RuleCheckError, match="a shadow is on its tape"):
        check_rule(doubled, np.array([1.0, 2.0]), compiled=False)


def spare(x):
    """Right in Python, wrong when it is compiled."""
    return x


@overload(spare)
def _spare(x):
    return lambda x: 1.5 * x


def differs_compiled(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, spare(scale.val) * tape * dret.dval)
    return np.sum(tape * dret.dval), None


def spare_index(n):
    """One that is there in Python, and past the end when it is compiled."""
    return n - 1


@overload(spare_index)
def _spare_index(n):
    return lambda n: n


def test_a_difference_between_interpreted_and_compiled_is_found():
    checked(right_augmented, differs_compiled)
    with pytest.raises(RuleCheckError, match="compiled"):
        checked(right_augmented, differs_compiled, compiled=True)


# --- closures, forward rules, scalar rules ---


def test_closures_are_checked_as_pairs_and_as_direct_calls():
    function = weighted()

    @rrule.register(function)
    def _(f, scale, x):
        e = np.exp(x)

        def pullback(dy):
            return NoTangent(), np.sum(e * dy), Thunk(lambda: scale * e * dy)

        return scale * e, pullback

    check_rule(function, 1.3, X, compiled=False)
    check_rule(function, arg(1.3, Const), ar.Duplicated(X, np.zeros(3)), compiled=False)


def test_forward_rules_are_checked():
    def register(function, factor):
        @frule.register(function)
        def _(deltas, f, scale, x):
            _, dscale, dx = deltas
            e = np.exp(x)
            return scale * e, dscale * e + factor * scale * e * dx

    right, wrong = weighted(), weighted()
    register(right, 1.0)
    register(wrong, 1.5)
    check_rule(right, 1.3, X, compiled=False)
    with pytest.raises(RuleCheckError, match="tangent of the result"):
        check_rule(wrong, 1.3, X, compiled=False)


def test_scalar_rules_are_checked():
    @njit
    def ratio(x, y):
        return x / y

    scalar_rule(ratio, lambda Ω, x, y: (1 / y, -Ω / y))
    check_rule(ratio, 1.2, -0.7, compiled=False)
    scalar_rule(ratio, lambda Ω, x, y: (1 / y, Ω / y))
    with pytest.raises(RuleCheckError, match="argument 1"):
        check_rule(ratio, 1.2, -0.7, compiled=False)


def test_long_arrays_are_summarised_in_an_error():
    def reverse(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
        ar.accumulate(x, 2.0 * scale.val * dret.dval)
        return np.sum(x.val * dret.dval), None

    f = weighted("too_large")
    ar.augmented_primal(f)(right_augmented)
    ar.reverse(f)(reverse)
    with pytest.raises(RuleCheckError) as caught:
        check_rule(f, 0.7, np.linspace(1.0, 2.0, 900), compiled=False)
    assert "..." in caught.value.why
    assert len(str(caught.value)) < 1500


# --- mutation, constants, what has no rule ---


@njit
def doubles(x, y):
    y[:] = 2.0 * x


@ar.augmented_primal(doubles)
def doubles_augmented(config, ret: Const, x: Duplicated | Const, y: Duplicated):
    y.val[:] = 2.0 * x.val
    return ar.AugmentedReturn(None, None, None)


@ar.reverse(doubles)
def doubles_reverse(config, dret: Const, tape, x: Duplicated | Const, y: Duplicated):
    ar.accumulate(x, 2.0 * y.dval)
    y.dval[:] = 0.0


def test_a_function_that_writes_into_an_argument():
    check_rule(doubles, X, arg(np.ones(3), Duplicated), compiled=False)


@pytest.mark.parametrize("point", [np.nan, np.inf])
def test_a_point_without_finite_differences_is_refused(point):
    with pytest.raises(RuleCheckError, match="an argument or the result is NaN or infinite"):
        check_rule(doubles, np.array([1.0, point]), arg(np.ones(2), Duplicated), compiled=False)


def test_what_has_no_rule():
    with pytest.raises(NoRuleForActivity):
        check_rule(weighted(), 1.0, X)
    with pytest.raises(NoRuleForActivity):
        check_rule(np.linalg.inv, arg(well_conditioned(2), Active))


# --- saves, batches, both modes, keywords ---


def squares_pair(reverse):
    @njit
    def squares(out, x):
        out[:] = x * x

    @ar.augmented_primal(squares)
    def _(config, ret: Const, out: Duplicated, x: Duplicated | Const):
        squares(out.val, x.val)
        return ar.AugmentedReturn(None, None, 2.0 * x.val)

    ar.reverse(squares, saves="x")(reverse)
    return squares


def squares_reverse(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    ar.accumulate(x, 2.0 * x.val * out.dval)
    out.dval[:] = 0.0


def spends_its_tape(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    tape *= out.dval
    ar.accumulate(x, tape)
    out.dval[:] = 0.0


OUT = arg(np.ones(3), Duplicated)


def test_what_a_reverse_saves_it_finds():
    check_rule(squares_pair(squares_reverse), OUT, X, compiled=False)


def test_a_reverse_that_writes_into_an_array_of_its_tape_is_told():
    with pytest.raises(RuleCheckError, match="`reverse` writes into an array of its tape") as error:
        check_rule(squares_pair(spends_its_tape), OUT, X, compiled=False)
    assert "copied at every call" in error.value.why


def test_a_list_on_a_tape_is_the_own_one_of_each_call():
    @njit
    def squares(x):
        return np.sum(x * x)

    @ar.augmented_primal(squares)
    def _(config, ret: Active, x: Duplicated):
        return ar.AugmentedReturn(squares(x.val), None, (list(2.0 * x.val), x.val.size))

    @ar.reverse(squares)
    def _(config, dret: Active, tape, x: Duplicated):
        slopes, shadow = tape[0], x.dval
        while len(slopes) > 0:
            slope = slopes.pop()
            shadow[len(slopes)] += slope * dret.val

    check_rule(squares, X)


def assigns_a_shadow(config, dret: Const, tape, out: Duplicated, x: Duplicated | Const):
    if ar.active(x):
        x.dval += tape * out.dval
    out.dval[:] = 0.0


def test_an_assignment_to_an_annotation_is_told():
    with pytest.raises(RuleCheckError, match="`reverse` assigns to an annotation") as error:
        check_rule(squares_pair(assigns_a_shadow), OUT, X, compiled=False)
    assert error.value.instead == ["add into a shadow: x.dval[:] += …"]


def test_a_rule_for_batches_returns_a_tangent_per_lane():
    @njit
    def twice(x):
        return 2.0 * x

    @ar.forward(twice)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        return twice(x.val), (2.0 * x.dval[0],)

    with pytest.raises(RuleCheckError, match="is a tuple of 2, not"):
        check_rule(twice, 0.7, compiled=False)


@pytest.mark.parametrize("factor", [2.0, 2.0 + 1e-6])
def test_what_a_forward_rule_writes_is_compared_with_the_pair(factor):
    squares = squares_pair(squares_reverse)

    @ar.forward(squares)
    def _(config, ret: Const, out: Duplicated, x: Duplicated | Const):
        squares(out.val, x.val)
        out.dval[:] = factor * x.val * x.dval if ar.active(x) else 0.0

    if factor == 2.0:
        check_rule(squares, OUT, X, compiled=False)
    else:
        with pytest.raises(RuleCheckError, match=r"tangent of the result|forward against"):
            check_rule(squares, OUT, X, compiled=False)


@pytest.mark.parametrize("swapped", [False, True])
def test_rules_for_batches_are_checked_lane_by_lane(swapped):
    @njit
    def halved(x):
        return 0.5 * x

    @ar.forward(halved)
    def _(config, ret: ar.BatchDuplicated, x: ar.BatchDuplicated):
        first, second = x.dval
        tangents = (0.5 * first, 0.5 * second)
        return 0.5 * x.val, tangents[::-1] if swapped else tangents

    if swapped:
        with pytest.raises(RuleCheckError, match="tangent of the result"):
            check_rule(halved, X, compiled=False)
    else:
        check_rule(halved, X, compiled=False)


def test_keywords_and_defaults_and_named_tuples():
    @njit
    def shifted(p, by=1.0, factor=2.0):
        return Pair(p.a * factor, p.b + by)

    @ar.augmented_primal(shifted)
    def _(config, ret: Active, p: Active, by: Active | Const, factor: Active | Const):
        return ar.AugmentedReturn(shifted(p.val, by.val, factor.val), None, None)

    @ar.reverse(shifted)
    def _(config, dret: Active, tape, p: Active, by: Active | Const, factor: Active | Const):
        a_bar, b_bar = dret.val
        return Pair(a_bar * factor.val, b_bar), b_bar, a_bar * p.val.a

    check_rule(shifted, Pair(1.0, 2.0), factor=3.0, compiled=False)
    check_rule(shifted, Pair(1.0, 2.0), compiled=False)


class Pair(NamedTuple):
    a: float
    b: float


def with_pair(function, derivative):
    """The function with a pair for its only argument, a float."""

    @ar.augmented_primal(function)
    def _(config, ret: Active, x: Active):
        return ar.AugmentedReturn(function(x.val), None, x.val)

    @ar.reverse(function)
    def _(config, dret: Active, tape, x: Active):
        return dret.val * derivative(tape)

    return function


def test_directions_of_a_symmetric_matrix():
    """The rule is right where the matrix stays symmetric, and only there."""

    @njit
    def of_upper_triangle(a, factor):
        return factor * a[0, 1] ** 2 + a[0, 0]

    @ar.augmented_primal(of_upper_triangle)
    def _(config, ret: Active, a: Duplicated, factor: Const):
        return ar.AugmentedReturn(of_upper_triangle(a.val, factor.val), None, a.val[0, 1])

    @ar.reverse(of_upper_triangle)
    def _(config, dret: Active, tape, a: Duplicated, factor: Const):
        half = factor.val * tape * dret.val
        ar.accumulate(a, np.array([[dret.val, half], [half, 0.0]]))

    a = np.array([[1.0, 0.7], [0.7, 2.0]])
    symmetric = np.array([[0.3, -1.2], [-1.2, 0.4]])
    args = (of_upper_triangle, arg(a, Duplicated), arg(3.0, Const))
    check_rule(*args, compiled=False, directions=(symmetric, None))
    check_rule(*args, compiled=False, directions={"a": symmetric})
    with pytest.raises(RuleCheckError, match="along a random direction"):
        check_rule(*args, compiled=False)
    with pytest.raises(RuleCheckError, match="along the direction asked for"):
        check_rule(*args, compiled=False, directions={"a": np.triu(symmetric)})
    for wrong, message in (
        ({"b": symmetric}, "no argument 'b'"),
        ((symmetric,), "1 for 2 arguments"),
        ((np.ones(3), None), r"has the shape \(3,\), the argument \(2, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            check_rule(*args, compiled=False, directions=wrong)


@njit
def noisy_square(x):
    return x * x + 1e-3 * np.sin(1e13 * x)


@njit
def noisy_square_again(x):
    return noisy_square(x)


def test_tolerances_for_noisy_functions():
    with_pair(noisy_square, lambda x: 2 * x)
    with pytest.raises(RuleCheckError, match="an error that resolves"):
        check_rule(noisy_square, 0.7, compiled=False)
    check_rule(noisy_square, 0.7, compiled=False, rtol=0.2)
    check_rule(noisy_square, 0.7, compiled=False, atol=0.2)
    with_pair(noisy_square_again, lambda x: 10 * x)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(noisy_square_again, 0.7, compiled=False, rtol=0.2)


def test_differences_that_stay_on_one_side():
    @njit
    def from_two(x):
        if x < 2.0:
            raise ValueError("below 2")
        return x**3

    with_pair(from_two, lambda x: 3 * x * x)
    with pytest.raises(ValueError, match="below 2"):
        check_rule(from_two, 2.0, compiled=False)
    check_rule(from_two, 2.0, compiled=False, fdm=forward_fdm(5))
    check_rule(from_two, 2.1, compiled=False, fdm=central_fdm(3, max_range=0.05))


@jitclass([("w", float64[::1]), ("scale", float64), ("count", int64)])
class Unit:
    def __init__(self, w, scale, count):
        self.w = w
        self.scale = scale
        self.count = count


def pair_of_unit(error):
    """A function of an object, whose pair is off by an error in the derivative of its number."""

    @njit
    def output(u, x):
        return u.count * u.scale * np.dot(u.w, x)

    @ar.augmented_primal(output)
    def _(config, ret: ar.Active, u: ar.Duplicated, x: ar.Duplicated | ar.Const):
        return ar.AugmentedReturn(output(u.val, x.val), None, None)

    @ar.reverse(output, saves=("u", "x"))
    def _(config, dret: ar.Active, tape, u: ar.Duplicated, x: ar.Duplicated | ar.Const):
        g = u.val.count * dret.val
        u.dval.scale += (g + error) * np.dot(u.val.w, x.val)
        u.dval.w[:] += g * u.val.scale * x.val
        ar.accumulate(x, g * u.val.scale * u.val.w)

    return output


def test_objects_are_checked_in_each_number():
    unit, x = Unit(np.array([1.0, 2.0, 0.5]), 1.7, 2), np.array([0.3, -0.7, 2.0])
    check_rule(pair_of_unit(0.0), unit, x)
    assert (unit.scale, unit.count, unit.w.tolist()) == (1.7, 2, [1.0, 2.0, 0.5])
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(pair_of_unit(1e-3), unit, x, compiled=False)


@structref.register
class UnitType(types.StructRef):
    def preprocess_fields(self, fields):
        return tuple((name, types.unliteral(ty)) for name, ty in fields)


class UnitRef(structref.StructRefProxy):
    def __new__(cls, w, scale, count):
        return structref.StructRefProxy.__new__(cls, w, scale, count)


structref.define_proxy(UnitRef, UnitType, ["w", "scale", "count"])

RECORD = np.zeros(1, [("scale", "f8"), ("count", "i8"), ("w", "f8", (2,))])
RECORD[0] = (1.7, 2, (1.0, 2.0))


@pytest.mark.parametrize(
    "value", [UnitRef(np.array([1.0, 2.0]), 1.7, 2), RECORD[0], RECORD.view(np.recarray)[0]]
)
def test_struct_refs_and_records_are_checked_in_each_number(value):
    def checked(error, *, compiled):
        @njit
        def output(u):
            return u.count * u.scale * u.w[1]

        @ar.augmented_primal(output)
        def _(config, ret: ar.Active, u: ar.Duplicated):
            return ar.AugmentedReturn(output(u.val), None, None)

        @ar.reverse(output, saves="u")
        def _(config, dret: ar.Active, tape, u: ar.Duplicated):
            g = u.val.count * dret.val
            u.dval.scale += (g + error) * u.val.w[1]
            u.dval.w[1] += g * u.val.scale

        check_rule(output, value, compiled=compiled)

    checked(0.0, compiled=True)
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        checked(1e-3, compiled=False)


def test_an_array_whose_items_share_memory_is_refused():
    """The program refuses it, too: each item would get the sum of all their derivatives."""
    with pytest.raises(ar.NotYetSupported, match="items share memory"):
        check_rule(np.sum, np.broadcast_to(X, (2, 3)))
    with pytest.raises(ar.NotYetSupported, match="items share memory"):
        check_rule(np.sum, np.lib.stride_tricks.sliding_window_view(X, 2))


def test_typed_lists_are_checked_and_those_of_python_refused():
    @njit
    def product(items):
        return items[0] * items[1]

    @ar.augmented_primal(product)
    def _(config, ret: ar.Active, items: ar.Duplicated):
        return ar.AugmentedReturn(product(items.val), None, (items.val[0], items.val[1]))

    @ar.reverse(product)
    def _(config, dret: ar.Active, tape, items: ar.Duplicated):
        items.dval[0] += tape[1] * dret.val
        items.dval[1] += tape[1] * dret.val

    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(product, typed.List([2.0, 3.0]), compiled=False)
    check_rule(product, typed.List([3.0, 3.0]), compiled=False)
    with pytest.raises(ar.NotYetSupported, match="derivative with respect to a list"):
        check_rule(product, ar.testing.arg([2.0, 3.0], ar.Duplicated), compiled=False)

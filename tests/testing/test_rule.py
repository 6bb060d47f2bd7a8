"""`check_rule` passes right rules and finds what is wrong with others."""

import math

import numpy as np
import pytest
from numba import njit
from numba.extending import overload

import activerules as ar
from activerules.annotations.activity import Active, Const, Duplicated
from activerules.chainrules import NoTangent, Thunk, frule, rrule, scalar_rule
from activerules.errors import NoRuleForActivity, RuleCheckError
from activerules.testing import arg, check_rule, well_conditioned
from testing.pairs import X, weighted


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


def wrong_factor(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, 2.0 * scale.val * tape * dret.dval)
    return np.sum(tape * dret.dval), None


def overwrites_the_shadow(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    if ar.active(x):
        x.dval[:] = scale.val * tape * dret.dval
    return np.sum(tape * dret.dval), None


def takes_zero_for_one(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    ar.accumulate(x, scale.val * tape * np.where(dret.dval == 0.0, 1.0, dret.dval))
    return np.sum(tape * dret.dval), None


def writes_into_the_result(
    config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated
):
    y = dret.val
    y *= dret.dval
    ar.accumulate(x, y)
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


def wrong_where_overwritten(config, ret: Duplicated, scale: Active | Const, x: Const | Duplicated):
    e = np.exp(x.val)
    y = scale.val * e
    return ar.AugmentedReturn(y, np.zeros_like(y), 2.0 * e if config.overwritten[1] else e)


WRONG = [
    (right_augmented, reads_what_it_does_not_save, r"`reverse` reads `x`, .* add it to `saves`"),
    (right_augmented, wrong_factor, "derivative of argument 1 along a random direction: found"),
    (right_augmented, overwrites_the_shadow, r"(?s)derivative of argument 1.*x\.dval \+= "),
    (right_augmented, takes_zero_for_one, r"(?s)argument 1 .*, expected .* -?0 .*lane 2"),
    (right_augmented, writes_into_the_result, r"`reverse` writes into `dret\.val`"),
    (right_augmented, forgets_the_scale, "derivative of argument 0: found None"),
    (right_augmented, writes_into_the_primal, "argument 1 after the rule|overwritten between"),
    (wrong_primal, right_reverse, "result: found"),
    (changes_its_argument, right_reverse, "argument 1 after the rule"),
    (wrong_where_overwritten, right_reverse, r"(?s)^weighted: derivative of .*, overwritten\n"),
    (shadow_is_not_zero, right_reverse, "expected zeros in the shape of the result"),
]


@pytest.mark.parametrize(("augmented", "reverse", "message"), WRONG)
def test_wrong_pairs_are_found(augmented, reverse, message):
    with pytest.raises(RuleCheckError, match=message):
        checked(augmented, reverse)


def test_a_tape_may_hold_arguments_and_the_result():
    checked(tape_of_arguments, reads_arguments)
    checked(tape_is_the_result, reads_that_result)
    checked(reverse=reads_the_result)


def spare(x):
    """Right in Python, wrong when it is compiled."""
    return x


@overload(spare)
def _spare(x):
    return lambda x: 1.5 * x


def differs_compiled(config, dret: Duplicated, tape, scale: Active | Const, x: Const | Duplicated):
    ar.accumulate(x, spare(scale.val) * tape * dret.dval)
    return np.sum(tape * dret.dval), None


def test_a_difference_between_interpreted_and_compiled_is_found():
    checked(right_augmented, differs_compiled)
    with pytest.raises(RuleCheckError, match="compiled"):
        checked(right_augmented, differs_compiled, compiled=True)


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


def test_a_wrong_rule_of_a_function_of_small_values_is_found():
    small = njit(lambda x, y: 1e-12 * x * x * y)
    scalar_rule(small, lambda Ω, x, y: (3e-12 * x * y, 1e-12 * x * x))
    with pytest.raises(RuleCheckError, match="derivative of argument 0"):
        check_rule(small, 1.3, 0.7, compiled=False)


def test_a_cotangent_or_tangent_of_another_shape_is_found():
    total, filled = njit(lambda x: np.sum(x)), njit(lambda x: np.full(3, x))

    @rrule.register(total, compiled=False)
    def _(f, x):
        return np.sum(x), lambda dy: (NoTangent(), dy)  # not one per item

    @frule.register(filled, compiled=False)
    def _(deltas, f, x):
        return np.full(3, x), deltas[1]

    for function, x in ((total, X), (filled, 2.0)):
        with pytest.raises(RuleCheckError, match="expected one in the form of"):
            check_rule(function, x)


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

    f = weighted()
    ar.augmented_primal(f)(right_augmented)
    ar.reverse(f)(reverse)
    with pytest.raises(RuleCheckError) as caught:
        check_rule(f, 0.7, np.linspace(1.0, 2.0, 900), compiled=False)
    assert "..." in caught.value.why
    assert len(str(caught.value)) < 1500


def test_what_has_no_rule():
    with pytest.raises(NoRuleForActivity):
        check_rule(weighted(), 1.0, X)
    with pytest.raises(NoRuleForActivity):
        check_rule(np.linalg.inv, arg(well_conditioned(2), Active))


def test_integers_do_not_vary():
    def doubled(x):
        return 2 * x

    frule.register(doubled)(lambda deltas, f, x: (2 * x, 77 * deltas[1]))
    with pytest.raises(NoRuleForActivity, match="none of them varies"):
        check_rule(doubled, 1)
    scalar_rule(doubled, lambda Ω, x: 77)
    with pytest.raises(NoRuleForActivity, match="none of them varies"):
        check_rule(doubled, 1)


def test_the_dtype_of_a_result_is_checked_in_compiled_code():
    @njit
    def squares(x):
        return x * x

    @ar.augmented_primal(squares)
    def _(config, ret: Duplicated, x: Duplicated):
        y = (x.val * x.val).astype(np.complex128)
        return ar.AugmentedReturn(y, np.zeros_like(y), None)

    @ar.reverse(squares, saves="x")
    def _(config, dret: Duplicated, tape, x: Duplicated):
        ar.accumulate(x, 2.0 * x.val * dret.dval)

    with pytest.raises(RuleCheckError, match=r"dtype of the result: .*complex128"):
        check_rule(squares, X)


def test_a_result_that_is_not_used_is_checked_where_the_function_writes():
    @njit
    def squared(x, out):
        out[0] = 3.0 * x
        return x * x

    @ar.augmented_primal(squared)
    def _(config, ret: Active | Const, x: Active, out: Duplicated):
        return ar.AugmentedReturn(squared(x.val, out.val), None, None)

    @ar.reverse(squared)
    def _(config, dret: Active | Const, tape, x: Active, out: Duplicated):
        out_bar = out.dval[0]
        out.dval[0] = 0.0
        if ar.active(dret):
            return 2.0 * x.val * dret.val + 3.0 * out_bar, None
        return 4.0 * out_bar, None

    with pytest.raises(RuleCheckError, match=r"(?s)derivative of argument 0 .* -> Const"):
        check_rule(squared, 0.7, np.ones(1), compiled=False)
    check_rule(squared, 0.7, np.ones(1), ret=Active, compiled=False)


def test_the_numbers_in_a_shadow_are_zero():
    @njit
    def twice_and_sum(x):
        return 2.0 * x, np.sum(x)

    @ar.augmented_primal(twice_and_sum)
    def _(config, ret: ar.MixedDuplicated, x: Duplicated):
        twice, total = twice_and_sum(x.val)
        return ar.AugmentedReturn((twice, total), (np.zeros_like(twice), 1.0), None)

    @ar.reverse(twice_and_sum)
    def _(config, dret: ar.MixedDuplicated, tape, x: Duplicated):
        ar.accumulate(x, 2.0 * dret.dval[0] + dret.dval[1])

    with pytest.raises(RuleCheckError, match="expected zeros in the shape of the result"):
        check_rule(twice_and_sum, X, compiled=False)
    with ar.debug_mode(), pytest.raises(ar.RuleViolation, match="the shadow is not zeros"):
        ar.grad(lambda x: twice_and_sum(x)[1])(X)


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (None, {}, TypeError, "takes a function, and its arguments, not None"),
        (math.sin, {"fdm": 3}, TypeError, r"a scheme, as central_fdm\(5\), not 3"),
        (math.sin, {"rtol": None}, TypeError, "rtol is a number, not None"),
        (math.sin, {"atol": -1.0}, ValueError, "atol is -1.0, which is below zero"),
    ],
)
def test_arguments_of_another_type_are_refused(function, options, error, message):
    with pytest.raises(error, match=message):
        check_rule(function, 1.0, **options)

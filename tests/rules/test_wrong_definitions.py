"""Wrong definitions of rules: each gives the documented error where it stands.

What shows only where the rule is compiled: see test_wrong_rules.py.
"""

import math
from fractions import Fraction

import numba
import numpy as np
import pytest
from numba import float64, int64

import activerules as ar
from activerules.chainrules import NoTangent, frule, rrule, scalar_rule
from activerules.errors import AmbiguousRule, RuleDefinitionError

Active, Const, Duplicated = ar.Active, ar.Const, ar.Duplicated
Result = ar.AugmentedReturn


def fresh():
    """A function no other test knows."""

    @numba.njit
    def f(x):
        return x * x

    return f


def spline_is_a_string():
    ar.reverse("spline")


def annotation_is_a_type():
    @ar.reverse(fresh())
    def _(config, dret: Active, tape, x: float): ...


def annotation_is_unknown():
    @ar.reverse(fresh())
    def _(config, dret: Active, tape, x: "Actve"): ...  # noqa: F821


def no_place_for_the_tape():
    @ar.reverse(fresh())
    def _(config, dret: Active): ...


def starred_arguments():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, *x: Active): ...


def keyword_arguments():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, *, x: Active): ...


def no_function():
    ar.augmented_primal(fresh())(int)


def too_many_arguments():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active, n: Const): ...


def keyword_only_function():
    @numba.njit
    def of_keyword(x, *, k=2.0):
        return k * x

    @ar.reverse(of_keyword)
    def _(config, dret: Active, tape, x: Active, k: Const):
        return dret.val * k.val, None


def too_few_arguments():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active): ...


def tape_left_out():
    @ar.reverse(fresh())
    def _(config, dret: Active, x: Active): ...


def active_array():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active[float64[:]]): ...


def active_array_of_any_kind():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active[np.ndarray]): ...


def active_or_duplicated_array():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active[np.ndarray] | Duplicated[np.ndarray]): ...


def active_forward():
    @ar.forward(fresh())
    def _(config, ret: Duplicated, x: Active): ...


def bound_method():
    ar.augmented_primal(fresh())({}.get)


def built_in():
    ar.reverse(fresh())(math.sin)


def number_as_function():
    ar.forward(3)


def unknown_saves():
    @ar.reverse(fresh(), saves="y")
    def _(config, dret: Active, tape, x: Active): ...


def unknown_inactive():
    ar.inactive(fresh(), args="y")


def opting_out_of_nothing():
    ar.opt_out(fresh(), float64)


def opting_out_of_too_few_arguments():
    ar.opt_out(fresh(), Active, Active)


def type_in_quotes():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active["float64"]): ...


def class_that_is_no_type():
    @ar.reverse(fresh())
    def _(config, dret: Active, tape, x: Active[Fraction]): ...


def position_that_is_saved():
    ar.reverse(fresh(), saves=0)


def activity_that_does_not_exist():
    ar.has_rule(fresh(), "activ")


def inactive_number():
    ar.inactive_type(3)


def pullback_of_another_function():
    @rrule.register(fresh())
    def _(f, x, y):
        def pullback(dz):
            return NoTangent(), dz, dz

        return x + y, pullback


def pushforward_of_another_function():
    @frule.register(fresh())
    def _(deltas, f, x, y):
        return x + y, deltas[1] + deltas[2]


def function_left_out():
    @ar.augmented_primal
    def _(config, ret: Active, x: Active): ...


def tape_before_the_cotangent():
    @ar.reverse(fresh())
    def _(config, tape, dret: Active, x: Active): ...


def starred():
    @numba.njit
    def product(x, *factors):
        return x * factors[0] * factors[1]

    return product


def starred_argument_of_the_function():
    @ar.augmented_primal(starred())
    def _(config, ret: Active, x: Active, *factors: Active): ...


def starred_argument_item_by_item():
    @ar.augmented_primal(starred())
    def _(config, ret: Active, x: Active, first: Active, second: Active): ...


def active_integer():
    @ar.augmented_primal(fresh())
    def _(config, ret: Active, x: Active[int64]): ...


def duplicated_array_of_integers():
    @ar.reverse(fresh())
    def _(config, dret: Active, tape, x: Duplicated[int64[:]]): ...


def duplicated_truth_value():
    @ar.forward(fresh())
    def _(config, ret: Duplicated, x: Duplicated[bool] | Const): ...


def partials_one_by_one():
    scalar_rule(fresh(), (lambda Ω, x: 2.0 * x,))


def argument_of_a_function_without_any():
    @ar.reverse(numba.njit(lambda: 1.0))
    def _(config, dret: Active, tape, x: Active): ...


def partials_of_a_function_without_arguments():
    scalar_rule(numba.njit(lambda: 1.0), lambda Ω, x: (1.0,))


def partials_without_the_result():
    scalar_rule(fresh(), lambda: 2.0)


DEFINITIONS = [
    (argument_of_a_function_without_any, "takes 0 arguments, and its rule 1"),
    (partials_of_a_function_without_arguments, "takes 0 arguments, and its partials take 1"),
    (partials_without_the_result, "(?s)the first parameter is Ω.*lambda Ω, x"),
    (function_left_out, "@augmented_primal takes the function that the rule is for"),
    (tape_before_the_cotangent, "`dret` is the tape of a reverse, and has no activity"),
    (starred_argument_of_the_function, r"(?s)is one, a tuple.*config, ret, x: Active, factors: A"),
    (starred_argument_item_by_item, r"(?s)takes 2 arguments, and its rule 3.*`\*factors` is one"),
    (active_integer, r"int64 carries no derivative: Active\[int64\]"),
    (duplicated_array_of_integers, r"int64\[:\] carries no derivative: Duplicated\[int64\[:\]\]"),
    (duplicated_truth_value, r"bool carries no derivative: Duplicated\[bool\]"),
    (partials_one_by_one, "(?s)`partials` is not a Python function.*lambda Ω, x, y"),
    (spline_is_a_string, "takes a function, not 'spline'"),
    (annotation_is_a_type, "annotation of `x` in _: <class 'float'> is not an annotation"),
    (annotation_is_unknown, "annotation of `x` cannot be evaluated: name 'Actve'"),
    (no_place_for_the_tape, r"not a function of \(config, dret, tape, arguments"),
    (starred_arguments, r"not a function of \(config, ret, arguments"),
    (keyword_arguments, r"not a function of \(config, ret, arguments"),
    (no_function, "decorates a Python function, not <class 'int'>"),
    (too_many_arguments, "f takes 1 argument, and its rule 2"),
    (keyword_only_function, "`k` of of_keyword is keyword-only"),
    (too_few_arguments, "f takes 1 argument, and its rule 0"),
    (tape_left_out, "(?s)f takes 1 argument, and its rule 0.*after `config, dret, tape` for each"),
    (active_array, r"an array is never Active: Active\[float64\[:\]\]"),
    (active_array_of_any_kind, r"an array is never Active: Active\[np.ndarray\]"),
    (active_or_duplicated_array, r"an array is never Active: Active\[np.ndarray\]"),
    (active_forward, "in forward mode nothing is Active"),
    (bound_method, "decorates a Python function, not <built-in method get"),
    (built_in, "decorates a Python function, not <built-in function sin>"),
    (number_as_function, "takes a function, not 3"),
    (unknown_saves, "saves names 'y', which is not an argument of the rule"),
    (unknown_inactive, "f has no argument 'y'"),
    (opting_out_of_nothing, "annotation of `argument 0`"),
    (opting_out_of_too_few_arguments, "f takes 1 argument, and opt_out 2"),
    (type_in_quotes, "annotation of `x` in _: 'float64' is not a type of Numba"),
    (class_that_is_no_type, "annotation of `x` in _: <class 'fractions.Fraction'> is not a type"),
    (position_that_is_saved, "name its arguments: 0 is not a name"),
    (activity_that_does_not_exist, "has_rule takes activities, not 'activ'"),
    (inactive_number, "inactive_type takes a type: 3 is not a type of Numba"),
    (lambda: ar.inactive_type(None), "inactive_type takes a type: None stands for all types"),
    (
        pullback_of_another_function,
        "(?s)f takes 1 argument, and its rule 2.*after the function itself",
    ),
    (pushforward_of_another_function, "(?s)and its rule 2.*after the tangents and the function"),
]


@pytest.mark.parametrize(("define", "message"), DEFINITIONS)
def test_refused_where_it_is_defined(define, message):
    with pytest.raises(RuleDefinitionError, match=message):
        define()


def test_ties_are_refused_where_the_second_rule_is_defined():
    @numba.njit
    def f(x, y):
        return x * y

    @ar.reverse(f)
    def _(config, dret: Active, tape, x: Active, y: Active | Const): ...

    with pytest.raises(AmbiguousRule, match="neither is more specific") as caught:

        @ar.reverse(f)
        def _(config, dret: Active, tape, x: Active | Const, y: Active): ...

    assert "x: Active, y: Active | Const" in str(caught.value)
    assert "x: Active | Const, y: Active" in str(caught.value)

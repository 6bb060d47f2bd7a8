"""What a rule with a closure may not do is refused where it is defined, with the line."""

import functools
import importlib.util
import math

import pytest
from numba import njit

from activerules.chainrules import (
    NoTangent,
    rrule,
)
from activerules.chainrules.registry import RRULES
from activerules.errors import (
    RuleDefinitionError,
)
from activerules.rules.closures.convert import convert
from rules.closures.explicit_rules import explicit_one, f


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


def derivative_alone(f, x):
    def pullback(dy):
        return 2.0 * x * dy

    return x * x, pullback


def decorated(f, x):
    @functools.cache
    def pullback(dy):
        return NoTangent(), dy

    return x, pullback


def helper_with_a_default(f, x):
    def scaled(y, factor=2.0):
        return factor * y

    return x * x, lambda dy: (NoTangent(), scaled(x) * dy)


def helper_defined_twice(f, x):
    def scaled(y):
        return 2.0 * y

    def scaled(y):  # noqa: F811
        return 3.0 * y

    return x * x, lambda dy: (NoTangent(), scaled(x) * dy)


def bound_by_a_loop(f, x):
    for pullback in (1, 2):
        pass
    return x * x, pullback


REFUSED = {
    helper_with_a_default: r"(?s)`scaled`, which.* has default values.*all arguments in its calls",
    helper_defined_twice: r"(?s)`scaled`, which.* is bound twice.*another name",
    bound_by_a_loop: "not defined in the rule",
    different_in_branches: "different pullbacks",
    chosen_by_an_expression: "different pullbacks",
    two_returns: "different pullbacks",
    no_pullback: r"does not return \(y, pullback\)",
    nothing: "returns nothing",
    made_elsewhere: "not defined in the rule",
    used_otherwise: "used for something else",
    wrong_arity: "2 entries, expected 3",
    derivative_alone: "one value, expected 2 entries",
    two_cotangents: "one cotangent",
    counts_its_calls: "changes a variable outside",
    writes_into_its_tape: "writes into `weights`",
    variadic: "function of",
    returns_nothing: "returns nothing here",
    decorated: "has a decorator",
}


@pytest.mark.parametrize("rule", REFUSED, ids=lambda rule: rule.__name__)
def test_convert_v5_pullback_b1_b2_refused_where_it_is_defined(rule):
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


def test_source_s1_two_lambdas_on_one_line_are_told_apart():
    one, two = lambda f, x: (x, lambda dy: (None, dy)), lambda f, x: (x, lambda dy: (None, 2 * dy))
    assert explicit_one(convert(one, f), 1.0, 1.0) == (1.0,)
    assert explicit_one(convert(two, f), 1.0, 1.0) == (2.0,)


def test_source_s1_a_file_that_was_edited_since_is_noticed(tmp_path):
    text = "def rule(f, x):\n    return x, lambda dy: (None, 2 * dy)\n"
    path = tmp_path / "edited_rule.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("edited_rule", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert explicit_one(convert(module.rule, f), 1.0, 1.0) == (2.0,)
    path.write_text(text.replace("2 * dy", "3 * dy") + "\n")
    with pytest.raises(RuleDefinitionError, match="its file has changed since it was loaded"):
        convert(module.rule, f)


def test_a_pullback_of_the_module():
    def rule(f, x):
        return x, outside

    assert explicit_one(convert(rule, f), 1.0, 3.0) == (3.0,)


def test_a_pullback_that_is_defined_after_the_rule():
    @njit
    def same(x):
        return x

    with pytest.raises(RuleDefinitionError, match="the pullback is not defined in the rule"):

        @rrule.register(same)
        def same_rule(f, x):
            return x, pullback

    def pullback(dy):
        return NoTangent(), dy

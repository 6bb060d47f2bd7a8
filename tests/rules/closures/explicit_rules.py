"""A rule with a closure as an explicit pair, called in plain Python."""

import activerules as ar
from activerules.chainrules.registry import RRULES
from activerules.rules.closures.convert import convert
from activerules.rules.protocol import RuleConfig


def f(*x):
    """What the rules below pretend to be the rule of, where it does not matter."""


def conversion_of(function):
    """The explicit pair of the only rrule of a function."""
    (rule,) = RRULES.rules_for(function)
    return convert(rule.function, function)


def explicit(conversion, scale, x, dy):
    """The cotangents by both halves of the rule of a function of two numbers."""
    config = RuleConfig(overwritten=(False, False))
    annotated = ar.Active(scale), ar.Active(x)
    made = conversion.augmented(config, ar.Active, *annotated)
    return conversion.reverse(config, ar.Active(dy), made.tape, *annotated)


def explicit_one(conversion, x, dy):
    """The cotangent by both halves of the rule of a function of one number."""
    config = RuleConfig(overwritten=(False,))
    made = conversion.augmented(config, ar.Active, ar.Active(x))
    return conversion.reverse(config, ar.Active(dy), made.tape, ar.Active(x))

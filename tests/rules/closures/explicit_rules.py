"""A rule with a closure as an explicit pair, called in plain Python."""

import activerules as ar
from activerules.rules.protocol import RuleConfig


def f(*x):
    """What the rules below pretend to be the rule of, where it does not matter."""


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

"""Rules: how they are written, kept and chosen. Needs no Numba until a rule is compiled.

What a package needs that defines rules is here; importing it loads neither the engine nor Numba.
"""

from activerules.rules.define import (
    augmented_primal,
    forward,
    has_rule,
    inactive,
    inactive_type,
    noalias,
    opt_out,
    reverse,
    rules_for,
)
from activerules.rules.protocol import AugmentedReturn, accumulate, active

__all__ = [
    "AugmentedReturn",
    "accumulate",
    "active",
    "augmented_primal",
    "forward",
    "has_rule",
    "inactive",
    "inactive_type",
    "noalias",
    "opt_out",
    "reverse",
    "rules_for",
]


def __dir__() -> list[str]:
    """The interface alone: what else is here is for the package itself."""
    return sorted(__all__)

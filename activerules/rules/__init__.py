"""Rules: how they are defined, registered and chosen.

All that a package needs to define rules; importing it loads neither the engine nor Numba.
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
    """The public names only."""
    return sorted(__all__)

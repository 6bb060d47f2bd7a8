"""Rules in the style of ChainRules.jl: `frule`, `rrule` and `scalar_rule`, and their tangent types.

    @rrule.register(f)                      a rule with a closure; compiled code gets a pair
    rrule(f, *x), frule(deltas, f, *x)      rules called from Python, without any AD
    scalar_rule(f, partials)                a function of numbers, by its partial derivatives

docs/chainrules.md shows each.
"""

from activerules.annotations.projection import ProjectTo
from activerules.annotations.structural import Tangent, canonicalize
from activerules.annotations.tangents import (
    AbstractTangent,
    NoTangent,
    NotImplementedTangent,
    One,
    ZeroTangent,
)
from activerules.annotations.thunks import (
    AbstractThunk,
    InplaceableThunk,
    Thunk,
    add_inplace,
    extern,
    is_inplaceable_destination,
    unthunk,
)
from activerules.chainrules.capabilities import HasForwardsMode, HasReverseMode, RuleConfig
from activerules.chainrules.direct import frule, rrule
from activerules.chainrules.scalar import scalar_rule
from activerules.chainrules.via_ad import frule_via_ad, rrule_via_ad
from activerules.numba_ext.tangents import (
    dataless,  # noqa: F401  compiled forms
    delivery,  # noqa: F401  compiled forms
    projection,  # noqa: F401  compiled forms
    structural,  # noqa: F401  compiled forms
)
from activerules.rules import library  # noqa: F401  users' rules are defined after these
from activerules.rules.debug import debug_mode
from activerules.rules.define import inactive as non_differentiable
from activerules.rules.define import opt_out

__all__ = [
    "AbstractTangent",
    "AbstractThunk",
    "HasForwardsMode",
    "HasReverseMode",
    "InplaceableThunk",
    "NoTangent",
    "NotImplementedTangent",
    "One",
    "ProjectTo",
    "RuleConfig",
    "Tangent",
    "Thunk",
    "ZeroTangent",
    "add_inplace",
    "canonicalize",
    "debug_mode",
    "extern",
    "frule",
    "frule_via_ad",
    "is_inplaceable_destination",
    "non_differentiable",
    "opt_out",
    "rrule",
    "rrule_via_ad",
    "scalar_rule",
    "unthunk",
]


def __dir__() -> list[str]:
    """The public names only."""
    return sorted(__all__)

"""Capabilities of the caller of a rule: the `RuleConfig` of ChainRules.

    @rrule.register(map_over, requires=HasReverseMode)      a rule that calls back into AD
    rrule(map_over, f, xs, config=RuleConfig(HasReverseMode))

A rule with a requirement is found by callers with that capability, and preferred to rules without.
The engine has both modes: in compiled code such a rule always serves.
"""

from __future__ import annotations

from typing import Any


class Capability:
    """Base class of the capabilities; used as classes, never instantiated."""


class HasReverseMode(Capability):
    """The caller can compute reverse derivatives, by `rrule_via_ad`."""


class HasForwardsMode(Capability):
    """The caller can compute forward derivatives, by `frule_via_ad`."""


Requirement = type[Capability]


class RuleConfig:
    """The capabilities of a caller of `frule` or `rrule`; both modes are those of the engine."""

    def __init__(self, *capabilities: Requirement) -> None:
        for capability in capabilities:
            if not (isinstance(capability, type) and issubclass(capability, Capability)):
                raise TypeError(f"{capability!r} is not HasReverseMode or HasForwardsMode")
        self.capabilities = frozenset(capabilities)

    def has(self, requirement: Requirement | None) -> bool:
        """Whether a rule with this requirement can serve."""
        return requirement is None or requirement in self.capabilities

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RuleConfig) and other.capabilities == self.capabilities

    def __hash__(self) -> int:
        return hash(self.capabilities)

    def __repr__(self) -> str:
        return f"RuleConfig({', '.join(sorted(c.__name__ for c in self.capabilities))})"


NOTHING: Any = RuleConfig()
"""The capabilities of a call without `config`."""

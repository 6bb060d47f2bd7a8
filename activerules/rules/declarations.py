"""What was declared about one function, and what follows from that alone.

Needs       rules, and the declarations of `rules.define`, as the registry receives them
Gives       `Declarations`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from activerules.callables import display_name
from activerules.rules import pattern as patterns
from activerules.rules.fingerprint import written_rule
from activerules.rules.pattern import Pattern
from activerules.rules.rule import RESULT, DataPaths, Half, Rule, RuleHalf, is_of_library

_OTHER: dict[Half, Half] = {"forward": "reverse", "reverse": "forward"}


@dataclass
class Declarations:
    """All declarations about one function; it keeps the function alive, as its id is the key.

    rules       by the half that all of them are for: "reverse" has the pairs
    inactive    the module that declares the whole function inactive, or None
    by_body     modes in which its body is differentiated, whatever rules there are
    recomputed  the rule that its body is made into
    """

    function: Any
    rules: dict[Half, list[Rule]] = field(default_factory=dict[Half, list[Rule]])
    inactive: str | None = None
    inactive_arguments: set[str | int] = field(default_factory=set[str | int])
    noalias: bool = False
    refusal: str = ""
    opted_out: list[tuple[Pattern, ...] | None] = field(default_factory=lambda: [])
    by_body: set[Half] = field(default_factory=set[Half])
    recomputed: Rule | None = None

    @property
    def is_inactive(self) -> bool:
        """Whether the whole function was declared to carry no derivative."""
        return self.inactive is not None

    def in_mode(self, mode: Half) -> list[Rule]:
        """The rules for a mode, "reverse" or "forward", unless its body was chosen in this one."""
        return [] if mode in self.by_body else self.rules.get(mode, [])

    def group_of(self, which: Half) -> list[Rule]:
        """The list that a rule with this half belongs to; it may be extended."""
        return self.rules.setdefault("forward" if which == "forward" else "reverse", [])

    def all_rules(self) -> tuple[Rule, ...]:
        """Its rules in the order of their definition."""
        return tuple(rule for group in self.rules.values() for rule in group)

    def halves(self) -> list[tuple[Half, RuleHalf]]:
        """The halves of all rules, each with its kind."""
        return [pair for rule in self.all_rules() for pair in rule.halves.items()]

    def carries(self, mode: Half) -> bool:
        """Whether its calls may be kept in a mode."""
        declared = (self.is_inactive, self.inactive_arguments, self.refusal)
        return any(declared) or bool(self.in_mode(mode))

    @property
    def is_opted_out(self) -> bool:
        """Whether the body serves every call, since nothing keeps derivatives from it."""
        keeps_from = self.inactive_arguments or self.refusal
        return None in self.opted_out and not keeps_from

    def only_in_other(self, mode: Half) -> bool:
        """Whether a user wrote rules for the other mode only, so its body serves this one."""
        if self.is_inactive or self.refusal:
            return False
        return not self.in_mode(mode) and self.is_of_user and bool(self.in_mode(_OTHER[mode]))

    @property
    def is_of_user(self) -> bool:
        """Whether it has a rule that is not the library's."""
        return any(not is_of_library(half.module) for _, half in self.halves())

    def of_other_mode(self, mode: Half) -> str:
        """The location of a user's rule for the other mode, if there is none for this one."""
        users = {which: h.location for which, h in self.halves() if not is_of_library(h.module)}
        return "" if mode in users else users.get(_OTHER[mode], "")

    def inactive_positions(self, names: Sequence[str]) -> frozenset[int]:
        """The positions of the arguments (called `names`) that were declared inactive."""
        declared = self.inactive_arguments
        return frozenset(i for i, name in enumerate(names) if i in declared or name in declared)

    def data_paths(self) -> DataPaths:
        """How data bypasses its arguments, as declared by all of its rules."""
        halves = [half for _, half in self.halves()]
        sent = {h.argument_names.index(name) for h in halves for name in h.sends or ()}
        received = [(h, name) for h in halves for name in h.receives or ()]
        return DataPaths(
            frozenset(sent),
            frozenset(h.argument_names.index(name) for h, name in received if name != RESULT),
            any(name == RESULT for _, name in received),
            any(h.sends is not None or h.receives is not None for h in halves),
        )

    def written(self) -> list[str]:
        """All declarations as text, for the fingerprint."""
        name = display_name(self.function)
        stopped = sorted(map(str, self.inactive_arguments))
        facts = (self.is_inactive, stopped, self.noalias, self.refusal, sorted(self.by_body))
        out = [None if s is None else [*map(patterns.show, s)] for s in self.opted_out]
        rules = [written_rule(rule) for rule in self.all_rules()]
        return [f"{name} {facts} {out}", *rules]

"""Conflicts between rules of a function: equal signatures, redefinitions, and ties.

Two rules tie if some call fits both and neither is more specific, unless a third rule is preferred
for every such call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.errors import AmbiguousRule
from activerules.rules import pattern as patterns
from activerules.rules.pattern import Pattern
from activerules.rules.rule import Half, Rule, RuleHalf


def key_of(rule: Rule) -> tuple[object, ...]:
    """The signature as a key: rules with equal keys are one rule."""
    return tuple(map(patterns.pattern_key, rule.signature))


def redefined_by(rule: Rule, which: Half, existing: Sequence[Rule]) -> list[Rule]:
    """The rules that a new one takes the place of: both are for all activities and the same types.

    They are not equal if one is an `rrule` or `frule` and the other is not: a converted rule admits
    no batches, and would seem more specific for that, whichever is defined later.
    """
    if not _is_for_all_activities(rule, which):
        return []
    types = _types_of(rule)
    return [r for r in existing if _is_for_all_activities(r, which) and _types_of(r) == types]


def _is_for_all_activities(rule: Rule, which: Half) -> bool:
    active = {Duplicated} if which == "forward" else {Active, Duplicated}
    *arguments, result = ({alternative.kind for alternative in p} for p in rule.signature)
    return active <= result and all(active | {Const} <= kinds for kinds in arguments)


def _types_of(rule: Rule) -> list[set[Any]]:
    return [{alternative.type for alternative in pattern} for pattern in rule.signature]


def refuse_ties(rule: Rule, half: RuleHalf, existing: Sequence[Rule]) -> None:
    """Raise `AmbiguousRule` if a new rule ties with one that exists."""
    for other in existing:
        if not patterns.is_tie(rule.signature, other.signature):
            continue
        both = patterns.meet(rule.signature, other.signature)
        if any(_settles(third, both, rule, other) for third in existing):
            continue
        raise AmbiguousRule(
            f"{half.function.__name__} overlaps {other.name}, and neither is more specific",
            where=[
                ("the new rule", _rule_text(rule, half), half.location),
                ("the rule that exists", str(other), other.location),
            ],
            why="a call that fits both signatures would have no rule to prefer",
            instead=[
                "narrow the annotations of one of them",
                f"first define a rule for what both admit: {_rule_text(rule, half, both)}",
            ],
        )


def _settles(third: Rule, both: Sequence[Pattern], rule: Rule, other: Rule) -> bool:
    """Whether a third rule is preferred for every call that two others tie on."""
    return patterns.covers(third.signature, both) and all(
        patterns.is_preferred(third.signature, tied.signature) for tied in (rule, other)
    )


def _rule_text(rule: Rule, half: RuleHalf, signature: Sequence[Pattern] | None = None) -> str:
    *arguments, result = signature or rule.signature
    return str(Rule(rule.name, tuple(arguments), result, {"reverse": half}))


def refuse_foreign(old: RuleHalf, new: RuleHalf, rule: Rule, replace: bool) -> None:
    """Raise `AmbiguousRule` if a half would replace one of another module without `replace`."""
    if replace or old.module == new.module:
        return
    raise AmbiguousRule(
        f"{rule.name} has a rule of this signature from another module",
        where=[
            ("the new rule", _rule_text(rule, new), new.location),
            ("the rule that exists", f"in module {old.module}", old.location),
        ],
        instead=["pass replace=True to the decorator to take its place"],
    )

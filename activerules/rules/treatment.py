"""How a call of a function with declarations is differentiated: by a rule, or by its body.

Needs       the declarations about a function, and the names and types of a call's arguments
Gives       `Treatment`; `treatment_of`: that of a call; `is_of_users`: whether declarations of
            users concern it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from activerules.rules.choose import (
    RuleQuery,
    element_count,
    is_for_types,
    prefers_body,
    serves_elements,
    takes,
    waits_for_activities,
)
from activerules.rules.declarations import Declarations
from activerules.rules.nearest import near_miss
from activerules.rules.rule import Half, is_generic, parameters_of


@dataclass(frozen=True)
class Treatment:
    """How a call of a registered function is differentiated.

    kept         by a rule: the call is kept; otherwise its body is differentiated
    inactive     positions of the arguments whose derivatives stop at the body
    reason       why the body is differentiated
    missed       the user's rule that comes nearest to the call, and why it does not serve it, or ""
    elementwise  the body calls, for each element, a function served by a rule for numbers
    """

    kept: bool
    inactive: frozenset[int] = frozenset()
    reason: str = ""
    elementwise: bool = False
    missed: str = ""


def treatment_of(
    declared: Declarations,
    function: object,
    names: Sequence[str],
    argtypes: Sequence[Any],
    mode: Half,
    returned: Any,
) -> Treatment:
    """How a call of `function` is differentiated, by the names and types of its arguments, and the
    type of its result as far as that is known.
    """
    if declared.is_inactive:
        return Treatment(kept=True)
    every = declared.in_mode(mode)
    parameters = parameters_of(function)
    rules = [rule for rule in every if takes(rule, names, parameters)]
    inactive = declared.inactive_positions(names)
    forward = mode == "forward"
    count = element_count(function)  # `out` comes after these
    for_elements = [rule for rule in every if takes(rule, names[:count], parameters)]
    if not inactive and serves_elements(
        function, for_elements, declared.opted_out, argtypes, forward=forward
    ):
        return Treatment(False, reason="its rule for numbers", elementwise=True)
    missed = ""
    if (rules or declared.refusal) and prefers_body(declared.opted_out, rules, argtypes):
        if waits_for_activities(function, declared.opted_out, argtypes):
            return Treatment(kept=True)
        reason = "opt_out"
    elif declared.refusal:
        return Treatment(kept=True)
    elif every and is_generic(function) and not is_for_types(rules, argtypes, forward=forward):
        types = (*argtypes, returned)
        call = RuleQuery("", types, (), forward, tuple(names), parameters)
        missed = near_miss([rule for rule in every if not rule.of_library], call)
        reason = missed or "no rule is for these types"
    elif every:
        return Treatment(kept=True)
    else:
        reason = "it has no rule"
    return Treatment(False, inactive, reason, missed=missed)


def is_of_users(declared: Declarations, argtypes: Sequence[Any]) -> bool:
    """Whether anything but the library's rules may serve calls with these types, or keep
    derivatives from them.
    """
    if declared.is_inactive or declared.inactive_arguments:
        return True
    modes: tuple[Half, Half] = ("reverse", "forward")
    return any(
        is_for_types(
            [rule for rule in declared.in_mode(mode) if not rule.of_library],
            argtypes,
            forward=mode == "forward",
        )
        for mode in modes
    )

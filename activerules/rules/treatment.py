"""How a call of a function with declarations is differentiated: by a rule, or by its body.

Needs       the declarations about a function, and the names and types of a call's arguments
Gives       `Treatment`; `treatment_of`: that of a call; `is_of_users`: whether declarations of
            users concern it
            `prefers_body`, `waits_for_activities`, `chooses_body`: what an `opt_out` decides
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from activerules.annotations.activity import (
    Active,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
    Duplicated,
    DuplicatedNoNeed,
)
from activerules.callables import is_generic, parameters_of
from activerules.rules import pattern as patterns
from activerules.rules.choose import RuleQuery, could_have, differentiable_kind, takes
from activerules.rules.declarations import Declarations
from activerules.rules.nearest import near_miss
from activerules.rules.pattern import Order, Pattern
from activerules.rules.rule import Half, Kind, Rule


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
        if prefers_body(declared.opted_out, (), argtypes):
            return Treatment(False, declared.inactive_positions(names), "opt_out")
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


def prefers_body(
    opted_out: Sequence[tuple[Pattern, ...] | None], rules: Sequence[Rule], argtypes: Sequence[Any]
) -> bool:
    """Whether calls with these types are opted out, and no rule has more specific types."""
    if None in opted_out:
        return True
    rules = [rule for rule in rules if not rule.of_library]  # C3: an `opt_out` is a user's
    wanted = [t for s in opted_out if s is not None and (t := _narrowest(s, argtypes)) is not None]
    served = [t for rule in rules if (t := _narrowest(rule.arguments, argtypes)) is not None]
    return any(not any(_is_narrower(rule, out) for rule in served) for out in wanted)


def waits_for_activities(
    function: Any, opted_out: Sequence[tuple[Pattern, ...] | None], argtypes: Sequence[Any]
) -> bool:
    """Whether activities decide as well: every `opt_out` that fits the types admits only some of
    them, and the body can become a rule because the function is an `@njit` function.

    If only one argument can carry a derivative, it does in every call that matters.
    """
    if not hasattr(function, "py_func"):
        return False
    fitting = [s for s in opted_out if s is None or _narrowest(s, argtypes) is not None]
    return bool(fitting) and all(s is not None and _is_selective(s, argtypes) for s in fitting)


def _is_selective(signature: Sequence[Pattern], argtypes: Sequence[Any]) -> bool:
    several = [
        {alternative.kind is Const for alternative in pattern}
        for pattern, ty in zip(signature, argtypes, strict=True)
        if differentiable_kind(ty) is not Const
    ]
    return len(several) > 1 and any(len(kinds) == 1 for kinds in several)


def chooses_body(
    opted_out: Sequence[tuple[Pattern, ...] | None], rules: Sequence[Rule], call: RuleQuery
) -> bool:
    """Whether a call is opted out with its activities; forward mode takes Active for Duplicated."""
    types, kinds = call.types[:-1], call.kinds[:-1]
    admitting = [
        signature
        for signature in opted_out
        if signature is not None
        and len(signature) == len(types)
        and all(
            any(patterns.admits(a.type, t) and (a.kind is Const) is (k is Const) for a in pattern)
            for pattern, t, k in zip(signature, types, kinds, strict=True)
        )
    ]
    return prefers_body(admitting, rules, types)


def is_for_types(rules: Sequence[Rule], argtypes: Sequence[Any], *, forward: bool) -> bool:
    """Whether a rule could serve arguments of these types, whatever their activities."""
    return any(
        len(rule.arguments) == len(argtypes)
        and all(
            could_have(pattern, ty, forward=forward)
            for pattern, ty in zip(rule.arguments, argtypes, strict=True)
        )
        for rule in rules
    )


def serves_elements(
    function: Any,
    rules: Sequence[Rule],
    opted_out: Sequence[tuple[Pattern, ...] | None],
    argtypes: Sequence[Any],
    *,
    forward: bool,
) -> bool:
    """Whether a function that NumPy applies elementwise has rules for numbers, and none for these
    arrays.
    """
    count = element_count(function)
    if count is None or not any(map(_is_memory, argtypes)):
        return False
    elements = [ty.dtype if _is_memory(ty) else ty for ty in argtypes[:count]]
    for_numbers = [r for r in rules if forward or _returns(r, {Active})]
    for_arrays = [r for r in rules if forward or _returns(r, _OF_MEMORY)]
    return (
        any(differentiable_kind(element) is Active for element in elements)
        and is_for_types(for_numbers, elements, forward=forward)
        and not is_for_types(for_arrays, argtypes, forward=forward)
        and not prefers_body(opted_out, rules, elements)
    )


def element_count(function: Any) -> int | None:
    """The number of arguments of a function that NumPy applies elementwise; None for others."""
    is_elementwise = getattr(function, "nout", None) == 1 and function.signature is None
    return function.nin if is_elementwise else None


def _is_memory(ty: Any) -> bool:
    return hasattr(ty, "layout")


_OF_MEMORY: set[Kind] = {Duplicated, DuplicatedNoNeed, BatchDuplicated, BatchDuplicatedNoNeed}


def _returns(rule: Rule, kinds: set[Kind]) -> bool:
    return any(alternative.kind in kinds for alternative in rule.result)


def _narrowest(signature: Sequence[Pattern], argtypes: Sequence[Any]) -> list[Any] | None:
    """The narrowest types of a signature that admit those of a call; None if it does not fit."""
    if len(signature) != len(argtypes):
        return None
    narrowest: list[Any] = []
    for pattern, ty in zip(signature, argtypes, strict=True):
        fitting = [a.type for a in pattern if patterns.admits(a.type, ty)]
        if not fitting:
            return None
        narrowest.append(min(fitting, key=lambda t: sum(patterns.admits(t, u) for u in fitting)))
    return narrowest


def _is_narrower(first: Sequence[Any], second: Sequence[Any]) -> bool:
    orders = (patterns.type_order(a, b) for a, b in zip(first, second, strict=True))
    return patterns.combined(orders) is Order.NARROWER

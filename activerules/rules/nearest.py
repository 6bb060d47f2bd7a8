"""The rule of a user that comes nearest to a call it does not serve, and why it does not.

Needs       the rules of users for a function, and a `RuleQuery`
Gives       `near_miss`: a rule that fits by types, and misses by the number of arguments, by their
            names or by activities; one for other types is meant for other calls
            `missed_by`: the same where a rule of the library was chosen
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.annotations.activity import Const
from activerules.rules.choose import RuleQuery, could_have, differentiable_kind, misfits
from activerules.rules.pattern import show
from activerules.rules.rule import ForwardRule, Rule, RulePair


def near_miss(rules: Sequence[Rule], call: RuleQuery) -> str:
    """The rule that is nearest to a call, and why it does not serve it; "" if none is near.

    Without `call.kinds` activities are not known, and a type of the result may be None.
    """
    if all(differentiable_kind(ty) is Const for ty in call.types[:-1]):
        return ""
    for is_near in (_by_activity, _by_name, _by_number):
        for rule in reversed(rules):
            why = is_near(rule, call) if _is_for_types(rule, call) else ""
            if why:
                return f"your rule {rule}, {rule.location}, does not serve it: {why}"
    return ""


def missed_by(rules: Sequence[Rule], call: RuleQuery, chosen: RulePair | ForwardRule) -> str:
    """The user's rule that is nearest to a call which one of the library serves."""
    users = [rule for rule in rules if not rule.of_library]
    if any(chosen.location == half.location for rule in users for half in rule.halves.values()):
        return ""
    return near_miss(users, call)


def _is_for_types(rule: Rule, call: RuleQuery) -> bool:
    """Whether the arguments that both have, and the result, could have their types."""
    *arguments, result = call.types
    pairs = [*zip(rule.arguments, arguments, strict=False), (rule.result, result)]
    return all(ty is None or could_have(pattern, ty, forward=call.forward) for pattern, ty in pairs)


def _by_number(rule: Rule, call: RuleQuery) -> str:
    takes, passed = len(rule.arguments), len(call.types) - 1
    if takes == passed:
        return ""
    names = f" ({', '.join(call.names)})" if call.names else ""
    return f"it takes {takes} argument{'s' * (takes != 1)}, and the call passes {passed}{names}"


def _by_name(rule: Rule, call: RuleQuery) -> str:
    if len(rule.arguments) != len(call.types) - 1 or call.names_arguments_of(rule):
        return ""
    return f"it takes ({', '.join(rule.argument_names)}), and the call ({', '.join(call.names)})"


def _by_activity(rule: Rule, call: RuleQuery) -> str:
    names = (*(f"`{name}`" for name in rule.argument_names), "the result")
    if len(names) != len(call.kinds) or not call.names_arguments_of(rule):
        return ""
    return "; ".join(
        f"{names[i]} is {call.kinds[i].__name__}, and it admits {show(rule.signature[i])}"
        for i in misfits(rule, call)
    )

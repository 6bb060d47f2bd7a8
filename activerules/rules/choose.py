"""Choosing the rule that serves a call: users' rules before the library's, and among these the most
specific one, by Numba types first and then by activities.

Needs       the rules of a function, and a `RuleQuery`: types and activities of arguments and result
Gives       `choose`: a whole pair; `choose_forward`: a forward rule; they raise
            NoRuleForActivity, IncompleteRule, AmbiguousRule
Invariants  C1  an activity is lowered (a Const argument passed to a rule for more) only if no rule
                fits as it is
            C2  the body of a function with rules is never the answer
            C3  a rule of the library serves only calls that no rule of a user can serve
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

from activerules.annotations.activity import (
    BY_NAME,
    Active,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
    Duplicated,
    DuplicatedNoNeed,
    Narrowed,
)
from activerules.errors import AmbiguousRule, IncompleteRule, NoRuleForActivity
from activerules.rules import pattern as patterns
from activerules.rules.pattern import Order, Pattern
from activerules.rules.rule import ForwardRule, Half, Kind, Lowering, Rule, RulePair


@dataclass(frozen=True)
class RuleQuery:
    """The call to find a rule for: types and activities of the arguments and, last, of the result.

    `forward`: every value that carries a derivative is Duplicated, floats too. `names` are those of
    the arguments in the call, `parameters` all that the function has, as far as they are known.
    """

    name: str
    types: tuple[Any, ...]
    kinds: tuple[Kind, ...]
    forward: bool = False
    names: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()

    def names_arguments_of(self, rule: Rule) -> bool:
        """Whether the arguments are those that a rule takes: in `sum(x, dtype=t)` the second one is
        not the `axis` of a rule for `sum(x, axis)`.
        """
        return takes(rule, self.names, self.parameters)

    @property
    def halves(self) -> tuple[Half, ...]:
        """The halves of a rule that a call in this mode needs."""
        return ("forward",) if self.forward else ("augmented_primal", "reverse")

    def lowered(self, ty: Any) -> Kind:
        """The activity a rule may have for a value of this type that is Const in the call.

        What never carries a derivative, as an integer, is Const for every rule: there is no zero
        tangent to pass with it.
        """
        kind = differentiable_kind(ty)
        if self.forward and kind is not Const:
            return BatchDuplicated if BatchDuplicated in self.kinds else Duplicated
        return kind

    def __str__(self) -> str:
        *arguments, result = (
            f"{kind.__name__}[{patterns.type_name(ty)}]"
            for kind, ty in zip(self.kinds, self.types, strict=True)
        )
        return f"{self.name}({', '.join(arguments)}) -> {result}"


@dataclass(frozen=True)
class Candidate:
    """A rule that serves a call, and the alternative of each parameter that does."""

    rule: Rule
    served: tuple[Narrowed, ...]
    lowered: int

    def beats(self, other: Candidate) -> bool:
        """Whether this rule is preferred: fewer lowered activities, then types, then activities."""
        if self.lowered != other.lowered:
            return self.lowered < other.lowered
        order = patterns.combined(
            patterns.type_order(a.type, b.type)
            for a, b in zip(self.served, other.served, strict=True)
        )
        if order is Order.EQUAL:
            order = patterns.signature_activity_order(self.rule.signature, other.rule.signature)
        return order is Order.NARROWER


def choose(rules: Sequence[Rule], call: RuleQuery) -> RulePair:
    """The pair that serves a call; raises if there is none, or several are equally specific."""
    serving, lost = _serving(rules, call)
    return replace(_pair(_best(serving, call), call, serving), lost=_lost(lost, call))


def choose_forward(rules: Sequence[Rule], call: RuleQuery, width: int) -> ForwardRule:
    """The forward rule that serves a call with `width` tangents.

    With several lanes a rule for BatchDuplicated comes first; a rule for Duplicated runs once per
    lane.
    """
    batched = replace(
        call, kinds=tuple(BatchDuplicated if k is Duplicated else k for k in call.kinds)
    )
    queries = (batched, call) if width > 1 else (call,)
    rules, lost = _serving(rules, *queries, *(_with_some_tangent(rules, each) for each in queries))
    if width > 1 and _candidates(rules, batched):
        wanted, looped = batched, False
    else:
        wanted, looped = call, width > 1
    chosen = _best(rules, _with_some_tangent(rules, wanted))
    *arguments, result = (alternative.kind for alternative in chosen.served)
    half = chosen.rule.halves["forward"]
    return ForwardRule(
        name=chosen.rule.name,
        function=half.function,
        arguments=tuple(arguments),
        result=result,
        lowering=tuple(_lowering(a, b) for a, b in zip(wanted.kinds, arguments, strict=False)),
        looped=looped,
        location=half.location,
        lost=_lost(lost, call),
    )


def _serving(rules: Sequence[Rule], *calls: RuleQuery) -> tuple[Sequence[Rule], Sequence[Rule]]:
    """The rules to choose from, which are users' if one of them serves one of the calls; and the
    library's that are passed over (C3).
    """
    users = [rule for rule in rules if not rule.of_library]
    library = [rule for rule in rules if rule.of_library]
    for chosen, passed_over in ((users, library), (library, [])):
        if any(_candidates(chosen, call) for call in calls):
            return chosen, passed_over
    return rules, []


def _lost(rules: Sequence[Rule], call: RuleQuery) -> str:
    """The location of the rule that would serve a call, or ""."""
    return _best(rules, call).rule.location if _candidates(rules, call) else ""


def _with_some_tangent(rules: Sequence[Rule], call: RuleQuery) -> RuleQuery:
    """The call as a rule for results with a tangent expects it: with an argument that has one.

    A result may have a shadow although nothing active enters it, because a variable refers to
    either it or active memory.
    """
    *arguments, result = call.kinds
    if result is Const or any(kind is not Const for kind in arguments):
        return call
    for k, ty in enumerate(call.types[:-1]):
        if differentiable_kind(ty) is not Const:
            kinds = (*arguments[:k], result, *arguments[k + 1 :], result)
            possible = replace(call, kinds=kinds)
            if _candidates(rules, possible):
                return possible
    return call


def could_have(pattern: Pattern, ty: Any, *, forward: bool) -> bool:
    """Whether a value of this type could be passed for a parameter, whatever its activity."""
    return any(patterns.admits(a.type, ty) and _is_possible(a.kind, ty, forward) for a in pattern)


def _is_possible(kind: Kind, ty: Any, forward: bool) -> bool:
    """Whether a value of this type may have the activity, or be passed to a rule for it."""
    if kind is Const or getattr(ty, "types", ()):
        return True
    if hasattr(ty, "layout"):
        return kind is not Active
    is_number = differentiable_kind(ty) is Active
    return is_number and (kind is Active) is not forward


def _candidates(rules: Sequence[Rule], call: RuleQuery) -> list[Candidate]:
    return [c for c in (serve(rule, call) for rule in rules) if c is not None]


def _best(rules: Sequence[Rule], call: RuleQuery) -> Candidate:
    candidates = _candidates(rules, call)
    if not candidates:
        raise _no_rule(rules, call)
    for candidate in candidates:
        if all(candidate is other or candidate.beats(other) for other in candidates):
            return candidate
    raise AmbiguousRule(
        f"several rules serve {call}, and none is more specific",
        where=[("a rule that serves it", str(c.rule), c.rule.location) for c in candidates],
        instead=["define a rule with exactly these activities"],
    )


_WITHOUT_VALUE: dict[Kind, Kind] = {
    Duplicated: DuplicatedNoNeed,
    BatchDuplicated: BatchDuplicatedNoNeed,
}


def takes(rule: Rule, names: Sequence[str], parameters: Sequence[str]) -> bool:
    """Whether arguments of these names go to the parameters of a rule, by their positions among
    those of the function.
    """
    passed, taken = (_positions(each, parameters) for each in (names, rule.argument_names))
    return not names or passed == taken


def _positions(names: Sequence[str], parameters: Sequence[str]) -> list[int]:
    """The positions of arguments; where their names do not determine it, their own order."""
    positions = [parameters.index(n) if n in parameters else i for i, n in enumerate(names)]
    is_in_order = all(a < b for a, b in pairwise(positions))
    return positions if is_in_order else list(range(len(names)))


def serve(rule: Rule, call: RuleQuery) -> Candidate | None:
    """The rule as a candidate for a call; None if it does not serve it."""
    if len(rule.signature) != len(call.types) or not call.names_arguments_of(rule):
        return None
    served: list[Narrowed] = []
    lowered = 0
    for pattern, kind, ty in zip(rule.signature, call.kinds, call.types, strict=True):
        lowered += patterns.matching(pattern, kind, ty) is None
        alternative = _alternative(pattern, kind, ty, call)
        if alternative is None:
            return None
        served.append(alternative)
    return Candidate(rule, tuple(served), lowered)


def misfits(rule: Rule, call: RuleQuery) -> list[int]:
    """The positions of the arguments, and of the result, whose activity a rule does not admit."""
    each = zip(rule.signature, call.kinds, call.types, strict=True)
    return [i for i, argument in enumerate(each) if _alternative(*argument, call) is None]


def _alternative(pattern: Pattern, kind: Kind, ty: Any, call: RuleQuery) -> Narrowed | None:
    """The alternative that serves an activity, as it is or lowered."""
    return patterns.matching(pattern, kind, ty) or _lowered(pattern, kind, ty, call)


def _lowered(pattern: Pattern, kind: Kind, ty: Any, call: RuleQuery) -> Narrowed | None:
    """The alternative that serves an activity it does not name; None if none does."""
    if kind in _WITHOUT_VALUE:
        # the rule promises not to read the value, which is passed anyway
        unread = patterns.matching(pattern, _WITHOUT_VALUE[kind], ty)
        return None if unread is None else Narrowed(kind, unread.type)
    return patterns.matching(pattern, call.lowered(ty), ty) if kind is Const else None


def differentiable_kind(ty: Any) -> Kind:
    """The activity of a value of this type that is not Const; Const if it always is."""
    from activerules.values.layout import layout_of  # needs Numba, which rules are defined without

    return BY_NAME[layout_of(ty).activity]


def _pair(chosen: Candidate, call: RuleQuery, rules: Sequence[Rule]) -> RulePair:
    rule = chosen.rule
    halves: tuple[Half, Half] = ("augmented_primal", "reverse")
    for present, missing in (halves, halves[::-1]):
        if missing not in rule.halves:
            half = rule.halves[present]
            raise IncompleteRule(
                f"{call.name} has a rule with {present}, but without {missing}",
                where=[
                    ("the half that exists", str(rule), half.location),
                    *(
                        ("not its other half", str(other), other.halves[missing].location)
                        for other in rules
                        if missing in other.halves
                    ),
                ],
                why=f"the call {call} needs both; halves are paired by their annotations",
                instead=[_skeleton(call, half.argument_names, rule.signature, (missing,))],
            )
    *arguments, result = (alternative.kind for alternative in chosen.served)
    reverse = rule.halves["reverse"]
    return RulePair(
        name=rule.name,
        augmented=rule.halves["augmented_primal"].function,
        reverse=reverse.function,
        arguments=tuple(arguments),
        result=result,
        lowering=tuple(_lowering(a, b) for a, b in zip(call.kinds, arguments, strict=False)),
        result_lowering=_result_lowering(result, rule.result, call),
        tape_type=reverse.tape_type,
        location=reverse.location,
        saves=_saved(rule),
        keeps_shadow=rule.halves["augmented_primal"].keeps_shadow,
    )


def _saved(rule: Rule) -> frozenset[int]:
    """The positions of the arguments that either half declares to be read by the reverse."""
    names = {
        half.argument_names.index(name) for half in rule.halves.values() for name in half.saves
    }
    return frozenset(names)


def _result_lowering(
    result: Kind, pattern: Pattern, call: RuleQuery
) -> Literal["as is", "zero cotangent", "zero value"]:
    if result is not call.kinds[-1]:
        return "zero cotangent"
    number = call.lowered(call.types[-1]) is Active
    both = number and patterns.matching(pattern, Active, call.types[-1]) is not None
    return "zero value" if result is Const and both else "as is"


def _lowering(passed: Kind, wanted: Kind) -> Lowering:
    if passed is wanted:
        return "as is"
    return "drop result" if wanted is Active else "scratch shadow"


def _no_rule(rules: Sequence[Rule], call: RuleQuery) -> NoRuleForActivity:
    names = _argument_names(rules, len(call.types) - 1)
    signature = tuple((Narrowed(kind),) for kind in call.kinds)
    mode = "forward" if call.forward else "reverse"
    unserved = _unserved(rules, call)
    return NoRuleForActivity(
        f"no {mode} rule for {call}",
        where=[("a rule that exists", str(rule), rule.location) for rule in rules],
        why=_why(rules, call, names, unserved),
        instead=[
            *_wider(rules, call, names),
            "add a rule:\n" + _skeleton(call, names, signature, call.halves),
            *_declarations(call, names, unserved),
        ],
    )


def _wider(rules: Sequence[Rule], call: RuleQuery, names: Sequence[str]) -> list[str]:
    """Advice for a rule that would serve, did it admit that some of its arguments are Const."""
    advice: list[str] = []
    for rule in rules:
        if len(rule.signature) != len(call.types):
            continue
        wanting = misfits(rule, call)
        if wanting and all(i < len(names) and call.kinds[i] is Const for i in wanting):
            wider = (
                f"{names[i]}: {patterns.show((*rule.signature[i], Narrowed(Const)))}"
                for i in wanting
            )
            advice.append(
                f"let {' and '.join(rule.halves)} at {rule.location} admit constants:\n"
                f"{', '.join(wider)}"
            )
    return advice[:1]


def _unserved(rules: Sequence[Rule], call: RuleQuery) -> list[int]:
    """The positions of the arguments, and of the result, whose activity no rule admits."""
    each = [misfits(rule, call) for rule in rules if len(rule.signature) == len(call.types)]
    return [i for i in range(len(call.types)) if all(i in misfitting for misfitting in each)]


def _declarations(call: RuleQuery, names: Sequence[str], unserved: Sequence[int]) -> list[str]:
    """Advice for a result that does not depend smoothly on the arguments whose activity no rule
    admits; if each is admitted by some rule, on those with a derivative.
    """
    count = len(names)
    carrying = [i for i in range(count) if call.kinds[i] is not Const]
    which = [i for i in carrying if i in unserved] or ([] if unserved else carrying)
    if not which:
        return []
    named = ", ".join(f"`{names[i]}`" for i in which)
    return [
        f"if the result does not depend smoothly on {named}:\n"
        f"inactive({call.name}, args=({', '.join(map(str, which))},))"
    ]


def _argument_names(rules: Sequence[Rule], count: int) -> tuple[str, ...]:
    for rule in rules:
        if len(rule.argument_names) == count:
            return rule.argument_names
    return tuple(f"x{i}" for i in range(count))


def _why(
    rules: Sequence[Rule], call: RuleQuery, names: Sequence[str], unserved: Sequence[int]
) -> str:
    """A line for each argument whose activity no rule admits."""
    if not any(len(rule.signature) == len(call.types) for rule in rules):
        count = len(call.types) - 1
        return f"no rule takes {count} argument{'s' * (count != 1)}"
    lines: list[str] = []
    for i in unserved:
        what = f"`{names[i]}`" if i < len(names) else "the result"
        written = f"{call.kinds[i].__name__}[{patterns.type_name(call.types[i])}]"
        lines.append(f"{what} is {written} here, and no rule admits that")
    return "\n".join(lines) or "no single rule admits all of these activities together"


def _skeleton(
    call: RuleQuery, names: Sequence[str], signature: Sequence[Pattern], halves: Sequence[str]
) -> str:
    """The head of a rule for the call, to paste."""
    *arguments, result = map(patterns.show, signature)
    parameters = ", ".join(f"{n}: {a}" for n, a in zip(names, arguments, strict=True))
    heads = {
        "augmented_primal": f"def _(config, ret: {result}, {parameters}): ...",
        "reverse": f"def _(config, dret: {result}, tape, {parameters}): ...",
        "forward": f"def _(config, ret: {result}, {parameters}): ...",
    }
    return "\n".join(f"@{half}({call.name})\n{heads[half]}" for half in halves)

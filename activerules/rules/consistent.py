"""Whether the declarations about one function are consistent.

Needs       a rule as far as it is defined, and the half to be added to it
Gives       `refuse_other_parameters`, `refuse_other_package`: they raise if two functions that were
            not written for each other would become one rule; `refuse_keyword_only`,
            `refuse_other_count`: if one cannot be for its function
Invariants  F1  two halves make a rule only if they are from one package
            F2  a parameter that both halves name has the same position in both, so that what one
                declares about it (`saves`) is meant for the other, too
            F3  of a rule and `inactive` for the same function the later one wins, within one
                package; the library's gives way to any other

The package of a module is the first part of its name.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from activerules.callables import display_name
from activerules.errors import AmbiguousRule, RuleDefinitionError
from activerules.rules.rule import Half, Rule, RuleHalf, is_of_library


def package_of(module: str) -> str:
    """The first part of the name of a module."""
    return module.partition(".")[0]


def may_replace(new: str, old: str) -> bool:
    """Whether a declaration in one module may replace one in another (F3)."""
    return is_of_library(old) or package_of(old) == package_of(new)


def refuse_other_package(rule: Rule, which: Half, half: RuleHalf) -> None:
    """Raise `AmbiguousRule` if another half is from another package (F1)."""
    for old_which, old in rule.halves.items():
        if old_which != which and package_of(old.module) != package_of(half.module):
            raise AmbiguousRule(
                f"the two halves of {rule} are from different packages",
                where=[
                    (f"the new {which}", f"in module {half.module}", half.location),
                    (f"the {old_which} that exists", f"in module {old.module}", old.location),
                ],
                why="each half is written for the tape of its own other half",
                instead=["replace=True, and both halves, to take the place of the rule"],
            )


def refuse_other_parameters(rule: Rule, which: Half, half: RuleHalf) -> None:
    """Raise `RuleDefinitionError` if another half has the same parameters in another order (F2)."""
    for old_which, old in rule.halves.items():
        name = misplaced(half.argument_names, old.argument_names)
        if old_which == which or name is None:
            continue
        raise RuleDefinitionError(
            f"`{name}` is one argument of {rule.name} in {old_which} and another one in {which}",
            where=[
                (f"the new {which}", f"({', '.join(half.argument_names)})", half.location),
                (
                    f"the {old_which} that exists",
                    f"({', '.join(old.argument_names)})",
                    old.location,
                ),
            ],
            why="both are passed the arguments in the order of the function",
            instead=[
                f"def _(…, {', '.join(old.argument_names)})",
                "replace=True, to define both halves anew",
            ],
        )


def refuse_other_order(name: str, parameters: Sequence[str], half: RuleHalf, which: Half) -> None:
    """Raise `RuleDefinitionError` if a rule names the parameters of its function in another order
    (F2).
    """
    wrong = misplaced(half.argument_names, parameters)
    if wrong is not None:
        raise RuleDefinitionError(
            f"`{wrong}` is one argument of {name} and another one of its rule",
            where=[(f"the {which}", f"({', '.join(half.argument_names)})", half.location)],
            why=f"it is passed the arguments in the order of {name}({', '.join(parameters)})",
            instead=[f"def _(…, {', '.join(parameters)})"],
        )


def misplaced(names: Sequence[str], others: Sequence[str]) -> str | None:
    """A name that has different positions in two lists of parameters; `_` does not count."""
    for i, name in enumerate(names):
        if name.strip("_") and name in others and others[i : i + 1] != (name,):
            return name
    return None


def refuse_dormant(name: str, half: RuleHalf, declared: str) -> None:
    """Raise `AmbiguousRule`: a rule would never be used, as another package declared the function
    inactive.
    """
    raise AmbiguousRule(
        f"{name} is declared inactive in module {declared}, and a rule for it would never serve",
        where=[("the new rule", f"in module {half.module}", half.location)],
        instead=["replace=True, to end that declaration"],
    )


def refuse_silencing(name: str, rule: Rule, module: str) -> None:
    """Raise `AmbiguousRule`: `inactive` would disable another package's rule."""
    raise AmbiguousRule(
        f"{name} has rules, which `inactive` in module {module} would put out of use",
        where=[("a rule that exists", str(rule), rule.location)],
        instead=[f"inactive({name}, replace=True)"],
    )


def refuse_keyword_only(function: Any, where: list[tuple[str, str, str]]) -> None:
    """Refuse a rule for a function whose calls Numba cannot compile."""
    plain = getattr(function, "py_func", None)
    parameters = inspect.signature(plain).parameters.values() if plain else ()
    named = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if named:
        raise RuleDefinitionError(
            f"`{named[0]}` of {display_name(function)} is keyword-only",
            where=where,
            why="Numba compiles no calls of @njit functions with keyword-only parameters",
            instead=["parameters without `*`: they can be named in calls all the same"],
        )


def refuse_other_count(
    function: Any,
    count: int,
    where: Sequence[tuple[str, str, str]],
    what: str = "its rule",
    leading: str = "",
) -> None:
    """Refuse a rule, or a declaration, for a number of arguments that the function does not take.
    `leading` are the parameters of a rule in front of them.
    """
    plain = getattr(function, "py_func", None)
    if plain is None:
        return
    parameters = inspect.signature(plain).parameters.values()
    if len(parameters) == count or any(p.kind is p.VAR_KEYWORD for p in parameters):
        return
    starred = [p.name for p in parameters if p.kind is p.VAR_POSITIONAL]
    taken = len(parameters)
    raise RuleDefinitionError(
        f"{display_name(function)} takes {taken} argument{'s' * (taken != 1)}, and {what} {count}",
        where=where,
        why=f"there is one{leading and f' after {leading}'} for each argument, "
        + (f"and `*{starred[0]}` is one, a tuple" if starred else "those with defaults too"),
    )

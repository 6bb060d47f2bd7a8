"""Whether the declarations about one function fit together.

Needs       a rule as far as it is defined, and the half that is to be added to it
Gives       `refuse_other_parameters`, `refuse_other_package`: they raise where two functions that
            were not written for each other would be taken for a rule
Invariants  F1  two halves make a rule only if they are from one package
            F2  a parameter that both halves name stands in the same place, so that what one
                declares of it (`saves`) is meant of it in the other
            F3  of a rule and of `inactive` for the same function the later one holds, within one
                package; the library's gives way to everybody's

A package is what the first part of a module's name says.
"""

from __future__ import annotations

from collections.abc import Sequence

from activerules.errors import AmbiguousRule, RuleDefinitionError
from activerules.rules.rule import Half, Rule, RuleHalf, is_of_library


def package_of(module: str) -> str:
    """The package that a module is in."""
    return module.partition(".")[0]


def may_replace(new: str, old: str) -> bool:
    """Whether a declaration in a module may take the place of one in another (F3)."""
    return is_of_library(old) or package_of(old) == package_of(new)


def refuse_other_package(rule: Rule, which: Half, half: RuleHalf) -> None:
    """Raise `AmbiguousRule` if another half is from another package (F1)."""
    for other_which, other in rule.halves.items():
        if other_which != which and package_of(other.module) != package_of(half.module):
            raise AmbiguousRule(
                f"the two halves of {rule} are from different packages",
                where=[
                    (f"the new {which}", f"in module {half.module}", half.location),
                    (f"the {other_which} that exists", f"in module {other.module}", other.location),
                ],
                why="each half is written for the tape of its own other half",
                instead=["replace=True, and both halves, to take the place of the rule"],
            )


def refuse_other_parameters(rule: Rule, which: Half, half: RuleHalf) -> None:
    """Raise `RuleDefinitionError` if another half has the same parameters in another order (F2)."""
    for other_which, other in rule.halves.items():
        name = misplaced(half.argument_names, other.argument_names)
        if other_which == which or name is None:
            continue
        raise RuleDefinitionError(
            f"`{name}` is another argument of {rule.name} in {which} than in {other_which}",
            where=[
                (f"the new {which}", f"({', '.join(half.argument_names)})", half.location),
                (
                    f"the {other_which} that exists",
                    f"({', '.join(other.argument_names)})",
                    other.location,
                ),
            ],
            why="both are passed the arguments in the order of the function",
            instead=[
                f"def _(…, {', '.join(other.argument_names)})",
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
            f"`{wrong}` of {name} is another argument in its rule",
            where=[(f"the {which}", f"({', '.join(half.argument_names)})", half.location)],
            why=f"it is passed the arguments in the order of {name}({', '.join(parameters)})",
            instead=[f"def _(…, {', '.join(parameters)})"],
        )


def misplaced(names: Sequence[str], others: Sequence[str]) -> str | None:
    """A name that stands for different arguments in two lists of parameters; `_` is no name."""
    for i, name in enumerate(names):
        if name.strip("_") and name in others and others[i : i + 1] != (name,):
            return name
    return None


def refuse_dormant(name: str, half: RuleHalf, declared: str) -> None:
    """Raise `AmbiguousRule`: a rule would never serve, as another package declared the function
    inactive.
    """
    raise AmbiguousRule(
        f"{name} is declared inactive in module {declared}, and a rule for it would never serve",
        where=[("the new rule", f"in module {half.module}", half.location)],
        instead=["replace=True, to end that declaration"],
    )


def refuse_silencing(name: str, rule: Rule, module: str) -> None:
    """Raise `AmbiguousRule`: `inactive` would put out of use another package's rule."""
    raise AmbiguousRule(
        f"{name} has rules, which `inactive` in module {module} would put out of use",
        where=[("a rule that exists", str(rule), rule.location)],
        instead=[f"inactive({name}, replace=True)"],
    )

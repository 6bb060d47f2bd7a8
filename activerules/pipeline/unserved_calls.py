"""Warnings about rules that are not run although their author may rely on them.

Needs       a finished plan, the marked calls of its capture
Gives       `warn_unserved`: a warning per line with a call that no rule serves, although data may
            bypass the arguments of the function; `warn_followed`: a warning per function whose body
            is differentiated in one mode although it has rules for the other; `lacks_forward`:
            whether it would warn of forward mode; `warn_missed`: a warning per line with a call
            that a user's rule nearly serves; `missing_halves`: the rules to write, where a body
            that a rule was written for cannot be differentiated
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from os.path import abspath
from typing import Any

from activerules.callables import python_function
from activerules.errors import (
    ActiverulesWarning,
    MissingForwardWarning,
    MissingReverseWarning,
    UndeclaredDataWarning,
    UnusedRuleWarning,
)
from activerules.ir.llvm.location import Locator
from activerules.ir.llvm.model import Instruction, Module
from activerules.ir.plan.forward_plan import ForwardPlan
from activerules.ir.plan.plan import Plan
from activerules.numba_ext.target.marked_calls import FollowedCall, MarkedCall
from activerules.rules.registry import RULES
from activerules.rules.views import WITHOUT_FORWARD, WITHOUT_REVERSE

_warned: set[tuple[object, ...]] = set()


def warn_unserved(
    plan: Plan | ForwardPlan, module: Module, marked: Mapping[str, MarkedCall]
) -> None:
    """Warn (`UndeclaredDataWarning`), once per line, of calls that no rule serves, if the function
    uses more than its arguments and has a user's rule that does not declare how data passes.
    """
    locator = Locator(module)
    for call in _unserved(plan):
        called = marked[call.callee_name or ""]
        if not _is_open(called):
            continue
        line = locator.of(call) or called.location
        if _is_in_own_rule(called.function, line):
            continue
        warn_once(
            UndeclaredDataWarning,
            f"the rule of {called.name} is not run at {line}: nothing active goes in and comes out "
            "there, and the function uses more than its arguments. If data bypasses the arguments, "
            "declare it by sends=, receives= of augmented_primal, forward or rrule.register; "
            "sends=() if none does. Help: python -m activerules help UndeclaredDataWarning",
            line,
        )


def warn_followed(followed: Iterable[FollowedCall]) -> None:
    """Warn (`MissingForwardWarning`, `MissingReverseWarning`), once per function, if a mode
    differentiates the body of a function that has rules for the other one only. A rule may call
    its own function.
    """
    for call in _outside_own_rules(followed):
        if call.reason == WITHOUT_FORWARD:
            warn_once(
                MissingForwardWarning,
                f"{call.name} has a reverse pair and no forward rule: forward mode differentiates "
                f"its body. Write the missing half, @ar.forward({call.name}), or say that the body "
                f'is right: ar.opt_out({call.name}, mode="forward"). '
                "Help: python -m activerules help MissingForwardWarning",
                call.location,
                _code(call.function),
            )
        elif call.reason == WITHOUT_REVERSE:
            warn_once(
                MissingReverseWarning,
                f"{call.name} has a forward rule and no reverse pair: reverse mode differentiates "
                f"its body. Write @ar.augmented_primal({call.name}) and @ar.reverse({call.name}), "
                f'or say that the body is right: ar.opt_out({call.name}, mode="reverse"). '
                "Help: python -m activerules help MissingReverseWarning",
                call.location,
                _code(call.function),
            )


def lacks_forward(followed: Iterable[FollowedCall]) -> bool:
    """Whether forward mode would differentiate the body of a function that has a pair only."""
    return any(call.reason == WITHOUT_FORWARD for call in _outside_own_rules(followed))


def _outside_own_rules(followed: Iterable[FollowedCall]) -> Iterator[FollowedCall]:
    return (call for call in followed if not _is_in_own_rule(call.function, call.location))


def warn_missed(followed: Iterable[FollowedCall], served: Mapping[tuple[str, str], str]) -> None:
    """Warn (`UnusedRuleWarning`), once per line, of calls that a user's rule does not serve,
    although it is for their types: they are `followed`, or `served` by a rule of the library.
    """
    instead = {(c.name, c.location): ("its body is differentiated", c.missed) for c in followed}
    instead |= {call: ("the library's rule serves it", missed) for call, missed in served.items()}
    for (name, location), (how, missed) in instead.items():
        if missed:
            warn_once(
                UnusedRuleWarning,
                f"a call of {name} at {location}: {missed}; {how}. "
                "Help: python -m activerules help UnusedRuleWarning",
                location,
            )


def warn_once(
    category: type[ActiverulesWarning], text: str, location: str, about: object = None
) -> None:
    """Warn, at a location "file:line", once per text and what it is about. If the warning is raised
    as an error, it does not count as given.
    """
    if (category, text, about) in _warned:
        return
    file, _, line = location.rpartition(":")
    number = int(line) if line.isdigit() else 1
    warnings.warn_explicit(text, category, file or "activerules", number)
    _warned.add((category, text, about))


def _unserved(plan: Plan | ForwardPlan) -> Iterator[Instruction]:
    """The calls of functions with rules, in a function and its callees, that no rule serves."""
    for part in (plan, *plan.pairs):
        for i in part.returns.instructions():
            info = part.calls.marked(i) if i.opcode == "call" else None
            if info is not None and not info.inactive and i not in part.rules:
                yield i


def missing_halves(followed: Iterable[FollowedCall], location: str) -> list[str]:
    """What to write where a line cannot be differentiated: the rule, for this mode, of a function
    that contains the line and has a rule for the other mode.
    """
    rules = {WITHOUT_FORWARD: ("forward",), WITHOUT_REVERSE: ("augmented_primal", "reverse")}
    lacking = {
        c.name: rules[c.reason]
        for c in followed
        if c.reason in rules and _is_in(c.function, location)
    }
    return [
        f"write the rule that {name} lacks in this mode: "
        + " and ".join(f"@ar.{half}({name})" for half in halves)
        for name, halves in lacking.items()
    ]


def _is_in_own_rule(function: Any, location: str) -> bool:
    """Whether the call at this location is in a rule of the function itself."""
    halves = (h for rule in RULES.rules_for(function) for h in rule.halves.values())
    return any(_is_in(half.function, location) for half in halves)


def _is_in(function: Any, location: str) -> bool:
    """Whether the source of a function, which may be one of C, has the line at this location."""
    code = _code(function)
    file, _, number = location.rpartition(":")
    if code is None or abspath(code.co_filename) != abspath(file) or not number.isdigit():
        return False
    lines = [line for _, _, line in code.co_lines() if line is not None]
    return min(lines) <= int(number) <= max(lines)


def _code(function: Any) -> Any:
    """The code of a Python function or dispatcher; None if it has none. It tells functions of the
    same name apart.
    """
    return getattr(python_function(function), "__code__", None)


def _is_open(call: MarkedCall) -> bool:
    """Whether data may bypass the arguments, as far as rules and code tell."""
    if not RULES.is_of_user(call.function) or RULES.data_paths(call.function).declared:
        return False
    return not call.is_closed

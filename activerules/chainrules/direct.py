"""Rules called from Python, without any AD: `frule((dself, *dx), f, *x)` and `rrule(f, *x)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from activerules.annotations.tangents import NoTangent
from activerules.chainrules import pairs, table
from activerules.chainrules.capabilities import NOTHING, Requirement, RuleConfig
from activerules.chainrules.registry import (
    FRULES,
    RRULES,
    F,
    register_frule,
    register_rrule,
    type_of,
)
from activerules.errors import ArityError
from activerules.rules.registry import RULES
from activerules.rules.rule import display_name

Pullback = Callable[[Any], tuple[Any, ...]]


class ReverseRules:
    """`rrule(f, *x)` calls the rule of `f`; `rrule.register(f)` defines one."""

    def __call__(
        self, function: Any, *x: Any, config: RuleConfig = NOTHING, **keywords: Any
    ) -> tuple[Any, Pullback] | None:
        """Return `(f(*x), pullback)`, or None where `f` has no rule for these arguments.

        `pullback(dy)` returns the cotangents of `f` itself (NoTangent, unless it has data) and of
        each argument. It may be called more than once. `config` says what the caller can do.
        """
        values = (*x, *keywords.values())
        if RULES.is_opted_out(function, list(map(type_of, values))):
            return None
        written = RRULES.find(function, values, config)
        if written is not None:
            return written.function(function, *x, **keywords)
        if RULES.is_inactive(function):
            return function(*x, **keywords), lambda dy: (NoTangent(), *(NoTangent() for _ in x))
        if keywords:
            return None
        found = pairs.rrule(function, x)
        return table.rrule(function, x) if found is None else found

    def register(
        self,
        function: Any,
        *,
        replace: bool = False,
        compiled: bool = True,
        requires: Requirement | None = None,
    ) -> Callable[[F], F]:
        """Define a rule; see `register_rrule`."""
        return register_rrule(function, replace=replace, compiled=compiled, requires=requires)


class ForwardRules:
    """`frule((dself, *dx), f, *x)` calls the rule of `f`; `frule.register(f)` defines one."""

    def __call__(
        self, deltas: Sequence[Any], function: Any, *x: Any, **keywords: Any
    ) -> tuple[Any, Any] | None:
        """Return `(f(*x), dy)`, or None where `f` has no rule for these arguments.

        `deltas` are the tangents of `f` itself and of each argument.
        """
        deltas = tuple(deltas)
        if len(deltas) != len(x) + 1:
            raise ArityError(
                f"frule of {display_name(function)}: {len(deltas)} tangents, "
                f"expected {len(x) + 1}: one for the function itself and one per argument"
            )
        values = (*x, *keywords.values())
        if RULES.is_opted_out(function, list(map(type_of, values)), "forward"):
            return None
        written = FRULES.find(function, values)
        if written is not None:
            return written.function(deltas, function, *x, **keywords)
        if RULES.is_inactive(function):
            return function(*x, **keywords), NoTangent()
        return None if keywords else table.frule(deltas, function, x)

    def register(
        self, function: Any, *, replace: bool = False, compiled: bool = True
    ) -> Callable[[F], F]:
        """Define a rule; see `register_frule`."""
        return register_frule(function, replace=replace, compiled=compiled)


rrule = ReverseRules()
frule = ForwardRules()

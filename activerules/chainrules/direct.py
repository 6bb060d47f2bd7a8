"""Rules called from Python, without any AD: `frule((dself, *dx), f, *x)` and `rrule(f, *x)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from activerules.annotations.tangents import NoTangent
from activerules.callables import display_name, is_generic, parameters_of, python_function
from activerules.chainrules import engine_rules, table
from activerules.chainrules.capabilities import NOTHING, RuleConfig
from activerules.chainrules.registry import (
    FRULES,
    RRULES,
    RuleTable,
    WrittenRule,
    register_frule,
    register_rrule,
    type_of,
)
from activerules.errors import ArityError
from activerules.numba_ext.codegen.arity import takes_any_number
from activerules.rules.closures.delivery import zero_tangent
from activerules.rules.closures.source import location
from activerules.rules.plugins import load_once
from activerules.rules.registry import RULES
from activerules.rules.rule import Half

Pullback = Callable[[Any], tuple[Any, ...]]


class ReverseRules:
    """`rrule(f, *x)` calls the rule of `f`; `rrule.register(f)` defines one."""

    def __call__(
        self, function: Any, *x: Any, config: RuleConfig = NOTHING, **keywords: Any
    ) -> tuple[Any, Pullback] | None:
        """Return `(f(*x), pullback)`, or None if `f` has no rule for these arguments.

        `pullback(dy)` returns the cotangents of `f` itself (NoTangent, unless it has data) and of
        each argument of the call, in the order of the parameters. It may be called more than once.
        `config` has the capabilities of the caller.
        """
        if not (x or keywords):
            _require_none(function)
        whole = with_defaults(function, x, keywords)
        if whole is not None and len(whole) > len(x):
            result = self(function, *whole, config=config)
            passed = [k < len(x) or n in keywords for k, n in enumerate(parameters_of(function))]
            return None if result is None else (result[0], _of_passed(result[1], passed))
        values = (*x, *keywords.values())
        load_once()
        if RULES.is_opted_out(function, list(map(type_of, values))):
            return None
        written = RRULES.find(function, values, config)
        if written is not None and not _gives_way(written, RRULES, function, "reverse"):
            return written.function(function, *x, **keywords)
        if RULES.is_inactive(function):
            return function(*x, **keywords), lambda dy: (NoTangent(),) * (1 + len(values))
        pair = None if keywords else engine_rules.pair_for(function, x)
        if pair is not None and _requires_more(function, pair.location, config):
            return None
        if written is not None and (pair is None or pair.location == location(written.function)):
            return written.function(function, *x, **keywords)
        if pair is not None:
            return engine_rules.rrule(pair, x)
        return None if keywords else table.rrule(function, x)

    register = staticmethod(register_rrule)


class ForwardRules:
    """`frule((dself, *dx), f, *x)` calls the rule of `f`; `frule.register(f)` defines one."""

    def __call__(
        self, deltas: Sequence[Any], function: Any, *x: Any, **keywords: Any
    ) -> tuple[Any, Any] | None:
        """Return `(f(*x), dy)`, or None if `f` has no rule for these arguments.

        `deltas` are the tangents of `f` itself and of each argument.
        """
        deltas = as_tuple(deltas, "frule", function)
        whole = with_defaults(function, x, keywords)
        if whole is not None and len(deltas) == len(x) + 1 < len(whole) + 1:
            zeros = map(zero_tangent, whole[len(x) :])
            return self((*deltas, *zeros), function, *whole)
        require_one_each(deltas, "frule", function, x)
        values = (*x, *keywords.values())
        load_once()
        if RULES.is_opted_out(function, list(map(type_of, values)), "forward"):
            return None
        written = FRULES.find(function, values)
        if written is not None and not _gives_way(written, FRULES, function, "forward"):
            return written.function(deltas, function, *x, **keywords)
        if RULES.is_inactive(function):
            return function(*x, **keywords), NoTangent()
        rule = None if keywords else engine_rules.forward_for(function, x)
        if written is not None and (rule is None or rule.location == location(written.function)):
            return written.function(deltas, function, *x, **keywords)
        if rule is not None:
            return engine_rules.frule(rule, deltas[1:], x)
        return None if keywords else table.frule(deltas, function, x)

    register = staticmethod(register_frule)


def as_tuple(deltas: Any, caller: str, function: Any) -> tuple[Any, ...]:
    """The tangents of a function and its arguments; `ArityError` for one that is given alone."""
    if not isinstance(deltas, Iterable):
        raise ArityError(
            f"{caller} of {display_name(function)}: the tangents are {deltas!r}, expected a tuple: "
            "one for the function itself and one per argument"
        )
    return tuple(deltas)


def require_one_each(deltas: Sequence[Any], caller: str, function: Any, x: Sequence[Any]) -> None:
    """Raise `ArityError` unless there is a tangent for the function and one per argument."""
    if len(deltas) != len(x) + 1:
        raise ArityError(
            f"{caller} of {display_name(function)}: {len(deltas)} tangents, "
            f"expected {len(x) + 1}: one for the function itself and one per argument"
        )


def _require_none(function: Any) -> None:
    """Raise `ArityError` if a function takes arguments, as where `@rrule(f)` stands for a rule."""
    try:
        inspect.signature(python_function(function)).bind()
    except TypeError as error:
        name = display_name(function)
        raise ArityError(
            f"rrule of {name}: {error}",
            why="it calls the rule of a function, with the arguments of that",
            instead=[f"@rrule.register({name}) to define one", f"rrule({name}, *arguments)"],
        ) from error
    except ValueError:
        return  # a function of C without a signature


def _requires_more(function: Any, at: str, config: RuleConfig) -> bool:
    """Whether the rule at a location requires a capability that the caller does not have."""
    return any(
        location(rule.function) == at and not config.has(rule.requires)
        for rule in RRULES.rules_for(function)
    )


def _gives_way(written: WrittenRule, table: RuleTable, function: Any, mode: Half) -> bool:
    """Whether a rule registered here has to be compared with others of the user's that the engine
    has: then the engine's choice is that of a direct call, too.
    """
    if not written.compiled or written.requires is not None:
        return False
    own = {location(rule.function) for rule in table.rules_for(function)}
    return any(
        mode in rule.halves and not rule.of_library and rule.location not in own
        for rule in RULES.rules_for(function)
    )


def with_defaults(
    function: Any, x: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...] | None:
    """The arguments of a call by position, with the defaults that were left out, since a rule has a
    parameter for each; None if the parameters are not known.
    """
    plain = python_function(function)
    if not inspect.isfunction(plain) or is_generic(function):
        return None
    try:
        bound = inspect.signature(plain).bind(*x, **keywords)
    except TypeError:
        return None
    bound.apply_defaults()
    return None if bound.kwargs or takes_any_number(plain) else bound.args


def _of_passed(pullback: Pullback, passed: Sequence[bool]) -> Pullback:
    """The pullback without the entries for defaults that the call left out."""
    return lambda dy: tuple(compress(pullback(dy), (True, *passed)))


rrule = ReverseRules()
frule = ForwardRules()

"""`scalar_rule`: the rules of a function of numbers, from its partial derivatives.

    scalar_rule(math.hypot, lambda Ω, x, y: (x / Ω, y / Ω))
    scalar_rule(math.tan, lambda Ω, x, s: (s,), setup=lambda Ω, x: 1 + Ω * Ω)
    scalar_rule(sincos, lambda Ω, x: ((Ω[1],), (-Ω[0],)))          several outputs: a row each

Ω is the result. A function of complex numbers must be holomorphic; its pullback multiplies by the
conjugate of a partial derivative, its pushforward by the partial itself.
"""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numba.extending import is_jitted

from activerules.annotations.activity import Const, Narrowed
from activerules.annotations.containers import is_tuple
from activerules.annotations.projection import ProjectTo
from activerules.annotations.tangents import NoTangent, ZeroTangent, is_zero
from activerules.annotations.thunks import unthunk
from activerules.callables import display_name, python_function
from activerules.chainrules.engine_rules import entries_of
from activerules.chainrules.partials import NUMBER, returned
from activerules.chainrules.registry import RuleForEngine
from activerules.errors import ActiverulesError, RuleDefinitionError, TangentMismatch
from activerules.numba_ext.rules.tapes import uses
from activerules.rules.closures import delivery
from activerules.rules.closures.source import location
from activerules.rules.define import require_function
from activerules.rules.pickled import identity
from activerules.rules.protocol import AugmentedReturn, active
from activerules.rules.rule import Half
from activerules.rules.written import function_from

Partials = Callable[..., Any]


@dataclass(frozen=True)
class ScalarRule:
    """The partial derivatives of one function, `partials(Ω, *x)` or `partials(Ω, *x, setup)`."""

    function: Any
    partials: Partials
    setup: Partials | None
    arity: int

    @property
    def keeps_result(self) -> bool:
        """Whether a derivative reads the result, which is then on the tape."""
        return any(uses(f, 0) for f in (self.partials, self.setup) if f is not None)

    def admits(self, x: Sequence[Any]) -> bool:
        """Whether the rule is for these arguments: as many numbers as it has partials."""
        return len(x) == self.arity and all(hasattr(v, "__complex__") or _is_number(v) for v in x)

    def slopes(self, result: Any, x: Sequence[Any]) -> tuple[tuple[Any, ...], ...]:
        """The partial derivatives at a point: a row per output, a column per argument."""
        extra = () if self.setup is None else (self.setup(result, *x),)
        rows = delivery.by_argument(self.partials(result, *x, *extra), tuple(x))
        rows = rows if isinstance(rows[0], tuple) else (rows,)
        outputs = len(result) if isinstance(result, tuple) else 1
        if len(rows) != outputs:
            raise delivery.wrong_rows(len(rows), outputs)
        return rows

    def with_pullback(self, x: Sequence[Any]) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
        """The rule as rrule: `(y, pullback)`."""
        y = self.function(*x)
        slopes = self.slopes(y, x)
        projections = [_projection(value) for value in x]

        def pullback(dy: Any) -> tuple[Any, ...]:
            bars = _cotangents_of_outputs(unthunk(dy), y)
            with _of_numbers(bars):
                found = [delivery.contracted(slopes, i, bars) for i in range(len(x))]
            return NoTangent(), *(
                project(bar) for project, bar in zip(projections, found, strict=True)
            )

        return y, pullback

    def push(self, deltas: Sequence[Any], x: Sequence[Any]) -> tuple[Any, Any]:
        """The rule as frule: `(y, dy)`."""
        y = self.function(*x)
        slopes, dots = self.slopes(y, x), [unthunk(d) for d in deltas[1:]]
        with _of_numbers(dots):
            rows = delivery.combined(slopes, dots)
        return y, rows if isinstance(y, tuple) else _projection(y)(rows[0])


@contextmanager
def _of_numbers(tangents: Sequence[Any]) -> Generator[None, None, None]:
    """Around products with tangents: `TangentMismatch` if these are None, text, or the like."""
    try:
        yield
    except TypeError as error:
        if isinstance(error, ActiverulesError):
            raise
        told = ", ".join(map(repr, tangents))
        raise TangentMismatch(
            f"expected numbers as tangents or cotangents, not {told}",
            instead=["ZeroTangent() for none"],
        ) from error


SCALAR_RULES: dict[int, ScalarRule] = {}


def scalar_rule(
    function: Any,
    partials: Partials,
    setup: Partials | None = None,
    *,
    replace: bool = False,
    compiled: bool = True,
) -> Any:
    """Define the derivatives of a function of numbers, and return the function.

    Arguments
        function   an `@njit`, math or NumPy function of numbers.
        partials   `(Ω, *x)` -> a tuple with a partial derivative per argument (a single one need
                   not be in a tuple); with several outputs, a tuple of such rows. Ω is the result.
                   Entries may be One() and ZeroTangent().
        setup      `(Ω, *x)` -> a value shared by the partials; it is their last argument.
        replace    replace another module's rule.
        compiled   False: only for direct calls of `frule` and `rrule`.

    The partials must be code that Numba can compile. At a pole (0.5 / Ω at 0) they are infinite,
    and a cotangent or tangent of 0 contributes 0 there. Raises `AmbiguousRule` and
    `RuleDefinitionError`, also if there is not one partial per argument (at the first derivative,
    if their code does not determine the number).
    """
    require_function(function, "scalar_rule")
    for what, written in (("partials", partials), ("setup", setup)):
        is_left_out = what == "setup" and written is None
        if not (is_left_out or inspect.isfunction(python_function(written))):
            raise RuleDefinitionError(
                f"scalar_rule of {display_name(function)}: `{what}` is not a Python function",
                why=f"it is {written!r}",
                instead=["one function of (Ω, arguments ...): lambda Ω, x, y: (by_x, by_y)"],
            )
    arity = _parameter_count(partials) - (1 if setup is None else 2)
    if arity < 1 or (setup is not None and _parameter_count(setup) != arity + 1):
        raise RuleDefinitionError(
            f"the partials of {display_name(function)} are not a function of (Ω, arguments ...)",
            why="setup takes (Ω, arguments ...), and its result is the last argument of partials"
            if setup is not None
            else "the first parameter is Ω, the result of the function",
            instead=["lambda Ω, x: by_x"] * (setup is None),
        )
    rule = ScalarRule(function, python_function(partials), python_function(setup), arity)
    _require_one_per_argument(rule)
    if compiled:
        _add_compiled(rule, partials, setup, replace)
    SCALAR_RULES[identity(function)] = rule
    return function


def _require_one_per_argument(rule: ScalarRule) -> None:
    """Refuse partials whose code shows that they are not one per argument."""
    name = display_name(rule.function)
    where = [("the rule", f"scalar_rule({name}, …)", location(rule.partials))]
    parameters = inspect.signature(rule.function).parameters if is_jitted(rule.function) else None
    if parameters is not None and len(parameters) != rule.arity:
        raise RuleDefinitionError(
            f"{name} takes {len(parameters)} arguments, and its partials take {rule.arity}",
            where=where,
            instead=[f"lambda {', '.join(('Ω', *parameters))}: …"],
        )
    numbers = rule.partials.__code__.co_varnames[: rule.arity + 1]
    for entries in returned(rule.partials, numbers):
        rows = [entry for entry in entries or () if isinstance(entry, tuple)]
        if entries and not rows and all(entry == NUMBER for entry in entries):
            rows = [entries]
        for row in rows:
            if len(row) != rule.arity:
                raise delivery.wrong_partials(len(row), rule.arity, where=where)


def _add_compiled(
    rule: ScalarRule, partials: Partials, setup: Partials | None, replace: bool
) -> None:
    """Register the pair and the forward rule with the engine."""
    written = _rule_source(rule, setup)
    scope: dict[str, Any] = {
        **{name: getattr(delivery, name) for name in delivery.__all__},
        "AugmentedReturn": AugmentedReturn,
        "active": active,
        "function": rule.function,
        "partials": _jitted(partials),
        "setup": _jitted(setup),
    }
    augmented, reverse, forward = (
        function_from(written, name, scope, module=__name__, like=rule.partials)
        for name in ("augmented", "reverse", "forward")
    )
    numbers = [numba.types.Number] * rule.arity
    halves: tuple[dict[Half, Any], ...] = (
        {"augmented_primal": augmented, "reverse": reverse},
        {"forward": forward},
    )
    truth = (Narrowed(Const, numba.types.Boolean),)  # no number to Numba
    added = RuleForEngine(rule.function, rule.partials, numbers, replace, constants=truth)
    for functions in halves:
        added.add(functions)


def _rule_source(rule: ScalarRule, setup: Partials | None) -> str:
    """The source text of the rules, since compiled rules have a fixed number of parameters."""
    names = [f"x{i}" for i in range(rule.arity)]
    parameters = ", ".join(names)
    values = ", ".join(f"{name}.val" for name in names)
    shared = f", setup(result, {values})" if setup is not None else ""
    bars = [f"deliver({x}, contracted(slopes, {i}, bar))" for i, x in enumerate(names)]
    return "\n".join(
        [
            f"def augmented(config, ret, {parameters}):",
            f"    result = function({values})",
            f"    kept = {'result' if rule.keeps_result else 'None'}",
            "    return AugmentedReturn(result, result_shadow(ret, result), kept)",
            "",
            f"def reverse(config, dret, result, {parameters}):",
            f"    slopes = by_argument(partials(result, {values}{shared}), ({values},))",
            "    bar = cotangent(dret)",
            *(
                f"    {x}_bar = {bar} if active({x}) else None"
                for x, bar in zip(names, bars, strict=True)
            ),
            f"    return ({', '.join(f'{x}_bar' for x in names)},)",
            "",
            f"def forward(config, ret, {parameters}):",
            f"    result = function({values})",
            f"    slopes = by_argument(partials(result, {values}{shared}), ({values},))",
            f"    dots = ({', '.join(f'tangent({x})' for x in names)},)",
            "    return result, pushed(result, combined(slopes, dots))",
        ]
    )


def _jitted(function: Any) -> Any:
    """Compiled partials, in which a pole is an infinite slope and no ZeroDivisionError."""
    is_plain = inspect.isfunction(function)
    return numba.njit(function, error_model="numpy") if is_plain else function


def _parameter_count(function: Any) -> int:
    return python_function(function).__code__.co_argcount


def _is_number(x: Any) -> bool:
    return isinstance(x, numbers.Number)


def _projection(value: Any) -> ProjectTo:
    """The projection to the space of an argument; integers, as in `sin(3)`, count as reals."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return ProjectTo(float(value) if is_integer else value)


def _cotangents_of_outputs(dy: Any, y: Any) -> Sequence[Any]:
    """The cotangent of each output of a rule that returns `y`."""
    if isinstance(y, tuple):
        return (ZeroTangent(),) * len(y) if is_zero(dy) else tuple(entries_of(dy, len(y)))
    if is_tuple(dy):
        raise TangentMismatch(f"the cotangent of a number is a number, not {dy!r}")
    return (dy,)

"""`frule` and `rrule`: defining and calling rules in the style of ChainRules.jl.

    @rrule.register(f)                           rrule(f, *x) -> (y, pullback)
    def _(f, x):                                 pullback(dy) -> (NoTangent(), dx)
        def pullback(dy): ...
        return y, pullback

Needs       the rule registry, `rules.closures` to convert a rule for compiled code
Gives       the tables behind `rrule` and `frule`, and their lookup
Invariants  T1  a rule registered here is a rule of the engine too, unless it says `compiled=False`
            T2  a direct call uses the most specific rule, as the engine does: one defined here, a
                pair of augmented_primal and reverse, or a forward; a rule defined here for direct
                calls only, or for a capability of the caller, goes first. Otherwise it uses a
                declaration as non-differentiable; otherwise the engine's own table of scalar
                functions; otherwise it returns None
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numba
from numba import NumbaError
from numba.extending import is_jitted

from activerules.annotations.activity import Active, Const, Duplicated, MixedDuplicated, Narrowed
from activerules.callables import display_name, python_function
from activerules.chainrules.capabilities import NOTHING, Requirement, RuleConfig
from activerules.errors import RuleDefinitionError
from activerules.numba_ext.rules.functions import callable_rule
from activerules.numba_ext.target.dispatchers import flags_of
from activerules.rules import pattern as patterns
from activerules.rules.closures.convert import Conversion, convert
from activerules.rules.closures.frule import forward_rule
from activerules.rules.closures.source import location
from activerules.rules.consistent import refuse_keyword_only, refuse_other_count
from activerules.rules.define import (
    Names,
    evaluated,
    frame_of_caller,
    library_first,
    require_function,
    with_options,
)
from activerules.rules.pattern import Order, Pattern
from activerules.rules.pickled import identity
from activerules.rules.registry import RULES
from activerules.rules.rule import Half, Rule, RuleHalf

F = TypeVar("F", bound=Callable[..., Any])

# the activities that a converted rule admits: it delivers a cotangent to each of them
_KINDS = (Const, Active, Duplicated, MixedDuplicated)
_RESULT_KINDS = (Active, Duplicated, MixedDuplicated)
_FORWARD_KINDS = (Const, Duplicated)


@dataclass(frozen=True)
class WrittenRule:
    """A rule as its author wrote it.

    function   `(f, *x)` for an rrule, `(deltas, f, *x)` for an frule; plain Python
    types      per argument, the Numba type (or class of types) it is for; None for any
    requires   the capability the caller must have; None for no requirement
    compiled   whether the engine has it, too
    """

    function: Callable[..., Any]
    types: tuple[Any, ...]
    requires: Requirement | None = None
    compiled: bool = True

    def admits(self, argtypes: Sequence[Any]) -> bool:
        """Whether the rule is for arguments of these types."""
        return len(argtypes) == len(self.types) and all(map(patterns.admits, self.types, argtypes))

    def order(self, other: WrittenRule) -> Order:
        """Which of two rules is more specific; one with a requirement is preferred."""
        if (self.requires is None) != (other.requires is None):
            return Order.NARROWER if self.requires is not None else Order.WIDER
        return patterns.combined(map(patterns.type_order, self.types, other.types))


class RuleTable:
    """The rules of one direction, by function."""

    def __init__(self) -> None:
        self._rules: dict[int, tuple[Any, list[WrittenRule]]] = {}

    def add(self, function: Any, rule: WrittenRule) -> None:
        """Add a rule; it replaces one for the same types."""
        key = identity(function)
        _, rules = self._rules.setdefault(key, (function, []))
        replaced = (rule.types, rule.requires)
        rules[:] = [old for old in rules if (old.types, old.requires) != replaced] + [rule]

    def rules_for(self, function: Any) -> tuple[WrittenRule, ...]:
        """The rules of a function, in the order of their definition."""
        return tuple(self._rules.get(identity(function), (function, []))[1])

    def find(
        self, function: Any, values: Sequence[Any], config: RuleConfig = NOTHING
    ) -> WrittenRule | None:
        """The most specific rule for these arguments; None if there is none."""
        rules = self.rules_for(function)
        if not rules:
            return None
        argtypes = [type_of(value) for value in values]
        fitting = [rule for rule in rules if rule.admits(argtypes) and config.has(rule.requires)]
        best = None
        for rule in fitting:
            if best is None or rule.order(best) is Order.NARROWER:
                best = rule
        return best


RRULES = RuleTable()
FRULES = RuleTable()


def type_of(value: Any) -> Any:
    """The Numba type of a value; its Python class if Numba has none."""
    try:
        return numba.typeof(value)
    except (ValueError, TypeError, NumbaError):
        return type(value)


def register_rrule(
    function: Any,
    *,
    replace: bool = False,
    compiled: bool = True,
    requires: Requirement | None = None,
    sends: Names | None = None,
    receives: Names | None = None,
) -> Callable[[F], F]:
    """Define the reverse rule of `function` by a function `(f, *x)` that returns `(y, pullback)`.

    Arguments
        function   an `@njit` function, a NumPy or math function, an operator.
        replace    replace another module's rule of the same signature.
        compiled   False: the rule is only for direct calls from Python.
        requires   HasReverseMode: direct calls find it if their `config` has this capability.
        sends      arguments whose data leaves other than through the result and the arguments (by a
                   queue, a socket); `receives`: those whose data enters so, `"ret"` for the result.
                   Rule and pullback then run at every call. `()` declares that none does.

    `pullback(dy)` returns one entry for `function` itself and one per argument. Parameters may be
    annotated with Numba types (`x: float64[:]`) or number classes; the most specific rule serves a
    call. The closure is converted for compiled code: what the pullback captures is the tape.

    Raises
        RuleDefinitionError   the rule does not have that form, or cannot be converted.
        AmbiguousRule         another module has a rule of the same signature.
    """
    require_function(function, "@rrule.register")
    names = frame_of_caller(2).f_locals

    def register(rule: F) -> F:
        plain, types = _read(rule, "rrule", function, names, compiled)
        if compiled:
            conversion = convert(plain, function)
            paths = {"sends": sends, "receives": receives}
            written = RuleForEngine(function, plain, types, replace, conversion.arguments, paths)
            written.add(_pair(conversion, rule))
        RRULES.add(function, WrittenRule(plain, types, requires, compiled))
        return rule

    return register


def register_frule(
    function: Any,
    *,
    replace: bool = False,
    compiled: bool = True,
    sends: Names | None = None,
    receives: Names | None = None,
) -> Callable[[F], F]:
    """Define the forward rule of `function` by a function `(deltas, f, *x)` that returns `(y, dy)`.

    `deltas` are the tangents: of the function itself, and of each argument. Parameters may be
    annotated, and the options mean what they do for an rrule.
    """
    require_function(function, "@frule.register")
    names = frame_of_caller(2).f_locals

    def register(rule: F) -> F:
        plain, types = _read(rule, "frule", function, names, compiled)
        if compiled:
            parameters = tuple(inspect.signature(plain).parameters)[2:]
            inner = _jitted(rule, plain)
            converted = forward_rule(plain, function, parameters, inner)
            paths = {"sends": sends, "receives": receives}
            written = RuleForEngine(function, plain, types, replace, parameters, paths)
            written.add({"forward": converted})
        FRULES.add(function, WrittenRule(plain, types, compiled=compiled))
        return rule

    return register


_LEADING = {"rrule": ["the function itself"], "frule": ["the tangents", "the function"]}


def _read(
    rule: Any, which: str, function: Any, names: Mapping[str, Any], compiled: bool
) -> tuple[Any, tuple[Any, ...]]:
    """The Python function of a rule, and the types of its parameters; `RuleDefinitionError` if they
    are not those of `function`.
    """
    leading = _LEADING[which]
    plain = plain_function(rule, which)
    types = parameter_types(plain, leading=len(leading), names=names)
    where = [("the rule", f"@{which}.register", location(plain))]
    refuse_other_count(function, len(types), where, leading=" and ".join(leading))
    if compiled:
        refuse_keyword_only(function, where)
    return plain, types


def _jitted(rule: Any, plain: Any) -> Any:
    return rule if is_jitted(rule) else callable_rule(plain)


def _pair(conversion: Conversion, rule: Any) -> dict[Half, Any]:
    """The pair with the flags its author gave the rule, whose first half computes slopes, too: it
    divides as NumPy does. An rrule captures values only: it is passed no shadow.
    """
    own = flags_of(getattr(rule, "targetoptions", {}))
    jit: Any = numba.njit
    flagged = jit(**{"error_model": "numpy", **own})
    return {
        "augmented_primal": flagged(conversion.augmented), "reverse": flagged(conversion.reverse)
    }  # fmt: skip


@dataclass(frozen=True)
class RuleForEngine:
    """A rule as its author wrote it, to be registered with the engine.

    types      of the arguments; `constants` are what each may be besides
    arguments  their names, if the rule has names for them
    paths      `sends` and `receives`
    """

    function: Any
    rule: Any
    types: Sequence[Any]
    replace: bool
    arguments: tuple[str, ...] = ()
    paths: Mapping[str, Any] = field(default_factory=dict[str, Any])
    constants: tuple[Narrowed, ...] = ()

    def add(self, halves: Mapping[Half, Any]) -> None:
        """Register the functions that the engine calls: a converted pair, or a forward rule."""
        library_first()
        kinds, of_result, options = _KINDS, _RESULT_KINDS, {"keeps_shadow": False, **self.paths}
        if "forward" in halves:
            kinds, of_result, options = _FORWARD_KINDS, _FORWARD_KINDS, self.paths
        registered = Rule(
            name=display_name(self.function),
            arguments=tuple((*_pattern(kinds, ty), *self.constants) for ty in self.types),
            result=_pattern(of_result, None),
        )
        for which, written in halves.items():
            half = RuleHalf(
                function=written,
                module=self.rule.__module__ or "",
                location=location(self.rule),
                argument_names=self.arguments or tuple(f"x{i}" for i in range(len(self.types))),
            )
            half = with_options(half, **options)
            RULES.add(self.function, which, registered, half, self.replace)


def _pattern(kinds: Sequence[Any], ty: Any) -> Pattern:
    return tuple(Narrowed(kind, ty) for kind in kinds)


def plain_function(rule: Any, which: str) -> Any:
    """The Python function of a rule; `RuleDefinitionError` if it is not one."""
    plain = python_function(rule)
    if not inspect.isfunction(plain):
        raise RuleDefinitionError(f"@{which}.register decorates a Python function, not {rule!r}")
    return plain


def parameter_types(rule: Any, leading: int, names: Mapping[str, Any]) -> tuple[Any, ...]:
    """The annotations of the parameters of a rule, after the leading ones; `names` are local
    variables where it is defined.
    """
    parameters = list(inspect.signature(rule).parameters.values())[leading:]
    return tuple(_constraint(*item, rule) for item in evaluated(rule, parameters, names).items())


def _constraint(name: str, written: Any, rule: Any) -> Any:
    if written is None or written is Any:
        return None
    with contextlib.suppress(TypeError):
        return patterns.canonical_type(written)
    raise RuleDefinitionError(
        f"the annotation of `{name}` in {rule.__name__} is not a type of Numba: {written!r}",
        where=[("the rule", rule.__name__, location(rule))],
        instead=[
            "float64, float64[:], float, np.ndarray, or no annotation",
            "activities belong to augmented_primal and reverse",
        ],
    )

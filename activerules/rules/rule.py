"""Rules as written, and rules as chosen for a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from activerules.annotations.activity import Annotation, Const
from activerules.rules import pattern as patterns
from activerules.rules.pattern import Pattern

Half = Literal["augmented_primal", "reverse", "forward"]
Lowering = Literal["as is", "drop result", "scratch shadow"]
Kind = type[Annotation]
RESULT = "ret"
"""The name of the result in `receives`."""


@dataclass(frozen=True)
class RuleHalf:
    """One function of a rule, with its location, the names of its parameters, and its options.

    saves            arguments whose values the reverse reads: the engine copies those that may be
                     overwritten before it runs
    keeps_shadow     whether an augmented primal may keep a shadow on its tape, or return one that
                     is not new zeros
    sends, receives  arguments whose data leaves, or enters, other than through arguments and result
                     ("ret": the result); None if not declared
    """

    function: Callable[..., Any]
    module: str
    location: str
    argument_names: tuple[str, ...]
    tape_type: Any = None
    saves: tuple[str, ...] = ()
    keeps_shadow: bool = True
    sends: tuple[str, ...] | None = None
    receives: tuple[str, ...] | None = None


@dataclass(eq=False)
class Rule:
    """The rule of one function for one signature; some halves may not be defined yet."""

    name: str
    arguments: tuple[Pattern, ...]
    result: Pattern
    halves: dict[Half, RuleHalf] = field(default_factory=dict[Half, RuleHalf])

    @property
    def signature(self) -> tuple[Pattern, ...]:
        """The patterns of the arguments and of the result."""
        return (*self.arguments, self.result)

    @property
    def of_library(self) -> bool:
        """Whether the rule comes with activerules: a user's rule is preferred to it."""
        return any(is_of_library(half.module) for half in self.halves.values())

    @property
    def location(self) -> str:
        """The location of the half that was defined first."""
        return next(iter(self.halves.values())).location

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The names of the arguments in the half that was defined first."""
        return next(iter(self.halves.values())).argument_names

    def __repr__(self) -> str:
        """Return signature, halves and location in one line."""
        return f"<{self}: {', '.join(self.halves)} at {self.location}>"

    def __str__(self) -> str:
        """Return `solve(A: Const | Duplicated, b: Const) -> Duplicated`."""
        written = zip(self.argument_names, map(patterns.show, self.arguments), strict=True)
        arguments = ", ".join(f"{name}: {pattern}" for name, pattern in written)
        return f"{self.name}({arguments}) -> {patterns.show(self.result)}"


@dataclass(frozen=True, kw_only=True)
class ChosenRule:
    """A rule chosen for a call.

    arguments, result    the annotation classes its functions are called with
    lowering             per argument, how its activity at the call becomes that of `arguments`:
                         "drop result": Const is passed as Active, the derivative is dropped;
                         "scratch shadow": Const is passed as Duplicated with a temporary shadow, in
                         forward mode with a tangent of zeros
    location             "file:line" of the rule, for a pair that of the reverse
    lost                 the location of the library's rule that would serve, or ""
    beside               the location of a user's rule that is for the other mode only, if this one
                         is the library's, or ""
    missed               the user's rule that comes nearest to the call, if this one is the
                         library's, and why it does not serve it, or ""
    """

    name: str
    arguments: tuple[Kind, ...]
    result: Kind
    lowering: tuple[Lowering, ...]
    location: str
    lost: str = ""
    beside: str = ""
    missed: str = ""


@dataclass(frozen=True, kw_only=True)
class RulePair(ChosenRule):
    """A pair chosen for a call.

    augmented, reverse   the Python functions
    result_lowering      for a result that is Const at the call: "zero cotangent" if it is Active or
                         Duplicated in the rule; "zero value" if the rule takes it as Const, but
                         would take a cotangent, too, and may read one in `dret.val` without asking
    tape_type            the annotation of the tape in the reverse, or None
    saves                positions of the arguments that the reverse finds unchanged
    keeps_shadow         whether the augmented primal must run for every shadow of its arguments
    """

    augmented: Callable[..., Any]
    reverse: Callable[..., Any]
    result_lowering: Literal["as is", "zero cotangent", "zero value"]
    tape_type: Any
    saves: frozenset[int] = frozenset()
    keeps_shadow: bool = True

    @property
    def keeps_result(self) -> bool:
        """Whether `dret.val` is the result, which is Const and kept for that."""
        return self.result is Const and self.result_lowering == "as is"


@dataclass(frozen=True, kw_only=True)
class ForwardRule(ChosenRule):
    """A forward rule chosen for a call.

    looped               whether the rule is for one tangent and the call has more: it runs once per
                         lane
    """

    function: Callable[..., Any]
    looped: bool


def is_of_library(module: str | None) -> bool:
    """Whether a module is part of activerules."""
    return (module or "").partition(".")[0] == __name__.partition(".")[0]


@dataclass(frozen=True)
class DataPaths:
    """How data bypasses the arguments and the result of a function.

    sends, receives   positions of arguments
    into_result       whether the result is received
    declared          whether a rule declares this, or that no data does
    """

    sends: frozenset[int]
    receives: frozenset[int]
    into_result: bool
    declared: bool

    @property
    def bypasses(self) -> bool:
        """Whether any data does."""
        return bool(self.sends or self.receives) or self.into_result

"""A rule as it was written, and a rule as it was chosen for a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from activerules.annotations.activity import Annotation
from activerules.rules import pattern as patterns
from activerules.rules.pattern import Pattern

Half = Literal["augmented_primal", "reverse", "forward"]
Lowering = Literal["as is", "drop result", "scratch shadow"]
Kind = type[Annotation]
RESULT = "ret"
"""What the result of a function is called where a rule says that it receives data."""


@dataclass(frozen=True)
class RuleHalf:
    """One function of a rule: where it is defined and how its parameters are called.

    `saves` are the arguments whose values the reverse reads: the engine keeps a copy of those that
    may be overwritten before it runs. `keeps_shadow`: whether an augmented primal may leave a
    shadow on its tape, or return one that is not new zeros. `sends`, `receives`: the arguments
    whose data leaves, or enters, by another way than arguments and result ("ret": the result); None
    where the rule does not say.
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
    """The rule of one function for one signature; `reverse` or `augmented` may not be there yet."""

    name: str
    arguments: tuple[Pattern, ...]
    result: Pattern
    halves: dict[Half, RuleHalf] = field(default_factory=dict[Half, RuleHalf])

    @property
    def signature(self) -> tuple[Pattern, ...]:
        """The patterns that decide: of each argument, and of the result."""
        return (*self.arguments, self.result)

    @property
    def of_library(self) -> bool:
        """Whether the rule comes with activerules: a rule of somebody else wins over it."""
        return any(is_of_library(half.module) for half in self.halves.values())

    @property
    def location(self) -> str:
        """Where the half that was defined first is."""
        return next(iter(self.halves.values())).location

    def __repr__(self) -> str:
        """Return signature, halves and location in one line."""
        return f"<{self}: {', '.join(self.halves)} at {self.location}>"

    def __str__(self) -> str:
        """Return `solve(A: Const | Duplicated, b: Const) -> Duplicated`."""
        names = next(iter(self.halves.values())).argument_names
        written = zip(names, map(patterns.show, self.arguments), strict=True)
        arguments = ", ".join(f"{name}: {pattern}" for name, pattern in written)
        return f"{self.name}({arguments}) -> {patterns.show(self.result)}"


@dataclass(frozen=True)
class RulePair:
    """A rule chosen for a call.

    augmented, reverse   the Python functions.
    arguments, result    the annotation classes the two functions are called with.
    lowering             per argument, how the caller gets from its activity to that of `arguments`:
                         "drop result": Const is passed as Active, the derivative is dropped;
                         "scratch shadow": Const is passed as Duplicated with a shadow to throw
                         away.
    result_lowering      "zero cotangent" if the result is Const at the call, and the rule wants
                         more.
    tape_type            what the reverse annotates its tape with, or None.
    location             "file:line" of the reverse.
    saves                positions of the arguments that the reverse finds as they were.
    keeps_shadow         whether the augmented primal must run for every shadow of its arguments.
    lost                 where the rule of the library is that would serve, or "".
    beside               where a user's rule is that is for the other mode alone, if this one is the
                         library's, or "".
    """

    name: str
    augmented: Callable[..., Any]
    reverse: Callable[..., Any]
    arguments: tuple[Kind, ...]
    result: Kind
    lowering: tuple[Lowering, ...]
    result_lowering: Literal["as is", "zero cotangent"]
    tape_type: Any
    location: str
    saves: frozenset[int] = frozenset()
    keeps_shadow: bool = True
    lost: str = ""
    beside: str = ""


@dataclass(frozen=True)
class ForwardRule:
    """A forward rule chosen for a call.

    arguments, result    the annotation classes the function is called with.
    lowering             per argument: "as is", or "scratch shadow" where the call has Const and the
                         rule gets a tangent of zeros.
    looped               the rule is of width 1 and the call is not: it runs once per lane.
    lost                 where the rule of the library is that would serve, or "".
    beside               where a user's rule is that is for the other mode alone, if this one is the
                         library's, or "".
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Kind, ...]
    result: Kind
    lowering: tuple[Lowering, ...]
    looped: bool
    location: str
    lost: str = ""
    beside: str = ""


def is_of_library(module: str | None) -> bool:
    """Whether a function of this module comes with activerules."""
    return (module or "").partition(".")[0] == __name__.partition(".")[0]


@dataclass(frozen=True)
class DataPaths:
    """How data passes a function beside its arguments and its result.

    sends, receives   positions of arguments.
    into_result       whether the result is received.
    declared          whether a rule says so, or that there is no such way.
    """

    sends: frozenset[int] = frozenset()
    receives: frozenset[int] = frozenset()
    into_result: bool = False
    declared: bool = False


def is_generic(function: Any) -> bool:
    """Whether a function is an operator, a function of NumPy or math …: of all types, where rules
    may be for some. The others have one body, and a rule for it.
    """
    plain = getattr(function, "py_func", function)
    root = (getattr(plain, "__module__", None) or "").split(".")[0]
    return root in _GENERIC or isinstance(plain, np.ufunc)


_GENERIC = frozenset({"numpy", "math", "cmath", "operator", "_operator", "builtins"})


def location_of(function: Any) -> str:
    """The "file:line" of a Python function or dispatcher."""
    code = getattr(function, "py_func", function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def display_name(function: Any) -> str:
    """Name of a function as its user writes it: `np.linalg.solve`, `spline`."""
    plain = getattr(function, "py_func", function)
    name = getattr(plain, "__name__", None) or repr(plain)
    module = getattr(plain, "__module__", None) or ""
    root = module.split(".")[0]
    if root == "numpy":
        inner = next((f"{part}." for part in ("linalg", "random") if part in module), "")
        return f"np.{inner}{name}"
    known = ("math", "operator", "_operator", "random")
    return f"{root.lstrip('_')}.{name}" if root in known else name

"""The situations in which `check_rule` calls a rule, and the arguments it passes.

Needs       the arguments of `check_rule`: values, annotations, `arg(value, activities)`
Gives       `CheckedArgument`s in the order of the function's parameters; `Situation`s; `Lane`s
Invariants  S1  a default that was not passed is Const, as in a call that leaves it out
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules.annotations.activity import Annotation, Const, Duplicated, alternatives
from activerules.callables import python_function
from activerules.errors import NotYetSupported
from activerules.testing.gradient import default_activity
from activerules.testing.numeric import is_differentiable, shares_items

Kind = type[Annotation]


@dataclass(frozen=True)
class CheckedArgument:
    """An argument of `check_rule`: a value and the activities to check it with."""

    value: Any
    kinds: tuple[Kind, ...]


@dataclass(frozen=True)
class Situation:
    """The facts about a call that a rule is passed in `config`; or "rrule" or "frule", called
    directly.
    """

    kinds: tuple[Kind, ...]
    result: Kind
    overwritten: tuple[bool, ...]
    needs_primal: bool = True
    compiled: bool = False
    lane: int = 0
    direct: str = ""

    def __str__(self) -> str:
        if self.direct:
            return f"called directly, by {self.direct}"
        kinds = ", ".join(kind.__name__ for kind in self.kinds)
        facts = [f"({kinds}) -> {self.result.__name__}", "compiled" if self.compiled else ""]
        facts += ["overwritten" if any(self.overwritten) else ""]
        facts += ["" if self.needs_primal else "primal not needed"]
        facts += [f"lane {self.lane} of a batch" if self.lane else ""]
        return ", ".join(filter(None, facts))

    @property
    def differentiated(self) -> tuple[int, ...]:
        """The positions of the arguments with a derivative."""
        return tuple(i for i, kind in enumerate(self.kinds) if kind is not Const)


@dataclass(frozen=True)
class Lane:
    """One derivative of a batch: lanes share the values of arguments, each has its own shadows.

    scale   all cotangents (tangents) are those of the first lane times this
    """

    annotated: tuple[Annotation, ...]
    shadows: tuple[Any, ...]
    result_bar: Any
    scale: float


def arg(value: Any, activities: Any = None) -> CheckedArgument:
    """An argument of `check_rule`: a value with activities (`Const | Duplicated`, default: all)."""
    if activities is None:
        return CheckedArgument(value, fitting(value))
    return CheckedArgument(value, tuple(dict.fromkeys(a.kind for a in alternatives(activities))))


def arguments_of(f: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[CheckedArgument]:
    """The arguments in the order of the parameters, with the defaults that were left out (S1);
    those of `*args` are one, a tuple, as in the rule.
    """
    try:
        signature = inspect.signature(python_function(f))
        bound = signature.bind(*args, **kwargs)
    except (TypeError, ValueError):
        if kwargs:
            raise
        return list(map(_argument, args))
    passed = set(bound.arguments)
    bound.apply_defaults()
    variadic = {p.name for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL}
    if not hasattr(f, "py_func"):
        return list(map(_argument, (*args, *kwargs.values())))
    return [
        _gathered(value)
        if name in variadic
        else _argument(value)
        if name in passed
        else CheckedArgument(value, (Const,))
        for name, value in bound.arguments.items()
    ]


def fitting(value: Any) -> tuple[Kind, ...]:
    """The activities a plain value may have."""
    return tuple(dict.fromkeys((Const, default_activity(value))))


def result_kinds(result: Any, ret: Any) -> tuple[Kind, ...]:
    """The activities of a result: those asked for, or the one with a derivative."""
    if ret is not None:
        return tuple(dict.fromkeys(a.kind for a in alternatives(ret)))
    return (fitting(result)[-1],)


def _argument(x: Any) -> CheckedArgument:
    if isinstance(x, CheckedArgument):
        return x
    if isinstance(x, Annotation):
        return CheckedArgument(x.fields[0], (type(x),))
    return CheckedArgument(x, fitting(x))


def _gathered(items: Sequence[Any]) -> CheckedArgument:
    """The arguments of `*args` as one: Const only if each is, or may be."""
    each = list(map(_argument, items))
    value = tuple(argument.value for argument in each)
    if all(argument.kinds == (Const,) for argument in each):
        return CheckedArgument(value, (Const,))
    may_be_const = all(Const in argument.kinds for argument in each)
    return CheckedArgument(value, fitting(value) if may_be_const else fitting(value)[-1:])


def is_explicit(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether activities were asked for; rules must then serve them."""
    return any(isinstance(x, Annotation | CheckedArgument) for x in (*args, *kwargs.values()))


def require_known(argument: CheckedArgument) -> None:
    """Refuse an argument for which there are no directions: the check would compare nothing."""
    if all(kind is Const for kind in argument.kinds):
        return
    if isinstance(argument.value, np.ndarray) and shares_items(argument.value):
        raise NotYetSupported(
            "check_rule with respect to an array whose items share memory",
            why="each would get the sum of all their derivatives, as in the program",
            instead=["a copy of the array"],
        )
    if not is_differentiable(argument.value):
        raise NotYetSupported(
            f"check_rule with a derivative with respect to a {type(argument.value).__name__}",
            why="it knows directions in numbers, arrays, tuples of them, records, instances of "
            "jitclasses, StructRefs, typed lists and dictionaries; those of Python have no shadow "
            "in a rule",
            instead=["check_gradient(g, arrays) of a function g that makes the object of arrays"],
        )


def activities(
    arguments: Sequence[CheckedArgument], *, forward: bool = False
) -> Iterator[tuple[Kind, ...]]:
    """Every combination of activities in which something is differentiated; in forward mode only
    of Const and Duplicated.
    """
    choices = [a.kinds for a in arguments]
    if forward:
        choices = [
            tuple(dict.fromkeys(Const if kind is Const else Duplicated for kind in kinds))
            for kinds in choices
        ]
    for combination in itertools.product(*choices):
        if any(kind is not Const for kind in combination):
            yield combination

"""A rule written as `augmented_primal` and `reverse`, called as an rrule from Python.

The two functions run interpreted: the annotations, `accumulate`, `active` and the configuration
have plain Python forms. Nothing is overwritten between the two, so no tape copies anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np

from activerules.annotations.activity import Active, Annotation, Const, Duplicated
from activerules.annotations.tangents import NoTangent, is_zero
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.errors import NoRuleForActivity
from activerules.rules.protocol import RuleConfig
from activerules.rules.registry import RULES
from activerules.rules.rule import RulePair


def rrule(function: Any, x: Sequence[Any]) -> tuple[Any, Callable[[Any], Any]] | None:
    """`(y, pullback)` by the pair that serves these arguments; None if there is none.

    The function itself runs once more than in compiled code: a pair is chosen by the type of the
    result, too.
    """
    if not RULES.carries_rule(function):
        return None
    y = function(*x)
    kinds = [_kind(value) for value in (*x, y)]
    try:
        types = [numba.typeof(value) for value in (*x, y)]
        pair = RULES.find(function, types[:-1], types[-1], kinds[:-1], kinds[-1])
    except (NoRuleForActivity, ValueError):
        return None
    config = RuleConfig(overwritten=(False,) * len(x))
    made = _plain(pair.augmented)(config, pair.result, *_annotated(pair, x))

    def pullback(dy: Any) -> tuple[Any, ...]:
        return NoTangent(), *_pulled(pair, config, made, x, extern(dy))

    return made.primal, pullback


def _annotated(pair: RulePair, x: Sequence[Any]) -> list[Annotation]:
    return [
        _annotated_as(kind, value, make_zero(value))
        for kind, value in zip(pair.arguments, x, strict=True)
    ]


def _annotated_as(kind: Any, value: Any, shadow: Any) -> Annotation:
    return Duplicated(value, shadow) if kind is Duplicated else kind(value)


def _pulled(pair: RulePair, config: RuleConfig, made: Any, x: Sequence[Any], dy: Any) -> list[Any]:
    """The cotangents of the arguments; each call has shadows of its own."""
    annotated = _annotated(pair, x)
    dret = _result(pair.result, made.primal, dy)
    returned = _plain(pair.reverse)(config, dret, made.tape, *annotated)
    entries = _entries(returned, annotated)
    return [
        _cotangent(annotation, entry, value)
        for annotation, entry, value in zip(annotated, entries, x, strict=True)
    ]


def _result(kind: type[Annotation], y: Any, dy: Any) -> Annotation:
    if kind is Const:
        return Const(y)
    bar = make_zero(y)
    if is_zero(dy):
        return Active(bar) if kind is Active else Duplicated(y, bar)
    if kind is Active:
        return Active(type(bar)(dy))
    bar[...] = dy
    return Duplicated(y, bar)


def _entries(returned: Any, annotated: Sequence[Annotation]) -> Sequence[Any]:
    """One entry per argument, where a reverse with one Active argument returns it alone."""
    if isinstance(returned, tuple) and len(returned) == len(annotated):
        return returned
    return [returned if isinstance(a, Active) else None for a in annotated]


def _cotangent(annotation: Annotation, entry: Any, value: Any) -> Any:
    if _kind(value) is Const:
        return NoTangent()
    return annotation.fields[1] if isinstance(annotation, Duplicated) else entry


def _kind(value: Any) -> type[Annotation]:
    if isinstance(value, np.ndarray):
        return Duplicated if np.issubdtype(value.dtype, np.inexact) else Const
    return Active if isinstance(value, float | complex | np.inexact) else Const


def _plain(function: Any) -> Any:
    return getattr(function, "py_func", function)

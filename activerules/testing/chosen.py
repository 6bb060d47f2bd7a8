"""The options of `check_rule`: directions, tolerances, and the scheme of finite differences.

Needs       the function, random directions of its arguments, the options
Gives       `directions_of`, one per argument, of the type of the random one; `Tolerance`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules.annotations.activity import Const
from activerules.annotations.containers import like_tuple
from activerules.callables import parameters_of
from activerules.testing.fitting_tangents import require_fitting
from activerules.testing.numeric import inner_terms, is_differentiable, scaled
from activerules.testing.schemes import FiniteDifference
from activerules.testing.situations import CheckedArgument
from activerules.testing.trees import is_object, is_tree


@dataclass(frozen=True)
class Tolerance:
    """Tolerances in addition to the error of finite differences, and the scheme of these."""

    rtol: float
    atol: float
    fdm: FiniteDifference | None

    def __post_init__(self) -> None:
        """Raise `TypeError` or `ValueError` for what users gave instead."""
        if not isinstance(self.fdm, FiniteDifference | None):
            raise TypeError(f"fdm is a scheme, as central_fdm(5), not {self.fdm!r}")
        for name, given in (("rtol", self.rtol), ("atol", self.atol)):
            if not isinstance(given, int | float | np.number):
                raise TypeError(f"{name} is a number, not {given!r}")
            if not given >= 0:
                raise ValueError(f"{name} is {given}, which is below zero")

    def of(self, expected: float) -> float:
        """The tolerance for a number."""
        return self.atol + self.rtol * abs(expected)


def directions_of(
    f: Any,
    arguments: Sequence[CheckedArgument],
    random: Sequence[Any],
    chosen: Sequence[Any] | Mapping[str, Any] | None,
) -> tuple[Any, ...]:
    """The direction of each argument: the given one, by position or name, or the random one.

    `ValueError` for a direction that does not have the type and shape of its argument, is zero, or
    is of an argument with respect to which nothing is checked.
    """
    if isinstance(chosen, Mapping):
        names = parameters_of(f)[: len(random)]
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ValueError(f"directions: no argument {unknown[0]!r} among {', '.join(names)}")
        chosen = [chosen.get(name) for name in names]
    if chosen is None:
        return tuple(random)
    if not isinstance(chosen, tuple | list):
        raise ValueError(f"directions: a {type(chosen).__name__}, expected a tuple or a dictionary")
    if len(chosen) != len(random):
        raise ValueError(f"directions: {len(chosen)} for {len(random)} arguments")
    for i, (argument, direction) in enumerate(zip(arguments, chosen, strict=True)):
        if direction is not None:
            _require_direction(i, argument, direction)
    directions = tuple(map(_direction, random, chosen))
    for i, direction in enumerate(directions):
        terms = list(inner_terms(direction, direction))
        if terms and not any(terms):
            raise ValueError(f"directions: that of argument {i} is zero, and compares nothing")
    return directions


def _require_direction(i: int, argument: CheckedArgument, direction: Any) -> None:
    """Raise `ValueError` unless a direction fits its argument, which is not constant."""
    if not is_differentiable(argument.value):
        raise ValueError(f"directions: argument {i} has no derivative")
    if all(kind is Const for kind in argument.kinds):
        raise ValueError(f"directions: argument {i} is Const, and nothing is compared along one")
    require_fitting(f"directions: that of argument {i}", argument.value, direction)


def _direction(random: Any, chosen: Any) -> Any:
    """A given direction, with the type and the layout of the random one; that where it is None."""
    if chosen is None:
        return random
    if isinstance(random, tuple):
        return like_tuple(type(random), map(_direction, random, chosen))
    if is_tree(random) or is_object(random):
        return scaled(chosen, 1.0)
    zero = scaled(random, 0.0)
    if isinstance(zero, np.ndarray):
        zero[...] = chosen
        return zero
    return type(random)(chosen)

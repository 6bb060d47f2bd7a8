"""The options of `check_rule`: directions, tolerances, and the scheme of finite differences.

Needs       the function, random directions of its arguments, the options
Gives       `directions_of`, one per argument, of the type of the random one; `Tolerance`
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from activerules.annotations.containers import like_tuple
from activerules.callables import python_function
from activerules.testing.numeric import scaled
from activerules.testing.schemes import FiniteDifference


@dataclass(frozen=True)
class Tolerance:
    """Tolerances in addition to the error of finite differences, and the scheme of these."""

    rtol: float
    atol: float
    fdm: FiniteDifference | None

    def of(self, expected: float) -> float:
        """The tolerance for a number."""
        return self.atol + self.rtol * abs(expected)


def directions_of(
    f: Any, random: Sequence[Any], chosen: Sequence[Any] | Mapping[str, Any] | None
) -> tuple[Any, ...]:
    """The direction of each argument: the given one, by position or name, or the random one.

    `ValueError` for a direction without the shape of its argument, or without an argument.
    """
    if isinstance(chosen, Mapping):
        names = list(inspect.signature(python_function(f)).parameters)[: len(random)]
        unknown = [name for name in chosen if name not in names]
        if unknown:
            raise ValueError(f"directions: no argument {unknown[0]!r} among {', '.join(names)}")
        chosen = [chosen.get(name) for name in names]
    if chosen is None:
        return tuple(random)
    if len(chosen) != len(random):
        raise ValueError(f"directions: {len(chosen)} for {len(random)} arguments")
    return tuple(_direction(*each) for each in enumerate(zip(random, chosen, strict=True)))


def _direction(i: int, pair: tuple[Any, Any]) -> Any:
    """A given direction, with the type and the layout of the random one."""
    random, chosen = pair
    if chosen is None:
        return random
    if random is None:
        raise ValueError(f"directions: argument {i} has no derivative")
    if isinstance(random, tuple):
        if not isinstance(chosen, tuple) or len(chosen) != len(random):
            raise ValueError(f"directions: argument {i} is a tuple of {len(random)} entries")
        parts = [_direction(i, each) for each in zip(random, chosen, strict=True)]
        return like_tuple(type(random), parts)
    if np.shape(chosen) != np.shape(random):
        shapes = f"{np.shape(chosen)}, the argument {np.shape(random)}"
        raise ValueError(f"directions: that of argument {i} has the shape {shapes}")
    zero = scaled(random, 0.0)
    if isinstance(zero, np.ndarray):
        zero[...] = chosen
        return zero
    return type(random)(chosen)

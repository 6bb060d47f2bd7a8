"""An argument of a differentiated function: its name, type and activity."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from activerules.annotations.activity import BY_NAME
from activerules.rules.pattern import type_name
from activerules.values.layout import Node, Path, ValueActivity, show


@dataclass(frozen=True)
class ArgumentSpec:
    """One argument, or one part of it (`x[0].w`), of a differentiated function."""

    name: str
    numba_type: Any
    activity: ValueActivity

    def __str__(self) -> str:
        """Return `x: Duplicated[float64[::1]]`."""
        return f"{self.name}: {self.annotation}"

    @property
    def annotation(self) -> str:
        """The argument as it is annotated in a signature."""
        return f"{BY_NAME[self.activity].__name__}[{type_name(self.numba_type)}]"

    def part(self, path: Path, node: Node) -> ArgumentSpec:
        """The part at a path: an argument with the path in its name, and the same activity."""
        return replace(self, name=self.name + show(path), numba_type=node.numba_type)


def types_and_activities(
    arguments: Sequence[ArgumentSpec],
) -> tuple[tuple[Any, ...], tuple[ValueActivity, ...]]:
    """Their types and their activities, as a `DerivativeSpec` begins with."""
    return tuple(a.numba_type for a in arguments), tuple(a.activity for a in arguments)

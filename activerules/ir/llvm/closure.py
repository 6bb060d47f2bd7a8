"""What can be reached in a graph: of blocks, values, memory objects or functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def closure(start: Iterable[T], following: Callable[[T], Iterable[T]]) -> set[T]:
    """All of `start`, and what `following` leads to from there, directly or not."""
    reached = set(start)
    work = list(reached)
    while work:
        new = set(following(work.pop())) - reached
        reached |= new
        work += new
    return reached

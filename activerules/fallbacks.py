"""One way to derive a function is refused, and another is tried.

    with_fallbacks(attempt, first, on=refusals, other=what to try in place of what was refused)

    what is refused                             what is tried            where
    pointers replaced in memory of arguments    copies of the objects    numba_ext.replaced
    a Const array mixed with active memory      a scratch shadow         pipeline.requests

`explain` shows what was tried (`recorded`). A refusal without an alternative is raised unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeVar

from activerules.errors import ActiverulesError

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Fallback:
    """What was tried in place of what was refused, and the refusal in one line."""

    tried: str
    refused: str


_records: ContextVar[list[Fallback] | None] = ContextVar("activerules_fallbacks", default=None)


@contextmanager
def recorded() -> Generator[list[Fallback]]:
    """What is tried instead from here on, in order."""
    found: list[Fallback] = []
    token = _records.set(found)
    try:
        yield found
    finally:
        _records.reset(token)


def with_fallbacks(
    attempt: Callable[[S], T],
    first: S,
    *,
    on: tuple[type[ActiverulesError], ...],
    other: Callable[[S, ActiverulesError], tuple[S, str] | None],
) -> T:
    """What `attempt` gives for `first`, or for the first of the others that it does not refuse.

    on      what counts as a refusal; anything else is raised
    other   what to try next and how `explain` calls that, from what was tried and the refusal; None
            if there is nothing else, and then the refusal is raised
    """
    tried = first
    while True:
        try:
            return attempt(tried)
        except on as error:
            following = other(tried, error)
            if following is None:
                raise
            tried, name = following
            records = _records.get()
            if records is not None:
                records.append(Fallback(name, error.what))

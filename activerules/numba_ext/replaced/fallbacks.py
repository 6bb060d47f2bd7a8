"""Fallbacks: other attempts when a derivative is refused.

    with_fallbacks(attempt, first, on=refusals, fallback=what to try after a refusal)

    what is refused                             what is tried            where
    pointers replaced in memory of arguments    copies of the objects    numba_ext.replaced
    Const memory mixed with active memory       a scratch shadow         pipeline.scratch_shadows

`explain` shows the fallbacks that were tried (`recorded`). A refusal without a fallback is raised
unchanged.
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
    """What was tried, and the refusal that was the reason, each in one line."""

    tried: str
    refused: str


_records: ContextVar[list[Fallback] | None] = ContextVar("activerules_fallbacks", default=None)


@contextmanager
def recorded() -> Generator[list[Fallback]]:
    """Record the fallbacks that are tried while the context lasts, in order."""
    records: list[Fallback] = []
    token = _records.set(records)
    try:
        yield records
    finally:
        _records.reset(token)


def with_fallbacks(
    attempt: Callable[[S], T],
    first: S,
    *,
    on: tuple[type[ActiverulesError], ...],
    fallback: Callable[[S, ActiverulesError], tuple[S, str] | None],
) -> T:
    """The result of `attempt(first)`, or of the first fallback that is not refused.

    on         the exceptions that are refusals; others pass
    fallback   from what was tried and its refusal: what to try next, and its name in `explain`;
               None if there is nothing, and the refusal is raised
    """
    tried = first
    while True:
        try:
            return attempt(tried)
        except on as error:
            found = fallback(tried, error)
            if found is None:
                raise
            tried, name = found
            records = _records.get()
            if records is not None:
                records.append(Fallback(name, error.what))

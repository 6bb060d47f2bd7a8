"""Tapes between a forward and a reverse sweep that another package calls apart, by number."""

from __future__ import annotations

import itertools
import secrets
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

MOST = 32


class Tapes:
    """The most recent tapes that no caller has taken yet. A tape is handed out once."""

    def __init__(self) -> None:
        self._kept: dict[int, Any] = {}
        self._lock = threading.Lock()
        # a number that got to another process means nothing there
        self._numbers = itertools.count(secrets.randbits(62))
        self._threads = threading.local()

    def keep(self, tape: Any) -> int:
        """The number of a tape; the oldest goes if there are too many."""
        with self._lock:
            number = next(self._numbers)
            self._kept[number] = tape
            if len(self._kept) > MOST:
                del self._kept[next(iter(self._kept))]
        return number

    def take(self, number: int) -> Any:
        """The tape; None if it was taken before, or has gone."""
        taken: dict[int, Any] | None = getattr(self._threads, "taken", None)
        if taken is not None and number in taken:
            return taken[number]
        with self._lock:
            tape = self._kept.pop(number, None)
        if taken is not None:
            taken[number] = tape
        return tape

    @contextmanager
    def shared(self) -> Generator[None]:
        """A context in which this thread may take a tape more than once."""
        outer: dict[int, Any] | None = getattr(self._threads, "taken", None)
        self._threads.taken = {} if outer is None else outer
        try:
            yield
        finally:
            self._threads.taken = outer


TAPES = Tapes()

"""The implementation that a call was typed with, recorded per session.

Numba records it in the type of the function, by argument types, and all typing contexts share
that type: the last one to type such a call wins. A derivative that is compiled while its caller is
between typing and lowering would leave the caller with an implementation of the AD target, for
which the caller's context has "no definition". So a session keeps its own records and restores the
others.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from numba.core.types.functions import BaseFunction


class ImplementationKeys:
    """Numba's records of overload implementations, kept separately for one session."""

    def __init__(self) -> None:
        self._own: dict[tuple[Any, tuple[Any, ...]], Any] = {}

    def typed(self, function: Any, resolve: Callable[[], Any]) -> Any:
        """The signature that `resolve` finds for a call; records the implementation."""
        shared = _notes(function)
        if shared is None:
            return resolve()
        before = dict(shared)
        chosen = resolve()
        if chosen is not None and chosen.args in shared:
            self._own[function, chosen.args] = shared[chosen.args]
            if chosen.args in before:
                shared[chosen.args] = before[chosen.args]
        return chosen

    @contextmanager
    def lowering(self, function: Any, args: tuple[Any, ...]) -> Generator[None, None, None]:
        """Within it, the session's own record is in effect: a call is being looked up."""
        shared = _notes(function)
        own = None if shared is None else self._own.get((function, args))
        if shared is None or own is None:
            yield
            return
        before = shared[args]
        shared[args] = own
        try:
            yield
        finally:
            shared[args] = before


def _notes(function: Any) -> dict[Any, Any] | None:
    """Numba's own record: the implementation of a function for each tuple of argument types."""
    if not isinstance(function, BaseFunction):
        return None
    notes: dict[Any, Any] = vars(function)["_impl_keys"]
    return notes

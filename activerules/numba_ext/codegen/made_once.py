"""Objects that are made once per dispatcher.

`MadeOnce`        of the function alone: a copy under other flags, a wrapper with fewer parameters
`MadeUnderRules`  of the function and the current rules: made again when these change. `COMPILED`
                  is the one of the process: every derivative, and every function that calls one

Both keep the dispatcher alive, as Numba's machine code lives as long as the process.

`make` runs outside of the lock: it may compile, and Numba's compiler has a lock of its own, which
another thread may hold while it asks here. If two threads make the same thing, both use
the one that is finished first.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from activerules.rules.registry import RULES

T = TypeVar("T")


class MadeOnce:
    """Objects made from dispatchers, by dispatcher and key."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._made: weakref.WeakKeyDictionary[Any, dict[Hashable, Any]]
        self._made = weakref.WeakKeyDictionary()

    def find(self, dispatcher: Any, key: Hashable) -> Any:
        """What was made under the key; None if nothing was, or if this cannot be a dispatcher."""
        try:
            return self._made[dispatcher].get(self._stored_as(key))
        except (KeyError, TypeError):  # TypeError: without a hash, or a weak reference
            return None

    def get(self, dispatcher: Any, key: Hashable, make: Callable[[], T]) -> T:
        """What was made under the key, or else what `make` makes now."""
        key = self._stored_as(key)
        with self._lock:
            known = self._made.setdefault(dispatcher, {})
            if key in known:
                return known[key]
        made = make()
        with self._lock:
            return known.setdefault(key, made)

    def put(self, dispatcher: Any, key: Hashable, made: T) -> T:
        """Store a value under the key."""
        with self._lock:
            self._made.setdefault(dispatcher, {})[self._stored_as(key)] = made
        return made

    def _stored_as(self, key: Hashable) -> Hashable:
        return key


class MadeUnderRules(MadeOnce):
    """Objects made from dispatchers under the rules: `RULES.epoch` is part of every key."""

    def _stored_as(self, key: Hashable) -> Hashable:
        return RULES.epoch, key


COMPILED = MadeUnderRules()
"""What this package has compiled for a dispatcher under the rules there are now."""

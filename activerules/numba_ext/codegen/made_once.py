"""Objects that are made once per dispatcher.

`MadeOnce`        of the function alone: a copy under other flags, a wrapper with fewer parameters
`MadeUnderRules`  of the function and the current rules: made again when these change. `COMPILED`,
                  one per process, has every derivative, and every function that calls one
`compiled_lines`  a function compiled from lines of text, kept in `COMPILED`
`in_place_of`     the same with the module and the location of a function of the user

Both keep the dispatcher alive, as Numba's machine code lives as long as the process.

`LastMade`        of a Python function, as it was given, under the current rules: looked up in a
                  fraction of a microsecond, for calls that come again

`make` runs outside of the lock: it may compile, and Numba's compiler has a lock of its own, which
another thread may hold while it asks here. If two threads make the same thing, both use
the one that is finished first.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from activerules.numba_ext.codegen.unlinked import to_link
from activerules.rules.registry import RULES
from activerules.rules.written import definition, function_from, replacement_of

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
        value = make()
        with self._lock:
            return known.setdefault(key, value)

    def put(self, dispatcher: Any, key: Hashable, value: T) -> T:
        """Store a value under the key."""
        with self._lock:
            self._made.setdefault(dispatcher, {})[self._stored_as(key)] = value
        return value

    def _stored_as(self, key: Hashable) -> Hashable:
        return key


class MadeUnderRules(MadeOnce):
    """Objects made from dispatchers under the rules: `RULES.epoch` is part of every key."""

    def _stored_as(self, key: Hashable) -> Hashable:
        return RULES.epoch, key


class LastMade:
    """What was last made for a Python function and a key under the current rules: the compiled
    function that served a call, the attributes of a `DerivedFunction`.
    """

    def __init__(self) -> None:
        self._made: dict[Any, tuple[int, Any]] = {}

    def find(self, function: Any, key: Hashable) -> Any:
        """The stored value; None if there is none."""
        try:
            epoch, value = self._made[function, key]
        except (KeyError, TypeError):  # TypeError: without a hash
            return None
        return value if epoch == RULES.epoch else None

    def put(self, function: Any, key: Hashable, value: T) -> T:
        """Store a value, unless `function` is an object made from another function, which may be
        dropped: what Numba compiles, and its dispatchers, live as long as the process.
        """
        if not hasattr(function, "dispatcher"):
            self._made[function, key] = RULES.epoch, value
        return value


COMPILED = MadeUnderRules()
"""What this package has compiled for a dispatcher under the current rules."""

# Entries are never called from C; without this option a wrapper for C would be compiled, too.
NO_C_WRAPPER: dict[str, Any] = {"no_cfunc_wrapper": True}


def compiled_lines(
    dispatcher: Any,
    name: str,
    parameters: Sequence[str],
    lines: Sequence[str],
    scope: Mapping[str, Any],
    *key: Hashable,
) -> Any:
    """The function of some lines of text for compiled callers, by `to_link`, with the globals
    `scope`, which the text and `key` determine.
    """
    source = definition(name, parameters, lines)
    return COMPILED.get(
        dispatcher,
        (source, *key),
        lambda: to_link(function_from(source, name, scope, module=__name__)),
    )


def in_place_of(
    dispatcher: Any,
    name: str,
    parameters: Sequence[str],
    lines: Sequence[str],
    scope: Mapping[str, Any],
) -> Any:
    """The function of these lines for compiled callers, by `to_link`, with the module and the file
    of another one.
    """
    source = definition(name, parameters, lines)
    return to_link(replacement_of(dispatcher.py_func, source, scope, name))

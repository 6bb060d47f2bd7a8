"""The signature and the implementation that a call was typed with, recorded per session.

Numba records it in the type of the function, by argument types, and all typing contexts share
that type: the last one to type such a call wins. A derivative that is compiled while its caller is
between typing and lowering would leave the caller with an implementation of the AD target, for
which the caller's context has "no definition". So a session keeps its own records and restores the
others.

Numba looks for the signature of a call anew for each line, and for each pass over the lines of a
loop. Of a function that is being compiled, calls of numbers and arrays are typed once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from operator import add as _add
from typing import Any

from numba.core import types
from numba.core.targetconfig import ConfigStack
from numba.core.types.functions import BaseFunction

from activerules.numba_ext.codegen.stubs import carries_no_data

# Types without state; two with the same key are the same to any function.
_PLAIN = (
    types.Integer,
    types.IntegerLiteral,
    types.Float,
    types.Complex,
    types.Boolean,
    types.Array,
)


class ImplementationKeys:
    """Numba's records of overload implementations, kept separately for one session."""

    def __init__(self) -> None:
        self._own: dict[tuple[Any, tuple[Any, ...]], Any] = {}
        # With the flags of the function that is being compiled, which stay alive: their id is part
        # of the key.
        self._typed: dict[tuple[Any, ...], tuple[Any, Any, Any, Any]] = {}
        self._operators: dict[Any, TypedOnce] = {}

    def known(self, callee: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
        """The signature of the same call in the function that is being compiled; None if there was
        none. Its implementation is recorded again: another function may have been typed since.
        """
        found = self._typed.get(_key(callee, args, kws))
        if found is None:
            return None
        _, function, chosen, implementation = found
        self._own[function, chosen.args] = implementation
        return chosen

    def typed_once(self, ordinary: Any) -> Any:
        """The type of a value; that of an operator is the session's own."""
        if type(ordinary) is not types.Function:
            return ordinary
        if getattr(ordinary.typing_key, "__module__", None) != _add.__module__:
            return ordinary
        # a package that is imported later may overload the operator, which gives it another type
        if ordinary not in self._operators:
            self._operators[ordinary] = TypedOnce(ordinary.templates, self._typed)
        return self._operators[ordinary]

    def forget(self) -> None:
        """Forget the calls of functions that have been compiled."""
        self._typed.clear()

    def typed(
        self,
        callee: Any,
        function: Any,
        args: tuple[Any, ...],
        kws: dict[str, Any],
        resolve: Callable[[], Any],
    ) -> Any:
        """The signature that `resolve` finds for a call; records the implementation.

        function   the type of `callee`
        """
        shared = _notes(function)
        if shared is None:
            return resolve()
        before = dict(shared)
        chosen = resolve()
        if chosen is not None and chosen.args in shared:
            implementation = self._own[function, chosen.args] = shared[chosen.args]
            if chosen.args in before:
                shared[chosen.args] = before[chosen.args]
            if key := _key(callee, args, kws):
                flags = ConfigStack.top_or_none()
                self._typed[key] = flags, function, chosen, implementation
        return chosen

    @contextmanager
    def lowering(self, function: Any, args: tuple[Any, ...]) -> Generator[None, None, None]:
        """A context in which the session's own record is in effect, while a call is looked up."""
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


class TypedOnce(types.Function):
    """The type of an operator in a session. When it lowers an operation, Numba looks for the
    signature again.
    """

    def __init__(self, templates: Any, calls: dict[Any, tuple[Any, Any, Any, Any]]) -> None:
        self.calls = calls
        super().__init__(templates)
        self.name = f"Function({self.typing_key})"  # as messages of Numba name it

    @property
    def key(self) -> Any:
        """What makes it equal to another: Numba has one object of each type."""
        return *super().key, id(self.calls)

    def get_call_type(self, context: Any, args: Any, kws: Any) -> Any:
        """The signature of a call."""
        key = _key(self.typing_key, args, kws)
        found = self.calls.get(key)
        if found is None:
            chosen: Any = super().get_call_type(context, args, kws)
            if key and chosen is not None:
                implementation = self.get_impl_key(chosen)
                self.calls[key] = ConfigStack.top_or_none(), self, chosen, implementation
            return chosen
        _, _, chosen, implementation = found
        vars(self)["_impl_keys"][chosen.args] = implementation
        return chosen


carries_no_data(TypedOnce)


def _key(callee: Any, args: tuple[Any, ...], kws: dict[str, Any]) -> tuple[Any, ...]:
    """The key of a call in the function that is being compiled, empty if types may have state."""
    flags = ConfigStack.top_or_none()
    if flags is None or kws or not all(map(_is_plain, args)):
        return ()
    return id(flags), callee, *args


def _is_plain(ty: Any) -> bool:
    return type(ty) in _PLAIN or (type(ty) is types.UniTuple and type(ty.dtype) in _PLAIN)


def _notes(function: Any) -> dict[Any, Any] | None:
    """Numba's own record: the implementation of a function for each tuple of argument types. None
    if no other context has the function.
    """
    if not isinstance(function, BaseFunction) or isinstance(function, TypedOnce):
        return None
    notes: dict[Any, Any] = vars(function)["_impl_keys"]
    return notes

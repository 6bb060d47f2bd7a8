"""Marked calls that need no rule: the function itself is called.

Needs       marked calls
Gives       `Primals`: the compiled function to call, and its library
Invariants  P1  a function is compiled only if there is a call of it
            P2  every call checks that its result shares no memory with an argument, unless LLVM has
                proved it
"""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

from numba.core import types

from activerules.annotations.activity import Const
from activerules.ir.llvm.names import in_symbols
from activerules.numba_ext.codegen.numba_versions import NOT_CAPTURED
from activerules.numba_ext.rules.caller import NewLibrary, RuleCaller
from activerules.numba_ext.rules.compiled import (
    CalledFunction,
    RuleArgument,
    RuleChecks,
    annotation_type,
)
from activerules.numba_ext.rules.pair_rules import alias_check
from activerules.numba_ext.rules.returned import check_apart
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.values.abi import flatten
from activerules.values.kinds import is_object

SYMBOL_PREFIX = "activerules.rulecode."

_checked: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


class Primals:
    """The compiled functions of the marked calls of one capture."""

    def __init__(self) -> None:
        self._makers: dict[str, Callable[[], Any]] = {}

    def symbol(self, marked: MarkedCall, *, is_new: bool) -> str:
        """The symbol to call; `is_new` says that a returned array is known to be new memory."""
        if is_new or not _may_share(marked):
            self._makers[marked.cpu_symbol] = lambda: marked.library
            return marked.cpu_symbol
        digest = hashlib.sha256(marked.symbol.encode()).hexdigest()[:16]
        symbol = f"{SYMBOL_PREFIX}{in_symbols(marked.name)}.{digest}.checked"
        self._makers[symbol] = partial(_checking, marked, symbol)
        return symbol

    def libraries(self, text: str) -> list[Any]:
        """The code libraries of the symbols that `text` calls."""
        return [make() for symbol, make in self._makers.items() if symbol in text]


def _checking(marked: MarkedCall, symbol: str) -> Any:
    library = _checked.get(symbol)
    if library is None:
        library = _checked[symbol] = checked_primal(marked, symbol)
    return library


def checked_primal(marked: MarkedCall, symbol: str) -> Any:
    """The library of the function itself, with a check of its result."""
    arguments = tuple(
        RuleArgument(name, ty, ty, "const", annotation_type(Const, ty))
        for name, ty in zip(marked.argument_names, marked.signature.args, strict=True)
    )
    library, checks = NewLibrary(symbol), RuleChecks(apart=alias_check(marked))
    called = CalledFunction(marked, arguments, (), checks)
    primal = _CheckedPrimal(library, symbol, called, ("ret", "excinfo"))
    primal.build()
    return library.finished([primal])


class _CheckedPrimal(RuleCaller):
    def build(self) -> None:
        result = self.call(self.marked, self.primals)
        self.pending.append((self.return_type, result))
        passed = [(v, a.passed) for v, a in zip(self.primals, self.arguments, strict=True)]
        check_apart(self, (result, self.return_type), passed)
        self.store_result("ret", result, self.return_type)
        self.finish()


def _may_share(marked: MarkedCall) -> bool:
    """Whether an array that a function returns may be memory of an argument."""
    start = 2
    may_share = False
    for ty in marked.signature.args:
        slots = flatten(ty)
        data = [start + k for k, slot in enumerate(slots) if slot.role == "data"]
        may_share |= any(NOT_CAPTURED.isdisjoint(marked.promises[k]) for k in data)
        may_share |= is_object(ty)
        start += len(slots)
    return may_share and isinstance(marked.result_type, types.Array)

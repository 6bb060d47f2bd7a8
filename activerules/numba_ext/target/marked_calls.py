"""Marked calls: a call of a function that carries a rule stays one opaque call in the captured IR.

Needs       a `RuleView` (which callables carry a rule)
Gives       `MarkedCall`, what later stages must know about each such symbol; `CallTable`: those of
            one session, and how a call is treated. `rule_function` makes them
Invariants  M1  the argument and return types are those of the ordinary CPU compile of the callable
            M2  a NumPy function or operator that the CPU target cannot compile for some argument
                types is not marked for them: its body is captured. An `@njit` function is refused
                then, as is any function whose result is Optional or a generator
            M3  the declaration promises nothing about memory, and any status but 0 is propagated
            M4  one callable and one tuple of argument types give one symbol
            M5  if the registry says that the body is to be differentiated, arguments declared
                inactive are constants in it
            M6  arguments are in the order of the callable's parameters, as in its rules, in
                whatever order a call names them
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np
from numba.core import types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import Signature

from activerules.callables import display_name
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.substitutes.ufuncs import FOR_EACH
from activerules.numba_ext.target.effects import (
    is_closed,
    only_reads,
    only_reads_through,
    replaces_pointers,
)
from activerules.rules.treatment import Treatment
from activerules.rules.views import RuleView
from activerules.values.kinds import is_typed_number_list, leaves_of


@dataclass(frozen=True)
class MarkedCall:
    """One marked symbol.

    function        the Python callable that carries the rule
    signature       Numba types of the call, defaults folded in
    argument_names  one per type in `signature.args`
    location        "file:line" of the first call in the captured code, "" before lowering
    cpu_symbol      the callable itself, compiled for the CPU with the same LLVM signature
    library         the code library that defines `cpu_symbol`
    """

    symbol: str
    function: Callable[..., Any]
    name: str
    signature: Signature
    argument_names: tuple[str, ...]
    location: str
    cpu_symbol: str
    library: Any
    fndesc: Any

    @property
    def result_type(self) -> types.Type:
        """The type of the result for rules: without the literals that Numba keeps in it."""
        return runtime_type(self.signature.return_type)

    @cached_property
    def promises(self) -> tuple[frozenset[bytes], ...]:
        """The attributes that LLVM proved for each parameter of the compiled callable."""
        arguments = self._compiled_function().arguments
        return tuple(frozenset(argument.attributes) for argument in arguments)

    @cached_property
    def only_reads(self) -> bool:
        """Whether the callable leaves its arguments, and all they lead to, unchanged."""
        return only_reads(self._compiled_function())

    def only_reads_through(self, parameters: Sequence[int]) -> bool:
        """Whether the callable writes nothing through these of its LLVM parameters."""
        return only_reads_through(self._compiled_function(), parameters)

    @cached_property
    def replaces_pointers(self) -> bool:
        """Whether the callable may replace arrays or objects inside its arguments."""
        if any(map(_is_reflected, self.signature.args)):
            return True  # a copy in it may be one of list items
        no_pointers = all(
            isinstance(ty, types.Array | types.Number) or is_typed_number_list(ty)
            for ty in self.signature.args
        )
        return replaces_pointers(self._compiled_function(), lists=not no_pointers)

    @cached_property
    def is_closed(self) -> bool:
        """Whether all data enters and leaves the callable through arguments and result."""
        return is_closed(self._compiled_function())

    def _compiled_function(self) -> Any:
        with global_compiler_lock:
            module = self.library._get_module_for_linking()
        return module.get_function(self.cpu_symbol)


@dataclass(frozen=True)
class FollowedCall:
    """A call of a function with rules whose body is differentiated instead, and the reason.

    `caller` is the symbol of the function that contains the call; `missed` the user's rule that
    comes nearest to it, and why it does not serve it.
    """

    function: Any
    location: str
    reason: str
    caller: str
    missed: str

    @property
    def name(self) -> str:
        """The name of the function, for messages."""
        return display_name(self.function)


class CallTable:
    """The marked calls of one capture session; `types`: those of callables with rules, by their ids
    (`rule_function`).
    """

    def __init__(self, rules: RuleView) -> None:
        self._rules = rules
        self.types: dict[int, Any] = {}
        self._calls: dict[str, MarkedCall] = {}
        self._locations: dict[str, dict[str, str]] = {}
        self._followed: dict[tuple[str, str, str], FollowedCall] = {}

    def carries_rule(self, value: Any) -> bool:
        """Whether `value` is a callable with a rule."""
        known = callable(value) or hasattr(value, "__wrapper_address__")
        return known and self._rules.carries_rule(value)

    def uses_body(self, value: Any) -> bool:
        """Whether every call of `value` is differentiated by its body."""
        return self._rules.uses_body(value)

    def is_inactive_type(self, ty: Any) -> bool:
        """Whether values of the type carry no derivative."""
        return self._rules.is_inactive_type(runtime_type(ty))

    def treatment(self, call: MarkedCall) -> Treatment:
        """How to treat a call that could be marked."""
        return self._treatment(
            call.function, call.argument_names, call.signature.args, returned=call.result_type
        )

    def keeps(self, function: Any, names: Sequence[str], argtypes: Sequence[types.Type]) -> bool:
        """Whether calls of `function` with arguments of these types are marked."""
        return self.carries_rule(function) and self._treatment(function, names, argtypes).kept

    def _treatment(
        self, function: Any, names: Sequence[str], argtypes: Sequence[types.Type], **returned: Any
    ) -> Treatment:
        args = tuple(map(plain_type, argtypes))
        treatment = self._rules.treatment(function, names, args, **returned)
        if (
            treatment.kept
            and is_loop(function, args)
            and not self._rules.is_declared(function, args)
        ):
            return Treatment(kept=False, reason="a loop costs less than its rule")
        return treatment

    def add(self, call: MarkedCall) -> None:
        """Add a call, unless its symbol is known already."""
        self._calls.setdefault(call.symbol, call)

    def located(self, symbol: str, loc: Any, caller: str) -> None:
        """Record where the function `caller` first calls `symbol`; `loc` is Numba's location."""
        if loc.filename != FOR_EACH:
            known = self._locations.setdefault(symbol, {})
            known.setdefault(caller, f"{loc.filename}:{loc.line}")

    def follow(self, followed: FollowedCall) -> None:
        """Record a call of a function with rules whose body is differentiated."""
        self._followed[followed.name, followed.location, followed.caller] = followed

    def followed_in(self, callers: Collection[str]) -> tuple[FollowedCall, ...]:
        """The recorded `FollowedCall`s in functions of these symbols, each location once."""
        recorded = {(c.name, c.location): c for c in self._followed.values() if c.caller in callers}
        return tuple(recorded.values())

    def get(self, symbol: str, callers: Collection[str]) -> MarkedCall:
        """The record of `symbol`, with its location in one of `callers`; KeyError if it is not
        marked.
        """
        known = self._locations.get(symbol, {})
        location = next((known[c] for c in callers if c in known), "")
        if location != self._calls[symbol].location:
            self._calls[symbol] = replace(self._calls[symbol], location=location)
        return self._calls[symbol]


def is_loop(function: Any, argtypes: Sequence[Any]) -> bool:
    """Whether `implementations` has a loop for a call: for the product of two real vectors."""
    return any(function is product for product in (np.dot, operator.matmul)) and all(
        isinstance(x, types.Array) and x.ndim == 1 and x.dtype in (types.float32, types.float64)
        for x in argtypes
    )


def _is_reflected(ty: Any) -> bool:
    return any(isinstance(leaf, types.List | types.Set) for leaf in leaves_of(ty))


def plain_type(ty: types.Type) -> types.Type:
    """The type of an argument's value; of an omitted argument, that of its default."""
    return numba.typeof(ty.value) if isinstance(ty, types.Omitted) else runtime_type(ty)

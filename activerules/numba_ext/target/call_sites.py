"""Call sites: an error about a symbol names the call in the user's source that leads to it.

Needs       the calls that are lowered in functions with line tables
Gives       `CallSites`, of one session: `call_at`, the call on a line that leads to a symbol
            `name_call`: rewords an `UnknownCall` to name that call, and the rule it needs
Invariants  W1  Numba is asked only once there is an error
            W2  a call is named only if no other call on its line can lead to the symbol

Code that Numba and its extensions implement carries the line of the user's call, but the symbol it
ends in (`numba_ez_gesdd` for `np.linalg.cond`) is not a name that a user knows or could give a
rule.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from numba.core import ir, types

from activerules.errors import NoRuleForActivity, UnknownCall
from activerules.numba_ext.target.marked_calls import FollowedCall
from activerules.numba_ext.target.rule_function import RuleFunction
from activerules.numba_ext.target.symbols import OF_PYTHON

_POINTERS = (types.ExternalFunctionPointer, types.FunctionType)
CallAt = Callable[[str, "str | None"], "CallSite | None"]


@dataclass(frozen=True)
class CallSite:
    """A call as written in the source.

    name       of the callee, as the source spells it
    callee     its Numba type
    signature  of the call
    is_global  whether that is a global name, of which rules can be given
    """

    name: str
    callee: Any
    signature: Any
    is_global: bool

    @property
    def is_by_address(self) -> bool:
        """Whether it is a call through a function pointer."""
        return isinstance(self.callee, _POINTERS)

    @property
    def is_scalar(self) -> bool:
        """Whether it takes numbers and returns one float, so that a scalar rule would do."""
        numbers = all(isinstance(ty, types.Number) for ty in self.signature.args)
        return numbers and isinstance(self.signature.return_type, types.Float)


class CallSites:
    """The calls of one session, by source line."""

    def __init__(self, modules_of: Callable[[CallSite], Iterable[Any]]) -> None:
        """`modules_of`: the LLVM modules with the code of a call; asked when there is an error."""
        self._modules_of = modules_of
        self._by_line: dict[tuple[str, int], dict[CallSite, None]] = {}

    def add(self, func_ir: Any, expr: Any, callee: Any, signature: Any) -> None:
        """Record the call `expr` in a function that is being lowered."""
        if _is_followed_by_name(callee, signature):
            return
        name = _qualified_name(func_ir, expr.func) or _variable(expr.func) or str(callee)
        site = CallSite(name, callee, signature, _is_global(func_ir, expr.func))
        self._by_line.setdefault((_absolute(expr.loc.filename), expr.loc.line), {})[site] = None

    def call_at(self, location: str, symbol: str | None) -> CallSite | None:
        """The call at `file:line` that leads to `symbol`, or, if that is None, to a call through a
        pointer; None unless there is exactly one.
        """
        file, _, line = location.rpartition(":")
        sites = self._by_line.get((_absolute(file), int(line)), {}) if line.isdigit() else {}
        # Numba asks the interpreter for the address of a @cfunc
        by_address = symbol is None or symbol.startswith(OF_PYTHON)
        fitting = [s for s in sites if s.is_by_address == by_address]
        if symbol is None and not fitting:  # the code of one of them calls a pointer
            fitting = [s for s in sites if _calls_a_pointer(self._modules_of(s))]
        elif not by_address and len(fitting) > 1:
            leading = [s for s in fitting if _leads_to(symbol, self._modules_of(s))]
            fitting = leading or [s for s in fitting if _is_named_by(symbol, s.name)]
        return fitting[0] if len({s.name for s in fitting}) == 1 else None


def _is_followed_by_name(callee: Any, signature: Any) -> bool:
    """Whether it calls another function of the user, whose code has its own lines, or is marked."""
    marked = isinstance(callee, RuleFunction) and callee.marked_call(signature) is not None
    return marked or isinstance(callee, types.Dispatcher | types.RecursiveCall)


def _leads_to(symbol: str | None, modules: Iterable[Any]) -> bool:
    return any(symbol == function.name for module in modules for function in module.functions)


def _calls_a_pointer(modules: Iterable[Any]) -> bool:
    functions = (function for module in modules for function in module.functions)
    instructions = (i for f in functions for block in f.blocks for i in block.instructions)
    return any(i.opcode == "call" and not [*i.operands][-1].is_function for i in instructions)


def _is_named_by(symbol: str | None, name: str) -> bool:
    """Whether a symbol is named after a method whose code is not available: `random_beta`."""
    method = name.rpartition(".")[2]
    parts = (symbol or "").split(".")
    return any(part == method or part.endswith(f"_{method}") for part in parts)


def _absolute(file: str) -> str:
    return os.path.abspath(file)


def _definition(func_ir: Any, variable: Any) -> Any:
    try:
        return func_ir.get_definition(variable)
    except KeyError:
        return None  # it has several definitions


def _is_global(func_ir: Any, called: Any) -> bool:
    definition = _definition(func_ir, called)
    if isinstance(definition, ir.Expr) and definition.op == "getattr":
        return _is_global(func_ir, definition.value)
    return isinstance(definition, ir.Global | ir.FreeVar)


def _variable(called: Any) -> str:
    """The name of a variable of the user; "" for one of Numba's."""
    return "" if called.name.startswith("$") else called.unversioned_name


def _qualified_name(func_ir: Any, called: Any) -> str:
    """The name of the callee as the source spells it, `np.linalg.cond`; "" if it has none."""
    definition = _definition(func_ir, called)
    match definition:
        case ir.Global() | ir.FreeVar() | ir.Arg():
            return definition.name
        case ir.Expr(op="getattr"):
            of = _qualified_name(func_ir, definition.value)
            return f"{of}.{definition.attr}" if of else str(definition.attr)
        case _:
            return ""


def name_call(
    error: UnknownCall, site: CallSite, symbol: str | None, followed: Iterable[FollowedCall]
) -> None:
    """Reword an error about a symbol to name the call that leads to it."""
    name = site.name
    error.what = f"active data flows into {name}, which has no derivative"
    error.args = (error.what,)
    rules = [call.reason for call in followed if call.name.split(".")[-1] == name.split(".")[-1]]
    if site.is_by_address:  # the instruction is Numba's, which looks the address up
        error.where = [entry for entry in error.where if entry[0] != "in LLVM IR"]
    by_address = site.is_by_address or symbol is None
    reached = "by its address" if by_address else f"through `{symbol}`"
    why = f": {rules[0]}" if rules else ""
    error.why = (
        f"it is compiled code, called {reached}, which cannot be looked into, and no rule serves "
        f"this call{why}"
    )
    by_name = "call an @njit function in its place, by its name; choose among several by `if`"
    of_it = [
        _scalar_rule(site) if site.is_scalar else _pair(name),
        f"declare that no derivative flows through it: ar.inactive({name})",
    ]
    around_it = "put the call into an @njit function of your own, and give that a rule"
    held = "if a tuple or an object holds it, make that in the function that is differentiated"
    if site.is_by_address:
        error.instead = [by_name, *(of_it if site.is_global else [held])]
    else:
        error.instead = of_it if site.is_global else [around_it]


def name_call_behind(error: NoRuleForActivity, site: CallSite) -> None:
    """Reword an error about a function of Numba's own to name the call that leads to it: a user
    can give a rule to, or declare inactive, only a function around that call.
    """
    error.what = f"{error.what}, which {site.name} calls"
    error.args = (error.what,)
    error.instead = [
        f"put the call of {site.name} into an @njit function of your own, and give that a rule",
        "ar.ignore_derivatives(…) of its arguments, if they are to be constants",
    ]


def _scalar_rule(site: CallSite) -> str:
    short, count = site.name.split(".")[-1], len(site.signature.args)
    names = ("x", "y", "z")[:count] if count <= 3 else [f"x{k}" for k in range(count)]
    partials = ", ".join(f"d{short}_d{each}" for each in names) + "," * (count == 1)
    rule = f"ar.chainrules.scalar_rule({site.name}, lambda Ω, {', '.join(names)}: ({partials}))"
    return f"say its derivative: {rule}"


def _pair(name: str) -> str:
    return f"give it a rule: @ar.augmented_primal({name}) and @ar.reverse({name})"

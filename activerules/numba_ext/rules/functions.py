"""The functions of a rule, compiled one by one for the CPU.

Each has a dispatcher of our own, which caches compile results. They are linked with the wrapper of
the rule, and never called from Python.
"""

from __future__ import annotations

from typing import Any

import numba
from numba.core import types

from activerules.errors import ActiverulesError, NotCompilable
from activerules.numba_ext.codegen.types import ConfigType
from activerules.numba_ext.codegen.unlinked import compile_to_link, to_link
from activerules.numba_ext.target.call_facts import RuleFunctionCompiler
from activerules.numba_ext.target.marked_calls import NUMBA_REFUSES, MarkedCall
from activerules.rules.pattern import type_name
from activerules.rules.rule import ForwardRule, RulePair, location_of

Chosen = RulePair | ForwardRule

# By function, so that nothing is compiled twice.
_dispatchers: dict[Any, Any] = {}


def _dispatcher(function: Any) -> Any:
    if function not in _dispatchers:
        options = dict(getattr(function, "targetoptions", {}))
        options.pop("nopython", None)
        plain = getattr(function, "py_func", function)
        _dispatchers[function] = to_link(plain, pipeline_class=RuleFunctionCompiler, **options)
    return _dispatchers[function]


def callable_rule(function: Any, **more: Any) -> Any:
    """A dispatcher of a function of a rule, for calls from other compiled functions.

    `more` are further options of `@njit`.
    """
    options = {**getattr(function, "targetoptions", {}), **more}
    options.pop("nopython", None)
    plain = getattr(function, "py_func", function)
    return numba.njit(pipeline_class=RuleFunctionCompiler, **options)(plain)


def compile_function(function: Any, args: tuple[types.Type, ...], pair: Chosen | MarkedCall) -> Any:
    """The compile result of one function of a rule; `NotCompilable` if Numba refuses it."""
    try:
        return compile_to_link(_dispatcher(function), args)
    except ActiverulesError:
        raise
    except (*NUMBA_REFUSES, NotImplementedError) as error:
        raise NotCompilable(
            f"Numba cannot compile the rule of {pair.name} in nopython mode",
            where=[rule_location(function, args)],
            why=str(error).strip(),
            instead=["add into a shadow: x.dval[:] += …"] if ".dval = " in str(error) else [],
        ) from error


def rule_location(function: Any, args: tuple[types.Type, ...]) -> tuple[str, str, str]:
    """The location of a function of a rule, as an entry of an error."""
    plain = getattr(function, "py_func", function)
    annotated = ", ".join("config" if isinstance(a, ConfigType) else type_name(a) for a in args)
    text = f"{plain.__name__}({annotated})" if args else plain.__name__
    return "in the rule", text, location_of(plain)

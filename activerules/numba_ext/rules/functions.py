"""The functions of a rule, compiled one by one for the CPU.

Needs       a function of a rule, and the function that the rule is for
Gives       `compile_function`: its compile result, linked with the wrapper of the rule and never
            called from Python; `callable_rule`: a dispatcher, for calls from compiled code
Invariants  E1  what the derivative adds divides as NumPy does: a division by zero is an infinite
                slope, as in derivatives that the engine makes. What runs in place of the function
                (an augmented primal) divides as the function does. All check bounds where the
                function does. Options of `@njit` that a rule's function has itself come first
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numba
from numba.core import types
from numba.core.registry import cpu_target

from activerules.annotations.activity import Annotation
from activerules.callables import is_of_numpy, location_of, python_function
from activerules.errors import ActiverulesError, NotCompilable
from activerules.numba_ext.codegen.types import AnnotationType, ConfigType
from activerules.numba_ext.codegen.unlinked import compile_to_link, to_link
from activerules.numba_ext.rules.said_by_numba import explained
from activerules.numba_ext.target.call_facts import RuleFunctionCompiler
from activerules.numba_ext.target.marked_calls import MarkedCall
from activerules.numba_ext.target.rule_function import NUMBA_REFUSES
from activerules.rules.pattern import type_name
from activerules.rules.rule import ForwardRule, RulePair

Chosen = RulePair | ForwardRule

Flags = tuple[tuple[str, Any], ...]

DERIVATIVE: Flags = (("error_model", "numpy"),)
"""The flags of a function that only derivatives run."""


def flags_in_place_of(function: Any) -> Flags:
    """The flags of the code that replaces `function`: its own error model, and bounds checks."""
    own = getattr(function, "targetoptions", {})
    divides = own.get("error_model") or ("numpy" if is_of_numpy(function) else "python")
    return (("error_model", divides), *_bounds_checks(function))


def flags_beside(function: Any) -> Flags:
    """The flags of what the derivative of `function` adds: a reverse, or a forward rule."""
    return (*DERIVATIVE, *_bounds_checks(function))


def _bounds_checks(function: Any) -> Flags:
    checked = getattr(function, "targetoptions", {}).get("boundscheck")
    return (("boundscheck", True),) if checked else ()


def cpu_typing_context() -> Any:
    """The CPU's typing context, with all registrations so far."""
    context: Any = cpu_target.typing_context
    context.refresh()
    return context


# By function and flags, so that nothing is compiled twice.
_dispatchers: dict[Any, Any] = {}


def _dispatcher(function: Any, flags: Flags) -> Any:
    key = (function, flags)
    if key not in _dispatchers:
        options = _options(function, dict(flags))
        plain = python_function(function)
        _dispatchers[key] = to_link(plain, pipeline_class=RuleFunctionCompiler, **options)
    return _dispatchers[key]


def _options(function: Any, flags: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `@njit` for a function of a rule: its own, then `flags`."""
    own = getattr(function, "targetoptions", {})
    explicit = {name: value for name, value in own.items() if value is not None}
    return {name: v for name, v in {**flags, **explicit}.items() if name != "nopython"}


def callable_rule(function: Any, flags: Flags = DERIVATIVE, *, checked: bool = False) -> Any:
    """A dispatcher of a function of a rule, for calls from other compiled functions.

    `checked`: with checks of bounds.
    """
    options = _options(function, dict(flags)) | ({"boundscheck": True} if checked else {})
    plain = python_function(function)
    jit: Any = numba.njit
    return jit(pipeline_class=RuleFunctionCompiler, **options)(plain)


def compile_function(
    function: Any,
    args: tuple[types.Type, ...],
    pair: Chosen | MarkedCall,
    flags: Flags = DERIVATIVE,
) -> Any:
    """The compile result of one function of a rule; `NotCompilable` if Numba refuses it."""
    try:
        return compile_to_link(_dispatcher(function, flags), args)
    except ActiverulesError:
        raise
    except (*NUMBA_REFUSES, NotImplementedError) as error:
        raise refused_by_numba(pair.name, rule_location(function, args), error) from error


def refused_by_numba(name: str, where: tuple[str, str, str], error: Exception) -> NotCompilable:
    """The error for a function of a rule that Numba does not compile."""
    why, instead = explained(str(error).strip())
    return NotCompilable(
        f"Numba cannot compile the rule of {name} in nopython mode",
        where=[where],
        why=why,
        instead=instead,
    )


def _shown(ty: types.Type) -> str:
    """An argument of a rule's function; the activity of the result is passed as its class."""
    marker: Any = getattr(ty, "typing_key", None)
    is_marker = isinstance(marker, type) and issubclass(marker, Annotation)
    if is_marker:
        return marker.__name__
    if isinstance(ty, AnnotationType):
        return f"{ty.kind.__name__}[{type_name(ty.val)}]"
    return "config" if isinstance(ty, ConfigType) else type_name(ty)


def rule_location(function: Any, args: tuple[types.Type, ...]) -> tuple[str, str, str]:
    """The location of a function of a rule, as an entry of an error."""
    plain = python_function(function)
    annotated = ", ".join(map(_shown, args))
    text = f"{plain.__name__}({annotated})" if args else plain.__name__
    return "in the rule", text, location_of(plain)

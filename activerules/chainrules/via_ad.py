"""`rrule_via_ad` and `frule_via_ad`: a rule if there is one, otherwise the engine's derivative.

For rules of functions that take functions, and for code that calls rules itself, from Python. In
compiled rules, `activerules.vjp` and `activerules.jvp` do the same, and a pullback of `vjp` may be
captured like any other value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
from numba.extending import overload

from activerules.annotations.containers import like_tuple
from activerules.annotations.projection import ProjectTo
from activerules.annotations.tangents import NoTangent, NotImplementedTangent, is_zero
from activerules.annotations.thunks import extern
from activerules.annotations.values import make_zero
from activerules.api.jvp import jvp
from activerules.api.vjp import vjp
from activerules.chainrules.direct import as_tuple, frule, require_one_each, rrule
from activerules.chainrules.engine_rules import is_object
from activerules.chainrules.registry import FRULES, RRULES, RuleTable
from activerules.errors import RuleDefinitionError


def rrule_via_ad(function: Callable[..., Any], *x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return `(y, pullback)`, as `rrule` does, for any function the engine can differentiate.

    A rule of the function is preferred. Raises what `vjp` raises.
    """
    by_rule = rrule(function, *x) if _is_direct(RRULES, function, x) else None
    if by_rule is not None:
        return by_rule
    y, ad_pullback = vjp(function, *x)

    def pullback(dy: Any) -> tuple[Any, ...]:
        bars = ad_pullback(_in_form(y, extern(dy)))
        return NoTangent(), *(NoTangent() if bar is None else bar for bar in bars)

    return y, pullback


def frule_via_ad(deltas: Sequence[Any], function: Callable[..., Any], *x: Any) -> tuple[Any, Any]:
    """Return `(y, dy)`, as `frule` does, for any function the engine can differentiate.

    A rule of the function is preferred. Raises what `jvp` raises, and `ArityError` unless `deltas`
    are a tangent of the function and one per argument.
    """
    deltas = as_tuple(deltas, "frule_via_ad", function)
    by_rule = frule(deltas, function, *x) if _is_direct(FRULES, function, x) else None
    if by_rule is not None:
        return by_rule
    require_one_each(deltas, "frule_via_ad", function, x)
    tangents = tuple(_tangent(value, extern(d)) for value, d in zip(x, deltas[1:], strict=True))
    return jvp(function, x, tangents)


def _is_direct(table: RuleTable, function: Any, x: Sequence[Any]) -> bool:
    """Whether a rule is called directly: one of the engine takes objects for constants then."""
    return not any(map(is_object, x)) or table.find(function, x) is not None


@overload(rrule_via_ad)
def _rrule_via_ad(function, *x):  # noqa: ARG001
    raise _not_in_compiled_code("rrule_via_ad", "y, pullback = ar.vjp(f, *x)")


@overload(frule_via_ad)
def _frule_via_ad(deltas, function, *x):  # noqa: ARG001
    raise _not_in_compiled_code("frule_via_ad", "y, dy = ar.jvp(f, primals, tangents)")


def _not_in_compiled_code(name: str, instead: str) -> RuleDefinitionError:
    return RuleDefinitionError(
        f"{name} is for Python: compiled code, such as that of a rule, cannot call it",
        why="in compiled code the engine differentiates a function itself, by its rules if any",
        instead=[f"{instead}; its entries are those of the arguments alone", "ar.autodiff"],
    )


def _tangent(x: Any, dx: Any) -> Any:
    """A tangent in the form that `jvp` takes, with None for no tangent."""
    if ProjectTo(x).has_tangent:
        return _in_form(x, dx)
    return None if is_zero(dx) or _is_discrete(x) else dx


def _is_discrete(x: Any) -> bool:
    """Whether `x` is an integer, a truth value or a string, or an array of such."""
    if isinstance(x, np.ndarray | np.generic):
        return x.dtype.names is None and not np.issubdtype(x.dtype, np.inexact)
    return isinstance(x, int | str)


def _in_form(x: Any, dx: Any) -> Any:
    """A tangent or cotangent with the type and layout of `x`, in its own memory; that of an object
    is such an object, and passed as it is. Raises `TangentNotImplemented` for one a rule does not
    have.
    """
    if isinstance(dx, NotImplementedTangent):
        dx.refuse()
    if is_zero(dx) or _is_discrete(x):
        return make_zero(x)
    space = ProjectTo(x)
    is_object = is_dataclass(x) and isinstance(dx, type(x))
    if is_object or not space.has_tangent:
        return dx
    projected = space(dx)
    if is_dataclass(x) and not isinstance(x, type):
        fields = {k: _in_form(getattr(x, k), d) for k, d in projected.backing.items()}
        return replace(x, **fields)
    if isinstance(x, dict):
        return {key: _in_form(value, projected[key]) for key, value in x.items()}
    if isinstance(x, tuple):
        return like_tuple(type(x), map(_in_form, x, projected))
    if isinstance(x, np.ndarray):
        zero = make_zero(x)
        zero[...] = projected
        return zero
    return projected

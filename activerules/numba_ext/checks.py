"""What a call of `autodiff` must fulfil while it is typed: the number of arguments, and their
annotations.

Everything here raises before a derivative is compiled. What depends on the arrays themselves is
checked in the compiled code, see `memory`.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import types

from activerules.annotations.activity import Active, Const, Duplicated, DuplicatedNoNeed
from activerules.errors import (
    ActivityError,
    ArityError,
    NotAFloatReturn,
    NotYetSupported,
    ShadowMismatch,
)
from activerules.numba_ext.gradient import ActivityName
from activerules.numba_ext.kinds import is_number, items_of
from activerules.numba_ext.types import AnnotationType
from activerules.rules.pattern import type_name


@dataclass(frozen=True)
class Argument:
    """One argument of a differentiated function: its name, Numba type and activity."""

    name: str
    numba_type: Any
    activity: ActivityName

    def __str__(self) -> str:
        """Return `x: Duplicated[float64[::1]]`."""
        return f"{self.name}: {self.activity.capitalize()}[{type_name(self.numba_type)}]"


# --- while the call is typed ---


def read_arity(function: Any, count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters of a dispatcher; `ArityError` if they do not
    fit.
    """
    signature = inspect.signature(function.py_func)
    name = function.py_func.__name__
    try:
        bound = signature.bind(*range(count))
    except TypeError as error:
        raise ArityError(
            f"{name} cannot be called with {count} argument{'s' * (count != 1)}: {error}",
            why=f"its signature is {name}{signature}",
            instead=["one annotation or value per argument, after the activity of the return"],
        ) from error
    if len(bound.arguments) != count:
        raise NotYetSupported(f"{name} takes a variable number of arguments")
    return tuple(bound.arguments)


def read_arguments(names: Sequence[str], found: Sequence[Any]) -> tuple[Argument, ...]:
    """Return a call's arguments; a bare value is Const. Raises `ActivityError`,
    `ShadowMismatch`.
    """
    return tuple(_read_argument(name, ty) for name, ty in zip(names, found, strict=True))


def read_gradient_arguments(
    names: Sequence[str], found: Sequence[Any], argnums: Sequence[int]
) -> tuple[Argument, ...]:
    """Return the arguments of `grad`: floats of `argnums` are Active, arrays Duplicated, others
    Const.
    """
    arguments = []
    for i, (name, ty) in enumerate(zip(names, map(types.unliteral, found), strict=True)):
        activity: ActivityName = "const"
        if i in argnums:
            _require_differentiable(name, ty)
            activity = "duplicated" if isinstance(ty, types.Array) else "active"
        arguments.append(Argument(name, ty, activity))
    return tuple(arguments)


def _require_differentiable(name: str, found: Any) -> None:
    if isinstance(found, types.Array):
        if not isinstance(found.dtype, types.Integer | types.Boolean):
            return _require_duplicated(name, found)
    elif isinstance(found, types.Float | types.Complex | types.BaseTuple):
        return _require_active(name, found)
    raise ActivityError(
        f"`{name}` is {type_name(found)}, which has no derivative",
        why="argnums names the arguments to differentiate by: floats, tuples and arrays of floats",
        instead=["another argnums", f"floats for `{name}`"],
    )


def _read_argument(name: str, found: Any) -> Argument:
    if not isinstance(found, AnnotationType):
        return Argument(name, types.unliteral(found), "const")
    if found.kind is Const:
        return Argument(name, found.val, "const")
    if found.kind is Active:
        _require_active(name, found.val)
        return Argument(name, found.val, "active")
    if found.kind in (Duplicated, DuplicatedNoNeed):
        _require_duplicated(name, found.val)
        _require_shadow(name, found.val, found.dval)
        return Argument(name, found.val, "duplicated")
    raise NotYetSupported(f"`{name}` is marked {found.kind.__name__}, which is not yet supported")


def _require_active(name: str, found: Any) -> None:
    if isinstance(found, types.BaseTuple):
        for i, item in enumerate(items_of(found)):
            if not isinstance(item, types.Integer | types.Boolean):
                _require_active(f"{name}[{i}]", item)
        return
    if is_number(found):
        return
    is_array = isinstance(found, types.Buffer)
    raise ActivityError(
        f"`{name}` is marked Active and is {type_name(found)}",
        why="the derivative of an Active argument is returned, so it must be a float",
        instead=[f"Duplicated({name}, make_zero({name}))" if is_array else f"Const({name})"],
    )


def _require_duplicated(name: str, found: Any) -> None:
    if isinstance(found, types.Array) and isinstance(found.dtype, types.Float | types.Complex):
        return
    if isinstance(found, types.Array) and not isinstance(
        found.dtype, types.Integer | types.Boolean
    ):
        raise NotYetSupported(f"`{name}` is an array of {found.dtype}, which is not yet supported")
    is_float = isinstance(found, types.Float | types.Complex)
    raise ActivityError(
        f"`{name}` is marked Duplicated and is {type_name(found)}",
        why="in reverse, the derivative of a Duplicated argument is added to memory of floats",
        instead=[f"Active({name})" if is_float else f"Const({name})"],
    )


def _require_shadow(name: str, primal: Any, shadow: Any) -> None:
    if not isinstance(shadow, types.Array) or (shadow.dtype, shadow.ndim) != (
        primal.dtype,
        primal.ndim,
    ):
        problem = f"is {type_name(shadow)}, and `{name}` is {type_name(primal)}"
    elif not shadow.mutable:
        problem = "is read-only, and the derivative is added to it"
    else:
        return
    raise ShadowMismatch(f"the shadow of `{name}` {problem}", instead=[f"make_zero({name})"])


def require_float_return(function: Any, result: Any) -> None:
    """Raise `NotAFloatReturn` unless `result` can be an Active return."""
    if isinstance(result, types.Float):
        return
    raise NotAFloatReturn(
        f"{function.py_func.__name__} returns {type_name(result)}, not a float",
        why="a gradient is the derivative of one number",
        instead=[
            "return one float: a sum, a loss",
            "jacobian, or autodiff_thunk and vjp, for functions that return arrays",
            "the activity Const for a function that writes its result into an argument",
        ],
    )

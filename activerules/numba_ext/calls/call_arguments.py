"""The arguments of a call: their number, their names, and their Numba types.

Gives       `parameter_names`, `require_call`: raise ArityError if the number does not fit;
            `types_of`: raises ActivityError for what Numba has no type for; `fingerprint`
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numba import typeof
from numba._dispatcher import compute_fingerprint
from numba.core import types
from numba.core.errors import NumbaError

from activerules.annotations.trees import NATIVE
from activerules.callables import location_of
from activerules.errors import ActivityError, ArityError
from activerules.numba_ext.codegen.arity import of_count


def parameter_names(function: Any, count: int) -> tuple[str, ...]:
    """Return the names of the first `count` parameters of a dispatcher; `ArityError` if they do not
    fit.
    """
    name = function.py_func.__name__
    signature = of_count(function, count)
    try:
        bound = _by_position(signature).bind(*range(count))
    except TypeError as error:
        raise ArityError(
            f"{name} cannot be called with {count} argument{'s' * (count != 1)}: {error}",
            why=f"its signature is {name}{signature}",
            instead=[
                "one value, or annotation, for each of its arguments, after the activity of the "
                "result if that is given"
            ],
        ) from error
    return tuple(bound.arguments)


def require_call(function: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> None:
    """Raise `ArityError` if a dispatcher cannot be called with these arguments."""
    signature = inspect.signature(function.py_func)
    name = function.py_func.__name__
    try:
        signature.bind(*args, **keywords)
    except TypeError as error:
        raise ArityError(
            f"the arguments are not those of {name}: {error}",
            where=[("in the derivative of", f"{name}{signature}", location_of(function))],
        ) from error


def types_of(values: Iterable[Any]) -> tuple[types.Type, ...]:
    """The Numba types of values; `ActivityError` for the first one that Numba has no type for."""
    return tuple(map(_type_of, values))


def fingerprint(values: tuple[Any, ...]) -> bytes | None:
    """The bytes by which Numba's dispatchers identify the types of values, found in a fraction of a
    microsecond; None if a value is anything but a number, an array, or a tuple of these.
    """
    try:
        return compute_fingerprint(values)
    except (NotImplementedError, ValueError):
        return None


def _type_of(value: Any) -> Any:
    try:
        numba_type = typeof(value)
    except (ValueError, TypeError, NumbaError):
        numba_type = types.pyobject
    if numba_type.is_precise():
        return numba_type
    types_of(value if isinstance(value, tuple) else ())
    raise ActivityError(
        f"an argument is {_described(value)}, for which Numba has no type",
        why="a derivative is compiled code, and takes what compiled code takes",
        instead=[
            *_converted(value),
            "numbers, arrays of numbers, tuples, records, numba.typed containers",
        ],
    )


def _converted(value: Any) -> list[str]:
    """The expression that converts a value to NumPy numbers that Numba supports."""
    if isinstance(value, np.ma.MaskedArray):
        return ["x.filled(0.0), and the mask as an argument of its own"]
    if isinstance(value, np.ndarray) and not value.dtype.isnative:
        return [NATIVE]
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "fcO":
        return [f"x.astype(np.{'complex128' if value.dtype.kind == 'c' else 'float64'})"]
    if _is_empty_list(value):
        return ["np.empty(0)", "typed.List.empty_list(types.float64)"]
    return ["np.asarray(x)"] if hasattr(value, "__array__") else []


def _is_empty_list(value: Any) -> bool:
    return isinstance(value, list) and not value


def _described(value: Any) -> str:
    kind = type(value).__name__
    if _is_empty_list(value):
        return "an empty list"
    return f"of class {kind}" + (f" with dtype {value.dtype}" if hasattr(value, "dtype") else "")


def _by_position(signature: inspect.Signature) -> inspect.Signature:
    """The signature with keyword-only parameters made positional, as Numba treats them."""
    kinds = inspect.Parameter
    plain = [p for p in signature.parameters.values() if p.kind is not kinds.KEYWORD_ONLY]
    only = [p for p in signature.parameters.values() if p.kind is kinds.KEYWORD_ONLY]
    if any(p.default is not p.empty for p in plain):
        # a parameter without default follows one with a default: only the number is checked
        only = [p.replace(default=None) for p in only]
    return signature.replace(
        parameters=plain + [p.replace(kind=kinds.POSITIONAL_OR_KEYWORD) for p in only]
    )

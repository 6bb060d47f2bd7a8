"""`low_level`: `@njit` functions as C callbacks of SciPy."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numba
from numba import cfunc, types

from activerules import extras
from activerules.callables import location_of
from activerules.errors import ArityError, NotAFloatReturn
from activerules.interop.functions import compiled_call
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.rules.pattern import type_name
from activerules.rules.written import function_from

_scipy: Any = extras.load("scipy", "scipy")

_double, _int, _size = types.float64, types.intc, types.intp
_doubles = types.CPointer(_double)
_vector, _indices = types.Array(_double, 1, "C"), types.Array(_size, 1, "C")

# For each SciPy function: the C signature, its parameters, and what runs with `call`. An exception
# cannot pass through C: an integral becomes nan, a filter says that it failed.
_FORMS: dict[str, tuple[Any, str, str]] = {
    "quad": (_double(_double), "x", "return call(x)"),
    "generic_filter": (
        _int(_doubles, _size, _doubles, types.voidptr),
        "window, size, out, data",
        "out[0] = call(carray(window, (size,)))\n        return 1",
    ),
    "generic_filter1d": (
        _int(_doubles, _size, _doubles, _size, types.voidptr),
        "line, size, out, out_size, data",
        "call(carray(line, (size,)), carray(out, (out_size,)))\n        return 1",
    ),
    "geometric_transform": (
        _int(types.CPointer(_size), _doubles, _int, _int, types.voidptr),
        "out_point, in_point, out_rank, in_rank, data",
        "point = call(carray(out_point, (out_rank,)))\n"
        "        if len(point) != in_rank:\n"
        "            return 0\n"
        "        for k in range(in_rank):\n"
        "            in_point[k] = point[k]\n"
        "        return 1",
    ),
}
_ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "generic_filter": (_vector,),
    "generic_filter1d": (_vector, _vector),
    "geometric_transform": (_indices,),
}


def low_level(function: Callable[..., Any], purpose: str = "quad") -> Any:
    """An `@njit` function as a `scipy.LowLevelCallable`, which SciPy calls without Python.

    Arguments
        function  an `@njit` function, a plain one that Numba compiles, or a derivative of one, such
                  as `grad(f)`.
        purpose   the function of SciPy that is to call it:
            "quad"                 of one or more floats, returns a float; `quad(…, args=(a, b))`
                                   passes `function(x, a, b)`. Also for `nquad`, `dblquad`.
            "generic_filter"       of the vector of values in a window, returns a float.
            "generic_filter1d"     of a line and an output line, which it writes.
            "geometric_transform"  of the vector of output indices (integers), returns the
                                   coordinates in the input: a tuple or vector of floats.

    Returns
        A `LowLevelCallable`. If the function raises, an integral is nan, and `scipy.ndimage` raises
        RuntimeError. `quad` with too few or too many `args` gives nan.

    Raises
        ArityError for a function with a different number of parameters, or any number;
        NotAFloatReturn if the result is not a float where one is needed; NotCompilable; ValueError
        for an unknown purpose.

    >>> from scipy.integrate import quad
    >>> round(quad(low_level(lambda x, a: a * x * x), 0.0, 1.0, args=(6.0,))[0], 9)
    2.0
    """
    if purpose not in _FORMS:
        raise ValueError(f"no purpose {purpose!r}; there are {', '.join(_FORMS)}")
    dispatcher = dispatcher_of(function)
    signature, parameters, body = _FORMS[purpose]
    wanted = _ARGUMENTS.get(purpose)
    count = _parameter_count(dispatcher, wanted)
    if wanted is None:
        wanted = (_double,) * count
        if count > 1:
            signature, parameters = _double(_int, _doubles), "size, x"
            items = ", ".join(f"x[{k}]" for k in range(count))
            body = f"return call({items}) if size == {count} else nan"
    _require_result(dispatcher, wanted, purpose)
    failed = "nan" if signature.return_type == _double else "0"
    source = (
        f"def callback({parameters}):\n    try:\n        {body}\n"
        f"    except Exception:\n        return {failed}\n"
    )
    carray: Any = getattr(numba, "carray")  # noqa: B009 (Numba's list of names lacks it)
    scope = {"call": dispatcher, "carray": carray, "nan": float("nan")}
    callback: Any = cfunc(signature)(function_from(source, "callback", scope, module=__name__))
    entry = callback.ctypes
    entry.compiled = callback  # the code lives as long as its address is known
    return _scipy.LowLevelCallable(entry)


def _parameter_count(dispatcher: Any, wanted: Sequence[Any] | None) -> int:
    """The number of parameters, which is that of `wanted`, if there is such."""
    parameters = inspect.signature(dispatcher.py_func).parameters.values()
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    if not plain or not parameters or (wanted is not None and len(wanted) != len(parameters)):
        expected = "one or more floats" if wanted is None else ", ".join(map(type_name, wanted))
        raise ArityError(
            f"{dispatcher.py_func.__name__}{inspect.signature(dispatcher.py_func)} is not a "
            f"function of {expected}",
            where=[("in the callback", dispatcher.py_func.__name__, location_of(dispatcher))],
            instead=["an @njit function of these that calls it"],
        )
    return len(parameters)


def _require_result(dispatcher: Any, wanted: tuple[Any, ...], purpose: str) -> None:
    """Compile the function, and look at what it returns."""
    result = compiled_call(dispatcher, wanted).signature.return_type
    returns_float = purpose in ("quad", "generic_filter")
    if returns_float and not isinstance(result, types.Float | types.Integer | types.Boolean):
        raise NotAFloatReturn(
            f"{dispatcher.py_func.__name__} returns {type_name(result)}, and {purpose} takes one "
            "float",
            where=[("in the callback", dispatcher.py_func.__name__, location_of(dispatcher))],
        )

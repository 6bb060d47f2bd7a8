"""The context of errors about a call: which call, which derivative, how to reproduce them.

Gives       `of_call`, `of_derivative`: add it to errors that are raised inside; `where_requested`
            `run_compiled`, `presentable`, `say_shapes`: errors of a call from Python as users are
            to see them
"""

from __future__ import annotations

import inspect
import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numba import TypingError
from numba.core import types

from activerules.callables import location_of
from activerules.errors import ActiverulesError, ShadowMismatch, Where
from activerules.numba_ext.calls.call_arguments import types_of
from activerules.values.argument import ArgumentSpec


def where_requested(function: Any, arguments: Sequence[ArgumentSpec]) -> Where:
    """The first location in an error about a derivative: the function being differentiated."""
    call = f"{function.py_func.__name__}({', '.join(map(str, arguments))})"
    return ("while differentiating", call, location_of(function))


@contextmanager
def of_derivative(
    function: Any, arguments: Sequence[ArgumentSpec], activity: str | None, *, forward: bool
) -> Generator[None, None, None]:
    """Add to errors raised inside which derivative was requested, and how to reproduce them."""
    try:
        yield
    except ActiverulesError as error:
        error.where.insert(0, where_requested(function, arguments))
        options = [f"--return {activity.capitalize()}"] if activity else []
        options += ["--forward"] * forward
        if activity in (None, "active", "const"):  # `explain` has options for these
            error.reproduce = error.reproduce or _command(function.py_func, arguments, options)
        raise


def _command(function: Any, arguments: Sequence[ArgumentSpec], options: Sequence[str]) -> str:
    """The command line that explains a derivative; "" if it cannot be expressed in a shell."""
    file = inspect.getsourcefile(function)
    expressible = all(_is_expressible(argument.numba_type) for argument in arguments)
    if file is None or not Path(file).is_file() or not expressible or not _is_found(function, file):
        return ""
    written = [f'"{argument.annotation}"' for argument in arguments]
    where = shlex.quote(f"{file}:{function.__qualname__}")
    return " ".join(["python -m activerules explain", where, *written, *options])


def _is_found(function: Any, file: str) -> bool:
    """Whether the module of that file has the function: lambdas, local functions and those made
    from the user's have no name there.
    """
    found: Any = sys.modules.get(function.__module__)
    if getattr(found, "__file__", None) is None or not Path(found.__file__).samefile(file):
        return False
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is not None


def _is_expressible(ty: Any) -> bool:
    item = ty.dtype if isinstance(ty, types.Array) else ty
    return isinstance(item, types.Number | types.Boolean)


@contextmanager
def of_call(function: Any) -> Generator[None, None, None]:
    """Add to errors raised inside the name of the function whose call they are about."""
    try:
        yield
    except ActiverulesError as error:
        call = f"{function.py_func.__name__}{inspect.signature(function.py_func)}"
        error.where.insert(0, ("in the call of", call, location_of(function)))
        raise


# --- calls from Python ---


def run_compiled(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a compiled function, and raise its errors as `presentable` shows them."""
    try:
        return function(*args, **kwargs)
    except (TypingError, ActiverulesError) as error:
        raise presentable(error, (*args, *kwargs.values())) from error.__cause__
    except ValueError:
        types_of((*args, *kwargs.values()))  # raises for an empty list, as the dispatcher did
        raise


def presentable(error: TypingError | ActiverulesError, args: Sequence[Any]) -> Exception:
    """The error to show the user for a call with these arguments.

    Our own errors come without the frames of Numba's compiler. An argument that Numba has no type
    for raises `ActivityError`.
    """
    if isinstance(error, ActiverulesError):
        if error.__cause__:
            error.__cause__.with_traceback(None)
        return error.with_traceback(None)
    types_of(args)
    return error


def say_shapes_of_shadow(error: ShadowMismatch, args: Sequence[Any]) -> None:
    """Let an error about the shape or the strides of a shadow say what they are: those of the first
    annotated argument where they differ, as that is the one that compiled code refuses.
    """
    kind = error.what.rpartition(" ")[2]
    if kind not in ("shape", "strides"):
        return
    for each in args:
        shadow, value = (getattr(each, part, None) for part in ("dval", "val"))
        found, expected = (getattr(array, kind, None) for array in (shadow, value))
        if shadow is not None and None in (found, expected):
            return  # a tuple, a list or an object, which may be what is refused
        if found != expected:
            error.what += f": {found}, and its value has {expected}"
            return


def say_shapes(error: Exception, what: str, given: Any, value: Any) -> None:
    """Let an error say which shapes a tangent or cotangent and its value have, if they differ:
    compiled code compares them, and knows only that they do.
    """
    shape, expected = getattr(given, "shape", None), getattr(value, "shape", None)
    if isinstance(error, ShadowMismatch) and None not in (shape, expected) and shape != expected:
        error.what = f"{what} has the shape {shape}, and its value has {expected}"
        error.why, error.instead = "", [f"an array of the shape {expected}"]

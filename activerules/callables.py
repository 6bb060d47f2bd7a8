"""Functions as users have them: Python functions, `@njit` dispatchers of them, functions of NumPy.

Gives       `python_function`, and what is read from it: the signature, the location, the name, and
            whether it is defined for many types; `same_function`: a copy for a second dispatcher
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np


def python_function(function: Any) -> Any:
    """The Python function that a dispatcher compiles; any other function itself. Of a copy made by
    `same_function` the one it is a copy of.
    """
    plain = getattr(function, "py_func", function)
    return _copied.get(plain, plain) if isinstance(plain, FunctionType) else plain


_copied: WeakKeyDictionary[FunctionType, FunctionType] = WeakKeyDictionary()


def same_function(plain: FunctionType, original: Any = None) -> FunctionType:
    """A copy for another dispatcher of the function. Numba compiles none while it compiles another
    of the same Python function for the same types, which is what a recursive function leads to: its
    calls of itself are those of the dispatcher it is bound to.

    Rules and declarations for the function, or for `original`, which is compiled in its place, are
    those of the copy, too, also later ones. It has no annotations: from Python 3.14 on, to read
    them is to evaluate them.
    """
    copy = FunctionType(
        plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__
    )
    copy.__module__, copy.__qualname__ = plain.__module__, plain.__qualname__
    copy.__doc__, copy.__kwdefaults__ = plain.__doc__, plain.__kwdefaults__
    copy.__dict__ = plain.__dict__  # with the mark of rules, for another process
    _copied[copy] = python_function(plain if original is None else original)
    return copy


def is_of_numpy(function: Any) -> bool:
    """Whether a function is one of NumPy or `math`, or a ufunc, as one made by `@vectorize` is."""
    return _root(function) in {"numpy", "math", "cmath"} or hasattr(function, "nin")


def _root(function: Any) -> str:
    plain = python_function(function)
    return (getattr(plain, "__module__", None) or "").split(".")[0]


def is_generic(function: Any) -> bool:
    """Whether a function (an operator, a function of NumPy or math) is defined for many types, with
    rules for some; any other function has one body, and its rules are for that.
    """
    return _root(function) in _GENERIC or isinstance(function, np.ufunc)


_GENERIC = frozenset({"numpy", "math", "cmath", "operator", "_operator", "builtins"})


def signature_of(function: Any) -> inspect.Signature:
    """The signature of a function as compiled code calls it; ValueError or TypeError if unknown.

    That of an intrinsic is without its first parameter, Numba's typing context.
    """
    signature = inspect.signature(python_function(function))
    if not hasattr(function, "_defn"):
        return signature
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def parameters_of(function: Any) -> tuple[str, ...]:
    """The names of all parameters of a function; () if they are not known."""
    try:
        return tuple(signature_of(function).parameters)
    except (TypeError, ValueError):
        return ()


def location_of(function: Any) -> str:
    """The "file:line" of a Python function or dispatcher."""
    code = python_function(function).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


def display_name(function: Any) -> str:
    """The name of a function as users write it: `np.linalg.solve`, `spline`, `Beam.bend`."""
    plain = python_function(function)
    name = getattr(plain, "__name__", None)
    if hasattr(plain, "__wrapper_address__") or not isinstance(name, str):
        return type(plain).__name__  # a function given by its address has only this name
    owner = getattr(plain, "__self__", None)
    is_method = owner is not None and not inspect.ismodule(owner)  # of an instance without a name
    module = getattr(plain, "__module__", None) or (type(owner).__module__ if is_method else "")
    root = module.split(".")[0]
    qualified = getattr(plain, "__qualname__", name).rpartition("<locals>.")[2]
    if qualified.endswith(name) and not is_method:  # one made from another has the other's name
        name = qualified
    if root == "numpy":
        inner = next((f"{part}." for part in ("fft", "linalg", "random") if part in module), "")
        return f"np.{inner}{name}"
    if root == "scipy":
        module = ".".join(part for part in module.split(".") if not part.startswith("_"))
        return f"{module}.{name}"
    known = ("cmath", "math", "operator", "_operator", "random")
    return f"{root.lstrip('_')}.{name}" if root in known else name

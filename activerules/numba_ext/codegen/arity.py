"""Functions that take any number of arguments.

Needs       a dispatcher, and how many arguments a call has
Gives       `takes_any_number`: whether there is an `*args`
            `of_count`: the signature for a number of arguments; `*args` becomes `args_0` …
            `first_names`: the names of that many arguments
            `free_name`: a name for one more parameter
            `folded`: the types of all arguments, where the last ones may be left out
Invariants  V1  the names in one signature are distinct

A derivative is compiled for a fixed number of arguments, as it contains one call of the function.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Collection
from typing import Any

from numba.core import types

from activerules.errors import NotYetSupported


def takes_any_number(function: Any) -> bool:
    """Whether there is an `*args` among the parameters of a plain function."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is p.VAR_POSITIONAL for p in parameters)


def of_count(dispatcher: Any, count: int) -> inspect.Signature:
    """The signature of a dispatcher for `count` arguments.

    Raises `NotYetSupported` for a function with `**kwargs`, or more parameters behind its `*args`.
    """
    plain = dispatcher.py_func
    signature = inspect.signature(plain)
    if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        raise NotYetSupported(
            f"{plain.__name__} takes a variable number of keyword arguments",
            why="Numba compiles no such function",
            instead=["a fixed number of arguments, or `*args`"],
        )
    if not takes_any_number(plain):
        return signature
    *fixed, last = signature.parameters.values()
    if last.kind is not last.VAR_POSITIONAL:
        raise NotYetSupported(
            f"{plain.__name__} takes parameters after a variable number of arguments",
            instead=[f"`{last.name}` before them"],
        )
    if count <= len(fixed):
        return signature.replace(parameters=fixed)
    taken = {p.name for p in fixed}
    names = (f"{last.name}_{k}" for k in itertools.count() if f"{last.name}_{k}" not in taken)
    rest = itertools.islice(names, count - len(fixed))
    parameters = [p.replace(default=p.empty) for p in fixed]
    parameters += [last.replace(name=name, kind=last.POSITIONAL_OR_KEYWORD) for name in rest]
    return signature.replace(parameters=parameters)


def first_names(dispatcher: Any, count: int) -> list[str]:
    """The names of the first `count` parameters of a dispatcher."""
    return list(of_count(dispatcher, count).parameters)[:count]


def free_name(name: str, taken: Collection[str]) -> str:
    """A name like the one given that is not among those taken."""
    return free_name(f"{name}_", taken) if name in taken else name


def folded(dispatcher: Any, argtypes: tuple[Any, ...]) -> tuple[inspect.Signature, tuple[Any, ...]]:
    """The signature of a dispatcher, and the types of all its arguments in order; those left out
    have their defaults.

    Raises `TypeError` if an argument without a default is left out.
    """
    signature = of_count(dispatcher, len(argtypes))
    parameters = list(signature.parameters.values())
    if all(p.kind is not p.KEYWORD_ONLY for p in parameters):
        return dispatcher.fold_argument_types(argtypes, {})
    # Numba before 0.67 takes others for the arguments by keyword only
    left_out = parameters[len(argtypes) :]
    for parameter in left_out:
        if parameter.default is parameter.empty:
            raise TypeError(f"missing a required argument: {parameter.name!r}")
    return signature, (*argtypes, *(types.Omitted(p.default) for p in left_out))

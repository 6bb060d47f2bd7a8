"""Functions that take any number of arguments.

Needs       a dispatcher, and how many arguments a call has
Gives       `takes_any_number`: whether there is an `*args`
            `of_count`: the signature for a number of arguments; `*args` becomes `args_0` …
            `first_names`: the names of that many arguments
Invariants  V1  the names in one signature are distinct

A derivative is compiled for a fixed number of arguments, as it contains one call of the function.
"""

from __future__ import annotations

import inspect
import itertools
from typing import Any

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
    given = [p.replace(default=p.empty) for p in fixed]
    given += [p.replace(name=name, kind=p.POSITIONAL_OR_KEYWORD) for name in rest for p in [last]]
    return signature.replace(parameters=given)


def first_names(dispatcher: Any, count: int) -> list[str]:
    """The names of the first `count` parameters of a dispatcher."""
    return list(of_count(dispatcher, count).parameters)[:count]

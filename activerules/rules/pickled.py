"""Functions with rules that were pickled. Numba pickles a compiled function by its code, so what
another process gets is a new function, of which its registry knows nothing.

Gives  `mark`      notes on a function, in a form that is pickled with it, which modules declare
                   something about it
       `original`  the function of this process that a function is a copy of, found by its name
                   after these modules were imported; without such a function itself
       `lost`      whether a function had declarations by users where it was pickled, and has no
                   original here
       `with_rules` pickles an object with the names of all modules that declared something: what
                   is pickled by its name, as functions of NumPy are, has no mark
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from types import FunctionType
from typing import Any
from uuid import uuid4

_MARK = "__activerules__"
_PROCESS = uuid4().hex  # a fork has the same, and the same functions
_marked: dict[int, FunctionType] = {}
_declaring: set[str] = set()


def mark(function: Any, module: str) -> None:
    """Note on a function that a module declares something about it."""
    plain = original(function)
    # modules of `interop` must be imported by name, too; the library always is
    if module and not module.startswith(f"{__package__}.library"):
        _declaring.add(module)
    if isinstance(plain, FunctionType):
        known = _mark_of(plain)[1] if id(plain) in _marked else frozenset[str]()
        _marked[id(plain)] = plain
        modules = known | {module or plain.__module__}
        setattr(plain, _MARK, (_PROCESS, modules, id(plain), plain.__code__.co_firstlineno))


def with_rules(make: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """What `__reduce__` returns for an object that is made from functions: the process that reads
    it imports the modules that declare something here.
    """
    return _made_with_rules, (tuple(sorted(_declaring)), make, arguments)


def _made_with_rules(
    modules: tuple[str, ...], make: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    _import(modules)
    return make(*arguments)


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        with suppress(ImportError):
            import_module(module)


def original(function: Any) -> Any:
    """The Python function of this process that a function, or its dispatcher, is a copy of."""
    plain = getattr(function, "py_func", function)
    if not _is_marked(plain) or _marked.get(id(plain)) is plain:
        return plain
    process, modules, key, _ = _mark_of(plain)
    found = _marked.get(key) if process == _PROCESS else None
    if found is None or found.__code__ != plain.__code__:
        found = _named(plain, modules)
    is_copy = id(found) in _marked and found.__code__ == plain.__code__
    return found if is_copy else plain


def lost(function: Any) -> frozenset[str]:
    """The modules that declared something about a function where it was pickled, if it has no
    original here.
    """
    plain = original(function)
    if not _is_marked(plain) or _marked.get(id(plain)) is plain:
        return frozenset()
    return _mark_of(plain)[1]


def _mark_of(plain: FunctionType) -> Any:
    return getattr(plain, _MARK)


def _is_marked(plain: Any) -> bool:
    """Whether a function has a mark of its own: `functools.wraps` copies that of another one."""
    if not isinstance(plain, FunctionType) or _MARK not in plain.__dict__:
        return False
    return _mark_of(plain)[3] == plain.__code__.co_firstlineno


def _named(plain: FunctionType, modules: frozenset[str]) -> Any:
    _import((plain.__module__, *sorted(modules)))
    found: Any = sys.modules.get(plain.__module__)
    for name in plain.__qualname__.split("."):
        found = getattr(found, name, None)
    return getattr(found, "py_func", found)

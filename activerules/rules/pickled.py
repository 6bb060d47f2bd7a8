"""Functions with rules that were pickled. Numba pickles a compiled function by its code, so what
another process gets is a new function, of which its registry knows nothing.

Gives  `mark`      notes on a function, in a form that is pickled with it, which modules declare
                   something about it
       `original`  the function of this process that a function is a copy of, found by its name
                   after these modules were imported; without such a function itself
       `identity`  the key of a function in the registry
       `lost`      whether a function had declarations by users where it was pickled, and has no
                   original here
       `declared`  all modules that declared something, each with the functions of other modules:
                   those that are pickled by name, as NumPy's are, have no mark
       `note_missing`  imports these modules, and notes what they do not declare here
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from types import FunctionType
from typing import Any
from uuid import uuid4

from activerules.callables import python_function

_MARK = "__activerules__"
_PROCESS = uuid4().hex  # a fork has the same, and the same functions
_marked: dict[int, FunctionType] = {}
# by module, the functions of other modules about which it declares something
_declaring: dict[str, set[str]] = {}
# by function, the modules whose declarations are missing here
_missing: dict[str, set[str]] = {}

Declared = tuple[tuple[str, tuple[str, ...]], ...]
"""Modules, each with names of functions."""


def mark(function: Any, module: str) -> None:
    """Note on a function that a module declares something about it."""
    plain = original(function)
    # modules of `interop` must be imported by name, too; the library always is
    if module and not module.startswith(f"{__package__}.library"):
        names = _declaring.setdefault(module, set())
        if getattr(plain, "__module__", None) != module:
            names.add(_name(plain))
        _missing.pop(_name(plain), None)
    if isinstance(plain, FunctionType):
        known = _mark_of(plain)[1] if id(plain) in _marked else frozenset[str]()
        _marked[id(plain)] = plain
        modules = known | {module or plain.__module__}
        setattr(plain, _MARK, (_PROCESS, modules, id(plain), plain.__code__.co_firstlineno))


def declared() -> Declared:
    """What a process must know that reads what is pickled here."""
    return tuple((module, tuple(sorted(names))) for module, names in sorted(_declaring.items()))


def note_missing(there: Declared) -> bool:
    """Import the modules that declared something where an object was pickled; note the functions
    about which they declare nothing here. Whether there are any.
    """
    _import(module for module, _ in there)
    found = False
    for module, names in there:
        # a process of `multiprocessing` runs the script of the first one under another name
        homes = (module, "__mp_main__") if module == "__main__" else (module,)
        for name in set(names).difference(*(_declaring.get(home, ()) for home in homes)):
            _missing.setdefault(name, set()).add(module)
            found = True
    return found


def _import(modules: Iterable[str]) -> None:
    for module in modules:
        with suppress(ImportError):
            import_module(module)


def original(function: Any) -> Any:
    """The Python function of this process that a function, or its dispatcher, is a copy of."""
    plain = python_function(function)
    if not _is_marked(plain) or _marked.get(id(plain)) is plain:
        return plain
    process, modules, key, _ = _mark_of(plain)
    found = _marked.get(key) if process == _PROCESS else None
    if found is None or found.__code__ != plain.__code__:
        found = _named(plain, modules)
    is_copy = id(found) in _marked and found.__code__ == plain.__code__
    return found if is_copy else plain


_OPERATORS: Any = operator  # whose stubs say too little of `pow`
_SAME_FUNCTION = {id(pow): id(_OPERATORS.pow), id(operator.abs): id(abs)}
"""The keys of builtins and operators that are one function."""


def identity(function: Any) -> int:
    """The key of a function; a dispatcher and its Python function are the same function, and so are
    `x**y` and `pow(x, y)`, and a function and its copy from a pickle.
    """
    key = id(original(function))
    return _SAME_FUNCTION.get(key, key)


def lost(function: Any) -> frozenset[str]:
    """The modules that declared something about a function where it, or what calls it, was pickled,
    if it has no original here, or not these declarations.
    """
    plain = original(function)
    by_name = frozenset(_missing.get(_name(plain), ()) if _missing else ())
    if not _is_marked(plain) or _marked.get(id(plain)) is plain:
        return by_name
    return by_name | _mark_of(plain)[1]


def _name(function: Any) -> str:
    """The name by which Python pickles a function."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", "")
    return f"{getattr(function, '__module__', None)}.{name}"


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
    return python_function(found)

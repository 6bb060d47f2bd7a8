"""Digests of everything compiled code depends on: the same in every process until that changes.

They are the keys of the disk cache. The digest of a function or rule covers its code, the values it
reads from enclosing functions and from modules, and the functions it calls, none of which Numba's
own cache looks at; the digest of the engine covers the files of this package.
"""

from __future__ import annotations

import dis
import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import cache, lru_cache
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, ModuleType
from typing import Any
from uuid import uuid4

import numpy as np

from activerules.annotations.containers import is_array, is_dict, is_list, is_tuple
from activerules.callables import python_function
from activerules.rules.rule import Rule, is_of_library

Chain = tuple[str, ...]
"""Names of attributes, each an attribute of the one before it."""


@dataclass(frozen=True)
class _Reads:
    """What code reads of a value: chains of attributes; `()` is the value itself, of which any of
    `names` may be read later.
    """

    chains: frozenset[Chain] = frozenset()
    names: frozenset[str] = frozenset()

    def attributes(self) -> dict[str, _Reads]:
        """What is read of each attribute, by its name."""
        chains = {(name,) for name in self.names} if () in self.chains else set[Chain]()
        chains |= {chain for chain in self.chains if chain}
        names = {chain[0] for chain in chains}
        return {
            name: _Reads(frozenset(c[1:] for c in chains if c[0] == name), self.names)
            for name in sorted(names)
        }


def digest(parts: Iterable[object]) -> str:
    """Digest of the written forms of some values; their order does not matter."""
    written = "\n".join(sorted(map(str, parts)))
    return hashlib.sha256(written.encode()).hexdigest()[:16]


@cache
def engine() -> str:
    """A digest of the files of this package. Cost: a few milliseconds, once."""
    digest = hashlib.blake2b(digest_size=16)
    for folder, folders, files in os.walk(_PACKAGE):
        folders.sort()
        for file in sorted(files):
            if file.endswith(".py"):
                with open(os.path.join(folder, file), "rb", buffering=0) as source:
                    digest.update(source.read())
    return digest.hexdigest()


def written_rule(rule: Rule) -> str:
    """A rule as text: its signature, and the code of its functions with all that it reads."""
    halves = (
        f"{which} {half.saves} {half.keeps_shadow} {half.sends} {half.receives} "
        f"{_ValueWriter().value(half.function)}"
        for which, half in sorted(rule.halves.items())
    )
    return "\n".join((str(rule), *halves))


def of_values(*values: Any) -> str:
    """A digest of some values. That of a function covers its options, its code, and all it reads:
    values of enclosing functions and of modules, and the functions it calls, with all they read.
    """
    return digest([_ValueWriter().value(values)])


_NOTHING_READ = _Reads()


class _ValueWriter:
    """Writes values as text, the same in every process; each function and module once."""

    def __init__(self) -> None:
        self._seen: dict[int, Any] = {}

    def value(self, value: Any, read: _Reads = _NOTHING_READ) -> str:
        """The value as text; if text cannot represent it, a text that is unique to this process. A
        module is represented by what the code reads of it.
        """
        if value is None or isinstance(value, bool | int | float | complex | str | bytes):
            return f"{type(value).__qualname__} {value!r}"
        if is_tuple(value) or is_list(value):
            return f"({', '.join(self.value(item) for item in value)})"
        if is_dict(value) or issubclass(type(value), frozenset | set):
            items = value.items() if is_dict(value) else value
            return f"{{{', '.join(sorted(self.value(item) for item in items))}}}"
        if is_array(value):
            return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        if issubclass(type(value), np.void):  # the text of a long one is shortened
            return self.value(np.asarray(value))
        if issubclass(type(value), np.generic | np.dtype):
            return f"{type(value).__name__} {value!r}"
        return self._named(value, read)

    def _named(self, value: Any, read: _Reads) -> str:
        if isinstance(value, ModuleType):
            return self._once(value, lambda: self._module(value, read), read)
        if is_dataclass(value) and not isinstance(value, type):  # a mode of differentiation
            parts = tuple(getattr(value, field.name) for field in fields(value))
            return f"{type(value).__qualname__} {self.value(parts)}"
        derived = hasattr(value, "__wrapped__")  # its `dispatcher` asks for the digest of all rules
        inner = value if derived else getattr(value, "dispatcher", value)  # of a stub
        plain = python_function(inner)
        plain = getattr(plain, "__wrapped__", plain)
        if isinstance(value, type) or not hasattr(plain, "__code__"):
            return _name_of(value)
        options = sorted(map(str, getattr(inner, "targetoptions", {}).items()))
        shown = repr(value) if derived and is_of_library(type(value).__module__) else ""
        own = f"{type(value).__qualname__} {getattr(value, '__name__', '')} {shown} {options}"
        return f"{own} {self._once(plain, lambda: self._function(plain))}"

    def _once(self, value: Any, write: Callable[[], str], read: _Reads = _NOTHING_READ) -> str:
        key = hash((id(value), read))
        if key in self._seen:
            return f"the one of {list(self._seen).index(key)}"
        self._seen[key] = value
        return write()

    def _module(self, module: ModuleType, read: _Reads) -> str:
        if _is_known(module.__name__):
            return module.__name__
        attributes = ((name, of) for name, of in read.attributes().items() if name in vars(module))
        written = (f"{name} = {self.value(vars(module)[name], of)}" for name, of in attributes)
        return "\n".join((module.__name__, *written))

    def _function(self, plain: Any) -> str:
        code = plain.__code__
        if _is_known(plain.__module__ or "") or code.co_filename.startswith(_PACKAGE):
            return f"{plain.__module__}.{plain.__qualname__}"
        read = _read_in(code)
        values = (f"{k} = {self.value(value, read[k])}" for k, value in values_read(plain).items())
        return "\n".join((_written_code(code), self.value(plain.__defaults__), *values))


def _name_of(value: Any) -> str:
    """The text of a value that is represented by its name: a class, a C function, a Numba type."""
    if isinstance(value, type | BuiltinFunctionType):
        return f"{getattr(value, '__module__', '')}.{value.__qualname__}"
    if isinstance(value, np.ufunc):  # which need not know its module, as those of SciPy
        for home in ("numpy", "scipy.special"):
            if getattr(sys.modules.get(home), value.__name__, None) is value:
                return f"{home}.{value.__name__}"
    if isinstance(value, Enum):
        return f"{value!r}"
    if type(value).__module__.startswith("numba.core.types"):
        return str(value)
    module = getattr(value, "__module__", None)
    if isinstance(module, str) and _is_known(module) and hasattr(value, "__qualname__"):
        return f"{module}.{value.__qualname__}"
    return f"{id(value)} {_PROCESS}"


@lru_cache(maxsize=4096)
def _read_in(code: CodeType) -> Mapping[str, _Reads]:
    """The names that a function, and functions inside it, read from outside, each with the
    attributes read at once: for `np.linalg.norm`, `linalg` and then `norm` of `np`.

    Later uses of a value are not followed: any attribute may then be read of it.
    """
    names = frozenset(_names_in(code))
    chains = _chains_in(code)
    return {name: _Reads(frozenset(read), names) for name, read in chains.items()}


def _chains_in(code: CodeType) -> dict[str, set[Chain]]:
    by_name: dict[str, set[Chain]] = {}
    name, chain = "", Chain()
    for i in (*dis.get_instructions(code), None):
        if i is not None and name and i.opname in _ATTRIBUTES:
            chain += (i.argval,)
        elif i is None or i.opname not in _NOTHING:
            if name:
                by_name.setdefault(name, set()).add(chain)
            name, chain = (i.argval if i is not None and i.opname in _READS else ""), Chain()
    for inner in _inside(code):
        for name, chains in _chains_in(inner).items():
            by_name.setdefault(name, set()).update(chains)
    return by_name


def _names_in(code: CodeType) -> set[str]:
    """The names and strings in a function and in functions inside it: all that it may read."""
    texts = {each for each in code.co_consts if isinstance(each, str)}
    return texts.union(code.co_names, *map(_names_in, _inside(code)))


def _inside(code: CodeType) -> list[CodeType]:
    return [each for each in code.co_consts if isinstance(each, CodeType)]


_READS = frozenset(
    "LOAD_GLOBAL LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF LOAD_CLOSURE LOAD_FROM_DICT_OR_GLOBALS "
    "LOAD_FROM_DICT_OR_DEREF".split()
)
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_NOTHING = frozenset({"EXTENDED_ARG", "CACHE", "NOP"})


def _is_known(module: str) -> bool:
    """Whether a module changes only with a new release."""
    return module.partition(".")[0] in _KNOWN


_KNOWN = sys.stdlib_module_names | {"numpy", "numba", "llvmlite", "scipy"}
_PACKAGE = str(Path(__file__).parents[1])  # `engine` is the digest of what is in it
_PROCESS = uuid4().hex


def values_read(plain: Any) -> dict[str, Any]:
    """The variables of the module and of enclosing functions that a function reads, by name."""
    scope = plain.__globals__ | captured(plain)
    return {name: scope[name] for name in sorted(_read_in(plain.__code__)) if name in scope}


def captured(plain: Any) -> dict[str, Any]:
    """The variables of enclosing functions that are assigned by now, by name."""
    cells = zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True)
    return {name: cell.cell_contents for name, cell in cells if _is_filled(cell)}


def _is_filled(cell: CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _written_code(code: CodeType) -> str:
    constants = (_written_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return "\n".join((code.co_code.hex(), *code.co_names, *constants))

"""Derivatives on disk, and `@njit(cache=True)` functions that call them.

Needs       the dispatcher that is differentiated, and a stub that calls its derivative
Gives       `compiled_stub`: the stub with the options of a derivative, stored if these say so;
            `depend_on_rules`: the function being lowered calls a derivative; `found_by_name`: of
            which function
Invariants  O1  stored code is found only for the same function, with all it calls and reads, the
                same rules, options and types, the same versions, and on the same processor
            O2  Numba's cache keeps O1 for the derivatives in functions that it stores, whatever was
                itself found on disk: if one is out of date, Numba compiles the function again (not
                with Numba 0.62)
            O3  a process never finds a file that another one has half written, nor the code of
                other types; a directory that cannot be written is as if nothing were stored

Numba's cache looks only at the file of the function itself, and numbers its files: of two processes
that write at once, one may store its code under the number that the other's index has for other
types. And a damaged file raises whatever unpickling it raises. So stubs have files of their own,
one for each signature; see `codegen.files`.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from numba import njit
from numba.core import types
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target

from activerules.numba_ext.codegen.files import VERSIONS, digest_of, read_file, settings, write_file
from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.stubs import StubType
from activerules.rules.fingerprint import of_values, values_read
from activerules.rules.registry import RULES
from activerules.rules.rule import is_of_library

SUFFIX = ".derivative"


def compiled_stub(
    stub: Any, target: Any, options: Mapping[str, Any], *purpose: Any, **of_njit: Any
) -> Any:
    """The compiled stub of a derivative of `target`, with `options` of a derivative.

    purpose   what the stub does, in values that `of_values` can write
    of_njit   more options for `njit`, the same for all stubs of a kind
    """
    explicit = {name: option for name, option in options.items() if name != "cache"}
    if options.get("cache"):
        # also in the names of its symbols, which otherwise may be those of another stub's
        what = (RULES.fingerprint, target, *purpose, sorted(explicit.items()), *VERSIONS)
        stub.__qualname__ += f"_{of_values(*what)}"
    dispatcher: Any = njit(**of_njit, **explicit)(stub)
    if options.get("cache"):
        dispatcher._cache = _DerivativeCache(dispatcher.py_func, target)
    return dispatcher


class _DerivativeCache(FunctionCache):
    """Numba's cache for one stub of a derivative of `target`, with other files."""

    def __init__(self, stub: Any, target: Any) -> None:
        super().__init__(stub)
        base = os.path.join(self.cache_path, self._impl.filename_base[-200:])
        self._cache_file: Any = _Files(base, self._impl.locator.get_source_stamp())
        self._code, self._unchanged = stub.__code__.co_code, _Unchanged(target)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        """Numba's would pickle what the stub has captured; the name of the stub stands for that."""
        return sig, codegen.magic_tuple(), self._code

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        loaded = super()._load_overload(sig, target_context)
        if loaded is not None and RELOADS:
            loaded.library._reload_init.add(self._unchanged)
        return loaded

    def _save_overload(self, sig: Any, data: Any) -> None:
        # the name of the stub says what `_Unchanged` asks
        environments = [each for each in data.reload_init if not isinstance(each, _Unchanged)]
        with suppress(OSError):
            super()._save_overload(sig, data._replace(reload_init=environments))


class _Files:
    """The files of one stub, one for each of Numba's keys: signature, processor, and code."""

    def __init__(self, base: str, stamp: Any) -> None:
        self._base, self._stamp = base, stamp

    def load(self, key: Any) -> Any:
        """What was stored under the key, or None."""
        path, digest = self._named(key)
        stored = read_file(path, digest)
        return stored[1] if stored is not None and stored[0] == key else None

    def save(self, key: Any, data: Any) -> None:
        """Store it, unless no other process could find it."""
        if not any(mark in repr(key) for mark in _OF_PROCESS):
            path, digest = self._named(key)
            write_file(path, digest, (key, data))

    def flush(self) -> None:
        """Forget what is stored under any key."""
        folder, name = os.path.split(self._base)
        with suppress(OSError):
            for each in os.listdir(folder):
                if each.startswith(f"{name}.") and each.endswith(SUFFIX):
                    os.unlink(os.path.join(folder, each))

    def _named(self, key: Any) -> tuple[str, str]:
        digest = digest_of(map(repr, (self._base, self._stamp, key, settings())))
        return f"{self._base}.{digest[:16]}{SUFFIX}", digest


# In the name of a type: the address of a function, the number of a `jitclass`.
_OF_PROCESS = (" at 0x", "#")


# --- code of Numba's own cache that contains derivatives ---


def depend_on_rules(library: Any, argtypes: Iterable[Any]) -> None:
    """Let code in `library`, and code that links it, be found on disk only while derivatives of
    the functions among the types `argtypes` are what they are now.
    """
    for ty in argtypes if RELOADS else ():
        function = ty.stub if isinstance(ty, StubType) else ty
        if isinstance(function, types.Dispatcher):
            target = function.dispatcher
            library._reload_init.update(map(_Unchanged, _of_users(target, set()) or {target}))


def _of_users(target: Any, seen: set[Any]) -> set[Any]:
    """The function itself, or, if this package wrote it, those of users that it calls."""
    plain = target.py_func
    if not is_of_library(plain.__module__):
        return {target}
    seen.add(target)
    used = values_read(plain).values()
    called = {getattr(each, "dispatcher", each) for each in used if _is_callee(each)} - seen
    return set[Any]().union(*(_of_users(each, seen) for each in called))


def _is_callee(value: Any) -> bool:
    return hasattr(getattr(value, "dispatcher", value), "py_func")


def pass_on(part: Any) -> None:
    """Let whatever links some code on disk have this part of it as well. The part, which Numba runs
    before it loads that code, calls this.

    Numba passes the parts of a library on to those that link it, but forgets them when it loads
    one. It makes the library right after it has run the parts, so one call of the method that makes
    it is intercepted. No other thread calls that meanwhile: Numba loads code under its lock.
    """
    context: Any = cpu_target.target_context
    codegen = context.codegen()
    make = codegen.unserialize_library

    def with_part(stored: Any) -> Any:
        codegen.__dict__.pop("unserialize_library", None)
        library = make(stored)
        library._reload_init.add(part)
        return library

    codegen.unserialize_library = with_part


def parts_of(library: Any) -> tuple[Any, ...]:
    """What runs before the code of a library is loaded from disk, except checks that it is up to
    date: other machine code, vector functions, Numba's threads.
    """
    parts = library._reload_init if RELOADS else ()
    return tuple(part for part in parts if not isinstance(part, _Unchanged))


def prepare(parts: Sequence[Any]) -> None:
    """Run parts for code that Numba does not load, so that nothing is passed on. The caller holds
    Numba's lock.
    """
    context: Any = cpu_target.target_context
    codegen = context.codegen()
    before = vars(codegen).get("unserialize_library")
    for part in parts:
        part()
    vars(codegen).pop("unserialize_library", None)
    if before is not None:
        codegen.unserialize_library = before


class _OutOfDate(OSError):
    """Code on disk is out of date. Numba takes an OSError of its files for a missing file, and
    compiles.
    """


class _Unchanged:
    """Part of code on disk that calls derivatives of `target`: it can be unpickled only while the
    function, what it calls and reads, the rules and this package are what they were.
    """

    def __init__(self, target: Any) -> None:
        self._target, self._epoch = target, RULES.epoch

    def __call__(self) -> None:
        """Checked when this was unpickled; code that links the same code checks it again."""
        pass_on(self)

    def __eq__(self, other: object) -> bool:
        """Whether both are about the same function and rules."""
        return isinstance(other, _Unchanged) and self._key == other._key

    def __hash__(self) -> int:
        """The hash of function and rules."""
        return hash(self._key)

    @property
    def _key(self) -> tuple[int, int]:
        return id(self._target), self._epoch

    def __reduce__(self) -> Any:
        """Pickle the name of the function and a digest; the latter is empty if the function cannot
        be found by its name.
        """
        name = _name_of(self._target)
        plain = self._target.py_func
        is_found = self._epoch == RULES.epoch and any(f.py_func is plain for f in _named(*name))
        return _unchanged, (name, _state_of(self._target) if is_found else "")


def _unchanged(name: tuple[str, str], digest: str) -> _Unchanged:
    for target in _named(*name):
        if _state_of(target) == digest:
            return _Unchanged(target)
    raise _OutOfDate(f"code that contains a derivative of {name} is out of date")


def _state_of(target: Any) -> str:
    return of_values(RULES.fingerprint, target, *VERSIONS)


_differentiated: dict[tuple[str, str], weakref.WeakSet[Any]] = {}


def found_by_name(target: Any) -> None:
    """Let code on disk that contains derivatives of `target` find it, although its name may not be
    an attribute of its module: lambdas, local functions, and functions made from others.
    """
    _differentiated.setdefault(_name_of(target), weakref.WeakSet()).add(target)


def _name_of(target: Any) -> tuple[str, str]:
    return target.py_func.__module__, target.py_func.__qualname__


def _named(module: str, name: str) -> Iterator[Any]:
    """The dispatchers of functions of that name, if the module is loaded."""
    named: Any = sys.modules.get(module)
    for part in name.split("."):
        named = getattr(named, part, None)
    if hasattr(named, "py_func"):
        yield named
    yield from _differentiated.get((module, name), ())

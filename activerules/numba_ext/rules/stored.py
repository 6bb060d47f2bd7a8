"""The cache of compiled rules: in this process, and on disk if a rule asks for it.

Needs       the rule chosen for a marked call, and everything its code depends on
Gives       `StoredRules`: finds the library of a compiled rule, or stores one
Invariants  D1  an entry is found only for the same rule, types, facts and request, and the same
                versions of activerules and Numba, on the same processor
            D2  code that is valid in one process only is not written to disk: addresses, constants
                in Numba environments, functions that cannot be imported, types made at run time

The files are those of `codegen.files`, with its invariants.

Without it Numba would infer the types of a rule and lower it in every process, which takes longer
than hundreds of gradients. The rules that come with activerules are always cached on disk, beside
their module or in Numba's cache directory (`NUMBA_CACHE_DIR`); other rules if both their functions
say `@njit(cache=True)`.

An entry is one module with all that the rule calls. Only the functions called by the engine are
visible from outside, since other names given by Numba differ from process to process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite.binding as llvm
from numba.core import config, types
from numba.core.caching import CodeLibraryCacheImpl, NullCache
from numba.core.runtime.nrt import rtsys

from activerules.callables import python_function
from activerules.ir.text.normalise import scalar_tuning, target_machine
from activerules.numba_ext.codegen.files import VERSIONS, digest_of, read_file, settings, write_file
from activerules.numba_ext.codegen.link import (
    environments_of,
    is_bound_to_process,
    leave_to_caller,
    provide_environments,
    rename_environments,
    start_threads_for,
    undefined_symbols,
)
from activerules.numba_ext.codegen.machine_code import MachineCode, compiled, is_called
from activerules.numba_ext.codegen.on_disk import SUFFIX, parts_of, prepare
from activerules.numba_ext.codegen.unlinked import cpu_context
from activerules.numba_ext.target.symbols import SHARED
from activerules.rules.fingerprint import engine
from activerules.rules.registry import RULES
from activerules.rules.rule import is_of_library
from activerules.values.kinds import items_of

_PACKAGE = __name__.partition(".")[0]
# Suffixes of the functions that run in every call of the function with a rule.
HALVES = (".augmented", ".reverse", ".forward")


@dataclass(frozen=True)
class Stored:
    """A compiled rule.

    handle    what the engine gets of it: its `RuleCode`, or the symbol of a forward rule
    library   defines its functions, and all that they call; or the `MachineCode` to call
    """

    handle: Any
    library: Any


class StoredRules:
    """The rules compiled so far, by everything that their code depends on."""

    def __init__(self) -> None:
        self._known: dict[Hashable, tuple[int, dict[Hashable, Stored]]] = {}

    def find_or_make(
        self,
        functions: Sequence[Any],
        argtypes: Sequence[types.Type],
        facts: Sequence[Hashable],
        make: Callable[[str], tuple[Any, Any, Sequence[str]]],
    ) -> Stored:
        """The rule of these `functions` for the types `argtypes`, found or compiled.

        Its code also depends on `facts`, which are equal if their reprs are. `make(stem)` compiles
        it and returns the handle, the library, and the names of the functions
        that the engine calls; these contain `stem`.
        """
        known = self._of_present_rules()
        key = (*functions, *argtypes, *facts)
        if key not in known:
            file = file_of(functions, argtypes)
            if file is None:  # names that code stored by other processes does not have
                known[key] = _compiled(make, uuid4().hex)
            else:
                known[key] = _on_disk(file, argtypes, facts, make)
        return known[key]

    def _of_present_rules(self) -> dict[Hashable, Stored]:
        """The entries for the current rules; debug mode has its own."""
        entries = self._known.get(RULES.debug)
        if entries is None or entries[0] != RULES.epoch:
            entries = self._known[RULES.debug] = RULES.epoch, {}
        return entries[1]


def _on_disk(
    file: File, argtypes: Sequence[types.Type], facts: Sequence[Hashable], make: Any
) -> Stored:
    """The rule stored in the file, or else the result of `make`, which is written to it."""
    what = [*file.names, *map(repr, (*argtypes, *facts, *settings()))]
    path = f"{file.path}.{digest_of(what)}.rule"
    key = digest_of([*what, file.stamp])  # a new version overwrites the file
    stored = read_file(path, key)
    if stored is None:
        return _compiled(make, key, path)
    handle, content = stored
    if isinstance(content, MachineCode):
        content.load()
        return Stored(handle, content)
    bitcode, needs = content
    prepare(needs)
    module = llvm.parse_bitcode(bitcode)
    start_threads_for(undefined_symbols(module, [rtsys.library]))
    return Stored(handle, _library_of(key, module, needs))


def _compiled(make: Any, key: str, path: str | None = None) -> Stored:
    """The result of `make`, and if a path is given, in that file."""
    handle, library, exported = make(key)
    module, needs = _alone(library, key, exported), parts_of(library)
    halves = [name for name in exported if name.endswith(HALVES)]
    bound = is_bound_to_process(module)
    is_large = not bound and is_called(module, halves, optimised=False)
    if not is_large:
        _optimise(module)
    code, bound = None, bound and is_bound_to_process(module)
    if not bound:
        rename_environments(module, key)
        if is_large or is_called(module, halves):
            code = compiled(key, module, exported, needs)
    if is_large and code is None:
        _optimise(module)
    if path is not None and not bound:
        write_file(path, key, (handle, code or (module.as_bitcode(), needs)))
    return Stored(handle, code or _library_of(key, module, needs))


# --- on disk ---


class _CacheLocation(CodeLibraryCacheImpl):
    """Where Numba's own cache would keep the code of a function."""

    _filename_prefix = f"{_PACKAGE}-rule"


@dataclass(frozen=True)
class File:
    """The beginning of the names of a rule's files, and its key."""

    path: str
    stamp: str
    names: tuple[str, ...]


def file_of(functions: Sequence[Any], argtypes: Sequence[types.Type]) -> File | None:
    """The file of a rule, or None if it may not be written to disk (D2)."""
    plain = [python_function(function) for function in functions]
    if not (all(map(_is_importable, plain)) and all(map(_has_full_name, argtypes))):
        return None
    if not all(is_of_library(function.__module__) for function in plain):
        if not all(map(_is_cached, functions)):
            return None
        rules = RULES.fingerprint  # its code may contain derivatives of others
    else:
        rules = ""
    try:
        locations: list[Any] = [_CacheLocation(function) for function in plain]
    except RuntimeError:  # nowhere to write
        return None
    sources = [location.locator.get_source_stamp() for location in locations]
    stamp = repr((VERSIONS, engine(), rules, sources))
    first = locations[0]
    path = os.path.join(first.locator.get_cache_path(), first.filename_base)
    return File(
        path, stamp, tuple(f"{function.__module__}.{function.__qualname__}" for function in plain)
    )


def folders() -> list[Path]:
    """The folders that rules of the library are kept in, and Numba's cache directory if it is set:
    other rules are kept beside the modules of their functions.
    """
    chosen: str = config.CACHE_DIR  # pyright: ignore[reportAttributeAccessIssue]  made by name
    if chosen:
        return [Path(chosen)]
    paths = set[Path]()
    for module in ("rules.library.linalg", "numba_ext.replaced.replaced"):
        plain = next(
            value
            for value in vars(import_module(f"{_PACKAGE}.{module}")).values()
            if isfunction(value) and value.__module__ == f"{_PACKAGE}.{module}"
        )
        with suppress(RuntimeError):  # nowhere to write
            location: Any = _CacheLocation(plain)
            paths.add(Path(location.locator.get_cache_path()))
    return sorted(paths)


def stored_in(folder: Path) -> list[Path]:
    """The files of rules and derivatives in a folder and those in it."""
    rules = folder.rglob(f"{_CacheLocation._filename_prefix}*.rule")
    return sorted([*rules, *folder.rglob(f"*{SUFFIX}")])


def _is_cached(function: Any) -> bool:
    """Whether a function was compiled with `cache=True`."""
    return not isinstance(getattr(function, "_cache", NullCache()), NullCache)


def _is_importable(function: Any) -> bool:
    """Whether importing the function's module in any process gives the same function."""
    value: Any = sys.modules.get(function.__module__)
    for name in function.__qualname__.split("."):
        value = getattr(value, name, None)
    return python_function(value) is function


@cache
def _has_full_name(ty: Any) -> bool:
    """Whether the repr of a type identifies it in every process."""
    if isinstance(ty, types.BaseTuple):
        named = isinstance(ty, types.BaseNamedTuple)
        return not named and all(map(_has_full_name, items_of(ty)))
    if isinstance(ty, types.Array | types.List | types.ListType):
        return isinstance(ty.dtype, types.Number | types.Boolean)
    return isinstance(ty, types.Number | types.Boolean | types.NoneType | types.UnicodeType)


# --- one module with all that a rule calls ---


def _alone(library: Any, stem: str, exported: Collection[str]) -> Any:
    """A library and all it links as one module with the `exported` functions.

    `stem` makes all other names distinct from those in other modules.
    """
    # Numba still owns the module that it returns.
    module = library._get_module_for_linking().clone()
    for symbol in (*module.functions, *module.global_variables):
        if symbol.is_declaration or symbol.name.startswith(SHARED):
            continue
        if symbol.name in exported:
            symbol.linkage = "external"
            continue
        symbol.linkage = "internal"
        # The JIT also finds internal symbols: Numba's own code would call these, although passes
        # may have changed their parameters.
        symbol.name = f"{symbol.name}.{stem}"
    unused = llvm.create_new_module_pass_manager()
    unused.add_global_dead_code_eliminate_pass()
    unused.run(module, llvm.create_pass_builder(target_machine(), scalar_tuning()))
    return module


def _optimise(module: Any) -> None:
    """Optimise a module that is linked into others, which vectorise it."""
    builder = llvm.create_pass_builder(target_machine(), scalar_tuning())
    builder.getModulePassManager().run(module, builder)
    counts = llvm.create_new_module_pass_manager()
    counts.add_refprune_pass()
    counts.run(module, builder)


def _library_of(name: str, module: Any, needs: Sequence[Any]) -> Any:
    """A library of a module, left for its callers to optimise."""
    codegen = cpu_context().codegen()
    provide_environments(codegen, name, environments_of(module, name))
    library = codegen.create_library(name)
    leave_to_caller(library)
    library.add_llvm_module(module)
    if needs:
        library._reload_init.update(needs)
    library.finalize()
    return library

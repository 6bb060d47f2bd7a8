"""Link: from LLVM IR text to a Numba code library, which callers add to their own.

Needs       a CPU target context; text whose functions to be called from outside are external; the
            code libraries that define what the text only declares
Gives       `make_library`: a finalised library, left for its callers to optimise
Invariants  L1  every symbol is resolved before LLVM sees it: an unknown one is an error, not the
                end of the process
            L2  the text is a library of its own: any number of functions can link it, and Numba's
                on-disk cache stores it with each of them
            L3  Numba environments that the text refers to are set, and live as long as the process

Names of external functions should carry a hash of the text: a process may load cached code from
others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import lookup_environment
from numba.core.runtime.nrt import rtsys

from activerules.errors import UnknownCall, UnsupportedIR

ENVIRONMENT_PREFIX = "_ZN08NumbaEnv"

# Numba finds environments by name but does not own them, and compiled code holds their addresses.
_environments: dict[str, Any] = {}


@global_compiler_lock
def make_library(target_context: Any, name: str, text: str, libraries: Sequence[Any] = ()) -> Any:
    """Compile LLVM IR into a code library of `target_context`.

    Link it into a function that is being compiled with
    `target_context.add_linking_libs([library])`. Raises `UnsupportedIR` if LLVM does not accept the
    text, `UnknownCall` naming the symbols nobody defines.
    """
    module = _parse(name, text)
    linked = [*dict.fromkeys(libraries), rtsys.library]
    _check_symbols(name, module, linked)
    library = target_context.codegen().create_library(name)
    library.enable_object_caching()
    # The caller's library optimises what it links, with the call inlined; once is enough (a third
    # of the compile time of a gradient).
    library._optimize_final_module = _leave_as_is
    library.add_llvm_module(module)
    for other in linked:
        library.add_linking_library(other)
    library.finalize()
    _set_environments(library)
    return library


def _leave_as_is(*_: Any) -> None:
    """Stand in for an optimisation."""


def _parse(name: str, text: str) -> llvm.ModuleRef:
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise UnsupportedIR(f"LLVM does not accept {name}", why=str(error).strip()) from error
    module.name = name
    return module


def _check_symbols(name: str, module: llvm.ModuleRef, libraries: Sequence[Any]) -> None:
    missing = undefined_symbols(module, libraries)
    if missing:
        raise UnknownCall(
            f"{name} needs {', '.join(missing)}, which nothing defines",
            why="The symbol is neither in a linked library nor in this process.",
            instead=["give the function that calls it a rule, or declare it inactive"],
        )


def undefined_symbols(module: llvm.ModuleRef, libraries: Iterable[Any]) -> tuple[str, ...]:
    """The symbols that `module` only declares, and that neither the libraries nor the process
    define.

    Code that Numba compiled earlier in this process does not count: a process that loads the
    library from Numba's cache would not find it.
    """
    declared = [v for v in (*module.functions, *module.global_variables) if v.is_declaration]
    linked = {f.name for library in libraries for f in library.get_defined_functions()}
    return tuple(
        value.name
        for value in declared
        if not value.name.startswith("llvm.")
        and value.name not in linked
        and llvm.address_of_symbol(value.name) is None
    )


def _set_environments(library: Any) -> None:
    for variable in library._final_module.global_variables:
        name = variable.name
        if name.startswith(ENVIRONMENT_PREFIX):
            environment = lookup_environment(name)
            if environment is not None:
                _environments[name] = environment
                library.codegen.set_env(name, environment)

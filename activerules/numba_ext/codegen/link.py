"""Link: from LLVM IR text to a Numba code library, which callers add to their own.

Needs       a CPU target context; text whose functions to be called from outside are external; the
            code libraries that define what the text only declares
Gives       `make_library`: a finalised library, left for its callers to optimise
Invariants  L1  every symbol is resolved before LLVM sees it: an unknown one is an error, not the
                end of the process
            L2  the text is a library of its own: any number of functions can link it, and Numba's
                on-disk cache stores it with each of them
            L3  Numba environments that the text refers to are set, and live as long as the process
            L4  functions that LLVM's machine code calls although the IR does not name them are
                there, or an error

Names of external functions should carry a hash of the text: a process may load cached code from
others.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import llvmlite.binding as llvm
from numba.core.compiler_lock import global_compiler_lock
from numba.core.environment import Environment, lookup_environment
from numba.core.runtime.nrt import rtsys
from numba.np.ufunc.parallel import _launch_threads

from activerules.errors import UnknownCall
from activerules.ir.llvm.names import RECORDS
from activerules.ir.llvm.verify import parsed
from activerules.ir.text.symbols import is_loaded, renamed

ENVIRONMENT_PREFIX = "_ZN08NumbaEnv"

# Numba finds environments by name but does not own them, and compiled code holds their addresses.
_environments: dict[str, Any] = {}
_UNWRAPS = "__excinfo_unwrap_args"
_ADDRESS = re.compile(r"inttoptr \(i64 [1-9]|numba\.dynamic\.globals")
_MARK = re.compile(rf"^declare void @({re.escape(RECORDS)}[\w.]+)\(.*$", re.MULTILINE)
_MARK_DEFINED = r"define linkonce_odr void @\1(ptr %memory) alwaysinline { ret void }"
"""Marks on new records are kept in code that may be differentiated; here they end."""
_defined: list[Any] = []
_functions: weakref.WeakKeyDictionary[Any, frozenset[str]] = weakref.WeakKeyDictionary()
_support: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


@global_compiler_lock
def make_library(
    target_context: Any,
    name: str,
    text: str,
    libraries: Sequence[Any] = (),
    called: Sequence[Any] = (),
) -> Any:
    """Put LLVM IR into a code library of `target_context`.

    called   the `MachineCode` that it calls

    Link it into a function that is being compiled with
    `target_context.add_linking_libs([library])`. Raises `UnsupportedIR` if LLVM does not accept the
    text, `UnknownCall` naming the symbols that nothing defines.
    """
    module = _parse(name, _MARK.sub(_MARK_DEFINED, text))
    linked = [*dict.fromkeys(libraries), rtsys.library]
    loaded = {symbol for part in called for symbol in part.symbols}
    missing = [symbol for symbol in undefined_symbols(module, linked) if symbol not in loaded]
    check_symbols(name, (*missing, *_missing_of_runtime(text)))
    codegen = target_context.codegen()
    _publish_environments(codegen, name, module)
    library = codegen.create_library(name)
    leave_to_caller(library)
    library.add_llvm_module(module)
    for dependency in linked:
        library.add_linking_library(dependency)
    if called:
        library._reload_init.update(called)
    library.finalize()
    return library


def link_support(target_context: Any, name: str, text: Callable[[Any], str]) -> Any:
    """Link functions into the one being lowered; their library, made once per code generator: each
    function that is lowered has a context of its own.

    text   from a context to the IR of the functions
    """
    known = _support.setdefault(target_context.codegen(), {})
    if name not in known:
        known[name] = make_library(target_context, name, text(target_context))
    target_context.add_linking_libs([known[name]])
    return known[name]


def leave_to_caller(library: Any) -> None:
    """Make a code library that is only linked: not optimised, no machine code.

    The caller's library optimises what it links, with the call inlined, and makes the machine code.
    Compiling it separately would do that work twice, and the process would then call the separate
    copy, which is not optimised with its caller.
    """
    library._optimize_functions = leave_as_is
    library._optimize_final_module = leave_as_is
    make_no_code(library)


def make_no_code(library: Any) -> None:
    """Make no machine code of a code library."""
    library._finalize_final_module = lambda: _only_for_linking(library)


@global_compiler_lock
def make_source(target_context: Any, name: str, text: str, called: Mapping[str, Any]) -> Any:
    """Put LLVM IR into a code library of the AD target, which only links it into its callers.

    called   marked calls by the symbols that `text` calls in their place: for the session that
             compiles they are marked calls.
    """
    for symbol, marked in called.items():
        text = renamed(text, symbol, marked.symbol)
        target_context.enter(marked)
    library = target_context.codegen().create_library(name)
    library.add_llvm_module(_parse(name, text))
    library.finalize()
    return library


def with_callee(text: str, symbol: str, name: str) -> str:
    """`text` in which the marked call `symbol` is a call of the function itself, `name`."""
    call = f"@{symbol}("
    if f"@{name}(" in text:
        lines = text.splitlines(keepends=True)
        text = "".join(x for x in lines if not (x.startswith("declare ") and call in x))
    return text.replace(call, f"@{name}(")


def leave_as_is(*_: Any) -> None:
    """Do nothing: replaces one of Numba's optimisations."""


def _only_for_linking(library: Any) -> None:
    """Finish a library without handing it to the execution engine."""
    library._finalize_dynamic_globals()
    library._finalized = True


def _publish_environments(codegen: Any, name: str, module: llvm.ModuleRef) -> None:
    """Define the pointers to Numba environments in the execution engine, and set them.

    The callers' modules define them as common symbols, which resolve to what is there already.
    """
    environments = {}
    for variable in module.global_variables:
        if variable.name.startswith(ENVIRONMENT_PREFIX) and variable.name not in _environments:
            environment = lookup_environment(variable.name)
            if environment is not None:
                environments[variable.name] = environment
    _publish(codegen, name, environments)


def reads_environment(variable: str, environment: Any, module: llvm.ModuleRef, text: str) -> bool:
    """Whether code may read the environment behind a variable: because it has constants, or because
    the code makes Python objects of the arguments of an exception or of `print`, which need one.
    `text` is that of all code in the module that may read the variable.
    """
    if environment.consts or any(f.name.startswith(_UNWRAPS) for f in module.functions):
        return True
    return is_loaded(text, variable)


def is_bound_to_process(module: Any) -> bool:
    """Whether the code of a module holds addresses, or may read constants that Numba finds by an
    environment.
    """
    text = str(module)
    for name in (variable.name for variable in module.global_variables):
        environment = lookup_environment(name) if name.startswith(ENVIRONMENT_PREFIX) else None
        if environment is not None and environment.consts and _is_mentioned(name, text):
            return True
    return _ADDRESS.search(text) is not None


def _is_mentioned(variable: str, text: str) -> bool:
    """Whether a variable occurs in a text beside its definition."""
    return len(re.findall(rf'@"?{re.escape(variable)}(?![\w.$])', text)) > 1


def rename_environments(module: Any, stem: str) -> None:
    """Let the code of a module that is not bound to the process find its environments under names
    of its own, with `stem` in them: `provide_environments` defines them in any process.

    In each process Numba numbers the functions that they are named after from the start.
    """
    for variable in module.global_variables:
        if variable.name.startswith(ENVIRONMENT_PREFIX):
            variable.name = f"{ENVIRONMENT_PREFIX}.{stem}.{variable.name}"


def environments_of(module: Any, stem: str) -> tuple[str, ...]:
    """The names that `rename_environments` gave."""
    prefix = f"{ENVIRONMENT_PREFIX}.{stem}."
    names = (variable.name for variable in module.global_variables)
    return tuple(name for name in names if name.startswith(prefix))


def provide_environments(codegen: Any, name: str, variables: Iterable[str]) -> None:
    """Define environments without constants, unless they are defined."""
    missing = {variable: Environment({}) for variable in variables if variable not in _environments}
    _publish(codegen, name, missing)


def publish_environment(
    target_context: Any, fndesc: Any, environment: Any, module: llvm.ModuleRef
) -> None:
    """Define the pointer to the environment of one function, if its code reads that, and set it:
    Numba does so only for functions with an entry point.
    """
    variable = target_context.get_env_name(fndesc)
    if variable in _environments:
        return
    text = str(module.get_function(fndesc.llvm_func_name))
    if reads_environment(variable, environment, module, text):
        _publish(target_context.codegen(), variable, {variable: environment})


def define(target_context: Any, name: str, text: str) -> None:
    """Define common variables in the execution engine, for the whole process."""
    _define(target_context.codegen(), name, text)


def _define(codegen: Any, name: str, text: str) -> Any:
    library = codegen.create_library(name)
    library.add_llvm_module(_parse(name, text))
    library.finalize()
    _defined.append(library)
    return library


def _publish(codegen: Any, name: str, environments: dict[str, Any]) -> None:
    if not environments:
        return
    text = "\n".join(f'@"{variable}" = common global ptr null' for variable in environments)
    _define(codegen, f"{name}.environments", text)
    for variable, environment in environments.items():
        _environments[variable] = environment
        codegen.set_env(variable, environment)


def _parse(name: str, text: str) -> llvm.ModuleRef:
    module = parsed(text, f"LLVM does not accept {name}")
    module.name = name
    return module


def check_symbols(name: str, missing: Sequence[str]) -> None:
    """Raise `UnknownCall` if symbols that code needs are missing: LLVM would end the process."""
    if missing:
        raise UnknownCall(
            f"{name} needs {', '.join(missing)}, which nothing defines",
            why="The symbol is neither in a linked library nor in this process.",
            instead=["give the function that calls it a rule, or declare it inactive"],
        )


def _defined_in(library: Any) -> frozenset[str]:
    """The functions a finalised library defines; asked of LLVM once.

    A library that Numba loaded from its cache has machine code, and IR only to be linked.
    """
    if library not in _functions:
        own = [*library.get_defined_functions()] or library._get_module_for_linking().functions
        _functions[library] = frozenset(f.name for f in own if not f.is_declaration)
    return _functions[library]


def undefined_symbols(module: llvm.ModuleRef, libraries: Iterable[Any]) -> tuple[str, ...]:
    """The symbols that `module` only declares, and that neither the libraries nor the process
    define.

    Code that Numba compiled earlier in this process does not count: a process that loads the
    library from Numba's cache would not find it.
    """
    declared = declared_in(module, libraries)
    return tuple(name for name in declared if llvm.address_of_symbol(name) is None)


def start_threads_for(symbols: Sequence[str]) -> None:
    """Start Numba's threads if one of these symbols is missing in the process: starting the threads
    defines them. Code with parallel loops needs them, and Numba does not start them for code that
    it found on disk.
    """
    if any(llvm.address_of_symbol(name) is None for name in symbols):
        _launch_threads()


def declared_in(module: llvm.ModuleRef, libraries: Iterable[Any]) -> tuple[str, ...]:
    """The symbols that `module` only declares, and that the libraries do not define."""
    declared = [v for v in (*module.functions, *module.global_variables) if v.is_declaration]
    linked = set[str]().union(*map(_defined_in, libraries))
    return tuple(
        value.name
        for value in declared
        if not value.name.startswith("llvm.") and value.name not in linked
    )


# --- functions of the compiler's runtime library ---

# `llvm.powi`, which fast-math makes of `pow(x, float(n))`, becomes a call of `__powidf2`. Compilers
# link it from their runtime library; Numba does not, and a process that reaches the call ends.
_OF_RUNTIME = ("__powidf2", "__powisf2")


def _provide_runtime() -> None:
    """Make the functions known to LLVM where the platform has them."""
    try:
        library = ctypes.CDLL("libgcc_s.so.1")
    except OSError:
        return
    for name in _OF_RUNTIME:
        if hasattr(library, name):
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


def _missing_of_runtime(text: str) -> tuple[str, ...]:
    """The runtime functions that the machine code of an IR text needs and nothing defines."""
    if "llvm.powi." not in text:
        return ()
    return tuple(name for name in _OF_RUNTIME if llvm.address_of_symbol(name) is None)


_provide_runtime()

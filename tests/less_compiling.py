"""Work of Numba's compiler that no test sees: left out.

Most of the time of these tests is LLVM's. A test calls functions with a Python entry point: they
are compiled and optimised as always. What Numba implements with `@overload` (the functions of
NumPy, the methods of lists) has no such entry point: it is linked into the functions that call it,
and optimised again there. The optimised IR is that of users; machine code is made of it by LLVM's
fast selector. Tests by night, and what tests start as processes of their own, run Numba as it is.
"""

from ctypes import c_void_p, cast
from functools import cache, partial
from typing import Any
from weakref import WeakValueDictionary

import llvmlite.binding as llvm
from llvmlite.binding.executionengine import ExecutionEngine
from numba import _dynfunc
from numba.core import cpu
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.typing.templates import _OverloadFunctionTemplate

from activerules.numba_ext.codegen.link import leave_to_caller, publish_environment

_get_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator
_get_executable = cpu.CPUContext.get_executable
_add_to_engine = ExecutionEngine.add_module
_find_in_engine = ExecutionEngine._find_module_ptr
_modules: WeakValueDictionary[int | None, Any] = WeakValueDictionary()
_customize = JITCPUCodegen._customize_tm_options


def apply() -> None:
    # Numba times each call into LLVM, for each compile that is under way: a twentieth of all time.
    llvm.ffi.lib._lock._cblist.clear()
    # An entry point for C of each implementation: a twentieth.
    _OverloadFunctionTemplate._get_jit_decorator = lambda template: partial(
        _get_jit_decorator(template), no_cfunc_wrapper=True
    )
    # Optimised code and machine code of each alone, before it is linked into its callers: a fifth.
    cpu.CPUContext.get_executable = _get_linkable
    # Good registers and schedules for code that runs a few times: a seventh.
    JITCPUCodegen._customize_tm_options = _choose_fast_selection
    # A pass manager for each function that a module only declares: a hundredth.
    CPUCodeLibrary._optimize_functions = _optimize_functions
    # All modules of the process are gone through whenever one becomes machine code: with 4,000 of
    # them a small function takes twice as long.
    ExecutionEngine.add_module = _add_module
    ExecutionEngine._find_module_ptr = _find_module
    # Options are compared for each call that is typed, by a property for each option: a fortieth.
    TargetConfig.values = _values


def _get_linkable(context: Any, library: Any, fndesc: Any, environment: Any) -> Any:
    """What `get_executable` returns; the environment is set where callers look for it."""
    flags = ConfigStack.top_or_none()
    if flags is None or not (flags.no_cpython_wrapper and flags.no_cfunc_wrapper):
        return _get_executable(context, library, fndesc, environment)
    leave_to_caller(library)
    library._ensure_finalized()
    publish_environment(context, fndesc, environment, library._final_module)
    no_code, keeps = 0, (library,)
    module, name = fndesc.lookup_module(), fndesc.qualname.split(".")[-1]
    return _dynfunc.make_function(module, name, "", no_code, environment, keeps)


def _add_module(engine: ExecutionEngine, module: Any) -> None:
    _add_to_engine(engine, module)
    _modules[cast(module._ptr, c_void_p).value] = module


def _find_module(engine: ExecutionEngine, pointer: Any) -> Any:
    address = cast(pointer, c_void_p).value
    return _modules.get(address) or _find_in_engine(engine, pointer)


def _choose_fast_selection(codegen: Any, options: dict[str, Any]) -> None:
    """The options of the target machine; passes over the IR have options of their own."""
    _customize(codegen, options)
    options["opt"] = 0


def _optimize_functions(library: Any, module: Any) -> None:
    """What Numba does; its passes have nothing to do where there is no body."""
    codegen = library._codegen
    module.data_layout = codegen._data_layout
    for function in module.functions:
        if not function.is_declaration:
            passes, builder = codegen._function_pass_manager()
            passes.run(function, builder)


def _values(config: TargetConfig) -> dict[str, Any]:
    return {**_defaults(type(config)), **config._values}


@cache
def _defaults(kind: type[TargetConfig]) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}

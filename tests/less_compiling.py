"""Work of Numba's compiler that no test sees: left out.

Most of the time of these tests is LLVM's. A test calls functions with a Python entry point: they
are compiled and optimised as always. What Numba implements with `@overload` (the functions of
NumPy, the methods of lists) has no such entry point: it is linked into the functions that call it,
and optimised again there. The optimised IR is that of users; machine code is made of it by LLVM's
fast selector. Tests by night, and what tests start as processes of their own, run Numba as it is.
"""

from collections.abc import Callable
from ctypes import c_void_p, cast
from functools import cache, partial
from typing import Any
from weakref import WeakValueDictionary

import llvmlite.binding as llvm
from llvmlite.binding.executionengine import ExecutionEngine
from numba import _dynfunc
from numba.core import base, cpu, ir
from numba.core.codegen import CPUCodeLibrary, JITCPUCodegen
from numba.core.compiler_machinery import PassManager
from numba.core.postproc import PostProcessor, VariableLifetime
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.transforms import canonicalize_cfg
from numba.core.typing import context as typing
from numba.core.typing.templates import _OverloadFunctionTemplate

from activerules.numba_ext.codegen.link import leave_to_caller, publish_environment
from activerules.numba_ext.codegen.unoptimised import ADCodeLibrary

_get_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator
_get_executable = cpu.CPUContext.get_executable
_add_to_engine = ExecutionEngine.add_module
_find_in_engine = ExecutionEngine._find_module_ptr
_modules: WeakValueDictionary[int | None, Any] = WeakValueDictionary()
_customize = JITCPUCodegen._customize_tm_options
_postprocess = PostProcessor.run
_list_vars_in = ir.Inst._rec_list_vars
_dependencies = PassManager.dependency_analysis
_dependencies_of: dict[tuple[Any, ...], Any] = {}
_WITHOUT_VARS = frozenset({ir.Loc, str, int, bool, type(None)})


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
    # Which variables are alive where, after each pass, although only generators read it, and the
    # last passes, which delete variables: a thirtieth.
    PostProcessor.run = _postprocess_lazily
    # The variables of an instruction are looked for in each of its fields, by `isinstance`.
    ir.Inst._rec_list_vars = _rec_list_vars
    # Which passes need which others, for each function anew.
    PassManager.dependency_analysis = _dependency_analysis
    # What extensions have registered is looked for before each call is typed: a hundredth.
    for context in (base.BaseContext, typing.BaseContext):
        context.refresh = _refresh_if_new(context.refresh)
    # Modules as Numba writes them are cycles, half of what the collector would have to look for.
    for kind in (CPUCodeLibrary, ADCodeLibrary):
        kind.add_ir_module = _add_and_take_apart(kind.add_ir_module)


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


def _postprocess_lazily(
    processor: Any, emit_dels: bool = False, extend_lifetimes: bool = False
) -> None:
    """What Numba does; lifetimes are computed when they are read."""
    function = processor.func_ir
    if emit_dels or function.is_generator:
        _postprocess(processor, emit_dels, extend_lifetimes)
        return
    function.blocks = canonicalize_cfg(function.blocks)
    function.variable_lifetime = VariableLifetime(function.blocks)
    function.generator_info = None


def _rec_list_vars(instruction: Any, fields: Any) -> list[Any]:
    """What Numba lists; fields of the common types are told by that alone."""
    if type(fields) is not dict:
        return _list_vars_in(instruction, fields)
    found = []
    for value in fields.values():
        if type(value) is ir.Var:
            found.append(value)
        elif type(value) not in _WITHOUT_VARS:
            found += _list_vars_in(instruction, value)
    return found


def _dependency_analysis(passes: Any) -> Any:
    key = tuple(each for each, _ in passes.passes)
    if key not in _dependencies_of:
        _dependencies_of[key] = _dependencies(passes)
    return _dependencies_of[key]


def _refresh_if_new(refresh: Callable[[Any], None]) -> Callable[[Any], None]:
    """`refresh`, if a registry has grown: from the first time on, a context has the same ones."""

    def refresh_if_new(context: Any) -> None:
        if _count_registered(context) != getattr(context, "_registered", None):
            refresh(context)
            context._registered = _count_registered(context)

    return refresh_if_new


def _count_registered(context: Any) -> int:
    registries = [*context._registries]
    if isinstance(context, base.BaseContext):  # its `refresh` is also that of its typing context
        registries += context.typing_context._registries
    return sum(len(x) for each in registries for x in vars(each).values() if type(x) is list)


def _add_and_take_apart(add: Callable[[Any, Any], None]) -> Callable[[Any, Any], None]:
    """`add_ir_module`, after which nobody reads the module again: its instructions are freed."""

    def add_ir_module(library: Any, module: Any) -> None:
        add(library, module)
        for function in module.functions:
            for block in function.blocks:
                block.instructions.clear()
                block.terminator = None
            function.blocks.clear()
        module.globals.clear()

    return add_ir_module

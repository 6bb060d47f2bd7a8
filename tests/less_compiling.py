"""Work of Numba's compiler that no test sees: left out.

Most of the time of these tests is LLVM's. A test calls functions with a Python entry point: they
are compiled and optimised as always. What Numba implements with `@overload` (the functions of
NumPy, the methods of lists) has no such entry point: it is linked into the functions that call it,
and optimised again there. The optimised IR is that of users; machine code is made of it by LLVM's
fast selector. Tests by night, and what tests start as processes of their own, run Numba as it is.
"""

from functools import cache, partial
from typing import Any

import llvmlite.binding as llvm
from numba.core import cpu
from numba.core.codegen import JITCPUCodegen
from numba.core.targetconfig import ConfigStack, TargetConfig
from numba.core.typing.templates import _OverloadFunctionTemplate

from activerules.numba_ext.codegen.link import define, leave_to_caller

_get_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator
_get_executable = cpu.CPUContext.get_executable
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
    # Options are compared for each call that is typed, by a property for each option: a fortieth.
    TargetConfig.values = _values


def _get_linkable(context: Any, library: Any, fndesc: Any, environment: Any) -> Any:
    """What `get_executable` returns; the environment is set where callers look for it."""
    flags = ConfigStack.top_or_none()
    if flags is not None and flags.no_cpython_wrapper and flags.no_cfunc_wrapper:
        leave_to_caller(library)
        variable = context.get_env_name(fndesc)
        define(context, f"{variable}.alone", f'@"{variable}" = common global ptr null')
    return _get_executable(context, library, fndesc, environment)


def _choose_fast_selection(codegen: Any, options: dict[str, Any]) -> None:
    """The options of the target machine; passes over the IR have options of their own."""
    _customize(codegen, options)
    options["opt"] = 0


def _values(config: TargetConfig) -> dict[str, Any]:
    return {**_defaults(type(config)), **config._values}


@cache
def _defaults(kind: type[TargetConfig]) -> dict[str, Any]:
    return {name: option.default for name, option in kind.options.items()}

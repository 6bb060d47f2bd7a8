"""Work of Numba's compiler that no test sees: left out.

Most of the time of these tests is LLVM's. A test calls functions with a Python entry point: they
are compiled and optimised as always. What Numba implements with `@overload` (the functions of
NumPy, the methods of lists) has no such entry point: it is linked into the functions that call it,
and optimised again there. Tests by night, and what tests start as processes of their own, run
Numba as it is.
"""

from functools import partial
from typing import Any

import llvmlite.binding as llvm
from numba.core import cpu
from numba.core.targetconfig import ConfigStack
from numba.core.typing.templates import _OverloadFunctionTemplate

from activerules.numba_ext.codegen.link import define, leave_to_caller

_get_jit_decorator = _OverloadFunctionTemplate._get_jit_decorator
_get_executable = cpu.CPUContext.get_executable


def apply() -> None:
    # Numba times each call into LLVM, for each compile that is under way: a twentieth of all time.
    llvm.ffi.lib._lock._cblist.clear()
    # An entry point for C of each implementation: a twentieth.
    _OverloadFunctionTemplate._get_jit_decorator = lambda template: partial(
        _get_jit_decorator(template), no_cfunc_wrapper=True
    )
    # Optimised code and machine code of each alone, before it is linked into its callers: a fifth.
    cpu.CPUContext.get_executable = _get_linkable


def _get_linkable(context: Any, library: Any, fndesc: Any, environment: Any) -> Any:
    """What `get_executable` returns; the environment is set where callers look for it."""
    flags = ConfigStack.top_or_none()
    if flags is not None and flags.no_cpython_wrapper and flags.no_cfunc_wrapper:
        leave_to_caller(library)
        variable = context.get_env_name(fndesc)
        define(context, f"{variable}.alone", f'@"{variable}" = common global ptr null')
    return _get_executable(context, library, fndesc, environment)

"""Compiles for the CPU that are only ever linked into other code: no entry point, no machine code.

Needs       a Python function, options of `@njit`, argument types
Gives       `to_link`: a dispatcher for it that nobody calls; `compile_to_link`: its compile result
Invariants  U1  Numba's errors pass through unchanged
            U2  a dispatcher compiles once per tuple of types

Numba makes machine code of every function it compiles, and wrappers that convert its arguments from
Python objects. Rules, and the one-line functions around what carries a rule, need neither: they are
optimised again where they are linked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from numba.core.compiler_lock import global_compiler_lock

from activerules.numba_ext.link import leave_to_caller, publish_environment


def to_link(function: Callable[..., Any], **options: Any) -> Any:
    """Return a dispatcher for `compile_to_link`."""
    jit: Any = numba.njit
    dispatcher = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **options)(function)
    compiler: Any = dispatcher._compiler
    compiler._customize_flags = _without_machine_code
    return dispatcher


def _without_machine_code(flags: Any) -> Any:
    flags.no_compile = True
    return flags


@global_compiler_lock
def compile_to_link(dispatcher: Any, args: tuple[Any, ...]) -> Any:
    """Return Numba's compile result of a dispatcher made by `to_link`."""
    if args not in dispatcher.overloads:
        # Not by `dispatcher.compile`, which hands the entry point to Numba's C dispatcher.
        result = dispatcher._compiler.compile(args, None)
        # As Numba does with the entry point: the function finds its constants there.
        publish_environment(result.target_context, result.fndesc, result.environment)
        leave_to_caller(result.library)
        dispatcher.overloads[args] = result
    return dispatcher.overloads[args]

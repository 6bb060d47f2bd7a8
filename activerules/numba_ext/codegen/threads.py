"""Calls of a compiled function in Numba's threads.

Needs       a compiled function of a number and a tuple
Gives       `in_threads`: calls it with many numbers at once; `thread_count`; `THREAD_COUNT`,
            `link_threads`: for code that calls the latter by its symbol
Invariants  T1  an exception in a thread is raised where the calls began, once all of them ended
            T2  code on disk that calls threads is loaded once these run, whatever links it

Numba compiles each `prange` loop as a function of its own, with a wrapper, which takes half a
second and more. Here there is one such loop for all functions, compiled once per process: it knows
where the function and the tuple are in memory. Its calls tell how they ended; the exceptions of
Numba's own loops are lost.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import prange, types
from numba.core import cgutils
from numba.core.callconv import excinfo_ptr_t
from numba.extending import intrinsic, register_jitable

from activerules.numba_ext.codegen.numba_versions import RELOADS
from activerules.numba_ext.codegen.on_disk import pass_on
from activerules.numba_ext.codegen.protocols import status_of

LOST = "an iteration of a parallel loop raised an exception that is lost"

_intrinsic: Any = intrinsic
_njit: Any = numba.njit

# The rest of `parallel=True` costs compile time alone.
_THREADS = {
    **dict.fromkeys(("comprehension", "reduction", "inplace_binop", "setitem"), False),
    **dict.fromkeys(("numpy", "stencil", "fusion"), False),
    "prange": True,
}


@register_jitable
def in_threads(function, first, step, count, args):
    """Call `function(k, args)` for the `count` numbers k = first, first + step, ...

    Raises what the function raises; if several calls do, the exception of the first k.
    """
    entry, data = _addresses(function, args)
    code, exception = _first_that_raised(entry, data, first, step, count)
    if code > 0:
        _raise_again(code, exception)
    elif code < 0:
        raise RuntimeError(LOST)


@register_jitable
def _first_that_raised(entry, data, first, step, count):
    """How the first of the calls ended that raised an exception; 0 if none did. (Numba
    loses the references that a function has where one of its calls raises an exception.)
    """
    codes, exceptions = np.zeros(count, np.int32), np.zeros(count, np.intp)
    _loop(entry, data, first, step, codes, exceptions)
    for t in range(count):
        if codes[t] != 0:
            return codes[t], exceptions[t]
    return np.int32(0), np.intp(0)


@_njit(parallel=_THREADS)
def _loop(entry, data, first, step, codes, exceptions):
    for t in prange(len(codes)):
        codes[t], exceptions[t] = _call(entry, data, first + t * step)


THREAD_COUNT = "get_num_threads"
"""The symbol of the function that returns the number of threads."""


def link_threads(library: Any) -> None:
    """Let a code library call threads: from disk, it is loaded once these run (T2)."""
    if RELOADS:
        library._reload_init.add(_start)


def _start() -> None:
    numba.get_num_threads()
    pass_on(_start)


@_intrinsic
def _count_by_name(typing_context):
    """What `numba.get_num_threads` returns. Numba caches no code that calls that: it has the
    address of a C function in it. This calls the function by its name.
    """
    numba.get_num_threads()  # which starts the threads, and lets LLVM know the name

    def generate(context, builder, _signature, _values):
        link_threads(context.active_code_library)
        integer = context.get_value_type(types.intp)
        declared = ir.FunctionType(integer, ())  # as in Numba's own loops; C returns an `int`
        function = cgutils.get_or_insert_function(builder.module, declared, THREAD_COUNT)
        count = builder.trunc(builder.call(function, ()), ir.IntType(32))
        return builder.sext(count, integer)

    return types.intp(), generate


# Numba 0.62 would load cached code that calls threads without starting them.
_count = _count_by_name if RELOADS else numba.get_num_threads


@register_jitable
def thread_count():
    """How many threads run loops."""
    return _count()


@_intrinsic
def _addresses(typing_context, function, args):
    """The addresses of a function (address of a tuple, k) that calls `function(k, tuple)`, and of
    such a tuple, which is in memory until the caller returns.
    """
    typed = function.get_call_type(typing_context, (types.intp, args), {})

    def generate(context, builder, signature, values):
        link_threads(context.active_code_library)
        convention = context.call_conv
        entry = ir.Function(
            builder.module,
            convention.get_function_type(types.none, _PASSED),
            builder.module.get_unique_name("call_in_thread"),
        )
        entry.linkage = "internal"
        convention.decorate_function(entry, ("data", "k"), _PASSED)
        data = cgutils.alloca_once_value(builder, values[1])
        inside = ir.IRBuilder(entry.append_basic_block())
        address, k = convention.decode_arguments(inside, _PASSED, entry)
        given = inside.load(inside.inttoptr(address, data.type))
        context.get_function(function, typed)(inside, (k, given))
        convention.return_value(inside, context.get_dummy_value())
        integer = context.get_value_type(types.intp)
        both = [builder.ptrtoint(each, integer) for each in (entry, data)]
        return context.make_tuple(builder, signature.return_type, both)

    return types.UniTuple(types.intp, 2)(function, args), generate


_PASSED = (types.intp, types.intp)


@_intrinsic
def _call(typing_context, entry, data, k):
    """Call the function at an address; returns Numba's return code, 0 if it did not raise, and the
    address of the exception, if it has one.
    """
    ended = types.Tuple((types.int32, types.intp))

    def generate(context, builder, signature, values):
        convention = context.call_conv
        function_type = convention.get_function_type(types.none, _PASSED)
        function = builder.inttoptr(values[0], function_type.as_pointer())
        status, _ = convention.call_function(builder, function, types.none, _PASSED, values[1:])
        code = builder.select(status.is_error, status.code, status.code.type(0))
        exception = builder.ptrtoint(status.excinfoptr, context.get_value_type(types.intp))
        return context.make_tuple(builder, signature.return_type, (code, exception))

    return ended(types.intp, types.intp, types.intp), generate


@_intrinsic
def _raise_again(typing_context, code, exception):
    """Raise the exception at an address."""

    def generate(context, builder, _signature, values):
        code, exception = values
        status = status_of(code, builder.inttoptr(exception, excinfo_ptr_t))
        context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.none(types.int32, types.intp), generate

"""Outline: emit code into a function of its own, and call that.

A function that Numba compiles holds references to its arguments, and leaks them where it raises,
unless its optimiser can see that they need not be held: it gives up on functions with many
branches. Behind a call, a form may have as many as it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from llvmlite import ir
from numba.core import cgutils

_numbers = count()


def outlined(
    context: Any,
    builder: Any,
    result: Any,
    arguments: Sequence[tuple[Any, Any]],
    emit: Callable[..., Any],
) -> Any:
    """Call a new function of Numba's convention, whose value `emit(builder, values)` emits.

    arguments   the Numba type and the LLVM value of each; they are borrowed.
    """
    convention = context.call_conv
    argtypes = [ty for ty, _ in arguments]
    function_type = convention.get_function_type(result, argtypes)
    name = f"{builder.function.name}.outlined.{next(_numbers)}"
    function = ir.Function(builder.module, function_type, name)
    function.linkage = "internal"
    function.attributes.add("noinline")
    convention.decorate_function(function, [f"arg.{k}" for k, _ in enumerate(argtypes)], argtypes)
    inner = ir.IRBuilder(function.append_basic_block("entry"))
    value = emit(inner, convention.decode_arguments(inner, argtypes, function))
    convention.return_value(inner, context.get_return_value(inner, result, value))
    values = [value for _, value in arguments]
    status, returned = convention.call_function(builder, function, result, argtypes, values)
    with cgutils.if_unlikely(builder, status.is_error):
        return_error(context, builder, status)
    return returned


def return_error(context: Any, builder: Any, status: Any) -> None:
    """Leave with a callee's exception.

    As Numba's `return_status_propagate`, but marked as a raise: only then does Numba prune the
    references it holds to the arguments of this function, which an exception would leak.
    """
    convention = context.call_conv
    try_status = convention.check_try_status(builder)
    store = builder.store(status.excinfoptr, convention._get_excinfo_argument(builder.function))
    mark = builder.module.add_metadata([ir.IntType(1)(1)])
    store.set_metadata("numba_exception_output", mark)
    with builder.if_then(builder.not_(try_status.in_try)):
        convention._return_errcode_raw(builder, status.code)

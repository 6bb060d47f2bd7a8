"""Outlining: emit code into a function of its own, and call that.

A function that Numba compiles takes references to its arguments, and leaks them if it raises,
unless Numba's optimiser removes them as redundant, which it does not in functions with many
branches. In a separate function a form may have any number of branches.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.numba_ext.codegen.on_disk import depend_on_rules
from activerules.numba_ext.codegen.protocols import (
    Builder,
    Context,
    TypingContext,
    Value,
    entry_builder,
)
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative

_numbers = count()


def outlining(form: Callable[..., Any]) -> Callable[..., Any]:
    """The form, emitted into a function of its own.

    In code that is differentiated again it stays inline, where the engine can analyse it.
    """

    @functools.wraps(form)
    def outlined_form(typing_context: TypingContext, *argtypes: Any) -> Any:
        formed = form(typing_context, *argtypes)
        if formed is None or compiles_for_derivative():
            return formed
        typed, codegen = formed
        return typed, functools.partial(_outline, codegen)

    return outlined_form


def _outline(
    codegen: Any, context: Context, builder: Builder, typed: Any, values: Sequence[Value]
) -> Any:
    """Emit the call of a new function in Numba's calling convention, with the body that `codegen`
    emits; return its value. The arguments are borrowed.
    """
    depend_on_rules(context.active_code_library, typed.args)
    convention, result, argtypes = context.call_conv, typed.return_type, [*typed.args]
    passed = [_repacked(context, builder, *each) for each in zip(argtypes, values, strict=True)]
    function_type = convention.get_function_type(result, argtypes)
    name = f"{builder.function.name}.outlined.{next(_numbers)}"
    function = ir.Function(builder.module, function_type, name)
    function.linkage = "internal"
    convention.decorate_function(function, [f"arg.{k}" for k, _ in enumerate(argtypes)], argtypes)
    inner = entry_builder(function)
    value = codegen(context, inner, typed, convention.decode_arguments(inner, argtypes, function))
    convention.return_value(inner, context.get_return_value(inner, result, value))
    status, returned = convention.call_function(builder, function, result, argtypes, passed)
    with cgutils.if_unlikely(builder, status.is_error):
        return_error(context, builder, status)
    return returned


def _repacked(context: Context, builder: Builder, ty: Any, value: Value) -> Value:
    """A tuple in the representation of its type: a homogeneous `*args` arrives as a struct and has
    to become an array. A function becomes a dummy, as its type identifies it: its address would
    bind the code to this process.
    """
    if isinstance(ty, types.Dispatcher):
        return context.get_dummy_value()
    if not isinstance(ty, types.BaseTuple):
        return value
    return context.make_tuple(builder, ty, cgutils.unpack_tuple(builder, value, len(ty)))


def return_error(context: Context, builder: Builder, status: Any) -> None:
    """Return with a callee's exception.

    Like Numba's `return_status_propagate`, but marked as a raise: only then does Numba remove its
    references to the arguments of this function, which an exception would leak.
    """
    convention = context.call_conv
    try_status = convention.check_try_status(builder)
    store = builder.store(status.excinfoptr, convention._get_excinfo_argument(builder.function))
    mark = builder.module.add_metadata([ir.IntType(1)(1)])
    store.set_metadata("numba_exception_output", mark)
    with builder.if_then(builder.not_(try_status.in_try)):
        convention._return_errcode_raw(builder, status.code)

"""Functions as values in the AD target: a function of the user that is stored or passed on.

Numba describes one by two addresses, that of the compiled function and that of a wrapper for C. It
calls the first wherever there is one. The AD target makes no wrappers, and the name of one, which
nothing defines, would end the process when the derivative is linked.

Gives       implementations in `LOWERING`
            `CallsValues`: lowering of calls of such values, for `ir.text.called_values`
            `may_hold_a_function`: whether a value of a type may have one in it
Invariants  V1  a value has the address of the compiled function, and no wrapper
            V2  a call of a value is a call by name, unless functions from other modules may reach
                this one: then it is Numba's own
"""

from __future__ import annotations

import hashlib
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.lowering import Lower
from numba.experimental.function_type import lower_constant_function_type

from activerules.ir.text.called_values import CALL, FOREIGN, KNOWN
from activerules.numba_ext.codegen.protocols import Builder, Context, Value, call_named
from activerules.numba_ext.codegen.unoptimised import LOWERING
from activerules.values.layout import Node, Opaque, layout_of


@LOWERING.lower_cast(types.Dispatcher, types.FunctionType)
def _function_value(context: Context, builder: Builder, fromty: Any, toty: Any, val: Value) -> Any:
    value = _value_of(context, builder, fromty.dispatcher, toty.get_precise())
    value.py_addr = builder.ptrtoint(val, context.get_value_type(types.voidptr))
    return value._getvalue()


@LOWERING.lower_constant(types.FunctionType)
def _constant_function(context: Any, builder: Builder, ty: Any, function: Any) -> Any:
    """A function in a global tuple, which Numba would ask the interpreter for."""
    callee = context.typing_context.resolve_value_type(function)
    if not isinstance(callee, types.Dispatcher):
        call_named(builder, FOREIGN, ir.VoidType(), [])
        return lower_constant_function_type(context, builder, ty, function)
    return _value_of(context, builder, callee.dispatcher, ty.get_precise())._getvalue()


def _value_of(context: Context, builder: Builder, function: Any, ty: Any) -> Any:
    """The value of a function of the AD target (V1)."""
    compiled = function.get_compile_result(ty.signature)
    address = context.declare_function(builder.module, compiled.fndesc)
    context.active_code_library.add_linking_library(compiled.library)
    value = cgutils.create_struct_proxy(ty)(context, builder)
    value.c_addr = cgutils.get_null_value(value.c_addr.type)
    value.py_addr = cgutils.get_null_value(value.py_addr.type)
    value.jit_addr = builder.bitcast(address, value.jit_addr.type)
    return value


class CallsValues(Lower):
    """Lowers a function so that its calls of values can become calls by name (V2)."""

    def _lower_call_FunctionType(self, fnty: Any, expr: Any, signature: Any) -> Any:
        lowered: Any = super()
        context: Any = self.context
        builder: Any = self.builder
        result = cgutils.alloca_once(builder, context.get_value_type(signature.return_type))
        is_known = call_named(builder, KNOWN, ir.IntType(1), [])
        with builder.if_else(is_known) as (by_name, by_address):
            with by_name:
                builder.store(self._called_by_name(fnty, expr, signature), result)
            with by_address:
                called = lowered._lower_call_FunctionType(fnty, expr, signature)
                builder.store(called, result)
        return builder.load(result)

    def _called_by_name(self, fnty: Any, expr: Any, signature: Any) -> Any:
        context: Any = self.context
        builder: Any = self.builder
        convention = context.call_conv
        signature = types.unliteral(signature)
        arguments = self.fold_call_args(fnty, signature, expr.args, expr.vararg, expr.kws)
        value = cgutils.create_struct_proxy(self.typeof(expr.func.name))(
            context, builder, value=self.loadvar(expr.func.name)
        )
        argtypes = (*signature.args, types.voidptr)
        convened = convention.get_function_type(signature.return_type, argtypes)
        name = CALL + hashlib.sha256(str(convened).encode()).hexdigest()[:16]
        function = cgutils.get_or_insert_function(builder.module, convened, name)
        status, result = convention.call_function(
            builder, function, signature.return_type, argtypes, (*arguments, value.jit_addr)
        )
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result


def may_hold_a_function(ty: Any) -> bool:
    """Whether a value of this type may be, or contain, a function."""

    def within(node: Node) -> bool:
        own = isinstance(node, Opaque) or isinstance(node.numba_type, types.FunctionType)
        return own or any(within(child) for _, child in node.children)

    return within(layout_of(ty))

"""Functions as values in the AD target: a function of the user that is stored or passed on.

Numba describes one by two addresses, that of the compiled function and that of a wrapper for C. It
calls the first wherever there is one. The AD target makes no wrappers, and the name of one, which
nothing defines, would end the process when the derivative is linked.

Gives       an implementation in `LOWERING`
Invariants  V1  a value has the address of the compiled function, and no wrapper
"""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types

from activerules.numba_ext.codegen.protocols import Builder, Context, Value
from activerules.numba_ext.codegen.unoptimised import LOWERING


@LOWERING.lower_cast(types.Dispatcher, types.FunctionType)
def _function_value(context: Context, builder: Builder, fromty: Any, toty: Any, val: Value) -> Any:
    precise = toty.get_precise()
    compiled = fromty.dispatcher.get_compile_result(precise.signature)
    address = context.declare_function(builder.module, compiled.fndesc)
    context.active_code_library.add_linking_library(compiled.library)
    value = cgutils.create_struct_proxy(precise)(context, builder)
    value.c_addr = cgutils.get_null_value(value.c_addr.type)
    value.py_addr = builder.ptrtoint(val, context.get_value_type(types.voidptr))
    value.jit_addr = builder.bitcast(address, value.jit_addr.type)
    return value._getvalue()

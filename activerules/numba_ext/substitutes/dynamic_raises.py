"""Exceptions whose arguments are computed when they are raised.

Needs       the hook where Numba lowers `raise E(a, …)`
Gives       `RaisesComputed`: a lowering class in which that is a call
Invariants  D1  the engine sees a call: the arguments of an exception are no data of the program
            D2  the function that raises, and one that catches, lose the references that they lose
                in Numba

Numba stores the arguments in memory in the function itself, where they look like data of the
program: forward mode would make shadows for them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.callconv import RETCODE_USEREXC
from numba.core.ir import Var
from numba.core.lowering import Lower

from activerules.numba_ext.codegen.protocols import Builder, Context, entry_builder

RAISES = "activerules.raise."
"""The prefix of the names of functions that record an exception."""


class RaisesComputed(Lower):
    """Lowers a function so that exceptions with computed arguments are recorded by a call (D1)."""

    def lower_dynamic_raise(self, inst: Any) -> None:
        """Return from the function with the exception."""
        arguments = [
            (self.typeof(arg.name), self.loadvar(arg.name)) if isinstance(arg, Var) else (None, arg)
            for arg in inst.exc_args
        ]
        where = (self.loc, self.func_ir.func_id.func_name)
        context: Any = self.context
        builder: Any = self.builder
        convention = context.call_conv
        passed = [(ty, value) for ty, value in arguments if ty is not None]
        function = _raiser(context, builder, inst.exc_class, arguments, where)
        packer = convention._get_arg_packer([ty for ty, _ in passed])
        packed = packer.as_arguments(builder, [value for _, value in passed])
        no_result = function.args[0].type(None)
        excinfo = convention._get_excinfo_argument(builder.function)
        builder.call(function, [no_result, excinfo, *packed])
        convention._return_errcode_raw(builder, RETCODE_USEREXC)


def _raiser(
    context: Context,
    builder: Builder,
    exception: type[BaseException],
    arguments: Sequence[tuple[Any, Any]],
    where: tuple[Any, str],
) -> Any:
    """A function that records the exception, with a reference to each argument.

    arguments   the Numba type and the LLVM value of each; None and the value of a constant
    where       location and name of the function that raises
    """
    convention: Any = context.call_conv
    module = builder.module
    argtypes = [ty for ty, _ in arguments if ty is not None]
    constants = [value for ty, value in arguments if ty is None]
    key = repr((builder.function.name, exception, argtypes, constants, where))
    name = RAISES + hashlib.sha256(key.encode()).hexdigest()[:16]
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, convention.get_function_type(types.none, argtypes), name)
    function.attributes.add("noinline")
    convention.decorate_function(function, [f"arg.{k}" for k, _ in enumerate(argtypes)], argtypes)
    inner = entry_builder(function)
    values = iter(convention.decode_arguments(inner, argtypes, function))
    items = [value if ty is None else next(values) for ty, value in arguments]
    if context.enable_nrt:
        for (ty, _), value in zip(arguments, items, strict=True):
            if ty is not None:
                context.nrt.incref(inner, ty, value)
    nb_types = tuple(ty for ty, _ in arguments)
    loc, func_name = where
    convention.return_dynamic_user_exc(inner, exception, tuple(items), nb_types, loc, func_name)
    return function

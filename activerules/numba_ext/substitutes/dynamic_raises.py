"""Exceptions whose arguments are computed when they are raised.

Needs       the hooks where Numba lowers `raise E(a, …)` and the end of a `try`
Gives       `raise_dynamic`: emits code that raises, and drops the variables' references
            `RaisesComputed`, `LoweringOfRaises`: a lowering class that uses it, and its pass
            `CallConv`: Numba's calling convention, which releases caught exceptions
Invariants  D1  the exception owns one reference to each argument, which Numba drops when it makes
                Python objects of them; the function that raises keeps none
            D2  an exception that is caught, and so never reaches Python, is released
            D3  the engine sees a call: the arguments of an exception are no data of the program

Numba takes references for the exception and keeps those of the variables, so that a text computed
for an exception leaks. It stores the arguments in memory in the function itself, where they look
like data of the program: forward mode would make shadows for them. It never releases a caught
exception.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.callconv import (
    ALLOC_FLAG_IDX,
    HASH_BUF_IDX,
    RETCODE_USEREXC,
    UNWRAP_FUNC_IDX,
    CPUCallConv,
)
from numba.core.compiler_machinery import register_pass
from numba.core.ir import Var
from numba.core.lowering import Lower
from numba.core.typed_passes import NativeLowering

from activerules.numba_ext.codegen.protocols import Builder, Context, entry_builder

RAISES = "activerules.raise."
CATCHES = "activerules.catch."
"""Prefixes of the names of functions that record an exception, and that release one."""

_PACKS, _UNWRAPS = "__excinfo_unwrap_args", "activerules.unwrap."


def raise_dynamic(
    context: Context,
    builder: Builder,
    exception: type[BaseException],
    arguments: Sequence[tuple[Any, Any]],
    where: tuple[Any, str],
) -> None:
    """Return from the function with an exception.

    arguments   the Numba type and the LLVM value of each; None and the value of a constant
    where       location and name of the function
    """
    convention = CallConv(context)
    given = [(ty, value) for ty, value in arguments if ty is not None]
    argtypes = [ty for ty, _ in given]
    function = _raiser(context, builder, exception, arguments, where)
    packed = convention._get_arg_packer(argtypes).as_arguments(builder, [v for _, v in given])
    no_result = cgutils.get_null_value(function.args[0].type)
    excinfo = convention._get_excinfo_argument(builder.function)
    builder.call(function, [no_result, excinfo, *packed])
    if context.enable_nrt:
        for ty, value in given:
            context.nrt.decref(builder, ty, value)
    convention._return_errcode_raw(builder, RETCODE_USEREXC)


def _raiser(
    context: Context,
    builder: Builder,
    exception: type[BaseException],
    arguments: Sequence[tuple[Any, Any]],
    where: tuple[Any, str],
) -> Any:
    """A function that records the exception."""
    convention, module = CallConv(context), builder.module
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
    given = [value if ty is None else next(values) for ty, value in arguments]
    if context.enable_nrt:
        for (ty, _), value in zip(arguments, given, strict=True):
            if ty is not None:
                context.nrt.incref(inner, ty, value)
    nb_types = tuple(ty for ty, _ in arguments)
    loc, func_name = where
    convention.return_dynamic_user_exc(inner, exception, tuple(given), nb_types, loc, func_name)
    return function


def _drop_items(api: Any, objects: Any, count: Any) -> None:
    """Drop a reference to each item of a tuple, which has one of its own."""
    items = ir.FunctionType(api.pyobj, [api.pyobj, api.py_ssize_t])
    item = cgutils.get_or_insert_function(api.module, items, "PyTuple_GetItem")
    with cgutils.for_range(api.builder, count) as loop:
        api.decref(api.builder.call(item, [objects, loop.index]))


def handed_over(objects: tuple[Any, ...]) -> Iterator[Any]:
    """Yield the objects in order, without keeping those already yielded."""
    left = list(reversed(objects))
    del objects
    while left:
        yield left.pop()


class RaisesComputed(Lower):
    """Lowers a function so that exceptions with computed arguments lose no reference (D1)."""

    def lower_dynamic_raise(self, inst: Any) -> None:
        """Raise as Numba does, but drop the references of the variables."""
        arguments: list[tuple[Any, Any]] = []
        given: set[str] = set()
        for one in inst.exc_args:
            if not isinstance(one, Var):
                arguments.append((None, one))
                continue
            ty, value = self.typeof(one.name), self.loadvar(one.name)
            if one.name in given:  # passed twice, and dropped twice
                self.incref(ty, value)
            arguments.append((ty, value))
            given.add(one.name)
        where = (self.loc, self.func_ir.func_id.func_name)
        builder: Any = self.builder
        raise_dynamic(self.context, builder, inst.exc_class, arguments, where)


@register_pass(mutates_CFG=True, analysis_only=False)
class LoweringOfRaises(NativeLowering):
    """Numba's lowering pass, with `RaisesComputed` as its lowering class."""

    _name = "activerules_lowering_of_raises"

    @property
    def lowering_class(self) -> Any:
        """The class that lowers a function."""
        return RaisesComputed


class CallConv(CPUCallConv):
    """Numba's calling convention on the CPU, without the references its exceptions leak."""

    def emit_unwrap_dynamic_exception_fn(self, module: Any, st_type: Any, nb_types: Any) -> Any:
        """A function that makes Python objects of an exception's arguments.

        Numba's own returns a tuple and leaks a reference to each item, and its caller leaks the
        tuple. That caller only iterates over it, so an iterator that keeps no items will do.
        """
        packs = super().emit_unwrap_dynamic_exception_fn(module, st_type, nb_types)
        name = packs.name.replace(_PACKS, _UNWRAPS)
        if name in module.globals:
            return module.globals[name]
        function = ir.Function(module, packs.function_type, name)
        function.attributes.add("noinline")
        builder = entry_builder(function)
        api = self.context.get_python_api(builder)
        objects = builder.call(packs, function.args)
        with cgutils.if_unlikely(builder, cgutils.is_null(builder, objects)):
            builder.ret(objects)
        _drop_items(api, objects, ir.Constant(api.py_ssize_t, len(st_type)))
        here = api.import_module(self.context.insert_const_string(module, __name__))
        hand_over = api.object_getattr_string(here, handed_over.__name__)
        handed = api.call_function_objargs(hand_over, [objects])
        for used in (hand_over, here, objects):
            api.decref(used)
        builder.ret(handed)
        return function

    def unset_try_status(self, builder: Builder) -> None:
        """End a `try`."""
        if self.context.enable_nrt:
            caught = builder.load(self._get_excinfo_argument(builder.function))
            with cgutils.if_unlikely(builder, cgutils.is_not_null(builder, caught)):
                builder.call(_releaser(self.context, builder, caught.type), [caught])
        super().unset_try_status(builder)


def _releaser(context: Context, builder: Builder, excinfo_type: Any) -> Any:
    """A function that releases an exception with computed arguments.

    Like Numba's own code, it makes Python objects of the arguments and drops those. In functions
    compiled by Numba alone they are in a tuple, with an extra reference to each item.
    """
    module = builder.module
    name = CATCHES + hashlib.sha256(builder.function.name.encode()).hexdigest()[:16]
    if name in module.globals:
        return module.globals[name]
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [excinfo_type]), name)
    function.attributes.add("noinline")
    inner = entry_builder(function)
    (caught,) = function.args
    api = context.get_python_api(inner)

    def field(index: int) -> Any:
        return inner.load(cgutils.gep_inbounds(inner, caught, 0, index))

    count = field(ALLOC_FLAG_IDX)
    with inner.if_then(inner.icmp_signed(">", count, count.type(0))):
        lock = api.gil_ensure()
        unwraps = ir.FunctionType(api.pyobj, [api.voidptr]).as_pointer()
        unwrap = inner.bitcast(field(UNWRAP_FUNC_IDX), unwraps)
        objects = inner.call(unwrap, [field(HASH_BUF_IDX)])
        with inner.if_else(cgutils.is_not_null(inner, objects)) as (made, failed):
            with made:
                if_tuple = ir.FunctionType(ir.IntType(32), [api.pyobj])
                is_tuple = cgutils.get_or_insert_function(module, if_tuple, "PySequence_Check")
                packed = cgutils.is_true(inner, inner.call(is_tuple, [objects]))
                with cgutils.if_unlikely(inner, packed):
                    _drop_items(api, objects, inner.sext(count, api.py_ssize_t))
                api.decref(objects)
            with failed:
                api.err_clear()
        api.gil_release(lock)
        context.nrt.free(inner, inner.bitcast(caught, api.voidptr))
    inner.ret_void()
    return function

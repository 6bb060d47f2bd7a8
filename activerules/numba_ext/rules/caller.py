"""An LLVM function around a compiled rule function, while it is built.

Needs       the arguments of a marked call, with the annotations that the rule takes
Gives       `RuleCaller`: the function with its parameters, and calls of compiled functions in it;
            `NewLibrary`: the code library that it is built in
Invariants  W2 and W3 of `wrap`
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types

from activerules.annotations.activity import Active
from activerules.ir.tape.runtime import REFUSED
from activerules.numba_ext.codegen.link import leave_to_caller
from activerules.numba_ext.codegen.protocols import Context, Emit, Value, entry_builder
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.numba_ext.codegen.unlinked import compiling_for_cpu, cpu_context
from activerules.numba_ext.rules.checks import make_zero_of
from activerules.numba_ext.rules.compiled import (
    CalledFunction,
    RuleArgument,
    RuleParameter,
    one_shadow,
)
from activerules.numba_ext.rules.functions import compile_function
from activerules.numba_ext.rules.parts import unflattened
from activerules.values.kinds import items_of
from activerules.values.layout import Array, Node, layout_of
from activerules.values.walk import rebuild

I32 = ir.IntType(32)
POINTER = ir.IntType(8).as_pointer()


class NewLibrary:
    """A library for functions that the engine calls, and the module to build them in: for the CPU,
    or for the target of `context`.
    """

    def __init__(self, symbol: str, context: Context | None = None) -> None:
        self.context = context or cpu_context()
        self._library = self.context.codegen().create_library(symbol)
        if context is None:
            leave_to_caller(self._library)
        self.module = self._library.create_ir_module(symbol)

    def finished(self, callers: Sequence[RuleCaller]) -> Any:
        """The library of the functions that were built, compiled and linked with what they call."""
        for called in (each for caller in callers for each in caller.called):
            self._library.add_linking_library(called)
        self._library.add_ir_module(self.module)
        self._library.finalize()
        return self._library


class RuleCaller:
    """The base class of builders of such functions: their parameters, and the call of a rule.

    leading   the names of the pointers that come before the arguments
    lanes     the shadows of the Duplicated arguments, in order, once per lane
    scratch   types and values released when the function returns
    pending   types and values released only if it fails, when the engine gets no results
    retained  compiled functions, with arguments, that release the shadows retained while a rule
              runs; they do not raise
    """

    def __init__(
        self,
        library: NewLibrary,
        name: str,
        called: CalledFunction,
        leading: Sequence[str],
        width: int = 1,
    ) -> None:
        self.context = context = library.context
        self.marked, self.arguments = called.marked, called.arguments
        self.parameters, self.checks = called.parameters, called.checks
        self.return_type = called.marked.result_type
        shadowed = [a for a in self.arguments if a.activity == "duplicated"]
        primal_packer = context.get_arg_packer([a.passed for a in self.arguments])
        shadow_packer = context.get_arg_packer([a.shadow_type for a in shadowed])
        flat = [*primal_packer.argument_types]
        flat += [t for t in shadow_packer.argument_types for _ in range(width)]
        function_type = ir.FunctionType(I32, [POINTER] * len(leading) + flat)
        self.function = ir.Function(library.module, function_type, name)
        self.builder = entry_builder(self.function)
        self.em = Emit(context, self.builder)
        self.pointers = dict(zip(leading, self.function.args, strict=False))
        values = self.function.args[len(leading) :]
        count = len(primal_packer.argument_types)
        self.primals = primal_packer.from_arguments(self.builder, values[:count])
        self.lanes = [
            shadow_packer.from_arguments(self.builder, values[count + lane :: width])
            for lane in range(width)
        ]
        self.shadows = iter(self.lanes[0])
        self.scratch: list[tuple[types.Type, Any]] = []
        self.pending: list[tuple[types.Type, Any]] = []
        self.retained: list[tuple[Any, list[Any]]] = []
        self.called: dict[Any, None] = {}
        self._exit: tuple[Any, Any] | None = None

    def fields(self) -> list[list[Any]]:
        """The value of each argument, and its shadow if the rule takes one."""
        return [
            self._fields(a, primal) for a, primal in zip(self.arguments, self.primals, strict=True)
        ]

    def typed(self, fields: Sequence[Sequence[Any]], which: slice = slice(None)) -> list[Any]:
        """The values in `fields`, those of each argument that `which` selects, with their types."""
        return [
            each
            for values, argument in zip(fields, self.arguments, strict=True)
            for each in zip(values[which], argument.annotation.fields[which], strict=True)
        ]

    def annotated(self, fields: Sequence[Sequence[Any]]) -> list[Any]:
        """The parameters of the rule, built from the `fields` of the arguments."""
        return [self._annotated(each, [fields[i] for i in each.parts]) for each in self.parameters]

    def _annotated(self, parameter: RuleParameter, parts: Sequence[Sequence[Any]]) -> Any:
        annotation = parameter.annotation
        if not parameter.is_split:
            return self.annotate(annotation, *parts[0])
        whole = [self._whole(parameter.value_type, [values[0] for values in parts])]
        if annotation.dval is not None:
            whole.append(self._whole_shadow(parameter, parts))
        return self.annotate(annotation, *whole)

    def _whole(self, ty: types.Type, leaves: Sequence[Any]) -> Any:
        make = partial(self.context.make_tuple, self.builder)
        return unflattened(ty, iter(leaves), make)

    def _whole_shadow(self, parameter: RuleParameter, parts: Sequence[Sequence[Any]]) -> Any:
        """The shadow of a tuple; for a batch, a tuple of such shadows.

        In it, numbers whose derivatives are returned are zero, and so are integers; other parts
        without derivative are those of the value.
        """
        every, single = parameter.annotation.dval, one_shadow(parameter.annotation)

        def shadow(lane: int | None) -> Any:
            leaves = [
                self._leaf_of_shadow(self.arguments[i], values, lane)
                for i, values in zip(parameter.parts, parts, strict=True)
            ]
            return self._whole(single, leaves)

        if single == every:
            return shadow(None)
        lanes = [shadow(lane) for lane in range(len(items_of(every)))]
        return self.context.make_tuple(self.builder, every, lanes)

    def _leaf_of_shadow(self, part: RuleArgument, values: Sequence[Value], lane: int | None) -> Any:
        if part.annotation.kind is Active:
            return self.context.get_constant_null(part.value_type)
        if part.annotation.dval is None:
            return _without_integer(self.em, layout_of(part.value_type), values[0])
        return values[1] if lane is None else self.builder.extract_value(values[1], lane)

    def _fields(self, argument: RuleArgument, value: Value) -> list[Any]:
        if isinstance(argument.passed, types.Omitted):
            value = self.context.get_constant_generic(
                self.builder, argument.value_type, argument.passed.value
            )
        elif isinstance(argument.passed, types.Literal):
            # the value of a literal string is in its type alone
            value = self.context.cast(self.builder, value, argument.passed, argument.value_type)
        fields = [value if argument.needs_scratch else self.borrowed(argument.value_type, value)]
        if argument.annotation.dval is not None:
            fields.append(self._tangent(argument.annotation.dval, self.shadow(argument, value)))
        return fields

    def _tangent(self, ty: types.Type, shadow: Value) -> Value:
        """A shadow whose integers are zero: a rule may multiply by them, as by its numbers."""
        return rebuild(self.em, layout_of(ty), (shadow,), _without_integer)

    def shadow(self, argument: RuleArgument, value: Value) -> Any:
        """The shadow of an argument, as passed to the rule."""
        if argument.needs_scratch:
            return self.zero_shadow(argument, value)
        return self.without_owner(argument.shadow_type, next(self.shadows))

    def borrowed(self, value_type: types.Type, value: Value) -> Value:
        """The value of an argument, as passed to the rule."""
        return value

    def without_owner(self, value_type: types.Type, value: Value) -> Value:
        """The value with arrays that own nothing, for memory that outlives the call (W4)."""
        return rebuild(self.em, layout_of(value_type), (value,), _without_owner)

    def annotate(self, annotation: AnnotationType, *fields: Any) -> Value:
        """An annotation struct, which borrows its fields."""
        struct = cgutils.create_struct_proxy(annotation)(self.context, self.builder)
        for name, field in zip(annotation.kind.__slots__, fields, strict=True):
            setattr(struct, name, field)
        return struct._getvalue()

    def zero_shadow(self, argument: RuleArgument, value: Value) -> Any:
        """A scratch shadow of zeros, released after the call (W2)."""
        zero = self.helper(make_zero_of, argument.value_type)
        return self.made_for(argument.shadow_type, zero, [value])

    def made_for(self, wanted: types.Type, compiled: Any, args: Sequence[Any]) -> Any:
        """The value that a compiled function makes to replace an argument; released after the call.

        For a record the function makes an array that owns it.
        """
        value, ty = self.call(compiled, args), compiled.signature.return_type
        self.scratch.append((ty, value))
        return self.as_passed(wanted, value, ty)

    def as_passed(self, wanted: types.Type, value: Value, ty: types.Type) -> Any:
        """A value made to replace an argument, with the type in which it is passed."""
        if isinstance(wanted, types.Record):
            return self.em.array(ty, value).data
        return self.cast(value, ty, wanted)

    def cast(self, value: Value, ty: types.Type, wanted: types.Type) -> Any:
        """The value as one of another type. Numba has no cast to the type of an array in a record,
        whose values are those of any contiguous array.
        """
        if isinstance(ty, types.Array) and isinstance(wanted, types.NestedArray):
            return value
        return self.context.cast(self.builder, value, ty, wanted)

    def helper(self, function: Any, *args: types.Type) -> Any:
        """The compile result of a small function that is called besides the rule."""
        with compiling_for_cpu():
            return compile_function(function, args, self.marked)

    def check(self, compiled: Any, args: Sequence[Any]) -> Any:
        """Call a function that raises where a rule is misused; no `try` of the program sees it."""
        return self.call(compiled, args, failing=I32(REFUSED))

    def call(
        self,
        compiled: Any,
        args: Sequence[Any],
        *,
        failing: Value | None = None,
        check: Callable[[], None] | None = None,
    ) -> Any:
        """Call a compiled function; if it fails, return its status, or that in `failing` (W3),
        after `check` has emitted code.
        """
        builder, fndesc = self.builder, compiled.fndesc
        callee = self._declared(compiled)
        status, result = self.context.call_conv.call_function(
            builder, callee, fndesc.restype, fndesc.argtypes, args
        )
        with builder.if_then(status.is_error, likely=False):
            if check is not None:
                check()
            address = self.pointers["excinfo"]
            exception_type = status.excinfoptr.type.as_pointer()
            builder.store(status.excinfoptr, builder.bitcast(address, exception_type))
            returned: Value = status.code if failing is None else failing
            if self._exit is None:
                self._fail(returned)
            else:
                block, code = self._exit
                builder.store(returned, code)
                builder.branch(block)
        return result

    def _fail(self, code: Value) -> None:
        self.release_retained()
        self._release(*self.scratch, *self.pending)
        self.builder.ret(code)

    @contextmanager
    def one_exit(self) -> Generator[None, None, None]:
        """Within it, calls that fail share the code that releases memory: nothing that has to be
        released may be added. For many calls, such code is most of a function.
        """
        builder = self.builder
        self._exit = builder.append_basic_block("exit"), cgutils.alloca_once(builder, I32)
        yield
        (block, code), self._exit = self._exit, None
        with builder.goto_block(block):
            self._fail(builder.load(code))

    def _declared(self, compiled: Any) -> Any:
        self.called[compiled.library] = None
        return self.context.declare_function(self.builder.module, compiled.fndesc)

    def finish(self) -> None:
        """Release scratch memory and return the status 0."""
        self._release(*self.scratch)
        self.builder.ret(I32(0))

    def release_retained(self) -> None:
        """Release the shadows that were retained while a rule runs."""
        for compiled, args in self.retained:
            callee = self._declared(compiled)
            restype, argtypes = compiled.fndesc.restype, compiled.fndesc.argtypes
            self.context.call_conv.call_function(self.builder, callee, restype, argtypes, args)

    def _release(self, *values: tuple[types.Type, Any]) -> None:
        for value_type, value in values:
            self.context.nrt.decref(self.builder, value_type, value)

    def typed_pointer(self, name: str, llvm_type: Any) -> Value:
        """One of the leading pointers, as a pointer to a type."""
        return self.builder.bitcast(self.pointers[name], llvm_type.as_pointer())

    def load_result(self, name: str) -> Value:
        """A value of the function's return type, as its calling convention stores it."""
        return_type = self.return_type
        address = self.typed_pointer(name, self.context.get_return_type(return_type))
        return self.context.get_returned_value(
            self.builder, return_type, self.builder.load(address)
        )

    def store_result(self, name: str, value: Value, value_type: types.Type) -> None:
        """The counterpart of `load_result`; takes over the reference."""
        return_type = self.return_type
        value = self.cast(value, value_type, return_type)
        stored = self.context.get_return_value(self.builder, return_type, value)
        self.builder.store(stored, self.typed_pointer(name, stored.type))


def _without_integer(em: Emit, node: Node, value: Value) -> Value:
    ty = node.numba_type
    is_integer = isinstance(ty, types.Integer | types.Boolean)
    return em.context.get_constant_null(ty) if is_integer else value


def _without_owner(em: Emit, node: Node, value: Value) -> Value:
    if not isinstance(node, Array):
        return value
    array = cgutils.create_struct_proxy(node.numba_type)(em.context, em.builder, value)
    array.meminfo = array.meminfo.type(None)
    return array._getvalue()

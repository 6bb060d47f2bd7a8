"""The call of a derivative from compiled code.

The derivative is compiled while the call is typed, so that our errors reach the user as they are;
its IR is linked while the call is lowered. The caller of this module says, once, who compiles
derivatives (`use_compiler`): the pipeline stands above this layer.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import intrinsic

from activerules.annotations.activity import Active, Const
from activerules.errors import ActiverulesError, ActivityError, NotYetSupported
from activerules.numba_ext import checks, link
from activerules.numba_ext.checks import Argument
from activerules.numba_ext.gradient import OUT_OF_MEMORY, ActivityName, Gradient, GradientCompiler
from activerules.numba_ext.overloads import IGNORE_DEFINITIONS
from activerules.numba_ext.types import AnnotationType, ModeType, marker_class

_compilers: list[GradientCompiler] = []


def use_compiler(compiler: GradientCompiler) -> None:
    """Say who compiles derivatives; the last one said counts."""
    _compilers[:] = [compiler]


_libraries: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def _library(context: Any, gradient: Gradient) -> Any:
    """Return the code library of a derivative; compiled once, however many calls link it."""
    known = _libraries.setdefault(context, {})
    if not known:
        known["ignore"] = link.make_library(context, "activerules.ignore", IGNORE_DEFINITIONS)
    if gradient.symbol not in known:
        known[gradient.symbol] = link.make_library(
            context, gradient.symbol, gradient.text, (*gradient.libraries, known["ignore"])
        )
    return known[gradient.symbol]


@dataclass(frozen=True)
class _Call:
    """A typed call: what is differentiated, by what, and the derivative that was compiled."""

    arguments: tuple[Argument, ...]
    gradient: Gradient
    returns_primal: bool

    @property
    def result_type(self) -> Any:
        """Numba type of what `autodiff` returns."""
        derivatives = types.Tuple([_derivative_type(a) for a in self.arguments])
        if self.returns_primal:
            return types.Tuple([derivatives, self.gradient.result_type])
        return derivatives


@intrinsic
def call_gradient(typing_context, mode, function, result, args):
    """Differentiate `function` at the annotated tuple `args`; `result` is a marker class or
    None.
    """
    call = _typed_call(mode, function, result, args)

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        return _Emitter(context, builder, call).emit(typed.args[3], values[3])

    return signature(call.result_type, mode, function, result, args), codegen


def _typed_call(mode: Any, function: Any, result: Any, args: Any) -> _Call:
    if not isinstance(mode, ModeType):
        raise ActivityError("the first argument of autodiff is a mode such as Reverse")
    mode.value.require_supported()
    if not isinstance(function, types.Dispatcher):
        raise ActivityError(f"inside @njit, autodiff takes an @njit function, not {function}")
    dispatcher = function.dispatcher
    names = checks.read_arity(dispatcher, len(args))
    arguments = checks.read_arguments(names, tuple(args))
    gradient = _compiled(dispatcher, arguments, _return_activity(result))
    return _Call(arguments, gradient, mode.value.returns_primal)


def _return_activity(result: Any) -> ActivityName | None:
    marker = marker_class(result)
    if marker is Active:
        return "active"
    if marker is Const:
        return "const"
    if marker is None:
        return None
    raise NotYetSupported(
        f"a {marker.__name__} return is not yet supported",
        instead=["Active for a float", "Const for a function that writes into its arguments"],
    )


def _compiled(
    dispatcher: Any, arguments: Sequence[Argument], return_activity: ActivityName | None
) -> Gradient:
    """Compile the derivative; an error says which call it was for."""
    (compiler,) = _compilers
    activities: tuple[ActivityName, ...] = tuple(a.activity for a in arguments)
    argtypes = tuple(argument.numba_type for argument in arguments)
    try:
        gradient = compiler(dispatcher, argtypes, activities, return_activity, {})
        if gradient.return_activity == "active":
            checks.require_float_return(dispatcher, gradient.result_type)
    except ActiverulesError as error:
        code = dispatcher.py_func.__code__
        call = f"{dispatcher.py_func.__name__}({', '.join(map(str, arguments))})"
        location = f"{code.co_filename}:{code.co_firstlineno}"
        error.where.insert(0, ("while differentiating", call, location))
        raise
    return gradient


def _derivative_type(argument: Argument) -> Any:
    if argument.activity != "active":
        return types.none
    return _derivative_of(argument.numba_type)


def _derivative_of(found: Any) -> Any:
    """Type of the derivative by a value: the value's own, with None in place of integers."""
    if isinstance(found, types.Float):
        return found
    if isinstance(found, types.BaseTuple):
        items = tuple(map(_derivative_of, checks.items_of(found)))
        return types.BaseTuple.from_types(items, getattr(found, "instance_class", None))
    return types.none


class _Emitter:
    """Emits one call of a derivative into the function that is being lowered."""

    def __init__(self, context: Any, builder: Any, call: _Call) -> None:
        self.context = context
        self.builder = builder
        self.call = call
        self.gradient = call.gradient

    def emit(self, args_type: Any, args: Any) -> Any:
        """Check, link, call; returns the LLVM value of the result tuple."""
        values = [
            self._fields(ty, value)
            for ty, value in zip(args_type, cgutils.unpack_tuple(self.builder, args), strict=True)
        ]
        overlap = checks.check_memory(
            self.context, self.builder, self.call.arguments, values, self.gradient
        )
        self.context.add_linking_libs([_library(self.context, self.gradient)])
        parameters = self._parameters(values)
        derivatives = self._derivative_memory(values)
        status = self._run(parameters, derivatives, overlap)
        self._propagate(status, parameters[self._excinfo_index])
        return self._result(parameters[0], derivatives)

    @property
    def _excinfo_index(self) -> int:
        return 2 if self.gradient.parameters[0] == "duplicated" else 1

    def _fields(self, ty: Any, value: Any) -> tuple[Any, Any]:
        """Primal and shadow of one argument; the shadow is None if it has none."""
        if not isinstance(ty, AnnotationType):
            target = types.unliteral(ty)
            return self.context.cast(self.builder, value, ty, target), None
        native = cgutils.create_struct_proxy(ty)(self.context, self.builder, value)
        return native.val, native.dval if ty.dval is not None else None

    def _parameters(self, values: Sequence[tuple[Any, Any]]) -> list[Any]:
        """Primal parameters of the derivative, each followed by its shadow if it is Duplicated."""
        activities = iter(self.gradient.parameters)
        parameters = [*self._return_memory(next(activities)), self._excinfo(next(activities))]
        for argument, (primal, shadow) in zip(self.call.arguments, values, strict=True):
            slots = self._flattened(argument, primal)
            shadow_slots = slots if shadow is None else self._flattened(argument, shadow)
            for slot, shadow_slot in zip(slots, shadow_slots, strict=True):
                parameters.append(slot)
                if next(activities) == "duplicated":
                    parameters.append(shadow_slot)
        return parameters

    def _flattened(self, argument: Argument, value: Any) -> Sequence[Any]:
        packer = self.context.get_arg_packer([argument.numba_type])
        return packer.as_arguments(self.builder, [value])

    def _return_memory(self, activity: ActivityName) -> Iterator[Any]:
        """Memory for the primal's result and for its shadow, which holds the seed."""
        pointer = self.context.call_conv.get_return_type(self.gradient.result_type)
        for _ in range(2 if activity == "duplicated" else 1):
            memory = cgutils.alloca_once(self.builder, pointer.pointee)
            self.builder.store(pointer.pointee(None), memory)
            yield memory
        if self.gradient.return_activity == "active":
            self.builder.store(pointer.pointee(1.0), memory)

    def _excinfo(self, activity: ActivityName) -> Any:
        excinfo_type = self.context.call_conv.get_function_type(types.none, ()).args[1].pointee
        excinfo = cgutils.alloca_once(self.builder, excinfo_type)
        self.builder.store(excinfo_type(None), excinfo)
        return excinfo

    def _derivative_memory(self, values: Sequence[tuple[Any, Any]]) -> Any:
        floats = []
        for argument, (primal, _) in zip(self.call.arguments, values, strict=True):
            if argument.activity == "active":
                slots = self._flattened(argument, primal)
                floats += [slot.type for slot in slots if _is_float(slot.type)]
        return cgutils.alloca_once(self.builder, ir.LiteralStructType(floats))

    def _run(self, parameters: Sequence[Any], derivatives: Any, overlap: Any) -> Any:
        stats = ir.Constant(cgutils.voidptr_t, None)
        arguments = [*parameters, derivatives, stats]
        function_type = ir.FunctionType(cgutils.int32_t, [a.type for a in arguments])

        def run(symbol: str | None) -> Any:
            function = cgutils.get_or_insert_function(self.builder.module, function_type, symbol)
            return self.builder.call(function, arguments)

        if overlap is cgutils.false_bit:
            return run(self.gradient.symbol)
        status = cgutils.alloca_once(self.builder, cgutils.int32_t)
        with self.builder.if_else(overlap, likely=False) as (conservatively, apart):
            with conservatively:
                self.builder.store(run(self.gradient.conservative_symbol), status)
            with apart:
                self.builder.store(run(self.gradient.symbol), status)
        return self.builder.load(status)

    def _propagate(self, code: Any, excinfo: Any) -> None:
        convention = self.context.call_conv
        out_of_memory = self.builder.icmp_unsigned("==", code, code.type(OUT_OF_MEMORY))
        with cgutils.if_unlikely(self.builder, out_of_memory):
            message = "the tape of a derivative does not fit into memory"
            convention.return_user_exc(self.builder, MemoryError, (message,))
        status = convention._get_return_status(self.builder, code, self.builder.load(excinfo))
        with cgutils.if_unlikely(self.builder, status.is_error):
            convention.return_status_propagate(self.builder, status)

    def _result(self, return_memory: Any, derivatives: Any) -> Any:
        result_type = self.gradient.result_type
        loaded = self.builder.load(return_memory)
        primal = self.context.get_returned_value(self.builder, result_type, loaded)
        floats = iter(cgutils.unpack_tuple(self.builder, self.builder.load(derivatives)))
        tuple_type = types.Tuple([_derivative_type(a) for a in self.call.arguments])
        gradient = self._rebuilt(tuple_type, floats)
        if self.call.returns_primal:
            return self.context.make_tuple(self.builder, self.call.result_type, [gradient, primal])
        self.context.nrt.decref(self.builder, result_type, primal)
        return gradient

    def _rebuilt(self, found: Any, floats: Iterator[Any]) -> Any:
        """Put derivatives, in order, into the structure of the values they belong to."""
        if isinstance(found, types.Float):
            return next(floats)
        if isinstance(found, types.BaseTuple):
            items = [self._rebuilt(item, floats) for item in checks.items_of(found)]
            return self.context.make_tuple(self.builder, found, items)
        return self.context.get_dummy_value()


def _is_float(found: ir.Type) -> bool:
    return isinstance(found, ir.FloatType | ir.DoubleType)

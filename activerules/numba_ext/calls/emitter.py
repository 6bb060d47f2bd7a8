"""The call of a compiled derivative, emitted into the function that is being lowered.

Needs       a typed `DerivativeCall`; primal and shadows of every argument as LLVM values (`Field`)
Gives       `Emitter.emit`: checks, the call, its error paths, and the derivatives in the structure
            of the arguments; `link_derivative` adds the derivative's own code
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from llvmlite import ir
from numba.core import callconv, cgutils, types

from activerules.annotations.activity import BATCHED
from activerules.errors import NotAFloatReturn
from activerules.ir.llvm.names import FAILED_AT
from activerules.ir.tape.runtime import OUT_OF_MEMORY, TOO_DEEP
from activerules.numba_ext.calls import memory, rule_errors
from activerules.numba_ext.calls.outline import return_error
from activerules.numba_ext.codegen import chunks, link
from activerules.numba_ext.codegen.machine_code import MachineCode
from activerules.numba_ext.codegen.protocols import Context, Emit, Value, call_named
from activerules.numba_ext.codegen.threads import THREAD_COUNT, link_threads
from activerules.numba_ext.codegen.types import AnnotationType, read_marker
from activerules.numba_ext.codegen.unoptimised import AD_TARGET
from activerules.numba_ext.substitutes.vector_math import link_vector_math
from activerules.numba_ext.target.derivative import (
    ArgumentsOverlap,
    CompiledDerivative,
)
from activerules.values import dict_runtime, object_runtime
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import derivative_type, is_number, is_number_array, leaves_of
from activerules.values.layout import Node, Number, layout_of
from activerules.values.shadows import constant_where_same, zero_shadow
from activerules.values.walk import rebuild

Field = tuple[Value, Sequence[Value]]
"""An argument as LLVM values: its primal, and its shadows, one per lane; () if it has none."""

_BY_VALUE = ("active", "mixed")
BY_SHADOW = ("duplicated", "mixed")
RETURNED_NONE = "the differentiated function returned None at this point, which has no derivative"
# errors of the derivative itself: status, exception, message
_ENDS = (
    (OUT_OF_MEMORY, MemoryError, "the tape of a derivative does not fit into memory"),
    (TOO_DEEP, RecursionError, "the recursion of a derivative does not fit onto the stack"),
    (callconv.RETCODE_NONE.constant, NotAFloatReturn, RETURNED_NONE),
)
_WHERE_CALLED = (
    (dict_runtime.PREFIX, dict_runtime.link_into),
    (object_runtime.PREFIX, object_runtime.link_into),
    (FAILED_AT, rule_errors.link_into),
)
"""The functions that link definitions, by the names in a derivative's text that need them."""
_libraries: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class DerivativeCall:
    """A typed call: the arguments of the differentiated function, and its derivative.

    holomorphic   whether f'(z) is asked for: the conjugate of what the sweep gives for the real
                  part of f, by the equations of Cauchy and Riemann
    """

    arguments: tuple[ArgumentSpec, ...]
    gradient: CompiledDerivative
    holomorphic: bool = field(default=False, kw_only=True)

    @property
    def derivative_types(self) -> tuple[Any, ...]:
        """Numba types of the derivative returned for each argument: None unless it is Active."""
        return tuple(
            derivative_type(a.numba_type) if a.activity in _BY_VALUE else types.none
            for a in self.arguments
        )


def link_derivative(context: Context, gradient: CompiledDerivative) -> None:
    """Link a derivative into the function being lowered; several calls share one compiled copy."""
    known = _libraries.setdefault(context, {})
    if context.target_name == AD_TARGET:
        # differentiated again: plain IR, in which functions the engine knows stay declarations
        if gradient.symbol not in known:
            known[gradient.symbol] = link.make_source(
                context, gradient.symbol, gradient.text, gradient.again.called
            )
        sources = gradient.again.sources
        for symbol, make in sources.items():
            if symbol not in known:
                known[symbol] = make(context)
        context.add_linking_libs([known[symbol] for symbol in (gradient.symbol, *sources)])
        return
    if "vector_math" in gradient.options:
        link_vector_math(context.active_code_library)
    if THREAD_COUNT in gradient.text:
        link_threads(context.active_code_library)
    # Support separately, too: a library contains only those of its dependencies that it uses.
    support = [link.link_support(context, "activerules.support", _support)]
    support += [link_into(context) for name, link_into in _WHERE_CALLED if name in gradient.text]
    if gradient.symbol not in known:
        called = [library for library in gradient.libraries if isinstance(library, MachineCode)]
        linked = [library for library in gradient.libraries if not isinstance(library, MachineCode)]
        known[gradient.symbol] = link.make_library(
            context, gradient.symbol, gradient.text, (*linked, *support), called
        )
    context.add_linking_libs([known[gradient.symbol]])


def _support(context: Context) -> str:
    """The IR of the functions that any derivative may call; defines the variables they share."""
    from activerules.numba_ext.calls import support

    link.define(context, "activerules.chunks", chunks.VARIABLES)
    return support.TEXT


def all_fields(em: Emit, args: Sequence[Any], packed: Value) -> list[Field]:
    """Primal and shadows of every argument of a call; the activity of the return has none."""
    _, annotated = read_marker(args)
    values = cgutils.unpack_tuple(em.builder, packed, len(args))[len(args) - len(annotated) :]
    return [_field(em, ty, value) for ty, value in zip(annotated, values, strict=True)]


def _field(em: Emit, ty: Any, value: Value) -> Field:
    """Primal and shadows of one annotated argument."""
    if not isinstance(ty, AnnotationType):
        return value, ()
    native = cgutils.create_struct_proxy(ty)(em.context, em.builder, value)
    if ty.dval is None:
        return native.val, ()
    if ty.kind in BATCHED:
        return native.val, tuple(cgutils.unpack_tuple(em.builder, native.dval))
    return native.val, (native.dval,)


def with_new_shadows(
    em: Emit, arguments: Sequence[ArgumentSpec], primals: Sequence[Value]
) -> list[Field]:
    """Primals of plain arguments, each with a new shadow of zeros if it needs one."""
    return [
        (
            primal,
            (zero_shadow(em, argument.numba_type, primal),)
            if argument.activity in BY_SHADOW
            else (),
        )
        for argument, primal in zip(arguments, primals, strict=True)
    ]


def is_batched(args: Sequence[Any]) -> bool:
    """Whether any argument of a call has several shadows."""
    return any(isinstance(ty, AnnotationType) and ty.kind in BATCHED for ty in args)


class Emitter:
    """Emits one call of a derivative into the function that is being lowered.

    With `owns_shadows` the shadows are released where the call fails.
    """

    def __init__(self, em: Emit, call: DerivativeCall, *, owns_shadows: bool = False) -> None:
        self.em, self.context, self.builder = em, em.context, em.builder
        self.arguments = call.arguments
        self.owned = memory.owned_shadows(call.gradient, call.arguments)
        self.derivative_types = call.derivative_types
        self.gradient = call.gradient
        self.holomorphic = call.holomorphic
        self.owns_shadows = owns_shadows

    def emit(self, fields: Sequence[Field], stats: Any = None) -> tuple[list[list[Any]], Any]:
        """Emit checks and call; returns, for each lane, the derivative with respect to each
        argument, and what the primal returned.

        `stats` points to an i64 that receives the bytes of the tape.
        """
        fields = self._with_scratch(fields)

        def release() -> None:
            self._release(fields, everything=self.owns_shadows)

        overlap = cgutils.false_bit
        if not self._is_apart():
            overlap = memory.check_memory(self.em, self.arguments, fields, self.gradient, release)
        link_derivative(self.context, self.gradient)
        returned, excinfo = self._return_memory(), self._excinfo()
        derivatives = self.derivative_memory(fields)
        parameters = list(self._parameters(fields, returned, excinfo))
        if stats is None:
            stats = cgutils.get_null_value(cgutils.voidptr_t)
        unexpected = self._unexpected(parameters, overlap)
        if self.gradient.versions.deferred:
            self.em.raise_if(unexpected, ArgumentsOverlap, (), release)
            unexpected = cgutils.false_bit
        status = self._run([*parameters, derivatives, stats], unexpected)
        self._propagate(status, excinfo, release)
        self._release(fields, everything=False)
        primal = self.context.get_returned_value(
            self.builder, self.gradient.result_type, self.builder.load(returned[0])
        )
        return self.derivatives(derivatives), primal

    def _is_apart(self) -> bool:
        """Whether the checks of memory hold: shadows are new and contiguous, and it makes no
        difference whether primals overlap.
        """
        argtypes: list[Any] = [
            ty for a in self.arguments if a.activity in BY_SHADOW for ty in leaves_of(a.numba_type)
        ]
        contiguous = all(
            is_number(ty) or (is_number_array(ty) and ty.layout in "CF") for ty in argtypes
        )
        if any(self.gradient.scratch):
            return False
        return self.owns_shadows and self.gradient.versions.conservative is None and contiguous

    def _release(self, fields: Sequence[Field], *, everything: bool) -> None:
        """Release the scratch shadows, or all shadows if the emitter owns them."""
        for argument, (_, lanes), own in zip(self.arguments, fields, self.owned, strict=True):
            if own or everything:
                for shadow in lanes:
                    memory.release_shadow(self.em, argument.numba_type, shadow)

    def _with_scratch(self, fields: Sequence[Field]) -> list[Field]:
        """`fields`, with new zero shadows for Const arguments that need one, and for arrays that
        turn out to be constant at run time.
        """
        each = zip(self.arguments, fields, self.owned, strict=True)
        return [
            (primal, self._owned_lanes(argument.numba_type, primal, lanes) if own else lanes)
            for argument, (primal, lanes), own in each
        ]

    def _owned_lanes(self, ty: Any, primal: Value, lanes: Sequence[Any]) -> Sequence[Any]:
        if lanes:
            return [constant_where_same(self.em, ty, primal, shadow) for shadow in lanes]
        return [zero_shadow(self.em, ty, primal) for _ in range(self.gradient.width)]

    def _parameters(
        self, fields: Sequence[Field], returned: Sequence[Any], excinfo: Value
    ) -> Iterator[Any]:
        """Primal parameters of the derivative, each followed by its tangents or shadows if it is
        Duplicated.
        """
        activities = iter(self.gradient.parameters)
        yield from returned if next(activities) == "duplicated" else returned[:1]
        yield excinfo
        next(activities)
        for argument, (primal, lanes) in zip(self.arguments, fields, strict=True):
            slots = self._flattened(argument, primal)
            lane_slots = [self._flattened(argument, lane) for lane in lanes]
            for k, slot in enumerate(slots):
                yield slot
                if next(activities) == "duplicated":
                    yield from (lane[k] for lane in lane_slots)

    def _flattened(self, argument: ArgumentSpec, value: Value) -> Sequence[Any]:
        packer = self.context.get_arg_packer([argument.numba_type])
        return packer.as_arguments(self.builder, [value])

    def _return_memory(self) -> list[Any]:
        """Memory for the primal's result, and for its shadow in each lane, which holds the seed."""
        ty = self.context.call_conv.get_return_type(self.gradient.result_type).pointee
        seed = ty(None)
        if self.gradient.return_activity == "active":
            seed = ty([1.0, 0.0]) if self.holomorphic else ty(1.0)
        return [self._stored(value) for value in (ty(None), *[seed] * self.gradient.width)]

    def _excinfo(self) -> Any:
        function_type = self.context.call_conv.get_function_type(types.none, ())
        return self._stored(function_type.args[1].pointee(None))

    def _stored(self, value: Value) -> Any:
        pointer = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, pointer)
        return pointer

    def derivative_memory(self, fields: Sequence[Field]) -> Value:
        """Memory for the derivatives with respect to numbers; those of all lanes side by side."""
        floats = []
        for argument, (primal, _) in zip(self.arguments, fields, strict=True):
            if argument.activity in _BY_VALUE:
                slots = self._flattened(argument, primal)
                floats += [
                    s.type for s in slots if isinstance(s.type, ir.FloatType | ir.DoubleType)
                ]
        each = [ty for ty in floats for _ in range(self.gradient.width)]
        return cgutils.alloca_once(self.builder, ir.LiteralStructType(each))

    def derivatives(self, address: Value) -> list[list[Any]]:
        """Load from that memory: per lane, the derivative with respect to each argument."""
        floats = cgutils.unpack_tuple(self.builder, self.builder.load(address))
        width = self.gradient.width
        lanes = [iter(floats[lane::width]) for lane in range(width)]
        return [[self._rebuilt(ty, lane) for ty in self.derivative_types] for lane in lanes]

    def _unexpected(self, parameters: Sequence[Value], overlap: Value) -> Value:
        """Whether the arguments overlap or violate an assumption of the derivative."""
        symbol = self.gradient.versions.assumption
        if symbol is None:
            return overlap
        holds = call_named(self.builder, symbol, cgutils.bool_t, parameters)
        return self.builder.or_(overlap, self.builder.not_(holds))

    def _run(self, arguments: Sequence[Any], overlap: Value, suffix: str = "") -> Any:
        def run(stem: str | None) -> Any:
            return call_named(self.builder, f"{stem}{suffix}", cgutils.int32_t, arguments)

        if overlap is cgutils.false_bit:
            return run(self.gradient.symbol)
        status = cgutils.alloca_once(self.builder, cgutils.int32_t)
        with self.builder.if_else(overlap, likely=False) as (conservatively, apart):
            with conservatively:
                self.builder.store(run(self.gradient.versions.conservative), status)
            with apart:
                self.builder.store(run(self.gradient.symbol), status)
        return self.builder.load(status)

    def _propagate(self, code: Value, excinfo: Value, release: Callable[[], None]) -> None:
        convention = self.context.call_conv
        for number, kind, message in _ENDS:
            ended = self.builder.icmp_unsigned("==", code, code.type(number))
            self.em.raise_if(ended, kind, (message,), release)
        status = convention._get_return_status(self.builder, code, self.builder.load(excinfo))
        with cgutils.if_unlikely(self.builder, status.is_error):
            release()
            return_error(self.context, self.builder, status)

    def _rebuilt(self, ty: Any, floats: Iterator[Any]) -> Any:
        """Derivatives, given in order, in the structure of the values they belong to."""

        def part(em: Emit, leaf: Node) -> Any:
            if not isinstance(leaf, Number):
                return self.context.get_dummy_value()
            if isinstance(leaf.numba_type, types.Float):
                return next(floats)
            number = self.context.make_complex(self.builder, leaf.numba_type)
            number.real, number.imag = next(floats), next(floats)
            if self.holomorphic:
                number.imag = self.builder.fneg(number.imag)
            return number._getvalue()

        return rebuild(self.em, layout_of(ty), (), part)

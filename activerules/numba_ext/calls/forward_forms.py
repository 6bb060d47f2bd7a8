"""The compiled forms of forward mode: `autodiff(Forward, ...)` and `jvp`.

As in `intrinsics`, the derivative is compiled while the call is typed and linked while it is
lowered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.signature import ForwardWithPrimal, Mode
from activerules.errors import ActivityError, ArityError
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.emitter import Field
from activerules.numba_ext.calls.forward_checks import (
    read_forward_arguments,
    require_tangent,
    require_tangible,
    wants_tangent,
)
from activerules.numba_ext.calls.forward_emitter import (
    ForwardCall,
    ForwardEmitter,
    require_nothing_lost,
)
from activerules.numba_ext.calls.intrinsics import compiled, derivative_form, dispatcher_of_type
from activerules.numba_ext.codegen.protocols import Emit, Value, emitting
from activerules.numba_ext.codegen.types import read_marker, runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import CompiledDerivative, DerivativeSpec
from activerules.values.argument import ArgumentSpec, types_and_activities
from activerules.values.kinds import items_of
from activerules.values.layout import CONSTANT


def forward_form(mode: Any, function: Any, args: Sequence[Any]) -> Any:
    """`autodiff(Forward, function, [return activity,] *annotated)`."""
    marker, annotated = read_marker(args)
    dispatcher = dispatcher_of_type(function)
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(annotated))
        checks.require_marked(dispatcher, mode.value, names, annotated)
        read = read_forward_arguments(names, annotated)
    gradient = compiled_forward(
        dispatcher, read.arguments, wants_tangent(marker), read.width, mode=mode.value
    )
    call = ForwardCall(read.arguments, gradient, shadows=read.shadows, batched=read.batched)

    def emit(em: Emit, fields: list[Field]) -> tuple[Value, Value]:
        primal, tangent = ForwardEmitter(em, call).push(fields)
        return tangent, primal

    return derivative_form(mode, function, args, call.tangent_type, gradient.result_type, emit)


def compiled_forward(
    dispatcher: Any,
    arguments: Sequence[ArgumentSpec],
    wanted: bool,
    width: int,
    *,
    mode: Mode = ForwardWithPrimal,
    again: bool = False,
) -> CompiledDerivative:
    """Compile the derivative; errors name the call that needs it.

    `again` says that the derivative will itself be differentiated, as when the calling code is. It
    then calls the scalar functions that have derivatives, whatever the mode.
    """
    again = again or compiles_for_derivative()
    spec = DerivativeSpec(
        *types_and_activities(arguments),
        None if wanted else "const",
        mode="forward",
        options=mode.options - {"vector_math"} if again else mode.options,
        width=width,
        again=again,
        needs_primal=mode.returns_primal,
    )
    return compiled(dispatcher, arguments, spec)


def require_pairs(primals: Any, tangents: Any, kind: type) -> None:
    """Raise unless both are tuples, of the class `kind`, with as many entries."""
    if not isinstance(primals, kind) or not isinstance(tangents, kind):
        raise ActivityError(
            "primals and tangents of jvp are tuples, one entry per argument",
            instead=["jvp(f, (x, y), (x_dot, y_dot))"],
        )
    if len(primals) != len(tangents):
        raise ArityError(
            f"jvp has {len(primals)} primals and {len(tangents)} tangents",
            instead=["a tangent for each primal, None for one that is constant"],
        )


def jvp_form(typing_context, function, primals, tangents):
    """`jvp(function, primals, tangents)`."""
    require_pairs(primals, tangents, types.BaseTuple)
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(primals))
    argtypes = [runtime_type(ty) for ty in items_of(primals)]
    tangent_types = [runtime_type(ty) for ty in items_of(tangents)]
    arguments, shadows = [], []
    for name, ty, tangent in zip(names, argtypes, tangent_types, strict=True):
        constant = isinstance(tangent, types.NoneType) or isinstance(ty, CONSTANT)
        if not constant:
            with error_context.of_call(dispatcher):
                require_tangible(name, ty)
                require_tangent(name, ty, tangent)
        arguments.append(ArgumentSpec(name, ty, "const" if constant else "duplicated"))
        shadows.append(() if constant else (tangent,))
    gradient = compiled_forward(dispatcher, arguments, True, 1)
    call = ForwardCall(tuple(arguments), gradient, shadows=tuple(shadows))

    result_type = types.Tuple([gradient.result_type, call.tangent_type])

    def emit(em: Emit, values: Sequence[Value]) -> Value:
        context, builder = em.context, em.builder
        parts = [cgutils.unpack_tuple(builder, packed, len(primals)) for packed in values[1:]]
        for argument, ty, tangent in zip(arguments, tangent_types, parts[1], strict=True):
            if argument.activity == "const":
                require_nothing_lost(em, gradient, argument, ty, tangent)
        lanes = [
            (context.cast(builder, value, ty, argument.numba_type), (tangent,) if shadow else ())
            for value, tangent, ty, argument, shadow in zip(
                *parts, items_of(primals), arguments, shadows, strict=True
            )
        ]
        primal, tangent = ForwardEmitter(em, call).push(lanes)
        return context.make_tuple(builder, result_type, [primal, tangent])

    return signature(result_type, function, primals, tangents), emitting(emit)

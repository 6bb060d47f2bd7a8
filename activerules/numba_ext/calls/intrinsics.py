"""The compiled forms of `autodiff` and of the stubs of `grad`: derivatives called by compiled code.

The derivative is compiled while the call is typed, so that errors reach the user unchanged; its IR
is linked while the call is lowered. The forms are intrinsics, not overloads, so that the
differentiated function is never a runtime value and callers can be cached on disk.

The layer above registers the compiler of derivatives for all modes (`use_compiler`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import make_intrinsic_template, signature

from activerules.annotations.activity import Active, Const
from activerules.annotations.signature import Mode, Reverse
from activerules.errors import ActivityError, NotYetSupported
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.emitter import (
    BY_SHADOW,
    DerivativeCall,
    Emitter,
    Field,
    all_fields,
    is_batched,
    with_new_shadows,
)
from activerules.numba_ext.calls.nested_forms import NestedCall, nested_form
from activerules.numba_ext.calls.outline import outlining
from activerules.numba_ext.codegen.chosen_by_types import give_template
from activerules.numba_ext.codegen.protocols import Emit, Value, emitting
from activerules.numba_ext.codegen.stubs import StubType
from activerules.numba_ext.codegen.types import (
    AnnotationType,
    read_marker,
    runtime_type,
)
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import (
    CompiledDerivative,
    DerivativeCompiler,
    DerivativeSpec,
)
from activerules.values import zeros  # noqa: F401  make_zero
from activerules.values.argument import ArgumentSpec, types_and_activities
from activerules.values.kinds import gradient_of_leaf, leaves_of
from activerules.values.kinds import gradient_type as gradient_type_of
from activerules.values.layout import Node, Number, layout_of
from activerules.values.walk import rebuild

_compilers: list[DerivativeCompiler] = []


def use_compiler(compiler: DerivativeCompiler) -> None:
    """Set the compiler of derivatives; a later call replaces it."""
    _compilers[:] = [compiler]


def give_compiled_form(function: Callable[..., Any], definition: Callable[..., Any]) -> None:
    """Make calls of a Python function inside `@njit` calls of an intrinsic.

    `definition(typing_context, *types)` returns a signature and a code generator. They are
    recomputed when the rules change, since not every form has an argument whose type contains the
    rules' epoch.
    """
    name = definition.__name__
    give_template(function, make_intrinsic_template(function, outlining(definition), name))


def compiled_only(definition: Callable[..., Any]) -> Any:
    """A function for compiled code alone, a decorator; `definition` is as in `give_compiled_form`,
    and remains available as `function.__wrapped__`.
    """

    @wraps(definition)
    def function(*_: Any, **__: Any) -> Any:
        raise NotImplementedError(f"{definition.__name__} is for compiled code")

    give_compiled_form(function, definition)
    return function


def autodiff_form(mode, function, args, deferred):
    """`autodiff(Reverse, function, [return activity,] *annotated)`, one shadow per argument."""
    call = _read_call(dispatcher_in(function), args, mode.value, deferred)
    return _autodiff_form(call, mode, function, args)


def ordinary_form(mode, function, args):
    """`autodiff_form` in code that is differentiated; None unless the derivative is ordinary code,
    of arrays and numbers.
    """
    _, annotated = read_marker(args)
    values = [ty.val if isinstance(ty, AnnotationType) else ty for ty in annotated]
    if is_batched(args) or mode.value.options or not _has_plain_leaves(values):
        return None
    call = _read_call(dispatcher_of_type(function), args, mode.value, again=True)
    if not call.gradient.again.ordinary:
        return None
    return _autodiff_form(call, mode, function, args)


def ordinary_gradient(
    dispatcher: Any, arguments: Sequence[ArgumentSpec], *, needs_primal: bool = False
) -> CompiledDerivative | None:
    """The gradient with respect to plain arguments, if that is ordinary code: what `gradient_of`
    calls in code that is differentiated.
    """
    argtypes, activities = types_and_activities(arguments)
    if not _has_plain_leaves(argtypes):
        return None
    spec = DerivativeSpec(argtypes, activities, "active", needs_primal=needs_primal, again=True)
    gradient = compiled(dispatcher, arguments, spec)
    return gradient if gradient.again.ordinary else None


def _has_plain_leaves(values: Sequence[Any]) -> bool:
    """Whether arguments consist of arrays and numbers."""
    leaves = [leaf for value in values for leaf in leaves_of(value)]
    plain = types.Number | types.Boolean | types.Array | types.NoneType
    return all(isinstance(leaf, plain) for leaf in leaves)


def _autodiff_form(call: DerivativeCall, mode: Any, function: Any, args: Sequence[Any]):
    derivative_type = types.Tuple(call.derivative_types)

    def emit(em: Emit, fields: list[Field]) -> tuple[Value, Value]:
        (derivatives,), primal = Emitter(em, call).emit(fields)
        return em.context.make_tuple(em.builder, derivative_type, derivatives), primal

    return derivative_form(mode, function, args, derivative_type, call.gradient.result_type, emit)


def derivative_form(
    mode: Any,
    function: Any,
    args: Sequence[Any],
    derivative_type: Any,
    primal_type: Any,
    emit: Callable[[Emit, list[Field]], tuple[Value, Value]],
):
    """The form that returns a derivative, and what the primal returned if the mode asks for it.

    emit   from the fields of the arguments to both of these values
    """
    returns_primal = mode.value.returns_primal
    result_type = types.Tuple([derivative_type, primal_type]) if returns_primal else derivative_type

    def emit_returned(em: Emit, values: Sequence[Value]) -> Value:
        derivative, primal = emit(em, all_fields(em, args, values[2]))
        if returns_primal:
            return em.context.make_tuple(em.builder, result_type, [derivative, primal])
        em.context.nrt.decref(em.builder, primal_type, primal)
        return derivative

    return signature(result_type, mode, function, types.Tuple(args)), emitting(emit_returned)


@compiled_only
def counted_tape_bytes(typing_context, mode, function, *args):
    """`autodiff` of annotated arguments that returns only the size of the tape in bytes."""
    args = tuple(map(runtime_type, args))
    call = _read_call(dispatcher_in(function), args)

    def emit(em: Emit, values: Sequence[Value]) -> Value:
        fields = all_fields(em, args, values[2])
        stats = cgutils.alloca_once_value(em.builder, ir.IntType(64)(0))
        _, primal = Emitter(em, call).emit(fields, stats)
        em.context.nrt.decref(em.builder, call.gradient.result_type, primal)
        return em.builder.load(stats)

    return signature(types.int64, mode, function, types.Tuple(args)), emitting(emit)


@compiled_only
def gradient_of(typing_context, spec, function, *args):
    """What `grad` and `value_and_grad` return, of plain arguments; it makes their shadows."""
    request, dispatcher = spec.value, dispatcher_of_type(function)
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(args))
        arguments = checks.read_gradient_arguments(names, args, request.argnums)
    argtypes, activities = types_and_activities(arguments)
    if compiles_for_derivative():
        gradient = ordinary_gradient(dispatcher, arguments, needs_primal=request.with_value)
        if gradient is None:
            nested_call = NestedCall(dispatcher, argtypes, gradient=request)
            return nested_form(typing_context, nested_call, (spec, function), args)
    else:
        wanted = DerivativeSpec(
            argtypes,
            activities,
            "active",
            deferred=request.deferred,
            needs_primal=request.with_value,
        )
        gradient = compiled(dispatcher, arguments, wanted)
    call = DerivativeCall(arguments, gradient)
    gradient_types = [gradient_type_of(arguments[i].numba_type) for i in request.argnums]
    gradient_type = gradient_types[0] if request.single else types.Tuple(gradient_types)
    result_type = gradient_type
    if request.with_value:
        result_type = types.Tuple([call.gradient.result_type, gradient_type])

    def emit(em: Emit, values: Sequence[Value]) -> Any:
        context, builder = em.context, em.builder
        emitter = Emitter(em, call, owns_shadows=True)
        given = zip(
            cgutils.unpack_tuple(builder, values[2], len(args)), args, argtypes, strict=True
        )
        primals = [context.cast(builder, primal, *types_) for primal, *types_ in given]
        fields = with_new_shadows(em, arguments, primals)
        (derivatives,), value = emitter.emit(fields)
        items = [
            _joined(em, arguments[i].numba_type, derivatives[i], *fields[i][1])
            for i in request.argnums
        ]
        gradient = items[0]
        if not request.single:
            gradient = context.make_tuple(builder, gradient_type, items)
        if not request.with_value:
            return gradient
        return context.make_tuple(builder, result_type, [value, gradient])

    return signature(result_type, spec, function, types.Tuple(args)), emitting(emit)


def _joined(em: Emit, ty: Any, derivative: Any, shadow: Value | None = None) -> Any:
    """The gradient for one argument, assembled from values for numbers and shadows for arrays."""

    def part(em: Emit, leaf: Node, derivative: Any, shadow: Any) -> Any:
        if leaf.has_shadow:
            return shadow
        return derivative if isinstance(leaf, Number) else em.context.get_dummy_value()

    pair = derivative if layout_of(ty).carried.by_value else None, shadow
    return rebuild(em, layout_of(ty), pair, part, gradient_of_leaf)


def _read_call(
    dispatcher: Any,
    args: Sequence[Any],
    mode: Mode = Reverse,
    deferred: bool = False,
    again: bool = False,
) -> DerivativeCall:
    """The typed call."""
    marker, annotated = read_marker(args)
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(annotated))
        checks.require_marked(dispatcher, mode, names, annotated)
        arguments = checks.read_arguments(names, annotated)
    returned = return_activity(marker)
    holomorphic = "holomorphic" in mode.options
    if holomorphic:
        with error_context.of_call(dispatcher):
            checks.require_holomorphic(arguments)
        returned = "active"
    spec = DerivativeSpec(
        *types_and_activities(arguments),
        returned,
        options=mode.options,
        deferred=deferred,
        again=again,
        needs_primal=mode.returns_primal,
    )
    gradient = compiled(dispatcher, arguments, spec)
    return DerivativeCall(arguments, gradient, holomorphic=holomorphic)


def dispatcher_of_type(function: Any) -> Any:
    """The CPU dispatcher of a Numba type; `ActivityError` if it is not the type of one."""
    from activerules.numba_ext.target.rule_function import on_cpu  # late: imports much

    function = function.stub if isinstance(function, StubType) else on_cpu(function)
    if not isinstance(function, types.Dispatcher):
        raise ActivityError(
            f"inside @njit, only an @njit function has a derivative, not {function}"
        )
    return function.dispatcher


def dispatcher_in(function: Any) -> Any:
    """Like `dispatcher_of_type`; refused in code that is itself differentiated."""
    dispatcher = dispatcher_of_type(function)
    if compiles_for_derivative():
        raise NotYetSupported(
            f"the tape of {dispatcher.py_func.__name__} inside a function that is differentiated",
            why="a tape is not differentiated",
            instead=["autodiff, vjp, autodiff_thunk"],
        )
    return dispatcher


def return_activity(marker: Any) -> ActivityName | None:
    """The activity that a marker class requests; None without a marker."""
    if marker is None:
        return None
    if marker in (Active, Const):
        return "active" if marker is Active else "const"
    raise ActivityError(
        f"a return marked {marker.__name__}, in one call",
        why="its shadow takes a cotangent between the primal and the reverse",
        instead=[
            "autodiff_thunk, or vjp, which take the cotangent of what is returned",
            "Active for a float",
            "Const for a function that writes into its arguments",
        ],
    )


def compiled(
    dispatcher: Any, arguments: Sequence[ArgumentSpec], spec: DerivativeSpec
) -> CompiledDerivative:
    """Compile the derivative; errors name the call that needs it."""
    (compiler,) = _compilers
    returned, forward = spec.return_activity, spec.mode == "forward"
    with error_context.of_derivative(dispatcher, arguments, returned, forward=forward):
        gradient = compiler(dispatcher, spec)
        if spec.mode == "reverse" and _needs_float_return(gradient, arguments, returned):
            holomorphic = "holomorphic" in spec.options
            checks.require_float_return(dispatcher, gradient.result_type, holomorphic=holomorphic)
    return replace(gradient, requested=error_context.where_requested(dispatcher, arguments))


def _needs_float_return(
    gradient: CompiledDerivative,
    arguments: Sequence[ArgumentSpec],
    return_activity: ActivityName | None,
) -> bool:
    """Whether the derivative is that of the return value, which then must be a float.

    That is the case if it is seeded, or if the result contains numbers and the function has no
    other output: without a seed all derivatives would be zero.
    """
    if gradient.return_activity == "active":
        return True
    result = gradient.result_type
    has_other_output = any(
        written and argument.activity in BY_SHADOW
        for written, argument in zip(gradient.written, arguments, strict=True)
    )
    return (
        return_activity is None and not has_other_output and layout_of(result).activity != "const"
    )

"""The call of a derivative from compiled code: the compiled forms of `autodiff` and of `grad`'s
stubs.

The derivative is compiled while the call is typed, so that our errors reach the user as they are;
its IR is linked while the call is lowered. The forms are intrinsics, not overloads: the
differentiated function is then nowhere a value, and what calls a derivative can be cached on disk.

The layer above says, once, who compiles derivatives (`use_compiler`).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from llvmlite import ir
from numba.core import callconv, cgutils, types
from numba.core.target_extension import current_target
from numba.core.typing.templates import (
    infer,
    infer_global,
    make_intrinsic_template,
    signature,
)

from activerules.annotations.activity import Active, Const
from activerules.errors import (
    ActiverulesError,
    ActivityError,
    NotAFloatReturn,
    NotYetSupported,
)
from activerules.numba_ext import (
    checks,
    chunks,
    extents,
    link,
    memory,
    vector_math,
    zeros,  # noqa: F401  make_zero
)
from activerules.numba_ext.calls import on_cpu
from activerules.numba_ext.checks import Argument
from activerules.numba_ext.complex_math import POWER_DEFINITIONS
from activerules.numba_ext.gradient import (
    OUT_OF_MEMORY,
    TOO_DEEP,
    ActivityName,
    ArgumentActivity,
    Gradient,
    GradientCompiler,
)
from activerules.numba_ext.kinds import (
    derivative_type,
    has_numbers,
    has_shadow,
    has_shadows,
    is_number,
    items_of,
)
from activerules.numba_ext.kinds import gradient_type as gradient_type_of
from activerules.numba_ext.nested import (
    NestedCall,
    nested_form,
    require_float_primal,
    returned_by,
)
from activerules.numba_ext.outline import outlining, return_error
from activerules.numba_ext.overloads import AD_TARGET, IGNORE_DEFINITIONS
from activerules.numba_ext.pieces import parts_of
from activerules.numba_ext.types import AnnotationType, ModeType, SpecType, marker_class

_BY_VALUE = ("active", "mixed")
BY_SHADOW = ("duplicated", "mixed")
# how a derivative may end on its own account: status, exception, message
_ENDS = (
    (OUT_OF_MEMORY, MemoryError, "the tape of a derivative does not fit into memory"),
    (TOO_DEEP, RecursionError, "the recursion of a derivative does not fit onto the stack"),
    (
        callconv.RETCODE_NONE.constant,
        NotAFloatReturn,
        "the differentiated function returned None at this point, which has no derivative",
    ),
)
_compilers: list[GradientCompiler] = []


def use_compiler(compiler: GradientCompiler) -> None:
    """Say who compiles derivatives; the last one said counts."""
    _compilers[:] = [compiler]


def give_compiled_form(function: Callable[..., Any], definition: Callable[..., Any]) -> None:
    """Make calls of a Python function inside `@njit` calls of an intrinsic.

    `definition(typing_context, *types)` returns a signature and a code generator.
    """
    template = make_intrinsic_template(function, outlining(definition), definition.__name__)
    infer(template)
    infer_global(function, types.Function(template))


# --- typing ---


@dataclass(frozen=True)
class Call:
    """A typed call: the arguments of the differentiated function, and its derivative.

    holomorphic   whether f'(z) is asked for: the conjugate of what the sweep gives for the real
                  part of f, by the equations of Cauchy and Riemann
    """

    arguments: tuple[Argument, ...]
    gradient: Gradient
    holomorphic: bool = field(default=False, kw_only=True)

    @property
    def derivative_types(self) -> tuple[Any, ...]:
        """Numba types of what is returned for each argument: None unless it is Active."""
        return tuple(
            derivative_type(a.numba_type) if a.activity in _BY_VALUE else types.none
            for a in self.arguments
        )


def autodiff_form(typing_context, mode, function, *args):
    """`autodiff(mode, function, [return activity,] *annotated)`."""
    if not isinstance(mode, ModeType):
        raise ActivityError("the first argument of autodiff is a mode such as Reverse")
    mode.value.require_supported()
    args = tuple(map(types.unliteral, args))
    if current_target() == AD_TARGET:
        return _nested_autodiff(typing_context, mode, function, args)
    call, skipped = _read_call(function, args, mode.value.options)
    result_type = types.Tuple(call.derivative_types)
    if mode.value.returns_primal:
        result_type = types.Tuple([result_type, call.gradient.result_type])

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        fields = all_fields(context, builder, args, values[2])[skipped:]
        derivatives, primal = Emitter(context, builder, call).emit(fields)
        gradient = context.make_tuple(builder, types.Tuple(call.derivative_types), derivatives)
        if mode.value.returns_primal:
            return context.make_tuple(builder, typed.return_type, [gradient, primal])
        context.nrt.decref(builder, call.gradient.result_type, primal)
        return gradient

    return signature(result_type, mode, function, types.Tuple(args)), codegen


def _nested_autodiff(typing_context: Any, mode: Any, function: Any, args: Sequence[Any]) -> Any:
    """As `autodiff_form`, where the call stands in a function that is differentiated."""
    marker = marker_class(args[0]) if args else None
    given = tuple(args if marker is None else args[1:])
    dispatcher = dispatcher_of_type(function)
    names = checks.read_arity(dispatcher, len(given))
    arguments = checks.read_arguments(names, given)
    checks.refuse_holomorphic(mode.value, "inside a function that is differentiated")
    checks.refuse_runtime_activity(mode.value.options, "inside a function that is differentiated")
    found = returned_by(typing_context, dispatcher, arguments)
    wanted = return_activity(marker)
    seeded = wanted == "active" or (wanted is None and is_number(found))
    if mode.value.returns_primal:
        require_float_primal(dispatcher.py_func.__name__, found)
    asked = NestedCall(
        dispatcher, given, arguments, seeded, mode.value.returns_primal, None, mode.value.options
    )
    return nested_form(typing_context, asked, (mode, function), args)


def tape_bytes_form(typing_context, mode, function, *args):
    """As `autodiff_form`, where only the bytes of the tape are wanted."""
    args = tuple(map(types.unliteral, args))
    call, skipped = _read_call(function, args)

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        fields = all_fields(context, builder, args, values[2])[skipped:]
        stats = cgutils.alloca_once_value(builder, ir.IntType(64)(0))
        _, primal = Emitter(context, builder, call).emit(fields, stats)
        context.nrt.decref(builder, call.gradient.result_type, primal)
        return builder.load(stats)

    return signature(types.int64, mode, function, types.Tuple(args)), codegen


def gradient_form(typing_context, spec, function, *args):
    """The stub of `grad` and `value_and_grad`: plain arguments in, shadows made here."""
    request = spec.value if isinstance(spec, SpecType) else None
    if request is None:
        return None
    dispatcher = dispatcher_of_type(function)
    with checks.naming(dispatcher):
        names = checks.read_arity(dispatcher, len(args))
        arguments = checks.read_gradient_arguments(names, args, request.argnums)
    if current_target() == AD_TARGET:
        plain = tuple(argument.numba_type for argument in arguments)
        asked = NestedCall(dispatcher, plain, arguments, True, request.with_value, request)
        return nested_form(typing_context, asked, (spec, function), args)
    call = Call(arguments, compiled(dispatcher, arguments, "active"))
    gradient_types = [gradient_type_of(arguments[i].numba_type) for i in request.argnums]
    gradient_type = gradient_types[0] if request.single else types.Tuple(gradient_types)
    result_type = gradient_type
    if request.with_value:
        result_type = types.Tuple([call.gradient.result_type, gradient_type])

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        primals = cgutils.unpack_tuple(builder, values[2], len(args))
        fields = [
            (
                context.cast(builder, primal, ty, argument.numba_type),
                memory.zero_shadow(context, builder, argument.numba_type, primal)
                if argument.activity in BY_SHADOW
                else None,
            )
            for ty, argument, primal in zip(args, arguments, primals, strict=True)
        ]
        derivatives, value = Emitter(context, builder, call, owns_shadows=True).emit(fields)
        items = [
            _joined(context, builder, arguments[i].numba_type, derivatives[i], fields[i][1])
            for i in request.argnums
        ]
        gradient = items[0]
        if not request.single:
            gradient = context.make_tuple(builder, gradient_type, items)
        if not request.with_value:
            return gradient
        return context.make_tuple(builder, typed.return_type, [value, gradient])

    return signature(result_type, spec, function, types.Tuple(args)), codegen


def _joined(context: Any, builder: Any, found: Any, derivative: Any, shadow: Any) -> Any:
    """The gradient by one argument: derivatives of its numbers and shadows of its arrays."""
    if has_shadow(found):
        return shadow
    if not isinstance(found, types.BaseTuple):
        return derivative if is_number(found) else context.get_dummy_value()
    if not has_shadows(found):
        return derivative
    parts = parts_of(builder, found, shadow)
    if has_numbers(found):
        entries = cgutils.unpack_tuple(builder, derivative, len(items_of(found)))
    else:
        entries = [None] * len(items_of(found))
    items = [
        _joined(context, builder, item, entry, part)
        for (item, (part,)), entry in zip(parts, entries, strict=True)
    ]
    return context.make_tuple(builder, gradient_type_of(found), items)


def _read_call(
    function: Any, args: Sequence[Any], options: frozenset[str] = frozenset()
) -> tuple[Call, int]:
    """The typed call, and how many of `args` (0 or 1) say the activity of the return."""
    marker = marker_class(args[0]) if args else None
    skipped = 0 if marker is None else 1
    dispatcher = dispatcher_in(function)
    with checks.naming(dispatcher):
        names = checks.read_arity(dispatcher, len(args) - skipped)
        arguments = checks.read_arguments(names, args[skipped:])
    returned = return_activity(marker)
    holomorphic = "holomorphic" in options
    if holomorphic:
        with checks.naming(dispatcher):
            checks.require_holomorphic(arguments)
        returned = "active"
    gradient = compiled(dispatcher, arguments, returned, options=options)
    return Call(arguments, gradient, holomorphic=holomorphic), skipped


def dispatcher_of_type(function: Any) -> Any:
    """The CPU dispatcher a Numba type stands for; `ActivityError` if it is something else."""
    function = on_cpu(function)
    if not isinstance(function, types.Dispatcher):
        raise ActivityError(
            f"inside @njit, only an @njit function has a derivative, not {function}"
        )
    return function.dispatcher


def dispatcher_in(function: Any) -> Any:
    """As `dispatcher_of_type`, where the derivative is not differentiated again; refused if it
    is.
    """
    dispatcher = dispatcher_of_type(function)
    if current_target() == AD_TARGET:
        raise NotYetSupported(
            f"the tape of {dispatcher.py_func.__name__} inside a function that is differentiated",
            why="a tape is not differentiated",
            instead=["autodiff, vjp, autodiff_thunk"],
        )
    return dispatcher


def return_activity(marker: Any) -> ActivityName | None:
    """The activity a marker class asks for; None if there is no marker."""
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
    dispatcher: Any,
    arguments: Sequence[Argument],
    return_activity: ActivityName | None,
    *,
    split: bool = False,
    options: frozenset[str] = frozenset(),
) -> Gradient:
    """Compile the derivative; an error says which call it was for."""
    (compiler,) = _compilers
    activities: tuple[ArgumentActivity, ...] = tuple(a.activity for a in arguments)
    argtypes = tuple(argument.numba_type for argument in arguments)
    asked = checks.asked_for(dispatcher, arguments)
    try:
        gradient = compiler(
            dispatcher, argtypes, activities, return_activity, split=split, options=options
        )
        if not split and _needs_float_return(gradient, arguments, return_activity):
            holomorphic = "holomorphic" in options
            checks.require_float_return(dispatcher, gradient.result_type, holomorphic=holomorphic)
    except ActiverulesError as error:
        error.where.insert(0, asked)
        raise
    return replace(gradient, asked=asked)


def _needs_float_return(
    gradient: Gradient, arguments: Sequence[Argument], asked: ActivityName | None
) -> bool:
    """Whether the derivative is that of the return value: it is seeded, or the result holds numbers
    and there is no other way out of the function. Without a seed all derivatives would be zero.
    """
    if gradient.return_activity == "active":
        return True
    result = gradient.result_type
    has_way_out = any(
        written and argument.activity in BY_SHADOW
        for written, argument in zip(gradient.written, arguments, strict=True)
    )
    return asked is None and not has_way_out and (has_numbers(result) or has_shadows(result))


# --- lowering ---

_libraries: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()


def link_derivative(context: Any, gradient: Gradient) -> None:
    """Link a derivative into the function being lowered; compiled once, however many calls link
    it.
    """
    known = _libraries.setdefault(context, {})
    if context.target_name == AD_TARGET:
        # differentiated again: the IR as it is, in which what the engine knows stays a declaration
        if gradient.symbol not in known:
            known[gradient.symbol] = link.make_source(
                context, gradient.symbol, gradient.text, gradient.called
            )
        for symbol, make in gradient.sources.items():
            if symbol not in known:
                known[symbol] = make(context)
        context.add_linking_libs([known[one] for one in (gradient.symbol, *gradient.sources)])
        return
    if "vector_math" in gradient.options:
        # what Numba stores on disk loads the library before its code
        context.active_code_library._reload_init.add(vector_math.load)
    if not known:
        own = (memory.RELEASE_DEFINITION, extents.DEFINITION, chunks.DEFINITION)
        support = "\n".join([IGNORE_DEFINITIONS, POWER_DEFINITIONS, *own])
        link.define(context, "activerules.chunks", chunks.VARIABLES)
        known["support"] = link.make_library(context, "activerules.support", support)
    if gradient.symbol not in known:
        known[gradient.symbol] = link.make_library(
            context, gradient.symbol, gradient.text, (*gradient.libraries, known["support"])
        )
    # Support by itself, too: what a library does not use of its own dependencies is not in it.
    context.add_linking_libs([known[gradient.symbol], known["support"]])


def all_fields(
    context: Any, builder: Any, args: Sequence[Any], packed: Any
) -> list[tuple[Any, Any]]:
    """Primal and shadow of every annotated argument."""
    values = cgutils.unpack_tuple(builder, packed, len(args))
    return [_field(context, builder, ty, value) for ty, value in zip(args, values, strict=True)]


def _field(context: Any, builder: Any, ty: Any, value: Any) -> tuple[Any, Any]:
    """Primal and shadow of one annotated argument; the shadow is None if it has none."""
    if not isinstance(ty, AnnotationType):
        return value, None
    native = cgutils.create_struct_proxy(ty)(context, builder, value)
    return native.val, native.dval if ty.dval is not None else None


class Emitter:
    """Emits one call of a derivative into the function that is being lowered.

    With `owns_shadows` the shadows are released where the call fails.
    """

    def __init__(
        self, context: Any, builder: Any, call: Call, *, owns_shadows: bool = False
    ) -> None:
        self.context = context
        self.builder = builder
        self.arguments = call.arguments
        self.derivative_types = call.derivative_types
        self.gradient = call.gradient
        self.holomorphic = call.holomorphic
        self.owns_shadows = owns_shadows

    def emit(self, fields: Sequence[tuple[Any, Any]], stats: Any = None) -> tuple[list[Any], Any]:
        """Check, link, call; returns the derivative by each argument, and what the primal
        returned. `stats` points to an i64 that receives the bytes of the tape.
        """
        fields = self._with_scratch(fields)

        def release() -> None:
            self._release(fields, everything=self.owns_shadows)

        overlap = memory.check_memory(
            self.context, self.builder, self.arguments, fields, self.gradient, release
        )
        link_derivative(self.context, self.gradient)
        returned, excinfo = self._return_memory(), self._excinfo()
        derivatives = self._derivative_memory(fields)
        parameters = list(self._parameters(fields, returned, excinfo))
        if stats is None:
            stats = cgutils.get_null_value(cgutils.voidptr_t)
        unexpected = self._unexpected(parameters, overlap)
        status = self._run([*parameters, derivatives, stats], unexpected)
        self._propagate(status, excinfo, release)
        self._release(fields, everything=False)
        primal = self.context.get_returned_value(
            self.builder, self.gradient.result_type, self.builder.load(returned[0])
        )
        floats = iter(cgutils.unpack_tuple(self.builder, self.builder.load(derivatives)))
        return [self._rebuilt(ty, floats) for ty in self.derivative_types], primal

    def _release(self, fields: Sequence[tuple[Any, Any]], *, everything: bool) -> None:
        """Release the scratch shadows; or every shadow there is."""
        owned = memory.owned_shadows(self.gradient, self.arguments)
        for argument, (_, shadow), own in zip(self.arguments, fields, owned, strict=True):
            if own or (everything and shadow is not None):
                memory.release(self.context, self.builder, argument.numba_type, shadow)

    def _with_scratch(self, fields: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """`fields`, with new shadows of zeros for the Const arguments that need one; and for arrays
        that turn out to be constant.
        """
        owned = memory.owned_shadows(self.gradient, self.arguments)
        return [
            (primal, self._owned_shadow(argument.numba_type, primal, shadow) if own else shadow)
            for argument, (primal, shadow), own in zip(self.arguments, fields, owned, strict=True)
        ]

    def _owned_shadow(self, found: Any, primal: Any, shadow: Any) -> Any:
        if shadow is None:
            return memory.zero_shadow(self.context, self.builder, found, primal)
        return memory.constant_where_same(self.context, self.builder, found, primal, shadow)

    def _parameters(
        self, fields: Sequence[tuple[Any, Any]], returned: Sequence[Any], excinfo: Any
    ) -> Iterator[Any]:
        """Primal parameters of the derivative, each followed by its shadow if it is Duplicated."""
        activities = iter(self.gradient.parameters)
        yield from returned if next(activities) == "duplicated" else returned[:1]
        yield excinfo
        next(activities)
        for argument, (primal, shadow) in zip(self.arguments, fields, strict=True):
            slots = self._flattened(argument, primal)
            shadow_slots = slots if shadow is None else self._flattened(argument, shadow)
            for slot, shadow_slot in zip(slots, shadow_slots, strict=True):
                yield slot
                if next(activities) == "duplicated":
                    yield shadow_slot

    def _flattened(self, argument: Argument, value: Any) -> Sequence[Any]:
        packer = self.context.get_arg_packer([argument.numba_type])
        return packer.as_arguments(self.builder, [value])

    def _return_memory(self) -> tuple[Any, Any]:
        """Memory for the primal's result and for its shadow, which holds the seed."""
        ty = self.context.call_conv.get_return_type(self.gradient.result_type).pointee
        seed = ty(None)
        if self.gradient.return_activity == "active":
            seed = ty([1.0, 0.0]) if self.holomorphic else ty(1.0)
        return self._stored(ty(None)), self._stored(seed)

    def _excinfo(self) -> Any:
        function_type = self.context.call_conv.get_function_type(types.none, ())
        return self._stored(function_type.args[1].pointee(None))

    def _stored(self, value: Any) -> Any:
        pointer = cgutils.alloca_once(self.builder, value.type)
        self.builder.store(value, pointer)
        return pointer

    def _derivative_memory(self, fields: Sequence[tuple[Any, Any]]) -> Any:
        floats = []
        for argument, (primal, _) in zip(self.arguments, fields, strict=True):
            if argument.activity in _BY_VALUE:
                slots = self._flattened(argument, primal)
                floats += [
                    s.type for s in slots if isinstance(s.type, ir.FloatType | ir.DoubleType)
                ]
        return cgutils.alloca_once(self.builder, ir.LiteralStructType(floats))

    def _unexpected(self, parameters: Sequence[Any], overlap: Any) -> Any:
        """Whether the arguments overlap, or are not what the derivative assumes."""
        symbol = self.gradient.assumption_symbol
        if symbol is None:
            return overlap
        function_type = ir.FunctionType(cgutils.bool_t, [p.type for p in parameters])
        function = cgutils.get_or_insert_function(self.builder.module, function_type, symbol)
        holds = self.builder.call(function, parameters)
        return self.builder.or_(overlap, self.builder.not_(holds))

    def _run(self, arguments: Sequence[Any], overlap: Any, suffix: str = "") -> Any:
        function_type = ir.FunctionType(cgutils.int32_t, [a.type for a in arguments])

        def run(stem: str | None) -> Any:
            symbol = f"{stem}{suffix}"
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

    def _propagate(self, code: Any, excinfo: Any, release: Callable[[], None]) -> None:
        convention = self.context.call_conv
        for number, kind, message in _ENDS:
            ended = self.builder.icmp_unsigned("==", code, code.type(number))
            with cgutils.if_unlikely(self.builder, ended):
                release()
                convention.return_user_exc(self.builder, kind, (message,))
        status = convention._get_return_status(self.builder, code, self.builder.load(excinfo))
        with cgutils.if_unlikely(self.builder, status.is_error):
            release()
            self.return_error(status)

    def return_error(self, status: Any) -> None:
        """Leave with the primal's exception."""
        return_error(self.context, self.builder, status)

    def _rebuilt(self, found: Any, floats: Iterator[Any]) -> Any:
        """Put derivatives, in order, into the structure of the values they belong to."""
        if isinstance(found, types.Float):
            return next(floats)
        if isinstance(found, types.Complex):
            number = self.context.make_complex(self.builder, found)
            number.real, number.imag = next(floats), next(floats)
            if self.holomorphic:
                number.imag = self.builder.fneg(number.imag)
            return number._getvalue()
        if isinstance(found, types.BaseTuple):
            items = [self._rebuilt(item, floats) for item in items_of(found)]
            return self.context.make_tuple(self.builder, found, items)
        return self.context.get_dummy_value()

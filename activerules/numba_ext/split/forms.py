"""Split mode in compiled code: the augmented primal and the reverse as two calls, with a tape.

`record` runs the augmented primal and makes a tape, `play` runs the reverse over it. Both are
intrinsics, as the forms in `intrinsics` are; `record(spec, function, *annotated)` gives
`(tape, primal, shadow)`, `play(spec, function, *annotated, dret, tape)` the derivatives. With
several shadows per argument, `shadow`, `dret` and each derivative are tuples, one entry per lane.

Invariants  S1  no tape remains after an error: `record` releases everything if the primal raises
            S2  the caller owns a reference to the shadow of the result, as to the result
            S3  `play` claims the tape before it changes anything, and only for the arguments of
                `record`; a tape is emptied after its one reverse has run
            S4  a tape for several sweeps hands nothing from one to the next: shadows that it owns
                are cleared after each; before it, that of the result may be one of them, and hold
                the cotangent
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.activity import (
    Active,
    Annotation,
    Const,
    MixedDuplicated,
)
from activerules.annotations.signature import SplitSpec
from activerules.callables import display_name
from activerules.errors import ActivityError, BatchWidthMismatch, TapeError
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.numba_ext.calls import call_arguments, checks, error_context, memory
from activerules.numba_ext.calls.emitter import (
    DerivativeCall,
    Emitter,
    Field,
    all_fields,
    is_batched,
    link_derivative,
)
from activerules.numba_ext.calls.intrinsics import compiled, dispatcher_in, dispatcher_of_type
from activerules.numba_ext.calls.lanes import first_lane, lane_tuples, packed_lanes, width_of
from activerules.numba_ext.calls.outline import return_error
from activerules.numba_ext.codegen.protocols import Builder, Context, Emit, TypingContext, Value
from activerules.numba_ext.codegen.stubs import StubType
from activerules.numba_ext.codegen.types import (
    AnnotationType,
    ModeType,
    StaticType,
    marker_class,
    register_static,
    runtime_type,
)
from activerules.numba_ext.split.split_results import (
    has_shadow,
    read_result,
    require_cotangent,
    shadow_of,
)
from activerules.numba_ext.split.tape_handle import (
    FRESH,
    RUNNING,
    USED,
    USED_TWICE,
    HandleFields,
    TapeType,
)
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.rules.pattern import type_name
from activerules.values.argument import ArgumentSpec, types_and_activities
from activerules.values.identity import identity_of
from activerules.values.kinds import is_number, items_of, optional_leaf, returned_type
from activerules.values.kinds import shadow_type as shadow_type_of
from activerules.values.layout import Node, Number, layout_of
from activerules.values.shadows import clear_shadow, own_constants
from activerules.values.walk import rebuild

_ACTIVITIES: dict[type[Annotation], ActivityName] = {Const: "const", Active: "active"}


class SplitType(StaticType):
    """The type of one `SplitSpec`."""


register_static(SplitSpec, SplitType)


# --- typing ---


def record_form(typing_context, spec, function, *args):
    """`(tape, primal, shadow)`; None for what is not requested or does not exist."""
    args = tuple(map(runtime_type, args))
    split_spec, call = read_split(spec.value, function, args)
    result = call.gradient.result_type
    wants_primal = split_spec.wants_primal
    parts = (
        tape_type(call),
        result if wants_primal else types.none,
        _by_lane(shadow_of(result), call, args) if has_shadow(split_spec.result) else types.none,
    )

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        em = Emit(context, builder)
        fields = all_fields(em, args, values[2])
        tape, primal, shadows = SplitEmitter(em, call, split_spec).record(fields)
        nothing = context.get_dummy_value()
        if not wants_primal:
            context.nrt.decref(builder, result, primal)
            primal = nothing
        shadow = nothing
        if has_shadow(split_spec.result):
            for lane in shadows:
                context.nrt.incref(builder, result, lane)  # S2
            shadow = shadows[0]
            if is_batched(args):
                shadow = context.make_tuple(builder, parts[2], shadows)
        return context.make_tuple(builder, typed.return_type, [tape, primal, shadow])

    return signature(types.Tuple(parts), spec, function, types.Tuple(args)), codegen


def wrong_tape(tape: Any, function: Any) -> TapeError:
    """The error for a value that is not a tape of this derivative."""
    what = f"the tape of {tape.function}" if isinstance(tape, TapeType) else type_name(tape)
    return TapeError(
        f"{what} was given to the reverse of {display_name(dispatcher_of_type(function))}",
        why="a tape belongs to the derivative, the activities and the types it was made with",
        instead=["the tape that `augmented` of the same autodiff_thunk returned"],
    )


def play_form(typing_context, spec, function, *args):
    """One derivative per argument; the last two of `args` are the cotangent (or None) and the
    tape.
    """
    args = tuple(map(runtime_type, args))
    *annotated, dret, tape = args
    split_spec, call = read_split(spec.value, function, annotated)
    if tape != tape_type(call):
        raise wrong_tape(tape, function)
    batched, width = is_batched(annotated), call.gradient.width
    bars = read_cotangents(typing_context, split_spec, call, dret, width, batched=batched)
    by_argument = lane_tuples(call.derivative_types, width, batched=batched)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        em = Emit(context, builder)
        fields = all_fields(em, args, values[2])
        (cotangent, _), (handle, _) = fields[-2:]
        emitter = SplitEmitter(em, call, split_spec)
        cotangents = [cotangent] * width
        if batched and isinstance(dret, types.BaseTuple):
            cotangents = cgutils.unpack_tuple(builder, cotangent, width)
        seeds = list(zip(bars, cotangents, strict=True))
        lanes = emitter.play(fields[:-2], seeds, handle)
        items = packed_lanes(em, by_argument, lanes) if batched else lanes[0]
        return context.make_tuple(builder, typed.return_type, items)

    result = types.Tuple(by_argument)
    return signature(result, spec, function, types.Tuple(args)), codegen


def _by_lane(ty: Any, call: DerivativeCall, args: Sequence[Any]) -> Any:
    return types.UniTuple(ty, call.gradient.width) if is_batched(args) else ty


def read_cotangents(
    typing_context: TypingContext,
    split_spec: SplitSpec,
    call: DerivativeCall,
    dret: Any,
    width: int,
    *,
    batched: bool,
) -> list[Any]:
    """The type of the cotangent in each lane; of a batch, `dret` is a tuple of them."""
    lanes: Sequence[Any] = [dret] * width
    if batched and split_spec.result in (Active, MixedDuplicated):
        if not isinstance(dret, types.BaseTuple) or len(dret) != width:
            raise BatchWidthMismatch(
                f"the cotangent is {type_name(dret)}, and the arguments have {width} shadows",
                instead=[f"a tuple of {width} cotangents"],
            )
        lanes = items_of(dret)
    for lane in lanes:
        require_cotangent(typing_context, split_spec.result, call.gradient.result_type, lane)
    return list(lanes)


def halves_form(make: Callable[..., Sequence[Any]]) -> Callable[..., Any]:
    """`autodiff_thunk` inside `@njit`: a tuple of the thunks that `make` makes, without data."""

    def form(typing_context, mode, function, *activities):
        if not isinstance(mode, ModeType):
            raise ActivityError(
                "the first argument of autodiff_thunk is a mode",
                instead=["ReverseSplitWithPrimal", "ReverseSplitNoPrimal"],
            )
        halves = make(mode.value, dispatcher_of_type(function), *map(marker_class, activities))
        result = types.Tuple([StubType(half.dispatcher) for half in halves])

        def codegen(
            context: Context, builder: Builder, typed: Any, values: Sequence[Value]
        ) -> Value:
            items = [context.get_dummy_value() for _ in halves]
            return context.make_tuple(builder, typed.return_type, items)

        return signature(result, mode, function, types.Tuple(activities)), codegen

    return form


def tape_type(call: DerivativeCall) -> TapeType:
    """The type of the tapes of one derivative."""
    shadows = memory.owned_shadows(call.gradient, call.arguments)
    owned = tuple(
        shadow_type_of(argument.numba_type)
        for argument, own in zip(call.arguments, shadows, strict=True)
        for _ in range(call.gradient.width * own)
    )
    gradient = call.gradient
    return TapeType(gradient.symbol, gradient.function, gradient.memory, owned)


def read_split(
    split_spec: SplitSpec, function: Any, args: Sequence[Any]
) -> tuple[SplitSpec, DerivativeCall]:
    """Compile the derivative for annotated types.

    If the activity of the result is given as `Annotation`, it is inferred from the result's type.
    The derivative may have width 1 although the call is a batch: see `DerivativeSpec`.
    """
    dispatcher = dispatcher_in(function)
    arguments = read_kinds(split_spec, dispatcher, args)
    activity = _ACTIVITIES.get(split_spec.result, "duplicated")
    spec = DerivativeSpec(
        *types_and_activities(arguments),
        activity,
        mode="split",
        options=split_spec.options,
        width=width_of([a.name for a in arguments], args),
        needs_primal=split_spec.wants_primal,
    )
    gradient = compiled(dispatcher, arguments, spec)
    return read_result(split_spec, dispatcher, gradient.result_type), DerivativeCall(
        arguments, gradient
    )


def read_kinds(
    split_spec: SplitSpec, dispatcher: Any, args: Sequence[Any]
) -> tuple[ArgumentSpec, ...]:
    """The arguments of a call; `ActivityError` unless they have the activities of the thunk."""
    names = call_arguments.parameter_names(dispatcher, len(args))
    for name, ty, kind in zip(names, args, split_spec.arguments, strict=True):
        passed = ty.kind if isinstance(ty, AnnotationType) else Const
        if passed is not kind:
            raise ActivityError(
                f"`{name}` is {passed.__name__}, and the thunk was made for {kind.__name__}",
                instead=[f"{kind.__name__}(…) here", "another activity in autodiff_thunk"],
            )
    with error_context.of_call(dispatcher):
        width_of(names, args)
        return checks.read_arguments(names, [first_lane(ty) for ty in args])


# --- lowering ---


class SplitEmitter(Emitter):
    """Emits one half of a derivative.

    has_cotangent   whether arrays of the result's shadow already contain the cotangent
    """

    def __init__(
        self,
        em: Emit,
        call: DerivativeCall,
        split_spec: SplitSpec,
        *,
        owns_shadows: bool = False,
        has_cotangent: bool = False,
    ) -> None:
        super().__init__(em, call, owns_shadows=owns_shadows)
        self.split_spec = split_spec
        self.has_cotangent = has_cotangent
        self.tape_type = tape_type(call)
        self.repeated = split_spec.repeated

    def record(self, fields: Sequence[Field]) -> tuple[Any, Any, list[Any]]:
        """Run the augmented primal; returns tape, primal, and shadows borrowed from the tape."""
        context, builder = self.context, self.builder
        fields = self._with_scratch(fields)

        def release() -> None:
            self._release(fields, everything=self.owns_shadows)

        overlap = memory.check_memory(self.em, self.arguments, fields, self.gradient, release)
        link_derivative(context, self.gradient)
        words = list(self._words(fields))
        block = self._block(words)
        meminfo = self._allocated(block, overlap, release)
        block.at(meminfo)
        block.clear()
        builder.store(builder.zext(overlap, cgutils.int32_t), block.variant)
        for number, (_, word) in enumerate(words):
            builder.store(word, block.word(number))
        excinfo = self._excinfo()
        parameters = self._parameters(fields, block.returned, excinfo)
        status = self._run([*parameters, block.memory], overlap, ".augmented")

        def release_all() -> None:
            release()
            memory.release_counted(builder, meminfo)

        self._propagate(status, excinfo, release_all)
        primal, *shadows = [self._result(pointer) for pointer in block.returned]
        tape = cgutils.create_struct_proxy(self.tape_type)(context, builder)
        tape.block = meminfo
        scratch = self._scratch(fields)
        for ty, shadow in zip(items_of(self.tape_type.owned), scratch, strict=True):
            own_constants(self.em, ty, shadow)
        tape.owned = context.make_tuple(builder, self.tape_type.owned, scratch)
        return tape._getvalue(), primal, shadows

    def play(
        self,
        fields: Sequence[Field],
        cotangents: Sequence[tuple[Any, Any]],
        handle: Value,
        release: Callable[[], None] = lambda: None,
    ) -> list[list[Any]]:
        """Run the reverse over a tape, for the cotangent (type and value) of the result in each
        lane; returns, for each lane, the derivative with respect to each argument.

        If it fails, the tape is emptied and the code emitted by `release` runs.
        """
        builder = self.builder
        tape = cgutils.create_struct_proxy(self.tape_type)(self.context, builder, handle)
        owned = iter(cgutils.unpack_tuple(builder, tape.owned, self.tape_type.owned.count))
        fields = [
            (primal, [next(owned) for _ in range(self.gradient.width)] if own else lanes)
            for (primal, lanes), own in zip(fields, self.owned, strict=True)
        ]
        link_derivative(self.context, self.gradient)
        words = list(self._words(fields))
        block = self._block(words)
        block.at(tape.block)
        self._require_same(block, words)
        seeds = [
            self._cotangent(address, dret)
            for address, dret in zip(block.returned[1:], cotangents, strict=True)
        ]
        if not self.repeated:
            taken = block.change_state(FRESH, RUNNING)
            self.em.raise_if(builder.not_(taken), TapeError, (USED_TWICE,))
        for address, seed in zip(block.returned[1:], seeds, strict=True):
            if seed is not None:
                builder.store(seed, address)
        variant = self._variant(block)
        excinfo = self._excinfo()
        derivatives = self.derivative_memory(fields)
        parameters = self._parameters(fields, block.returned, excinfo)
        status = self._run([*parameters, block.memory, derivatives], variant, ".reverse")

        def fail() -> None:
            self._drop_tape(block, variant)
            release()

        self._propagate(status, excinfo, fail)
        if self.repeated:
            self._clear_scratch(fields)
        else:
            self._drop_tape(block, variant)
        return self.derivatives(derivatives)

    def _clear_scratch(self, fields: Sequence[Field]) -> None:
        """Make the scratch shadows zero: the sweep has left cotangents in them."""
        owned = zip(self.arguments, fields, self.gradient.scratch, strict=True)
        for argument, (_, lanes), own in owned:
            for shadow in lanes if own else ():
                ty = shadow_type_of(argument.numba_type)
                clear_shadow(self.em, ty, shadow)

    def call_jitable(self, function: Any, typed: Any, values: Sequence[Value]) -> Any:
        """Compile a Python function and call it; its exceptions are passed on like the primal's."""
        code = self.context.compile_subroutine(self.builder, function, typed)
        status, value = self.context.call_internal_no_propagate(
            self.builder, code.fndesc, typed, values
        )
        with cgutils.if_unlikely(self.builder, status.is_error):
            return_error(self.context, self.builder, status)
        return value

    # --- the tape ---

    def drop(self, handle: Value) -> None:
        """Release all that a tape holds."""
        tape = cgutils.create_struct_proxy(self.tape_type)(self.context, self.builder, handle)
        block = self._block([])
        block.at(tape.block)
        self._drop_tape(block, self._variant(block))

    def _block(self, words: Sequence[Any]) -> HandleFields:
        returned = self.context.call_conv.get_return_type(self.gradient.result_type).pointee
        gradient = self.gradient
        return HandleFields(self.em, gradient.memory, returned, len(words), gradient.width)

    def _allocated(self, block: HandleFields, overlap: Value, release: Callable[[], None]) -> Any:
        """New memory for a tape, with the destructor that matches the sweeps which run."""
        builder = self.builder
        size = cgutils.intp_t(block.size)
        meminfo = self.context.nrt.meminfo_alloc_dtor_unchecked(builder, size, self._drop(overlap))
        message = "no memory for the tape of a derivative"
        self.em.raise_if(cgutils.is_null(builder, meminfo), MemoryError, (message,), release)
        return meminfo

    def _drop(self, variant: Any) -> Any:
        """The function that empties a tape, that of the sweeps for overlap if `variant` is true."""
        parameters = [cgutils.voidptr_t, cgutils.intp_t, cgutils.voidptr_t]
        function_type = ir.FunctionType(ir.VoidType(), parameters)
        declare = partial(cgutils.get_or_insert_function, self.builder.module, function_type)
        usual = declare(f"{self.gradient.symbol}.drop")
        if variant is cgutils.false_bit:
            return usual
        conservative = declare(f"{self.gradient.versions.conservative}.drop")
        return self.builder.select(variant, conservative, usual)

    def _variant(self, block: HandleFields) -> Any:
        """Whether the tape belongs to the sweeps for arguments that overlap."""
        if self.gradient.versions.conservative in (None, self.gradient.symbol):
            return cgutils.false_bit
        variant = self.builder.load(block.variant)
        return self.builder.icmp_unsigned("!=", variant, variant.type(0))

    def _drop_tape(self, block: HandleFields, variant: Value) -> None:
        """Empty the tape, after its reverse has run or failed."""
        null = cgutils.get_null_value(cgutils.voidptr_t)
        self.builder.call(self._drop(variant), [block.memory, cgutils.intp_t(0), null])
        block.set_state(USED)

    def _scratch(self, fields: Sequence[Field]) -> list[Any]:
        owned = (lanes for (_, lanes), own in zip(fields, self.owned, strict=True) if own)
        return [shadow for lanes in owned for shadow in lanes]

    def _words(self, fields: Sequence[Field]) -> Iterator[tuple[str, Any]]:
        """The words that identify the user's arguments and shadows, with the names of parts."""
        for argument, (primal, lanes), own in zip(self.arguments, fields, self.owned, strict=True):
            shadows = () if own else lanes
            node = layout_of(argument.numba_type)
            yield from identity_of(self.em, argument.name, node, primal, shadows)

    def _require_same(self, block: HandleFields, words: Sequence[tuple[str, Any]]) -> None:
        """Refuse arguments other than those the tape was made from."""
        builder = self.builder
        differs: dict[str, Any] = {}
        for number, (name, word) in enumerate(words):
            changed = builder.icmp_unsigned("!=", builder.load(block.word(number)), word)
            differs[name] = builder.or_(differs[name], changed) if name in differs else changed
        for name, condition in differs.items():
            message = f"the tape was made from another `{name}` or another shadow of it"
            self.em.raise_if(condition, TapeError, (message,))

    # --- the result and its cotangent ---

    def _result(self, pointer: Value) -> Value:
        value = self.builder.load(pointer)
        return self.context.get_returned_value(self.builder, self.gradient.result_type, value)

    def _cotangent(self, address: Value, dret: tuple[Any, Any]) -> Any:
        """The shadow of the result, which is at `address`, with the cotangent's floats inserted;
        None if the cotangent has no floats outside arrays.
        """
        if self.split_spec.result not in (Active, MixedDuplicated):
            return None
        result = self.gradient.result_type
        nodes = layout_of(result), layout_of(dret[0])
        merged = rebuild(self.em, nodes, (self._result(address), dret[1]), self._merged)
        return self.context.get_return_value(self.builder, result, merged)

    def _merged(self, em: Emit, leaves: tuple[Node, Node], shadow: Value, dret: Any) -> Any:
        """A part of the shadow with the floats of the cotangent; arrays of a cotangent that the
        user passes must be those of the shadow.
        """
        result, dret_type = (leaf.numba_type for leaf in leaves)
        if isinstance(leaves[0], Number):
            return self.context.cast(self.builder, dret, dret_type, result)
        if optional_leaf(result) is not None:
            return self._merged_optional(em, leaves, shadow, dret)
        if isinstance(result, types.Array) and not self.has_cotangent:
            of_shadow, passed = (
                self.em.array(ty, value).data for ty, value in ((result, shadow), (dret_type, dret))
            )
            message = "the arrays of a cotangent are those of the shadow that `augmented` returned"
            differs = self.builder.icmp_unsigned("!=", of_shadow, passed)
            self.em.raise_if(differs, TapeError, (message,))
        return shadow

    def _merged_optional(
        self, em: Emit, leaves: tuple[Node, Node], shadow: Value, dret: Any
    ) -> Value:
        """Like `_merged`, for an optional part. Its cotangent may be None: then that of a number is
        zero, and that of an array is what the shadow contains.
        """
        context, builder = self.context, self.builder
        result, dret_type = (leaf.numba_type for leaf in leaves)
        merged = context.make_helper(builder, result, shadow)
        if is_number(result.type):
            merged.data = context.get_constant_null(result.type)
        if dret_type == types.none:
            return merged._getvalue()
        is_given, value = cgutils.true_bit, dret
        if isinstance(dret_type, types.Optional):
            cotangent = context.make_helper(builder, dret_type, dret)
            is_given, value = cgutils.as_bool_bit(builder, cotangent.valid), cotangent.data
        missing = builder.not_(cgutils.as_bool_bit(builder, merged.valid))
        message = "a cotangent is given for what is None in the result"
        self.em.raise_if(builder.and_(is_given, missing), TapeError, (message,))
        with builder.if_then(is_given):
            inside = layout_of(result.type), layout_of(returned_type(dret_type))
            merged.data = self._merged(em, inside, merged.data, value)
        return merged._getvalue()

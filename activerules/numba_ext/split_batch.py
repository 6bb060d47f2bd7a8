"""Batches of shadows in split mode: the augmented primal runs once, the reverse once per lane.

The tape of a batch is the tape of one lane together with its working shadows. For every lane the
reverse plays over that tape, between the working shadows and those of the lane; see `batch`.

Invariants  P1  one width for activities, shadows and cotangents (`BatchWidthMismatch`)
            P2  the shadows of all lanes are checked in both halves, before anything runs
            P3  a tape is used once: all lanes are one use
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.activity import Active, Const, Duplicated
from activerules.annotations.signature import SplitSpec
from activerules.errors import BatchWidthMismatch, NotYetSupported, TapeError
from activerules.numba_ext import checks, memory
from activerules.numba_ext.batch import BATCHED, Lanes, first_lane, is_batched, width_of
from activerules.numba_ext.emitter import Call, all_fields
from activerules.numba_ext.intrinsics import dispatcher_of_type
from activerules.numba_ext.split import (
    SplitEmitter,
    play_form,
    read_kinds,
    read_split,
    record_form,
    tape_type,
)
from activerules.numba_ext.split_results import require_cotangent
from activerules.numba_ext.tape_handle import FRESH, RUNNING, USED, Block
from activerules.rules.pattern import type_name


def recording(typing_context, spec, function, *args):
    """`record_form`, for batches too."""
    if not is_batched(tuple(map(types.unliteral, args))):
        return record_form(typing_context, spec, function, *args)
    args = tuple(map(types.unliteral, args))
    asked, call, width = _read(spec.value, function, args)
    tape = _tape_type(call)
    result = call.gradient.result_type
    wants_primal = spec.value.returns_primal
    parts = (tape, result if wants_primal else types.none, types.none)

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        emitter = SplitEmitter(context, builder, call, asked, owns_shadows=True)
        lanes = Lanes(emitter, args, all_fields(context, builder, args, values[2]), width)
        lanes.check()
        fields = lanes.working()
        handle, primal, _ = emitter.record(fields)
        shadows = [shadow for _, shadow in fields if shadow is not None]
        working = context.make_tuple(builder, tape[1], shadows)
        nothing = context.get_dummy_value()
        if not wants_primal:
            context.nrt.decref(builder, result, primal)
            primal = nothing
        kept = context.make_tuple(builder, tape, [handle, working])
        return context.make_tuple(builder, typed.return_type, [kept, primal, nothing])

    return signature(types.Tuple(parts), spec, function, types.Tuple(args)), codegen


def playing(typing_context, spec, function, *args):
    """`play_form`, for batches too: the cotangent is a tuple, derivatives are tuples."""
    *given, dret, tape = map(types.unliteral, args)
    if not is_batched(given):
        return play_form(typing_context, spec, function, *args)
    asked, call, width = _read(spec.value, function, given)
    if tape != _tape_type(call):
        raise TapeError(
            f"{type_name(tape)} was given to the reverse of {call.gradient.symbol}",
            instead=["the tape that `augmented` of the same autodiff_thunk returned"],
        )
    bars = _cotangents(typing_context, asked, call, dret, width)
    by_argument: list[Any] = [
        types.none if isinstance(ty, types.NoneType) else types.UniTuple(ty, width)
        for ty in call.derivative_types
    ]

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        *fields, (cotangents, _), (handle, _) = all_fields(
            context, builder, (*given, dret, tape), values[2]
        )
        emitter = SplitEmitter(context, builder, call, asked)
        lanes = Lanes(emitter, given, fields, width)
        lanes.check()
        single, working = cgutils.unpack_tuple(builder, handle, 2)
        fields = lanes.with_working(cgutils.unpack_tuple(builder, working, len(tape[1])))
        block = _block(emitter, tape[0], single)
        taken = block.change_state(FRESH, RUNNING)
        with cgutils.if_unlikely(builder, builder.not_(taken)):
            message = "a tape is used a second time: its reverse has run"
            context.call_conv.return_user_exc(builder, TapeError, (message,))
        seeds = cgutils.unpack_tuple(builder, cotangents, width) if bars else [None] * width
        found = [
            lanes.play(fields, lane, (bars[lane] if bars else types.none, seeds[lane]), single)
            for lane in range(width)
        ]
        emitter.drop(single)
        block.set_state(USED)
        items = [
            context.make_tuple(builder, ty, column)
            if isinstance(ty, types.BaseTuple)
            else context.get_dummy_value()
            for ty, column in zip(by_argument, zip(*found, strict=True), strict=True)
        ]
        return context.make_tuple(builder, typed.return_type, items)

    typed = signature(types.Tuple(by_argument), spec, function, types.Tuple((*given, dret, tape)))
    return typed, codegen


def _read(asked: SplitSpec, function: Any, args: Sequence[Any]) -> tuple[SplitSpec, Call, int]:
    """What is asked for in one lane, its call, and the width."""
    dispatcher = dispatcher_of_type(function)
    if asked.result not in (Active, Const):
        raise NotYetSupported(
            f"a return marked {asked.result.__name__}, with several shadows per argument",
            why="each lane would have a shadow of what is returned",
            instead=["vjp, whose pullback is called once per cotangent"],
        )
    checks.refuse_runtime_activity(asked.options, "with several shadows per argument")
    kinds = tuple(Duplicated if kind in BATCHED else kind for kind in asked.arguments)
    firsts = [first_lane(ty) for ty in args]
    one = replace(asked, arguments=kinds, repeated=True)
    names = checks.read_arity(dispatcher, len(args))
    width = width_of(names, args)
    read_kinds(one, dispatcher, firsts)
    one, call = read_split(one, function, firsts)
    return one, call, width


def _tape_type(call: Call) -> Any:
    """The tape of one lane, and the working shadows."""
    shadows = [
        memory.shadow_type(a.numba_type) for a in call.arguments if a.activity == "duplicated"
    ]
    return types.Tuple([tape_type(call), types.Tuple(shadows)])


def _cotangents(
    typing_context: Any, asked: SplitSpec, call: Call, dret: Any, width: int
) -> tuple[Any, ...]:
    """The types of the cotangents, one per lane; none if the return is Const."""
    if asked.result is not Active:
        return ()
    if not isinstance(dret, types.BaseTuple) or len(dret) != width:
        raise BatchWidthMismatch(
            f"the cotangent is {type_name(dret)}, and the arguments have {width} shadows",
            instead=[f"a tuple of {width} cotangents"],
        )
    lanes = checks.items_of(dret)
    for lane in lanes:
        require_cotangent(typing_context, Active, call.gradient.result_type, lane)
    return lanes


def _block(emitter: SplitEmitter, tape: Any, handle: Any) -> Block:
    """The state of a tape; what follows it in the block does not matter."""
    context, builder = emitter.context, emitter.builder
    native = cgutils.create_struct_proxy(tape)(context, builder, handle)
    block = Block(context, builder, tape.memory, cgutils.int8_t, 0)
    block.at(native.block)
    return block

"""Batches of shadows in split mode: one augmented primal, and one reverse for all lanes.

If a rule needs a primal sweep for every lane (see `batch`), the reverse runs once per lane instead.
The tape is then that of one lane together with its working shadows. For every lane the reverse runs
over that tape, with contents moved between the working shadows and those of the lane.

Invariants  P1  one width for activities, shadows and cotangents (`BatchWidthMismatch`)
            P2  the shadows of all lanes are checked in both halves, before anything runs
            P3  a tape is used once, for all lanes
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.activity import Active, Const
from activerules.annotations.signature import SplitSpec
from activerules.errors import NotYetSupported, TapeError
from activerules.numba_ext.calls import call_arguments, checks
from activerules.numba_ext.calls.emitter import DerivativeCall, all_fields, is_batched
from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.calls.lanes import (
    first_lane,
    lane_tuples,
    one_lane,
    packed_lanes,
    width_of,
)
from activerules.numba_ext.codegen.protocols import Builder, Context, Emit, Value
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.split.batch import Lanes, refuse_shared_records
from activerules.numba_ext.split.forms import (
    SplitEmitter,
    play_form,
    read_cotangents,
    read_split,
    record_form,
    tape_type,
    wrong_tape,
)
from activerules.numba_ext.split.tape_handle import FRESH, RUNNING, USED, USED_TWICE, state_of
from activerules.values.kinds import items_of
from activerules.values.kinds import shadow_type as shadow_type_of
from activerules.values.shadows import own_constants


def recording(typing_context, spec, function, *args):
    """`record_form`, for batches too."""
    args = tuple(map(runtime_type, args))
    if not is_batched(args) or _shares_sweep(spec.value, function, args):
        return record_form(typing_context, spec, function, *args)
    split_spec, call, width = _read_one_lane(spec.value, function, args)
    tape = _tape_type(call)
    result = call.gradient.result_type
    wants_primal = split_spec.wants_primal
    parts = (tape, result if wants_primal else types.none, types.none)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        em = Emit(context, builder)
        emitter = SplitEmitter(em, call, split_spec, owns_shadows=True)
        lanes = Lanes(emitter, args, all_fields(em, args, values[2]), width)
        lanes.check()
        fields = lanes.working()
        handle, primal, _ = emitter.record(fields)
        shadows = [shadow for _, working in fields for shadow in working]
        for ty, lane in zip(items_of(tape[1]), shadows, strict=True):
            own_constants(em, ty, lane)
        working = context.make_tuple(builder, tape[1], shadows)
        nothing = context.get_dummy_value()
        if not wants_primal:
            context.nrt.decref(builder, result, primal)
            primal = nothing
        tape_tuple = context.make_tuple(builder, tape, [handle, working])
        return context.make_tuple(builder, typed.return_type, [tape_tuple, primal, nothing])

    return signature(types.Tuple(parts), spec, function, types.Tuple(args)), codegen


def playing(typing_context, spec, function, *args):
    """`play_form`, for batches too: the cotangent is a tuple, derivatives are tuples."""
    *annotated, dret, tape = map(runtime_type, args)
    if not is_batched(annotated) or _shares_sweep(spec.value, function, annotated):
        return play_form(typing_context, spec, function, *args)
    split_spec, call, width = _read_one_lane(spec.value, function, annotated)
    if tape != _tape_type(call):
        raise wrong_tape(tape, function)
    bars = read_cotangents(typing_context, split_spec, call, dret, width, batched=True)
    by_argument = lane_tuples(call.derivative_types, width, batched=True)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        em, passed = Emit(context, builder), (*annotated, dret, tape)
        *fields, (cotangents, _), (handle, _) = all_fields(em, passed, values[2])
        emitter = SplitEmitter(em, call, split_spec)
        lanes = Lanes(emitter, annotated, fields, width)
        single, working = cgutils.unpack_tuple(builder, handle, 2)
        fields = lanes.with_working(cgutils.unpack_tuple(builder, working, len(tape[1])))
        lanes.check(fields)
        block = state_of(em, tape[0], single)
        taken = block.change_state(FRESH, RUNNING)
        em.raise_if(builder.not_(taken), TapeError, (USED_TWICE,))
        seeds = [None] * width
        if split_spec.result is Active:
            seeds = cgutils.unpack_tuple(builder, cotangents, width)
        derivatives = [
            lanes.play(fields, lane, seed, single)
            for lane, seed in enumerate(zip(bars, seeds, strict=True))
        ]
        emitter.drop(single)
        block.set_state(USED)
        items = packed_lanes(em, by_argument, derivatives)
        return context.make_tuple(builder, typed.return_type, items)

    argtypes = types.Tuple((*annotated, dret, tape))
    typed = signature(types.Tuple(by_argument), spec, function, argtypes)
    return typed, codegen


def _shares_sweep(split_spec: SplitSpec, function: Any, args: Sequence[Any]) -> bool:
    """Whether one reverse sweep serves all lanes."""
    _, call = read_split(split_spec, function, args)
    names = [argument.name for argument in call.arguments]
    return call.gradient.width == width_of(names, args)


def _read_one_lane(
    split_spec: SplitSpec, function: Any, args: Sequence[Any]
) -> tuple[SplitSpec, DerivativeCall, int]:
    """The specification and the call for one lane, and the width."""
    dispatcher = dispatcher_of_type(function)
    if split_spec.result not in (Active, Const):
        raise NotYetSupported(
            f"a return marked {split_spec.result.__name__}, with several shadows per argument",
            why="a rule in it needs a primal sweep for every lane",
            instead=["vjp, whose pullback is called once per cotangent"],
        )
    checks.refuse_runtime_activity(split_spec.options)
    width = width_of(call_arguments.parameter_names(dispatcher, len(args)), args)
    single = replace(one_lane(split_spec), repeated=True)
    single, call = read_split(single, function, [first_lane(ty) for ty in args])
    refuse_shared_records(call.arguments)
    return single, call, width


def _tape_type(call: DerivativeCall) -> Any:
    """The type of a pair: the tape of one lane, and the working shadows."""
    shadows = [shadow_type_of(a.numba_type) for a in call.arguments if a.activity == "duplicated"]
    return types.Tuple([tape_type(call), types.Tuple(shadows)])

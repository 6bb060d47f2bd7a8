"""Reverse mode for several shadows at once: one primal sweep, and a reverse per lane.

The primal is recorded once, with working shadows. For every lane the reverse plays over that tape.
An argument the function only reads has its derivative added to the lane's shadow; one that it
writes has the lane's shadow moved in and out, since the reverse consumes what it holds. The seed of
an Active return goes to every lane.

Invariants  B1  one width for the whole call (`BatchWidthMismatch`)
            B2  the shadows of all lanes are checked before the primal runs: layout, overlap with
                primals and with other lanes
            B3  nothing is held when an exception leaves
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature
from numba.extending import register_jitable

from activerules.annotations.activity import (
    Active,
    Annotation,
    BatchDuplicated,
    BatchDuplicatedNoNeed,
    Const,
    Duplicated,
)
from activerules.annotations.signature import SplitSpec
from activerules.errors import ActivityError, BatchWidthMismatch
from activerules.numba_ext import checks, memory
from activerules.numba_ext.emitter import Call, all_fields
from activerules.numba_ext.intrinsics import compiled, dispatcher_in, return_activity
from activerules.numba_ext.overwriting import overwrite
from activerules.numba_ext.split import SplitEmitter
from activerules.numba_ext.types import AnnotationType, marker_class

BATCHED = (BatchDuplicated, BatchDuplicatedNoNeed)


def is_batched(args: Sequence[Any]) -> bool:
    """Whether any argument of a call has several shadows."""
    return any(isinstance(ty, AnnotationType) and ty.kind in BATCHED for ty in args)


def batch_form(mode, function, args):
    """`autodiff(Reverse, function, [return activity,] *annotated)` with batched arguments."""
    marker = marker_class(args[0]) if args else None
    annotated = args if marker is None else args[1:]
    dispatcher = dispatcher_in(function)
    with checks.naming(dispatcher):
        names = checks.read_arity(dispatcher, len(annotated))
        width = width_of(names, annotated)
        arguments = checks.read_arguments(names, [first_lane(ty) for ty in annotated])
        checks.require_arrays(arguments, "batches in reverse")
    checks.refuse_holomorphic(mode.value)
    checks.refuse_runtime_activity(mode.value.options, "with several shadows per argument")
    gradient = compiled(
        dispatcher, arguments, return_activity(marker), split=True, options=mode.value.options
    )
    result: type[Annotation] = Const
    if gradient.return_activity == "active":
        checks.require_float_return(dispatcher, gradient.result_type)
        result = Active
    call = Call(arguments, gradient)
    by_argument: list[Any] = [
        types.none if isinstance(ty, types.NoneType) else types.UniTuple(ty, width)
        for ty in call.derivative_types
    ]
    derivatives = types.Tuple(by_argument)
    result_type: Any = derivatives
    if mode.value.returns_primal:
        result_type = types.Tuple([derivatives, gradient.result_type])

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        fields = all_fields(context, builder, args, values[2])[len(args) - len(annotated) :]
        asked = SplitSpec(result, (), True, repeated=True)
        emitter = SplitEmitter(context, builder, call, asked, owns_shadows=True)
        bars, primal = Lanes(emitter, annotated, fields, width).run()
        items = [
            context.make_tuple(builder, ty, lanes)
            if isinstance(ty, types.UniTuple)
            else context.get_dummy_value()
            for ty, lanes in zip(by_argument, zip(*bars, strict=True), strict=True)
        ]
        gradients = context.make_tuple(builder, derivatives, items)
        if mode.value.returns_primal:
            return context.make_tuple(builder, typed.return_type, [gradients, primal])
        context.nrt.decref(builder, gradient.result_type, primal)
        return gradients

    return signature(result_type, mode, function, types.Tuple(args)), codegen


def width_of(names: Sequence[str], args: Sequence[Any]) -> int:
    """The one width of a call (B1)."""
    widths: dict[str, int] = {}
    for name, ty in zip(names, args, strict=True):
        kind = ty.kind if isinstance(ty, AnnotationType) else Const
        if kind in BATCHED:
            if not isinstance(ty.dval, types.BaseTuple) or not len(ty.dval):
                raise ActivityError(
                    f"the shadows of `{name}` are {ty.dval}",
                    why=f"{kind.__name__} takes a tuple of shadows, one per derivative",
                    instead=[f"{kind.__name__}({name}, (d{name}1, d{name}2))"],
                )
            widths[name] = len(ty.dval)
        elif kind not in (Active, Const):
            widths[name] = 1
    if len(set(widths.values())) > 1:
        found = ", ".join(f"`{name}` has {n}" for name, n in widths.items())
        raise BatchWidthMismatch(
            f"the arguments of one call have different numbers of shadows: {found}",
            instead=["BatchDuplicated with as many shadows for each"],
        )
    return next(iter(widths.values()))


def first_lane(ty: Any) -> Any:
    """The annotation of a call of width one; every lane has its type."""
    if not isinstance(ty, AnnotationType) or ty.kind not in BATCHED:
        return ty
    lanes = checks.items_of(ty.dval)
    if any(lane != lanes[0] for lane in lanes):
        raise ActivityError(f"the shadows of one argument have different types: {ty.dval}")
    return AnnotationType(Duplicated, ty.val, lanes[0])


class Lanes:
    """The code of one batched call."""

    def __init__(
        self, emitter: SplitEmitter, args: Sequence[Any], fields: Sequence[Any], width: int
    ) -> None:
        self.emitter, self.width = emitter, width
        self.context, self.builder = emitter.context, emitter.builder
        self.args = args
        self.primals = [primal for primal, _ in fields]
        self.lanes = [
            cgutils.unpack_tuple(self.builder, shadows, width) if self._is_batched(k) else None
            for k, (_, shadows) in enumerate(fields)
        ]
        self.written = emitter.gradient.written

    def run(self) -> tuple[list[list[Any]], Any]:
        """The derivatives of every lane, and what the primal returned."""
        self.check()
        fields = self.working()
        tape, primal, _ = self.emitter.record(fields)

        def release() -> None:
            self._release(fields, tape)

        bars = [self.play(fields, lane, self._seed(), tape, release) for lane in range(self.width)]
        release()
        return bars, primal

    def working(self) -> list[tuple[Any, Any]]:
        """The primals, with new working shadows."""
        arguments = self.emitter.arguments
        return self.with_working(
            [
                memory.zero_shadow(self.context, self.builder, argument.numba_type, primal)
                for k, (primal, argument) in enumerate(zip(self.primals, arguments, strict=True))
                if self._is_batched(k)
            ]
        )

    def with_working(self, shadows: Sequence[Any]) -> list[tuple[Any, Any]]:
        """The primals, each with its working shadow if it is batched."""
        own = iter(shadows)
        return [
            (primal, next(own) if self._is_batched(k) else None)
            for k, primal in enumerate(self.primals)
        ]

    def play(
        self,
        fields: Sequence[tuple[Any, Any]],
        lane: int,
        seed: tuple[Any, Any],
        tape: Any,
        release: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """The reverse of one lane, for a cotangent of the result (type and value)."""
        self._each(fields, lane, _move_in, _clear)
        bars = self.emitter.play(fields, seed, tape, release=release)
        self._each(fields, lane, _move_out, _add)
        return bars

    def _seed(self) -> tuple[Any, Any]:
        """Type and value of the cotangent of the result."""
        if self.emitter.asked.result is not Active:
            return types.none, None
        ty = self.emitter.gradient.result_type
        return ty, self.context.get_constant(ty, 1.0)

    def _is_batched(self, k: int) -> bool:
        ty = self.args[k]
        return isinstance(ty, AnnotationType) and ty.kind in BATCHED

    def check(self) -> None:
        """Check the shadows of all lanes (B2)."""
        arrays = [
            memory.LaneArray(argument, written, primal, tuple(lanes or ()))
            for argument, written, primal, lanes in zip(
                self.emitter.arguments, self.written, self.primals, self.lanes, strict=True
            )
            if isinstance(argument.numba_type, types.Array)
        ]
        gradient = self.emitter.gradient
        memory.check_lanes(self.context, self.builder, arrays, gradient, self.width, lambda: None)

    def _each(self, fields: Any, lane: int, moved: Callable[..., Any], summed: Any) -> None:
        """Between the working shadow and the lane's: moved if it is written, else summed."""
        for k, (_, working) in enumerate(fields):
            if working is None:
                continue
            function = moved if self.written[k] else summed
            ty = self.emitter.arguments[k].numba_type
            typed = (memory.shadow_type(ty), checks.items_of(self.args[k].dval)[0])
            values = [working, (self.lanes[k] or ())[lane]]
            self.emitter.call_jitable(function, signature(types.none, *typed), values)

    def _release(self, fields: Any, tape: Any) -> None:
        for argument, (_, working) in zip(self.emitter.arguments, fields, strict=True):
            if working is not None:
                memory.release(self.context, self.builder, argument.numba_type, working)
        native = cgutils.create_struct_proxy(self.emitter.tape_type)(
            self.context, self.builder, tape
        )
        for own in cgutils.unpack_tuple(self.builder, native.held):
            memory.release_counted(self.builder, self.builder.extract_value(own, 0))
        memory.release_counted(self.builder, native.block)


@register_jitable
def _move_in(working, lane):
    overwrite(working, lane)


@register_jitable
def _clear(working, lane):
    working[...] = 0


@register_jitable
def _move_out(working, lane):
    overwrite(lane, working)


@register_jitable
def _add(working, lane):
    lane += working

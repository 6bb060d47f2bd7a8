"""Reverse mode for several shadows at once: one primal sweep, and one reverse sweep for all lanes.

The seed of an Active return goes to every lane. If a rule needs a primal sweep for every lane (D1
of `ir.generate.widen`), there is a reverse sweep per lane instead: the primal is recorded once,
with working shadows, and the reverse runs over that tape for every lane. If the function only reads
an argument, its derivative is added to the lane's shadow. If it writes the argument, the lane's
shadow is moved into the working shadow and back, since the reverse consumes its contents.

Invariants  B2  the shadows of all lanes are checked before the primal runs: layout, overlap with
                primals and with other lanes
            B3  an exception leaks no reference
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from numba.core import cgutils, types

from activerules.annotations.activity import BATCHED, Active, Const
from activerules.annotations.signature import SplitSpec
from activerules.numba_ext.calls import call_arguments, checks, error_context, memory
from activerules.numba_ext.calls.emitter import DerivativeCall, Emitter, Field
from activerules.numba_ext.calls.intrinsics import (
    compiled,
    derivative_form,
    dispatcher_in,
    return_activity,
)
from activerules.numba_ext.calls.lanes import first_lane, lane_tuples, packed_lanes, width_of
from activerules.numba_ext.codegen.protocols import Emit, Value
from activerules.numba_ext.codegen.types import AnnotationType, read_marker
from activerules.numba_ext.split.forms import SplitEmitter
from activerules.numba_ext.target.derivative import DerivativeSpec
from activerules.values import shadows as floats
from activerules.values.argument import ArgumentSpec, types_and_activities
from activerules.values.kinds import leaves_of
from activerules.values.shadows import zero_shadow


def batch_form(mode, function, args, deferred):
    """`autodiff(Reverse, function, [return activity,] *annotated)` with batched arguments."""
    marker, annotated = read_marker(args)
    dispatcher = dispatcher_in(function)
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(annotated))
        width = width_of(names, annotated)
        arguments = checks.read_arguments(names, [first_lane(ty) for ty in annotated])
    checks.refuse_holomorphic(mode.value)
    returned, options = return_activity(marker), mode.value.options
    spec = DerivativeSpec(
        *types_and_activities(arguments),
        returned,
        options=options,
        needs_primal=mode.value.returns_primal,
    )
    gradient = compiled(dispatcher, arguments, replace(spec, width=width, deferred=deferred))
    together = gradient.width == width
    if not together:
        checks.refuse_runtime_activity(options)
        refuse_shared_records(arguments)
        gradient = compiled(dispatcher, arguments, replace(spec, mode="split"))
    call = DerivativeCall(arguments, gradient)
    by_argument = lane_tuples(call.derivative_types, width, batched=True)
    derivatives = types.Tuple(by_argument)

    def emit(em: Emit, fields: list[Field]) -> tuple[Value, Value]:
        if together:
            lanes, primal = Emitter(em, call).emit(fields)
        else:
            lanes, primal = _one_by_one(em, call, annotated, fields, width)
        items = packed_lanes(em, by_argument, lanes)
        return em.context.make_tuple(em.builder, derivatives, items), primal

    return derivative_form(mode, function, args, derivatives, gradient.result_type, emit)


def _one_by_one(
    em: Emit, call: DerivativeCall, args: Sequence[Any], fields: Sequence[Field], width: int
) -> tuple[list[list[Any]], Any]:
    """Run one reverse sweep per lane, over one tape."""
    result = Active if call.gradient.return_activity == "active" else Const
    split_spec = SplitSpec(result, (), True, repeated=True)
    emitter = SplitEmitter(em, call, split_spec, owns_shadows=True)
    return Lanes(emitter, args, fields, width).run()


def refuse_shared_records(arguments: Sequence[ArgumentSpec]) -> None:
    """Refuse records if there are working shadows: nothing would own those of a record."""
    for argument in arguments:
        if argument.activity != "const":
            where = "a batch where a rule wants a primal sweep for every lane"
            checks.refuse_records(argument.name, argument.numba_type, where)


class Lanes:
    """The code of one batched call."""

    def __init__(
        self, emitter: SplitEmitter, args: Sequence[Any], fields: Sequence[Field], width: int
    ) -> None:
        self.emitter, self.width = emitter, width
        self.context, self.builder, self.em = emitter.context, emitter.builder, emitter.em
        self.args = args
        self.primals = [primal for primal, _ in fields]
        self.lanes = [lanes for _, lanes in fields]
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

    def working(self) -> list[Field]:
        """The primals, with new working shadows."""
        arguments = self.emitter.arguments
        return self.with_working(
            [
                zero_shadow(self.em, argument.numba_type, primal)
                for k, (primal, argument) in enumerate(zip(self.primals, arguments, strict=True))
                if self._is_batched(k)
            ]
        )

    def with_working(self, shadows: Sequence[Value]) -> list[Field]:
        """The primals, each with its working shadow if it is batched."""
        own = iter(shadows)
        return [
            (primal, (next(own),) if self._is_batched(k) else ())
            for k, primal in enumerate(self.primals)
        ]

    def play(
        self,
        fields: Sequence[Field],
        lane: int,
        seed: tuple[Any, Any],
        tape: Value,
        release: Callable[[], None] = lambda: None,
    ) -> list[Any]:
        """Run the reverse of one lane, for a cotangent of the result (type and value)."""
        for k, ty, working in self._working(fields):
            if self.written[k]:
                floats.take(self.em, ty, working, self.lanes[k][lane])
            else:
                floats.clear_shadow(self.em, ty, working)
        (bars,) = self.emitter.play(fields, [seed], tape, release=release)
        for k, ty, working in self._working(fields):
            move = floats.give if self.written[k] else floats.add
            move(self.em, ty, working, self.lanes[k][lane])
        return bars

    def _working(self, fields: Sequence[Field]) -> Iterator[tuple[int, Any, Any]]:
        """The position, type and working shadow of each argument that has one."""
        for k, (_, working) in enumerate(fields):
            for shadow in working:
                yield k, self.emitter.arguments[k].numba_type, shadow

    def _seed(self) -> tuple[Any, Any]:
        """Type and value of the cotangent of the result."""
        if self.emitter.split_spec.result is not Active:
            return types.none, None
        ty = self.emitter.gradient.result_type
        return ty, self.context.get_constant(ty, 1.0)

    def _is_batched(self, k: int) -> bool:
        ty = self.args[k]
        return isinstance(ty, AnnotationType) and ty.kind in BATCHED

    def check(self, working: Sequence[Field] | None = None) -> None:
        """Check the shadows of all lanes (B2).

        If the tape was made earlier, objects and lists may have changed since; then the shadows are
        compared with the tape's `working` shadows, which have their former structure.
        """
        emitter, primals = self.emitter, list(self.primals)
        for k, ty, shadow in self._working(working or ()):
            if not all(isinstance(leaf, types.Array) for leaf in leaves_of(ty)):
                primals[k] = shadow
        memory.check_lanes(
            self.em,
            emitter.arguments,
            list(zip(primals, self.lanes, strict=True)),
            emitter.gradient,
            self.width,
            lambda: None,
        )

    def _release(self, fields: Any, tape: Value) -> None:
        for argument, (_, working) in zip(self.emitter.arguments, fields, strict=True):
            for shadow in working:
                memory.release_shadow(self.em, argument.numba_type, shadow)
        native = cgutils.create_struct_proxy(self.emitter.tape_type)(
            self.context, self.builder, tape
        )
        for own in cgutils.unpack_tuple(self.builder, native.owned):
            memory.release_counted(self.builder, self.builder.extract_value(own, 0))
        memory.release_counted(self.builder, native.block)

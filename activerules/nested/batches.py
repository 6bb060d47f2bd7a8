"""Batches of shadows in code that is itself differentiated: one call per lane.

A gradient in such code is a function with rules, for one shadow per argument. So a batched call
becomes one call per lane; all but the last run on copies of the arguments, as each call runs the
function.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from activerules.annotations.activity import BATCHED, Active, Const, Duplicated
from activerules.api.autodiff import autodiff
from activerules.api.same_draws import exchange_states, states_if_drawn
from activerules.nested.options import zero_where_same
from activerules.nested.pullbacks import copy_arrays
from activerules.nested.read_calls import autodiff_of, names_of, returned_by, values_of
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.forward_checks import has_tangent, read_forward_arguments
from activerules.numba_ext.calls.lanes import first_lane, width_of
from activerules.numba_ext.calls.nested_forms import NestedCall
from activerules.numba_ext.codegen.made_once import compiled_lines
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.written import by_name, tuple_of


def call_per_lane(typing_context: TypingContext, call: NestedCall) -> Any:
    """The compiled function that replaces a call with batched arguments."""
    dispatcher, mode, marker, annotated = call.dispatcher, call.mode, call.marker, call.argtypes
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(annotated))
    forward = mode.direction == "forward"
    if forward:
        read = read_forward_arguments(names, annotated)
        arguments, width = read.arguments, read.width
    else:
        width = width_of(names, annotated)
        arguments = checks.read_arguments(names, [first_lane(ty) for ty in annotated])
    result = returned_by(typing_context, dispatcher, arguments)
    with_tangent = forward and marker is not Const and has_tangent(result)
    # lanes run on copies: shadows are compared with the argument's own memory before
    compares = "runtime_activity" in mode.options
    lines = [f"states = states_if_drawn(function, {tuple_of(values_of(annotated))})"]
    for lane in range(width):
        listed = _lane_arguments(annotated, lane, last=lane == width - 1, compares=compares)
        lines += ["exchange_states(states)"] * (lane > 0)
        lines.append(f"f{lane} = {autodiff_of(marker, listed)}")
    lines.append(f"return {_result(mode, annotated, width, with_tangent)}")
    scope = {
        **by_name(Active, Const, Duplicated, autodiff, copy_arrays, zero_where_same),
        **by_name(exchange_states, states_if_drawn),
        "function": dispatcher,
        "marker": marker,
        "mode": replace(mode, options=mode.options - {"runtime_activity"}),
    }
    return compiled_lines(dispatcher, "call", names_of(annotated), lines, scope, "nested", call)


def _lane_arguments(
    annotated: Sequence[Any], lane: int, *, last: bool, compares: bool
) -> list[str]:
    """The source text of the arguments of one lane of a batch."""
    arguments = []
    for k, (ty, value) in enumerate(zip(annotated, values_of(annotated), strict=True)):
        kind = ty.kind if isinstance(ty, AnnotationType) else None
        value = value if last else f"copy_arrays({value})"
        if kind in BATCHED:
            shadow = f"a{k}.dval[{lane}]"
            shadow = f"zero_where_same(a{k}.val, {shadow})" if compares else shadow
            arguments.append(f"Duplicated({value}, {shadow})")
        else:
            arguments.append(f"{'Active' if kind is Active else 'Const'}({value})")
    return arguments


def _result(mode: Any, annotated: Sequence[Any], width: int, with_tangent: bool) -> str:
    bars = "[0]" if mode.returns_primal else ""
    if mode.direction == "forward":
        lanes = tuple_of(f"f{lane}{bars}" for lane in range(width))
        result = lanes if with_tangent else "None"
    else:
        entries = [
            tuple_of(f"f{lane}{bars}[{k}]" for lane in range(width))
            if isinstance(ty, AnnotationType) and ty.kind is Active
            else "None"
            for k, ty in enumerate(annotated)
        ]
        result = tuple_of(entries)
    return f"({result}, f{width - 1}[1])" if mode.returns_primal else result

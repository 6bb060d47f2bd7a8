"""Jacobians by forward mode, written in Numba on top of `autodiff(Forward, ...)`.

One run of the function carries `WIDTH` tangents: unit vectors for as many numbers of the argument.
The code for a call is made from the types of its arguments. Arrays that the function writes into
are copied for each run. `jacobian_blocks` describes the form of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from activerules.annotations.activity import BatchDuplicated, Duplicated
from activerules.annotations.signature import Forward
from activerules.api.autodiff import autodiff
from activerules.api.jacobian_blocks import (
    arranged,
    carrying,
    require_copyable,
    require_holomorphic,
    require_numbers,
    require_rows,
    rows_of,
)
from activerules.api.jacobian_columns import Columns, columns_form
from activerules.api.list_arguments import by_arrays
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.numba_ext.calls import call_arguments, error_context
from activerules.numba_ext.calls.forward_forms import compiled_forward, compiles_for_derivative
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.codegen.types import SpecType, runtime_type
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import leaves_of
from activerules.values.leaf_texts import TupleTexts

WIDTH = 4


@compiled_only
def jacobian_forward(typing_context, spec, function, *args):
    """The Jacobian at plain arguments, by forward mode."""
    if not isinstance(spec, SpecType):
        return None
    by_lists = by_arrays(typing_context, jacobian_forward, spec, function, args)
    if by_lists is not None:
        return by_lists
    request = spec.value
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(args))
    argtypes = tuple(map(runtime_type, args))
    for i in request.argnums:
        with error_context.of_call(dispatcher):
            require_numbers(names[i], argtypes[i], complex_too=request.holomorphic)
    runs = {i: forward_run(dispatcher, names, argtypes, i) for i in request.argnums}
    result = next(iter(runs.values()))[1].result_type
    require_rows(dispatcher, result)
    if request.holomorphic:
        require_holomorphic(dispatcher, names, argtypes, request.argnums, result)
    texts = TupleTexts()
    columns = {f"x{i}": _columns(names, argtypes, i, *runs[i], texts) for i in request.argnums}
    blocks = arranged(
        texts, result, argtypes, request, lambda row, x: columns[x.root].block(row, x)
    )
    scope = {
        "autodiff": autodiff,
        "function": dispatcher,
        "Forward": Forward,
        "Duplicated": Duplicated,
        "BatchDuplicated": BatchDuplicated,
    }
    before = (spec, function)
    return columns_form(typing_context, before, args, list(columns.values()), blocks, scope)


def forward_run(
    dispatcher: Any, names: Sequence[str], argtypes: Sequence[Any], i: int
) -> tuple[int, CompiledDerivative]:
    """The number of tangents of argument `i` per run, and the derivative that carries them."""
    width = tangents_per_run(f"x{i}", argtypes[i])
    return width, _derivative(dispatcher, names, argtypes, i, width)


def tangents_per_run(root: str, ty: Any) -> int:
    """The number of tangents per run for an argument: one for each number, if it has no arrays."""
    leaves = carrying(root, ty)
    if not any(leaf.is_array for leaf in leaves):
        return len(leaves)
    # Code that is differentiated again is scalar.
    return 1 if compiles_for_derivative() else WIDTH


def _columns(
    names: Sequence[str],
    argtypes: Sequence[Any],
    i: int,
    width: int,
    gradient: CompiledDerivative,
    texts: TupleTexts,
) -> Columns:
    push, written = pushed(names, argtypes, i, gradient)
    rows = carrying("out", rows_of(gradient.result_type))
    return Columns(f"x{i}", argtypes, width, push, rows, written, texts)


def pushed(
    names: Sequence[str],
    argtypes: Sequence[Any],
    i: int,
    gradient: CompiledDerivative,
    first: int = 0,
) -> tuple[Callable[[list[str]], str], tuple[bool, ...]]:
    """The text of a run for tangents of argument `i`, and which arguments are copied for it.

    first   the number of the variable with the first argument: `x0`, `x1`, …
    """
    written = copied_arguments(names, argtypes, gradient)
    primals = names_of(written, first)

    def push(tangents: list[str]) -> str:
        args = list(primals)
        if len(tangents) == 1:
            args[i] = f"Duplicated({primals[i]}, {tangents[0]})"
            return f"(autodiff(Forward, function, {', '.join(args)}),)"
        args[i] = f"BatchDuplicated({primals[i]}, ({', '.join(tangents)},))"
        return f"autodiff(Forward, function, {', '.join(args)})"

    return push, written


def differentiated_again(
    dispatcher: Any, names: Sequence[str], argtypes: Sequence[Any], i: int
) -> CompiledDerivative:
    """The derivative with respect to argument `i`, for one tangent, to be differentiated again."""
    return _derivative(dispatcher, names, argtypes, i, 1, again=True)


def _derivative(
    dispatcher: Any,
    names: Sequence[str],
    argtypes: Sequence[Any],
    i: int,
    width: int,
    *,
    again: bool = False,
) -> CompiledDerivative:
    activities: list[ActivityName] = ["const"] * len(argtypes)
    activities[i] = "duplicated"
    arguments = [ArgumentSpec(*row) for row in zip(names, argtypes, activities, strict=True)]
    return compiled_forward(dispatcher, arguments, True, width, again=again, needs_primal=False)


def copied_arguments(
    names: Sequence[str], argtypes: Sequence[Any], gradient: CompiledDerivative
) -> tuple[bool, ...]:
    """For each argument, whether it must be copied because the function writes into its arrays.

    Raises `ActivityError` for an argument that the function writes into and that cannot be copied.
    """
    for name, ty, is_written in zip(names, argtypes, gradient.written, strict=True):
        if is_written:
            require_copyable(name, ty)
    return tuple(
        is_written and any(isinstance(leaf, types.Array) for leaf in leaves_of(ty))
        for is_written, ty in zip(gradient.written, argtypes, strict=True)
    )


def names_of(written: Sequence[bool], first: int = 0) -> list[str]:
    """The name to pass for each argument: its own (`x0`, …), or that of its copy (`y0`, …)."""
    return [f"{'y' if is_written else 'x'}{k}" for k, is_written in enumerate(written, first)]

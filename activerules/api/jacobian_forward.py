"""`jacfwd`: Jacobians by forward mode, written in Numba on top of `autodiff(Forward, ...)`.

One run of the function carries `WIDTH` tangents: unit vectors for as many numbers of the argument.
The code for a call is made from the types of its arguments. Arrays that the function writes into
are copied for each run. `jacobian_blocks` describes the form of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba import types

from activerules.annotations.signature import Forward
from activerules.api.derived import ArgNums, DerivedFunction, P
from activerules.api.has_aux import jacobian_function
from activerules.api.jacobian_blocks import (
    arranged,
    carrying,
    require_copyable,
    require_holomorphic,
    require_numbers,
    require_rows,
    rows_of,
)
from activerules.api.jacobian_columns import Columns, Run, columns_form
from activerules.api.list_arguments import by_arrays
from activerules.ir.derivatives.rulecall import ActivityName
from activerules.numba_ext.calls import call_arguments, error_context
from activerules.numba_ext.calls.factories import give_factory_form
from activerules.numba_ext.calls.forward_forms import compiled_forward
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import CompiledDerivative
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import leaves_of
from activerules.values.leaf_texts import TupleTexts

WIDTH = 4


def jacfwd(
    function: Callable[P, Any], argnums: ArgNums = 0, has_aux: bool = False, **options: Any
) -> DerivedFunction[P, Any]:
    """Return the Jacobian of a function, by forward mode.

    Arguments
        function  an `@njit` function or a plain one that Numba can compile; it returns numbers,
                  arrays of numbers, or tuples of these. It runs several times, with the same
                  random numbers if it draws some.
        argnums   what to differentiate with respect to: an argument by number or name, or a tuple
                  of several. They are floats, arrays of floats, and tuples of these; a
                  `numba.typed.List` of floats counts as an array.
        has_aux=True   the function returns `(value, aux)`, and the result is `(Jacobian, aux)`.
        holomorphic=True   f'(z), for complex arguments and result; it is not checked that the
                  function is holomorphic.
        options   cache, fastmath, nogil, error_model: as in `numba.njit`.

    Returns
        A function with the signature of `function`, callable from Python and inside `@njit`. Its
        result has the shape `out.shape + in.shape`; `jacrev` describes its form if results or
        arguments are tuples. Arrays that the function writes into are copied first.

    Raises
        ActivityError (at the call) for an argument that is not made of floats, or a result without
        numbers; and what `autodiff` raises.

    Cost      one run of the function per four numbers of the input, each carrying four tangents.

    >>> jacfwd(lambda x: x * x)(3.0)
    6.0
    """
    return jacobian_function(ForwardJacobian, function, argnums, has_aux, options)


@compiled_only
def jacobian_forward(typing_context, spec, function, *args):
    """The Jacobian at plain arguments, by forward mode."""
    if by_lists := by_arrays(typing_context, jacobian_forward, spec, function, args):
        return by_lists
    request = spec.value
    dispatcher = dispatcher_of_type(function)
    names = call_arguments.parameter_names(dispatcher, len(args))
    argtypes = tuple(map(runtime_type, args))
    for i in request.argnums:
        with error_context.of_call(dispatcher):
            require_numbers(names[i], argtypes[i], complex_too=request.holomorphic)
    derivatives = {i: derivative_along(dispatcher, names, argtypes, i) for i in request.argnums}
    result = next(iter(derivatives.values())).result_type
    require_rows(dispatcher, result)
    if request.holomorphic:
        require_holomorphic(dispatcher, names, argtypes, request.argnums, result)
    rows, texts = carrying("out", rows_of(result)), TupleTexts()
    columns = {
        f"x{i}": Columns(f"x{i}", argtypes, run_along(names, argtypes, i, each), rows, texts)
        for i, each in derivatives.items()
    }
    blocks = arranged(
        texts, result, argtypes, request, lambda row, x: columns[x.root].block(row, x)
    )
    return columns_form(typing_context, (spec, function), args, [*columns.values()], blocks)


class ForwardJacobian(DerivedFunction[..., Any]):
    """What `jacfwd` returns: a function that computes Jacobians in forward mode."""

    form = staticmethod(jacobian_forward)
    kind = "jacfwd"
    own_options = ("holomorphic",)


give_factory_form(jacfwd)


# --- parts that other derivatives use ---


def derivative_along(
    dispatcher: Any, names: Sequence[str], argtypes: Sequence[Any], i: int
) -> CompiledDerivative:
    """The derivative with respect to argument `i`, for as many tangents as a run takes."""
    width = tangents_per_run(f"x{i}", argtypes[i])
    return _derivative(dispatcher, names, argtypes, i, width)


def tangents_per_run(root: str, ty: Any) -> int:
    """The number of tangents per run for an argument: one for each number, if it has no arrays."""
    leaves = carrying(root, ty)
    if not any(leaf.is_array for leaf in leaves):
        return len(leaves)
    # Code that is differentiated again is scalar.
    return 1 if compiles_for_derivative() else WIDTH


def run_along(
    names: Sequence[str],
    argtypes: Sequence[Any],
    i: int,
    derivative: CompiledDerivative,
    first: int = 0,
) -> Run:
    """A run of the derivative with tangents of argument `i`.

    first   the number of the variable with the first argument: `x0`, `x1`, …
    """
    copied = copied_arguments(names, argtypes, derivative, first)
    primals = names_of(len(argtypes), copied, first)

    def push(tangents: list[str]) -> str:
        args = list(primals)
        if len(tangents) == 1:
            args[i] = f"Duplicated({primals[i]}, {tangents[0]})"
            return f"(autodiff(Forward, function, {', '.join(args)}),)"
        args[i] = f"BatchDuplicated({primals[i]}, ({', '.join(tangents)},))"
        return f"autodiff(Forward, function, {', '.join(args)})"

    return Run(derivative.width, push, copied, derivative.draws)


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
    return compiled_forward(dispatcher, arguments, True, width, mode=Forward, again=again)


def copied_arguments(
    names: Sequence[str], argtypes: Sequence[Any], derivative: CompiledDerivative, first: int = 0
) -> list[int]:
    """The arguments that must be copied because the function writes into their arrays, counted from
    `first`.

    Raises `NotYetSupported` if the function writes into an argument that cannot be copied.
    """
    copied = []
    for k, is_written in enumerate(derivative.written):
        if is_written:
            require_copyable(names[k], argtypes[k])
            if any(isinstance(leaf, types.Array) for leaf in leaves_of(argtypes[k])):
                copied.append(first + k)
    return copied


def names_of(count: int, copied: Sequence[int], first: int = 0) -> list[str]:
    """The name to pass for each argument: its own (`x0`, …), or that of its copy (`y0`, …)."""
    return [f"{'y' if k in copied else 'x'}{k}" for k in range(first, first + count)]

"""Runs that give columns of a Hessian, in one of two ways.

Forward mode over the gradient, several columns per run, which share what the gradient computes.
That is possible where the gradient is ordinary code, and worth it where it is expensive: see
`pipeline.ordinary`. Otherwise reverse mode over the derivative along a direction, a column per run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from activerules.api.jacobian_columns import Run
from activerules.api.jacobian_forward import copied_arguments, names_of
from activerules.errors import ActiverulesError
from activerules.numba_ext.calls.checks import read_gradient_arguments
from activerules.numba_ext.calls.intrinsics import ordinary_gradient
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.derivative import CompiledDerivative


def shared_gradient(
    dispatcher: Any, names: Sequence[str], argtypes: Sequence[Any], argnums: tuple[int, ...]
) -> CompiledDerivative | None:
    """The gradient, if several columns of its derivative share much of their work."""
    if compiles_for_derivative():
        return None
    try:
        arguments = read_gradient_arguments(names, argtypes, argnums)
        gradient = ordinary_gradient(dispatcher, arguments)
    except ActiverulesError:  # reverse mode over the derivative is refused as well, or needs less
        return None
    if gradient is None or not gradient.again.expensive or any(gradient.written):
        return None
    return gradient


def run_of_gradient(
    gradient: CompiledDerivative, j: int, count: int, width: int, first: int = 0
) -> Run:
    """A run of the compiled function `gradient` with tangents of argument `j` of `count`.

    first   the number of the variable with the first argument: `x0`, `x1`, …
    """

    def push(tangents: list[str]) -> str:
        args = [f"x{k}" for k in range(first, first + count)]
        args[j] = f"BatchDuplicated({args[j]}, ({', '.join(tangents)},))"
        return f"autodiff(Forward, gradient, {', '.join(args)})"

    return Run(width, push, draws=gradient.draws)


def run_of_derivative(
    gradient: str,
    names: Sequence[str],
    argtypes: Sequence[Any],
    once: CompiledDerivative,
    first: int = 0,
) -> Run:
    """A run of the compiled function named `gradient`: the gradient of `jvp.along`.

    once    the derivative along one tangent, which is differentiated
    first   as in `run_of_gradient`
    """
    copied = copied_arguments(names, argtypes, once, first)
    arguments = ", ".join(names_of(len(argtypes), copied, first))
    call = f"{gradient}(" if compiles_for_derivative() else f"passing({gradient}, "
    return Run(1, lambda tangents: f"({call}{arguments}, {tangents[0]}),)", copied, once.draws)

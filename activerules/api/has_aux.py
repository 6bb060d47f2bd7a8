"""`has_aux=True`: derivatives of functions that return `(value, aux)`, of the value only.

`aux` may be anything; it is constant to the derivative, and returned with it. A gradient runs the
function once, through its pullback. A Jacobian, which runs the function many times, runs it once
more for `aux`, and so does a gradient that is differentiated again, as `aux` then carries
derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from numba import types

from activerules.annotations.signature import GradientSpec
from activerules.annotations.values import make_zero
from activerules.api.derived import ArgNums, DerivedFunction, GradientFunction
from activerules.api.jacobian_blocks import copy_of
from activerules.api.same_draws import exchange_states, states_if_drawn
from activerules.api.value_and_aux import aux_of, constant_aux, value_alone
from activerules.api.vjp import vjp_stub
from activerules.errors import NotAFloatReturn
from activerules.numba_ext.calls import call_arguments, checks, error_context
from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.calls.nested_forms import calling
from activerules.numba_ext.codegen.chosen_by_types import chosen_by_types
from activerules.numba_ext.codegen.made_once import compiled_lines
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unoptimised import compiles_for_derivative
from activerules.numba_ext.target.dispatchers import require_flag, require_known
from activerules.rules.pattern import type_name
from activerules.rules.written import by_name, tuple_of


@compiled_only
def gradient_with_aux(typing_context, spec, function, *args):
    """The gradient and `aux`."""
    request, args = spec.value, tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    with error_context.of_call(dispatcher):
        names = call_arguments.parameter_names(dispatcher, len(args))
        checks.read_gradient_arguments(names, args, request.argnums)
    if compiles_for_derivative():
        lines, scope = _nested_gradient(request, dispatcher, len(args))
    else:
        lines, scope = _gradient_once(request, dispatcher, args)
    callee = _compiled_with_aux(dispatcher, request, args, lines, scope)
    return calling(typing_context, callee, (spec, function), args)


def _gradient_once(
    request: GradientSpec, dispatcher: Any, args: Sequence[Any]
) -> tuple[list[str], dict[str, Any]]:
    """Lines that run the function once, and the names they use."""
    stub = vjp_stub(constant_aux(dispatcher, len(args)), args, request.argnums)
    listed = ", ".join(f"x{k}" for k, _ in enumerate(args))
    bars = "".join(f"bars[{k}], " for k in request.argnums)
    gradient = bars.removesuffix(", ") if request.single else f"({bars})"
    lines = [
        f"out, pullback = stub({listed})",
        "bars = pullback((seed_of(out[0]), make_zero(out[1])))",
        f"return {'out' if request.with_value else gradient}, "
        f"{gradient if request.with_value else 'out[1]'}",
    ]
    return lines, {"stub": stub, "seed_of": seed_of, "make_zero": make_zero}


def _nested_gradient(
    request: GradientSpec, dispatcher: Any, count: int
) -> tuple[list[str], dict[str, Any]]:
    """Like `_gradient_once`, for a gradient that is differentiated again: aux is not constant."""
    value = value_alone(dispatcher, count)
    gradient = GradientFunction(value, request.given, with_value=request.with_value, options={})
    lines = [
        *_with_aux(count, f"found = gradient({', '.join(f'x{k}' for k in range(count))})"),
        f"return {'(found[0], aux), found[1]' if request.with_value else 'found, aux'}",
    ]
    return lines, {"gradient": gradient.dispatcher, **_aux_scope(dispatcher)}


def _with_aux(count: int, line: str) -> list[str]:
    """A line that runs the function, and others that compute aux from copies of the arguments and
    the same random numbers.
    """
    names = [f"x{k}" for k in range(count)]
    return [
        f"states = states_if_drawn(function, {tuple_of(names)})",
        f"aux = aux_of(function({', '.join(f'copy_of({name})' for name in names)}))",
        "exchange_states(states)",
        line,
    ]


def _aux_scope(dispatcher: Any) -> dict[str, Any]:
    called = by_name(aux_of, copy_of, exchange_states, states_if_drawn)
    return {"function": dispatcher, **called}


@compiled_only
def jacobian_with_aux(typing_context, spec, function, *args):
    """The Jacobian or Hessian, and `aux`."""
    request, args = spec.value, tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    call_arguments.parameter_names(dispatcher, len(args))
    options = {"holomorphic": True} if request.holomorphic else {}
    jacobian = request.auxiliary(value_alone(dispatcher, len(args)), request.given, options=options)
    listed = ", ".join(f"x{k}" for k, _ in enumerate(args))
    lines = [*_with_aux(len(args), f"found = jacobian({listed})"), "return found, aux"]
    scope = {"jacobian": jacobian.linked, **_aux_scope(dispatcher)}
    callee = _compiled_with_aux(dispatcher, request, args, lines, scope)
    return calling(typing_context, callee, (spec, function), args)


def _compiled_with_aux(
    dispatcher: Any,
    request: GradientSpec,
    args: tuple[Any, ...],
    lines: Sequence[str],
    scope: dict[str, Any],
) -> Any:
    parameters = [f"x{k}" for k, _ in enumerate(args)]
    key = request, args, compiles_for_derivative()
    return compiled_lines(dispatcher, "with_aux", parameters, lines, scope, *key)


@chosen_by_types
def seed_of(value):
    """The cotangent 1 of a float."""
    if not isinstance(value, types.Float):
        raise NotAFloatReturn(
            f"the first entry of the result is {type_name(value)}, not a float",
            why="a gradient is that of one number",
            instead=["jacobian(f, has_aux=True)"],
        )
    return lambda value: type(value)(1.0)


# --- the functions ---


class GradientWithAux(DerivedFunction[..., Any]):
    """What `grad` and `value_and_grad` return with `has_aux=True`."""

    form = staticmethod(gradient_with_aux)
    kind = "grad"
    suffix = "_with_aux"

    @property
    def _shown(self) -> dict[str, Any]:
        return {"has_aux": True, **self._own_options}


class JacobianWithAux(DerivedFunction[..., Any]):
    """What Jacobians and the Hessian return with `has_aux=True`; `of`, no option of a user, is the
    class they return otherwise.
    """

    form = staticmethod(jacobian_with_aux)
    own_options = ("holomorphic", "of")
    suffix = "_with_aux"

    def __init__(
        self, function: Any, argnums: ArgNums, *, with_value: bool = False, options: dict[str, Any]
    ) -> None:
        self.kind = options["of"].kind
        super().__init__(function, argnums, with_value=with_value, options=options)
        self._spec = replace(self._spec, auxiliary=options["of"])

    @property
    def _shown(self) -> dict[str, Any]:
        return {"has_aux": True, **{k: v for k, v in self._own_options.items() if k != "of"}}


def jacobian_function(
    kind: type[DerivedFunction[..., Any]],
    function: Any,
    argnums: ArgNums,
    has_aux: bool,
    options: dict[str, Any],
) -> DerivedFunction[..., Any]:
    """The Jacobian or Hessian of a function, of the class `kind`, with or without `aux`."""
    require_known(options, kind.own_options)
    if require_flag("has_aux", has_aux):
        return JacobianWithAux(function, argnums, options={**options, "of": kind})
    return kind(function, argnums, options=options)

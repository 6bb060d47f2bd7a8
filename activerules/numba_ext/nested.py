"""Gradients asked for by code that is itself differentiated.

The call of a gradient becomes calls of *cores*: a core is the gradient of one function by one
argument, as a compiled function with rules of its own (the layer above makes it, `use_cores`). In
the captured code its calls are marked calls, like those of any function with rules; what a rule
does with them is reverse over forward, so that no code with a tape is ever differentiated.
See docs/decisions/0008-reverse-over-forward.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

_makers: list[Callable[[Any, int], Any]] = []


def use_cores(make_core: Callable[[Any, int], Any]) -> None:
    """Say who makes the core of a dispatcher for an argument; the last one said counts."""
    _makers[:] = [make_core]


def nested_gradient(
    typing_context: Any, spec: Any, function: Any, dispatcher: Any, args: Sequence[Any]
) -> Any:
    """The compiled form of `grad` and `value_and_grad` where it is differentiated again."""
    (make_core,) = _makers
    request = spec.value
    callees = [make_core(dispatcher, place) for place in request.argnums]
    callees += [dispatcher] * request.with_value
    found = [typing_context.resolve_value_type(callee) for callee in callees]
    called = [one.get_call_type(typing_context, args, {}) for one in found]
    gradient_types = [one.return_type for one in called[: len(request.argnums)]]
    gradient_type = gradient_types[0] if request.single else types.Tuple(gradient_types)
    result_type = gradient_type
    if request.with_value:
        result_type = types.Tuple([called[-1].return_type, gradient_type])

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        primals = cgutils.unpack_tuple(builder, values[2], len(args))
        results = []
        for ty, sig in zip(found, called, strict=True):
            cast = zip(primals, args, sig.args, strict=True)
            passed = [context.cast(builder, value, *types_) for value, *types_ in cast]
            results.append(context.get_function(ty, sig)(builder, passed))
        gradient = results[0]
        if not request.single:
            items = results[: len(request.argnums)]
            gradient = context.make_tuple(builder, gradient_type, items)
        if not request.with_value:
            return gradient
        return context.make_tuple(builder, typed.return_type, [results[-1], gradient])

    return signature(result_type, spec, function, types.Tuple(args)), codegen

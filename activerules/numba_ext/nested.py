"""Gradients asked for by code that is itself differentiated.

The call of a gradient becomes the call of a compiled function that the layer above makes
(`use_nested`). In it is a call of the gradient as a function with rules; what a rule does is
reverse over forward, so that no code with a tape is ever differentiated. See
docs/decisions/0008-nested-derivatives.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.signature import GradientSpec
from activerules.errors import NotYetSupported
from activerules.rules.pattern import type_name
from activerules.values.argument import Argument

_makers: list[Callable[[NestedCall], Any]] = []


@dataclass(frozen=True)
class NestedCall:
    """A call of a gradient.

    given        the Numba types of what is passed: annotated arguments, or plain ones of `gradient`
    arguments    the arguments of the function, with their activities
    seeded       whether its return is Active
    with_primal  whether what it returns is asked for
    gradient     what a stub of `grad` asks for; None for `autodiff`
    options      of the mode
    """

    dispatcher: Any
    given: tuple[Any, ...]
    arguments: tuple[Argument, ...]
    seeded: bool
    with_primal: bool
    gradient: GradientSpec | None = None
    options: frozenset[str] = frozenset()


def use_nested(make: Callable[[NestedCall], Any]) -> None:
    """Say who makes the functions that stand for calls; the last one said counts."""
    _makers[:] = [make]


def nested_form(
    typing_context: Any, asked: NestedCall, before: Sequence[Any], args: Sequence[Any]
) -> Any:
    """The compiled form of a call whose last parameter is a tuple of `args`.

    The first of `args` that are not in `asked.given` say the activity of the return.
    """
    (make,) = _makers
    skipped = len(args) - len(asked.given)
    return calling(typing_context, make(asked), before, args, skipped)


def calling(
    typing_context: Any, callee: Any, before: Sequence[Any], args: Sequence[Any], skipped: int = 0
) -> Any:
    """A form that calls a compiled function with what is in its tuple of arguments."""
    result_type, call = _called(typing_context, callee, args[skipped:])

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        given = cgutils.unpack_tuple(builder, values[-1], len(args))[skipped:]
        return call(context, builder, given)

    return signature(result_type, *before, types.Tuple(args)), codegen


def calling_with(typing_context: Any, callee: Any, before: Sequence[Any], args: Sequence[Any]):
    """A form that calls a compiled function with its own last parameters."""
    result_type, call = _called(typing_context, callee, args)

    def codegen(context: Any, builder: Any, typed: Any, values: Any) -> Any:
        return call(context, builder, values[len(before) :])

    return signature(result_type, *before, *args), codegen


def _called(typing_context: Any, callee: Any, args: Sequence[Any]) -> tuple[Any, Any]:
    """What a compiled function returns for these types, and what emits the call of it."""
    found = typing_context.resolve_value_type(callee)
    called = found.get_call_type(typing_context, tuple(args), {})

    def call(context: Any, builder: Any, given: Sequence[Any]) -> Any:
        cast = zip(given, args, called.args, strict=True)
        passed = [context.cast(builder, value, *types_) for value, *types_ in cast]
        return context.get_function(found, called)(builder, passed)

    return called.return_type, call


def returned_by(typing_context: Any, dispatcher: Any, arguments: Sequence[Argument]) -> Any:
    """What a function returns for these arguments."""
    found = typing_context.resolve_value_type(dispatcher)
    argtypes = tuple(argument.numba_type for argument in arguments)
    return found.get_call_type(typing_context, argtypes, {}).return_type


def require_float_primal(name: str, found: Any) -> None:
    """Raise `NotYetSupported` unless the value of a nested gradient is one float."""
    if not isinstance(found, types.Float):
        raise NotYetSupported(
            f"the value of {name}, {type_name(found)}, together with its gradient, inside a "
            "function that is differentiated",
            instead=["the mode without primal, and a call of the function by itself"],
        )

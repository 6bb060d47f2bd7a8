"""Reading calls of derivatives in code that is itself differentiated, and the texts of new ones.

A function that replaces a call takes the same arguments, named `a0`, `a1`, …
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from numba import types

from activerules.annotations.activity import Annotation
from activerules.errors import NotYetSupported
from activerules.numba_ext.calls import call_arguments, checks
from activerules.numba_ext.calls.intrinsics import return_activity
from activerules.numba_ext.calls.nested_forms import NestedCall
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.codegen.types import AnnotationType
from activerules.rules.pattern import type_name
from activerules.values.argument import ArgumentSpec
from activerules.values.kinds import is_number


@dataclass(frozen=True)
class ReadCall:
    """A call of a reverse derivative with its arguments read.

    arguments    of the function, with their activities
    seeded       whether its return is Active
    with_primal  whether the primal's result, a float, is requested
    """

    call: NestedCall
    arguments: tuple[ArgumentSpec, ...]
    seeded: bool
    with_primal: bool


def read_call(typing_context: TypingContext, call: NestedCall) -> ReadCall:
    """Read a call of a gradient, without options and batches.

    Raises what the checks of such a call raise, and `NotYetSupported` if the value is asked for and
    is not one float.
    """
    names = call_arguments.parameter_names(call.dispatcher, len(call.argtypes))
    if call.gradient is not None:
        arguments = checks.read_gradient_arguments(names, call.argtypes, call.gradient.argnums)
        return ReadCall(call, arguments, True, call.gradient.with_value)
    checks.require_marked(call.dispatcher, call.mode, names, call.argtypes)
    arguments = checks.read_arguments(names, call.argtypes)
    result = returned_by(typing_context, call.dispatcher, arguments)
    wanted = return_activity(call.marker)
    if call.mode.returns_primal and not isinstance(result, types.Float):
        name = call.dispatcher.py_func.__name__
        raise NotYetSupported(
            f"the value of {name}, {type_name(result)}, together with its gradient, inside a "
            "function that is differentiated",
            instead=["the mode without primal, and a separate call of the function"],
        )
    seeded = wanted == "active" or (wanted is None and is_number(result))
    return ReadCall(call, arguments, seeded, call.mode.returns_primal)


def returned_by(
    typing_context: TypingContext, dispatcher: Any, arguments: Sequence[ArgumentSpec]
) -> Any:
    """The return type of a function for these argument types."""
    callee_type = typing_context.resolve_value_type(dispatcher)
    argtypes = tuple(argument.numba_type for argument in arguments)
    return callee_type.get_call_type(typing_context, argtypes, {}).return_type


def names_of(argtypes: Sequence[Any]) -> list[str]:
    """The names of the arguments."""
    return [f"a{k}" for k, _ in enumerate(argtypes)]


def values_of(argtypes: Sequence[Any]) -> list[str]:
    """The texts of the values of arguments, which may be annotated."""
    return [
        f"{name}.val" if isinstance(ty, AnnotationType) else name
        for name, ty in zip(names_of(argtypes), argtypes, strict=True)
    ]


def autodiff_of(marker: type[Annotation] | None, arguments: Iterable[str]) -> str:
    """The text of a call of `autodiff` of `function` with `mode`, and `marker` if there is one."""
    leading = ["mode", "function", *["marker"] * (marker is not None)]
    return f"autodiff({', '.join([*leading, *arguments])})"

"""Calls of derivatives in code that is itself differentiated.

Such a call is replaced by the call of a compiled function. The layer above writes it, and registers
itself with `use_nested`, for all modes, for `vjp` and for the halves of a split derivative. See
`activerules.nested.rewrite`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.annotations.activity import Annotation
from activerules.annotations.signature import GradientSpec, Mode, Reverse, SplitSpec
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value

REWRITTEN = frozenset({"holomorphic", "runtime_activity"})
"""Options of a mode that are dropped when a nested call is rewritten."""


@dataclass(frozen=True)
class NestedCall:
    """A call of a derivative.

    argtypes  the Numba types of its arguments: annotated, or plain if `gradient` is given
    mode      of `autodiff`
    marker    the activity of the return, if the call gives one
    gradient  the specification of a stub of `grad`; None for `autodiff`
    """

    dispatcher: Any
    argtypes: tuple[Any, ...]
    mode: Mode = Reverse
    marker: type[Annotation] | None = None
    gradient: GradientSpec | None = None


@dataclass(frozen=True)
class NestedHalf:
    """A call of one half of a split derivative.

    argtypes  the Numba types of its annotated arguments; for the reverse half, followed by those
              of the cotangent (or None) and the tape
    """

    half: Literal["augmented", "reverse"]
    spec: SplitSpec
    function: Any
    argtypes: tuple[Any, ...]


Rewrite = Callable[[Any, NestedCall | NestedHalf], Any]
MakeVjp = Callable[[Any, Sequence[Any]], Any]
_rewriters: list[tuple[Rewrite, MakeVjp]] = []


def use_nested(rewrite: Rewrite, make_vjp: MakeVjp) -> None:
    """Register the functions that write replacements of calls.

    rewrite   `(typing_context, call)` -> the function to call instead
    make_vjp  `(dispatcher, argtypes)` -> the function to call instead of `vjp`
    """
    _rewriters[:] = [(rewrite, make_vjp)]


def nested_vjp_stub(dispatcher: Any, argtypes: Sequence[Any]) -> Any:
    """The compiled function that returns `(out, pullback)` in code that is differentiated."""
    ((_, make_vjp),) = _rewriters
    return make_vjp(dispatcher, argtypes)


def nested_form(
    typing_context: TypingContext,
    call: NestedCall | NestedHalf,
    before: Sequence[Any],
    args: Sequence[Any],
) -> Any:
    """The compiled form of a call whose last parameter is a tuple of `args`.

    Leading items of `args` that are not in `call.argtypes` give the activity of the return.
    """
    ((rewrite, _),) = _rewriters
    skipped = len(args) - len(call.argtypes)
    return calling(typing_context, rewrite(typing_context, call), before, args, skipped)


def calling(
    typing_context: TypingContext,
    callee: Any,
    before: Sequence[Any],
    args: Sequence[Any],
    skipped: int = 0,
) -> Any:
    """A form that calls a compiled function with the items of a tuple of arguments."""
    result_type, call = _called(typing_context, callee, args[skipped:])

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        items = cgutils.unpack_tuple(builder, values[-1], len(args))[skipped:]
        return call(context, builder, items)

    return signature(result_type, *before, types.Tuple(args)), codegen


def calling_with(
    typing_context: TypingContext, callee: Any, before: Sequence[Any], args: Sequence[Any]
):
    """A form that calls a compiled function with its own last parameters."""
    result_type, call = _called(typing_context, callee, args)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        return call(context, builder, values[len(before) :])

    return signature(result_type, *before, *args), codegen


def _called(typing_context: TypingContext, callee: Any, args: Sequence[Any]) -> tuple[Any, Any]:
    """The return type of a compiled function for these types, and the emitter of the call."""
    callee_type = typing_context.resolve_value_type(callee)
    called = callee_type.get_call_type(typing_context, tuple(args), {})

    def call(context: Context, builder: Builder, values: Sequence[Any]) -> Any:
        cast = zip(values, args, called.args, strict=True)
        passed = [context.cast(builder, value, *types_) for value, *types_ in cast]
        return context.get_function(callee_type, called)(builder, passed)

    return called.return_type, call

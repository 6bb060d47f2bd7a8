"""Three compiled functions called in sequence, the second of which may raise.

A function compiled by Numba leaks the arrays it owns when it raises. Code that allocates arrays and
then runs a user's function is therefore split into steps: the arrays that the steps share are owned
here, and released if the second step raises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numba.core import cgutils, types
from numba.core.typing.templates import signature

from activerules.numba_ext.calls.intrinsics import compiled_only, dispatcher_of_type
from activerules.numba_ext.calls.outline import return_error
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.codegen.types import runtime_type
from activerules.numba_ext.codegen.unlinked import compile_to_link


@dataclass(frozen=True)
class Steps:
    """Functions that are compiled to be linked.

    make     of the arguments: a tuple with the arrays to begin with
    run      of that tuple and the arguments: what may raise
    finish   of the tuple, what `run` returned, and the arguments: the result
    """

    make: Any
    run: Any
    finish: Any


def steps_form(
    typing_context: TypingContext, steps: Steps, before: Sequence[Any], args: Sequence[Any]
) -> Any:
    """A form that takes the steps for a call whose last parameter is a tuple of `args`."""
    args = tuple(map(runtime_type, args))
    make = _Step.linked(steps.make, args)
    run = _Step.linked(steps.run, (make.result, *args))
    finish = _Step.linked(steps.finish, (make.result, run.result, *args))

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Any:
        items = cgutils.unpack_tuple(builder, values[-1], len(args))
        allocated = make.call(context, builder, items, [])
        first = run.call(context, builder, [allocated, *items], [(make.result, allocated)])
        owned = [(make.result, allocated), (run.result, first)]
        result = finish.call(context, builder, [allocated, first, *items], owned)
        for ty, value in owned:
            context.nrt.decref(builder, ty, value)
        return result

    return signature(finish.result, *before, types.Tuple(args)), codegen


@compiled_only
def passing(typing_context, function, *args):
    """Call a compiled function. Its exception is propagated in a form from which Numba sees that it
    need not own references to `args`. Not for code that is differentiated.
    """
    args = tuple(map(runtime_type, args))
    dispatcher = dispatcher_of_type(function)
    called = typing_context.resolve_value_type(dispatcher).get_call_type(typing_context, args, {})
    step = _Step(dispatcher.overloads[called.args], args)

    def codegen(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
        items = cgutils.unpack_tuple(builder, values[-1], len(args))
        return step.call(context, builder, items, [])

    return signature(step.result, function, types.Tuple(args)), codegen


class _Step:
    """A call of a compiled function with arguments of the types `args`."""

    def __init__(self, compiled: Any, args: Sequence[Any]) -> None:
        self._compiled, self._args = compiled, args
        self.result = compiled.signature.return_type

    @staticmethod
    def linked(function: Any, args: tuple[Any, ...]) -> _Step:
        """A call of a function that is compiled for it alone."""
        return _Step(compile_to_link(function, args), args)

    def call(self, context: Context, builder: Builder, values: Sequence[Value], owned: Any) -> Any:
        """Emit the call; if it raises, the arrays of the previous step are released."""
        compiled, called = self._compiled, self._compiled.signature
        context.add_linking_libs([compiled.library])
        cast = zip(values, self._args, called.args, strict=True)
        passed = [context.cast(builder, value, *types_) for value, *types_ in cast]
        status, result = context.call_internal_no_propagate(
            builder, compiled.fndesc, called, passed
        )
        with cgutils.if_unlikely(builder, status.is_error):
            for ty, value in owned:
                context.nrt.decref(builder, ty, value)
            return_error(context, builder, status)
        return result

"""Functions that make functions (`grad`, `hessian`, …), called inside `@njit`.

Such a call is evaluated while its caller is typed: its first argument is a dispatcher, the others
are literals, and its result is a dispatcher, which needs no code at run time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from numba.core import types
from numba.core.errors import RequireLiteralValue
from numba.core.typing.templates import Signature, make_intrinsic_template, signature

from activerules.numba_ext.calls.intrinsics import dispatcher_of_type
from activerules.numba_ext.codegen.chosen_by_types import give_template
from activerules.numba_ext.codegen.protocols import Builder, Context, TypingContext, Value
from activerules.numba_ext.target.dispatchers import dispatcher_of
from activerules.values.kinds import items_of


def give_factory_form(make: Callable[..., Any]) -> None:
    """Support `make(function, *literals)` inside `@njit`; its result is callable there.

    It is evaluated once per function and literals, so that callers share compiled code until the
    rules change.
    """
    parameters = inspect.signature(make).parameters.values()
    accepted = inspect.Signature(
        [p.replace(annotation=p.empty) for p in parameters if p.kind is not p.VAR_KEYWORD]
    )
    callables: dict[Any, Any] = {}

    def definition(
        typing_context: TypingContext, *args: Any, **kwargs: Any
    ) -> tuple[Signature, Any]:
        try:
            bound = accepted.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{make.__name__} inside @njit: {error}") from error
        bound.apply_defaults()
        function, *options = bound.arguments.values()
        values = tuple(map(_literal, options))
        target = _target(function)
        if (target, values) not in callables:
            callables[target, values] = make(target, *values)
        result = typing_context.resolve_value_type(callables[target, values])
        typed = (ty if isinstance(ty, types.Type) else types.Omitted(ty) for ty in options)
        return signature(result, function, *typed), _nothing

    definition.__signature__ = accepted.replace(  # type: ignore[attr-defined]
        parameters=[_CONTEXT, *accepted.parameters.values()]
    )
    give_template(make, make_intrinsic_template(make, definition, make.__name__))


def _target(function: Any) -> Any:
    """The dispatcher of the function argument; functions that Numba knows get one."""
    if isinstance(function, types.Function):
        return dispatcher_of(function.typing_key)
    return dispatcher_of_type(function)


_CONTEXT = inspect.Parameter("typing_context", inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _nothing(context: Context, builder: Builder, typed: Any, values: Sequence[Value]) -> Value:
    return context.get_dummy_value()


def _literal(ty: Any) -> Any:
    """The value of a literal type; a default, which is no type, is returned as it is."""
    if not isinstance(ty, types.Type):
        return ty
    if isinstance(ty, types.Omitted):
        return ty.value
    if isinstance(ty, types.Literal):
        return ty.literal_value
    if isinstance(ty, types.BaseTuple):
        return tuple(map(_literal, items_of(ty)))
    raise RequireLiteralValue("argnums and mode must be literals inside @njit")

"""Methods that Numba compiles from a function: those of `@overload_method` and of jitted classes.

Numba keeps one type of a bound method per type of object, and with it the typing context that
asked for it first, which then types every call of it. If that context is another target's, the
implementation is compiled for one target and recorded for the other, which has "no definition" of
it. So a context of the AD target has its own types of such methods, which the CPU never sees.

A method of a jitted class is typed with the functions of the user that it is given, as what it
compiles to know the result is for the CPU. It is compiled for this target, with their twins, where
the call is lowered.

`x.sum()` is `np.sum(x)` where that carries a rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.core.datamodel.models import handle_bound_function
from numba.extending import register_model

from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.target.marked_calls import RuleFunction


class Method(types.BoundFunction):
    """A method of `@overload_method`, for one typing context."""

    def __init__(self, template: Any, this: types.Type, context: TypingContext) -> None:
        self.context = context
        super().__init__(template, this)

    @property
    def key(self) -> Any:
        """What makes two types equal."""
        return *super().key, self.context

    def copy(self, this: types.Type) -> Method:
        """The same method of another object."""
        return Method(self.template, this, self.context)


class RuledMethod(types.BoundFunction):
    """A method of arrays that is a function of NumPy with rules."""

    def __init__(self, template: Any, this: types.Type, function: RuleFunction) -> None:
        self.function = function
        super().__init__(template, this)

    @property
    def key(self) -> Any:
        """What makes two types equal."""
        return *super().key, self.function

    def copy(self, this: types.Type) -> RuledMethod:
        """The same method of another array."""
        return RuledMethod(self.template, this, self.function)

    def get_call_type(self, context: TypingContext, args: Any, kws: dict[str, Any]) -> Any:
        """The signature of the NumPy function with the array as first argument, as a method."""
        found = self.function.get_call_type(context, (self.this, *args), kws)
        return None if found is None else found.as_method()


register_model(Method)(handle_bound_function)
register_model(RuledMethod)(handle_bound_function)

# Not `sort` and `partition`, which order the array itself, nor `copy`: `np.copy` has another order.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in "all any argmax argmin argsort clip cumprod cumsum diagonal dot max mean min "
    "nonzero prod ravel repeat reshape round searchsorted squeeze std sum take trace transpose "
    "var".split()
}


def function_of(this: types.Type, method: str) -> Callable[..., Any] | None:
    """The function of NumPy that a method of arrays is; None for other attributes."""
    return _FUNCTIONS.get(method) if isinstance(this, types.Array) else None


def of_context(found: Any, context: TypingContext) -> Any:
    """The type of an attribute, as `context` found it; of a method, one of its own."""
    implementation = getattr(getattr(found, "template", None), "_overload_func", None)
    if implementation is None:
        return found
    template: Any = found.template

    class Template(template):
        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            function = self.context.resolve_value_type(implementation)
            signature = function.get_call_type(self.context, (self.this, *args), kws)
            return signature.replace(pysig=inspect.signature(implementation)).as_method()

    return Method(Template, found.this, context)


def typed_with_originals(
    resolve: Callable[..., Any], method: Any, args: tuple[Any, ...], kws: dict[str, Any]
) -> Any:
    """The signature that `resolve` finds for a call of a method; it has the twins themselves."""
    twins: dict[Any, Any] = {}

    def original(found: Any) -> Any:
        plain = getattr(getattr(found, "dispatcher", None), "original", None)
        if plain is None:
            return found
        ordinary = types.Dispatcher(plain)
        twins[ordinary] = found
        return ordinary

    plain_args = tuple(map(original, args))
    found = resolve(method, plain_args, {name: original(ty) for name, ty in kws.items()})
    if found is None or not twins:
        return found
    return found.replace(args=tuple(twins.get(ty, ty) for ty in found.args))

"""Methods that Numba compiles from a function: those of `@overload_method` and of jitted classes.

Numba has one type of a bound method per type of object. It remembers the typing context that first
asked for it, which then types every call. If that context belongs to another target, the
implementation is compiled for one target and recorded for the other, which then finds "no
definition" of it. So an AD typing context has its own types of such methods, which the CPU target
never sees.

A call of a jitted class or of its method is typed with the user's functions that are passed to it,
not their twins, nor with their rules, since Numba compiles `__init__` or the method for the CPU to
find its result type. When the call is lowered, it is compiled for the AD target, with both.

`x.sum()` is `np.sum(x)` if that carries a rule.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.core import types
from numba.core.datamodel.models import handle_bound_function
from numba.extending import register_model

from activerules.errors import NotYetSupported
from activerules.numba_ext.codegen.protocols import TypingContext
from activerules.numba_ext.target.rule_function import RuleFunction, on_cpu


class Method(types.BoundFunction):
    """A method of `@overload_method`.

    owner   the typing context it belongs to
    """

    def __init__(self, template: Any, this: types.Type, owner: Any) -> None:
        self.owner = owner
        super().__init__(template, this)

    @property
    def key(self) -> Any:
        """The key by which Numba compares types."""
        return *super().key, self.owner

    def copy(self, this: types.Type) -> Method:
        """The same method of another object."""
        return type(self)(self.template, this, self.owner)


class RuledMethod(Method):
    """A method of arrays that equals a NumPy function with rules.

    owner   the type of that function
    """

    owner: RuleFunction

    def get_call_type(self, context: TypingContext, args: Any, kws: dict[str, Any]) -> Any:
        """The signature of the NumPy function, as a method of its first argument."""
        template: Any = self.template
        if len(args) > 1 and template.key in _OF_ONE_TUPLE:
            _, method = template.key.split(".")
            raise NotYetSupported(
                f"x.{method}(i, j), where np.{method}, which takes (i, j) as a tuple, has a rule",
                instead=[f"x.{method}((i, j))"],
            )
        typed = self.owner.get_call_type(context, (self.this, *args), kws)
        return None if typed is None else typed.as_method()


_OF_ONE_TUPLE = ("array.reshape", "array.transpose")
"""Methods that take one by one what the function takes as a tuple."""

register_model(Method)(handle_bound_function)
register_model(RuledMethod)(handle_bound_function)

# Not `sort` and `partition`, which change the array, nor `copy`: `np.copy` has another layout.
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(np, name)
    for name in "all any argmax argmin argsort clip cumprod cumsum diagonal dot max mean min "
    "nonzero prod ravel repeat reshape round searchsorted squeeze std sum take trace transpose "
    "var".split()
}


def function_of(this: types.Type, method: str) -> Callable[..., Any] | None:
    """The NumPy function that equals a method of arrays; None for other attributes."""
    return _FUNCTIONS.get(method) if isinstance(this, types.Array) else None


def of_context(ty: Any, context: TypingContext) -> Any:
    """The type of an attribute that `context` found; for a method, the context's own type of it."""
    implementation = getattr(getattr(ty, "template", None), "_overload_func", None)
    if implementation is None:
        return ty
    template: Any = ty.template

    class Template(template):
        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            function = self.context.resolve_value_type(implementation)
            signature = function.get_call_type(self.context, (self.this, *args), kws)
            return signature.replace(pysig=inspect.signature(implementation)).as_method()

    return Method(Template, ty.this, context)


def typed_on_cpu(
    resolve: Callable[..., Any], callee: Any, args: tuple[Any, ...], kws: dict[str, Any]
) -> Any:
    """The signature of a call of a method or class. `resolve` types it with the functions that are
    passed as they are on the CPU; the signature has the types of this target again.
    """
    on_target = {on_cpu(ty): ty for ty in (*args, *kws.values())}
    typed = resolve(callee, tuple(map(on_cpu, args)), {n: on_cpu(ty) for n, ty in kws.items()})
    if typed is None:
        return None
    return typed.replace(args=tuple(on_target.get(ty, ty) for ty in typed.args))

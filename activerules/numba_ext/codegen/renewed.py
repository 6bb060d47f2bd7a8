"""Functions whose compiled forms depend on the rules.

Numba types a call by a template, which caches the outcome by the types of the arguments. These do
not change when a rule is registered, but the derivative does: a function compiled afterwards must
not get the one that was chosen before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.core import types
from numba.core.typing.templates import infer, infer_global, make_overload_template

from activerules.rules.registry import RULES


def register(function: Callable[..., Any], template: Any) -> None:
    """Have calls of a Python function inside `@njit` typed by a template, which forgets its cached
    outcomes when the rules have changed.
    """

    class Template(template):
        epoch = RULES.epoch
        prefer_literal = True  # a package's literals, which functions choose their code by

        def generic(self, args: Any, kws: Any) -> Any:
            if Template.epoch != RULES.epoch:
                Template.epoch = RULES.epoch
                self._impl_cache.clear()
            return super().generic(args, kws)

    infer(Template)
    infer_global(function, types.Function(Template))


def overload(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `numba.extending.overload(function, strict=False)`, for implementations that depend on
    the rules.
    """

    def decorate(definition: Callable[..., Any]) -> Callable[..., Any]:
        options = {"nopython": True, "no_cpython_wrapper": True}
        register(
            function,
            make_overload_template(function, definition, options, strict=False, inline="never"),
        )
        return definition

    return decorate

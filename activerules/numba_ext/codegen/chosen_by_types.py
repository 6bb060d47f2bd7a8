"""Functions of compiled code, defined by the choice of their implementation.

Needs       a Python function, and what chooses an implementation for the types of its arguments
Gives       `chosen_by_types`; `chosen_by_rules`, `give_template`: where the choice depends on rules

Numba types a call by a template, which caches the outcome by the types of the arguments. These do
not change when a rule is registered, but derivatives do: a function compiled afterwards must not
get the one that was chosen before.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from numba import njit
from numba.core import types
from numba.core.typing.templates import infer, infer_global, make_overload_template
from numba.extending import overload

from activerules.rules.registry import RULES
from activerules.rules.written import function_from


def chosen_by_types(
    choose: Callable[..., Any] | None = None, *, prefer_literal: bool = False
) -> Callable[..., Any]:
    """A function for compiled code; `choose` maps the types of its arguments to the implementation.

    `choose` is as for `numba.extending.overload`: None means that the types are not supported. A
    call from Python compiles the function, for rules that are run without being compiled.
    """

    def define(choose: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(choose)
        def function(*args: Any) -> Any:
            return compiled()(*args)

        @cache
        def compiled() -> Any:
            names = ", ".join(inspect.signature(choose).parameters)
            source = f"def call({names}): return _chosen({names})"
            return njit(function_from(source, "call", {"_chosen": function}, module=__name__))

        overload(function, prefer_literal=prefer_literal)(choose)
        return function

    return define if choose is None else define(choose)


def give_template(function: Callable[..., Any], template: Any) -> None:
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


def chosen_by_rules(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `numba.extending.overload(function, strict=False)`, for implementations that depend on
    the rules.
    """

    def decorate(definition: Callable[..., Any]) -> Callable[..., Any]:
        options = {"nopython": True, "no_cpython_wrapper": True}
        give_template(
            function,
            make_overload_template(function, definition, options, strict=False, inline="never"),
        )
        return definition

    return decorate

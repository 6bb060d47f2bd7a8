"""Functions of compiled code, defined by the choice of their implementation."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from typing import Any

from numba import njit
from numba.extending import overload

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

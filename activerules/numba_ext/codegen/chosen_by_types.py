"""Functions of compiled code alone, defined by the choice of their implementation."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from numba.extending import overload


def chosen_by_types(
    choose: Callable[..., Any] | None = None, *, prefer_literal: bool = False
) -> Callable[..., Any]:
    """A function for compiled code; `choose` maps the types of its arguments to the implementation.

    `choose` is as for `numba.extending.overload`: None means that the types are not supported.
    """

    def define(choose: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(choose)
        def function(*_: Any, **__: Any) -> Any:
            raise NotImplementedError(f"{choose.__name__} is for compiled code")

        overload(function, prefer_literal=prefer_literal)(choose)
        return function

    return define if choose is None else define(choose)

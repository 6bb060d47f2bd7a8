"""Warnings about arrays that a differentiated function uses but is not passed.

Numba compiles arrays of the module, and of enclosing functions, as constants. A program that later
writes into such an array gets the derivative for the values at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from activerules.annotations.containers import is_array
from activerules.callables import location_of
from activerules.errors import FrozenArrayWarning
from activerules.pipeline.unserved_calls import warn_once
from activerules.rules.fingerprint import values_read
from activerules.rules.registry import RULES


def warn_frozen(dispatcher: Any) -> None:
    """Warn (`FrozenArrayWarning`), once per array, of writable arrays that are constants of a
    function, or of a function that it calls, outside installed packages.
    """
    for plain in _functions(dispatcher.py_func, []):
        for name, value in values_read(plain).items():
            if is_array(value) and value.flags.writeable:
                warn_once(
                    FrozenArrayWarning,
                    f"`{name}`, an array that {plain.__name__} uses but is not passed, is a "
                    "constant in its derivative, with the values it had when that was compiled. "
                    "Pass it as an argument; or say that it stays as it is: "
                    f"{name}.setflags(write=False). "
                    "Help: python -m activerules help FrozenArrayWarning",
                    location_of(plain),
                )


def _functions(plain: Any, known: list[Any]) -> Iterator[Any]:
    """A function, and the functions it uses."""
    if plain in known:
        return
    known.append(plain)
    yield plain
    for value in values_read(plain).values():
        # what `grad` returns, or a compiled function
        callee = getattr(getattr(value, "dispatcher", value), "py_func", None)
        if callee is None or RULES.carries_rule(value):
            continue  # the body of a function with a rule is not differentiated
        if "site-packages" not in callee.__code__.co_filename:
            yield from _functions(callee, known)

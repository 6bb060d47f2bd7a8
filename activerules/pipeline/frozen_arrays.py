"""Warnings about arrays that a differentiated function uses but is not passed.

Numba compiles arrays of the module, and of enclosing functions, as constants. A program that later
writes into such an array gets the derivative for the values at compile time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dis import get_instructions
from types import CodeType
from typing import Any

from activerules.annotations.containers import is_array
from activerules.errors import FrozenArrayWarning
from activerules.pipeline.unserved_calls import warn_once
from activerules.rules.fingerprint import is_filled
from activerules.rules.registry import RULES
from activerules.rules.rule import location_of


def warn_frozen(dispatcher: Any) -> None:
    """Warn (`FrozenArrayWarning`), once per array, of writable arrays that are constants of a
    function, or of a function that it calls, outside installed packages.
    """
    for plain in _functions(dispatcher.py_func, []):
        for name, value in _used(plain):
            if is_array(value) and value.flags.writeable:
                warn_once(
                    FrozenArrayWarning,
                    f"`{name}`, an array that {plain.__name__} is not passed, is a constant in "
                    "its derivative, with the values it had when that was compiled. Pass it as "
                    f"an argument; or say that it stays as it is: {name}.setflags(write=False). "
                    "Help: python -m activerules help FrozenArrayWarning",
                    location_of(plain),
                )


def _functions(plain: Any, known: list[Any]) -> Iterator[Any]:
    """A function, and the functions it uses."""
    if plain in known:
        return
    known.append(plain)
    yield plain
    for _, value in _used(plain):
        # what `grad` returns, or a compiled function
        callee = getattr(getattr(value, "dispatcher", value), "py_func", None)
        if callee is None or RULES.carries_rule(value):
            continue  # the body of a function with a rule is not differentiated
        if "site-packages" not in callee.__code__.co_filename:
            yield from _functions(callee, known)


def _used(plain: Any) -> Iterator[tuple[str, Any]]:
    """The variables of the module and of enclosing functions that a function uses."""
    code = plain.__code__
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        if is_filled(cell):
            yield name, cell.cell_contents
    for name in sorted(set(_names(code))):
        if name in plain.__globals__:
            yield name, plain.__globals__[name]


def _names(code: CodeType) -> Iterator[str]:
    """The module variables that the code reads; `co_names` has names of attributes, too."""
    for instruction in get_instructions(code):
        if instruction.opname == "LOAD_GLOBAL":
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)

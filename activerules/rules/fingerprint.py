"""Digests of what compiled code depends on: the same in every process where that is the same.

What is cached on disk is stored under them. That of the rules reads the code of the rule functions,
not that of the functions they call (as Numba's own cache does with its functions); that of the
engine goes by the files of this package.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import CellType, CodeType
from typing import Any
from uuid import uuid4

from activerules.annotations.containers import is_array, is_list, is_tuple
from activerules.rules.rule import Rule


def digest(parts: Iterable[object]) -> str:
    """Digest of the written forms of some values; their order does not matter."""
    written = "\n".join(sorted(map(str, parts)))
    return hashlib.sha256(written.encode()).hexdigest()[:16]


@cache
def engine() -> str:
    """A digest of the files of this package. Cost: a few milliseconds, once."""
    files = sorted(Path(__file__).parents[1].rglob("*.py"))
    found = hashlib.blake2b(digest_size=16)
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()


def written_rule(rule: Rule) -> str:
    """A rule as text: signature, and the code of its functions."""
    halves = (
        f"{which} {half.saves} {half.keeps_shadow} {_written_function(half.function)}"
        for which, half in sorted(rule.halves.items())
    )
    return "\n".join((str(rule), *halves))


def _written_function(function: Any) -> str:
    plain = getattr(function, "py_func", function)
    cells = (cell.cell_contents for cell in plain.__closure__ or () if is_filled(cell))
    captured = (_written_function(c) if _is_function(c) else _plain(c) for c in cells)
    return "\n".join((_written_code(plain.__code__), *captured))


def of_function(plain: Any) -> str:
    """A digest of the code of a function and of the values of enclosing functions that it uses: two
    functions that one line defines differ in those.
    """
    return digest([_written_with_values(plain, ())])


def _written_with_values(plain: Any, around: tuple[Any, ...]) -> str:
    """`around`: the functions that it is a value of; one may call itself."""
    if plain in around:
        return f"{around.index(plain)}"
    cells = [cell.cell_contents for cell in plain.__closure__ or () if is_filled(cell)]
    values = (_written_value(value, (*around, plain)) for value in cells)
    return "\n".join((_written_code(plain.__code__), *values))


def _written_value(value: Any, around: tuple[Any, ...]) -> str:
    """The value as text; where it has none that says all of it, one that is of this process."""
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if _is_function(value):
        return _written_with_values(getattr(value, "py_func", value), around)
    if is_tuple(value) or is_list(value):
        return f"({', '.join(_written_value(item, around) for item in value)})"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if is_array(value):
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return f"{id(value)} {_PROCESS}"


_PROCESS = uuid4().hex


def is_filled(cell: CellType) -> bool:
    """Whether a variable of an enclosing function is assigned yet."""
    try:
        cell.cell_contents
    except ValueError:
        return False
    return True


def _is_function(value: Any) -> bool:
    return hasattr(getattr(value, "py_func", value), "__code__")


def _plain(value: Any) -> str:
    """The value, where its text is the same in every process."""
    return repr(value) if isinstance(value, bool | int | float | complex | str) else ""


def _written_code(code: CodeType) -> str:
    constants = (_written_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return "\n".join((code.co_code.hex(), *code.co_names, *constants))

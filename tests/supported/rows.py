"""Rows: from lines of text to @njit functions."""

from __future__ import annotations

import cmath
import collections
import enum
import functools
import heapq
import linecache
import math
import operator
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import literal_unroll, njit, prange, typed, types
from numba.extending import overload

from supported.inputs import INPUTS

_NAMES = re.compile(r"(?<![\w.'\"])[A-Za-z_]\w*(?!\s*=[^=])")


def weigh(result: Any) -> float:
    """A weighted sum of what `result` holds: numbers, arrays of them."""
    raise NotImplementedError("only inside @njit")


@overload(weigh)
def _weigh(result):
    if isinstance(result, types.Array):
        return _weigh_array
    if isinstance(result, types.Complex):
        return lambda result: result.real + 2.0 * result.imag
    return lambda result: float(result)


def _weigh_array(result):
    total = 0.0
    k = 1.0
    for entry in result.flat:
        total += math.sin(k) * weigh(entry)
        k += 1.0
    return total


Point = collections.namedtuple("Point", "left right")


class Colour(enum.IntEnum):
    """An enumeration, as programs use one."""

    RED = 1
    BLUE = 3


SCOPE = {
    "Colour": Colour,
    "Point": Point,
    "cmath": cmath,
    "functools": functools,
    "heapq": heapq,
    "literal_unroll": literal_unroll,
    "math": math,
    "njit": njit,
    "np": np,
    "operator": operator,
    "prange": prange,
    "random": random,
    "typed": typed,
    "types": types,
    "weigh": weigh,
}


@dataclass(frozen=True)
class Row:
    """One feature: its section of the page, its name, the statements and the result."""

    section: str
    name: str
    text: str

    @property
    def parameters(self) -> tuple[str, ...]:
        """The inputs whose names occur in the program."""
        used = _NAMES.findall(self.text)
        return tuple(name for name in INPUTS if name in used)

    @property
    def source(self) -> str:
        """The definition of the function `program`."""
        *statements, result = self.text.split("; ")
        lines = [f"def program({', '.join(self.parameters)}):"]
        lines += [f"    {statement}" for statement in statements]
        return "\n".join([*lines, f"    return weigh({result})", ""])

    def program(self) -> Callable[..., float]:
        """The function, compiled by Numba when it is called."""
        file = f"<{self.name}: {self.text}>"
        # Where Numba and the errors of activerules read the lines they quote.
        linecache.cache[file] = (len(self.source), None, self.source.splitlines(True), file)
        scope = dict(SCOPE)
        exec(compile(self.source, file, "exec"), scope)
        return njit(scope["program"])

    def arguments(self) -> tuple[Any, ...]:
        """The values of the parameters."""
        return tuple(INPUTS[name] for name in self.parameters)


def parse(text: str) -> list[Row]:
    """The rows of `text`: `# section` lines, and lines of a name, two spaces or more, a program."""
    rows, section = [], ""
    for line in text.strip().splitlines():
        if line.startswith("# "):
            section = line[2:]
        elif line.strip():
            name, program = re.split(r"\s{2,}", line.strip(), maxsplit=1)
            rows.append(Row(section, name, program))
    return rows

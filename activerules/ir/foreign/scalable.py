"""Vectors whose length is known only at run time (`<vscale x 2 x double>`).

Needs       the text of a module, as LLVM prints it; the function to differentiate
Gives       the text with declarations instead of functions that have such vectors, if the function
            does not reach them; else raises `UnsupportedIR`. LLVM's passes abort the process when
            they ask for the size of such a vector, so this is decided before they run
"""

from __future__ import annotations

import re

from activerules.errors import UnsupportedIR
from activerules.ir.foreign.never_returning import reached, with_declared
from activerules.ir.llvm.names import plain_name
from activerules.ir.text.handlers import DEFINITION

_TYPE = re.compile(r"^(%(?:\"[^\"]*\"|[-\w.$]+)) = type (.*)$", re.MULTILINE)
_SCALABLE = re.compile(r"<vscale x \d+ x [^>]+>+|target\(\"aarch64\.svcount\"\)")


def refuse_scalable(text: str, function: str) -> str:
    """Return the text; `UnsupportedIR` if the function reaches vectors of unknown length."""
    if not _SCALABLE.search(text):
        return text
    names = _scalable_types(text)
    definitions = {
        match["name"].strip('"'): match[0]
        for match in DEFINITION.finditer(text)
        if _uses(match[0], names)
    }
    for name in sorted(definitions.keys() & reached(text, function)):
        line = next(line for line in definitions[name].splitlines() if _uses(line, names))
        at = ("at the instruction", line.strip(), "")
        raise UnsupportedIR(
            what="N7: vectors of a length that only the machine knows have no derivative",
            where=[("in the function", plain_name(name), ""), at],
            why="the engine differentiates scalar code, and vectorises its derivative afterwards",
            instead=["compile without vectorisation (clang: -fno-vectorize -fno-slp-vectorize)"],
        )
    return with_declared(text, definitions.keys())


def _scalable_types(text: str) -> set[str]:
    """The names of structs with such vectors in them."""
    types = dict(_TYPE.findall(text))
    names: set[str] = set()
    while new := {k for k, body in types.items() if k not in names and _uses(body, names)}:
        names |= new
    return names


def _uses(text: str, names: set[str]) -> bool:
    return bool(_SCALABLE.search(text)) or any(
        re.search(rf"{re.escape(name)}(?![-\w.$])", text) for name in names
    )

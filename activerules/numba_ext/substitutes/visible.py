"""Runtime functions made visible: code that the engine can analyse, for Numba's C code.

Needs       the text of a captured module
Gives       `with_definitions`: the text with definitions of C functions, as far as we have them
            `substitute`: the function that replaces one of Numba's intrinsics
"""

from __future__ import annotations

import re
from typing import Any

from activerules.numba_ext.substitutes import typed_dicts, typed_lists

_DEFINITIONS = {**typed_lists.DEFINITIONS}
_SUBSTITUTES = {**typed_lists.SUBSTITUTES, **typed_dicts.SUBSTITUTES}
_DECLARATION = re.compile(r"declare [^\n]*@(numba_(?:list|dict)_\w+)\([^\n]*\n")
_NEEDED = {"malloc": "declare noalias ptr @malloc(i64)"}


def substitute(function: Any) -> Any:
    """The function compiled for the AD target instead of one of Numba's; itself for most."""
    try:
        return _SUBSTITUTES.get(function, function)
    except TypeError:  # not hashable
        return function


def with_definitions(text: str) -> str:
    """Replace declarations of C functions by our definitions, where we have one."""
    defined: list[str] = []

    def define(match: re.Match[str]) -> str:
        body = _DEFINITIONS.get(match[1])
        if body is None:
            return match[0]
        defined.append(body)
        return ""

    text = _DECLARATION.sub(define, text)
    if not defined:
        return text
    for name, declaration in _NEEDED.items():
        if f"@{name}(" in "".join(defined) and not re.search(
            rf"^de\w+ [^\n]*@{name}\(", text, re.M
        ):
            defined.append(declaration)
    return text + "\n".join(["", *defined, ""])

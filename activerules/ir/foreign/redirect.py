"""Calls of functions by name go to functions the text then defines; LLVM inlines those."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_CALLED = re.compile(r"(?P<before>\b(?:call|invoke) [^@\n]*)@(?P<name>[-\w.$]+)(?=\()")
_MADE = re.compile(r"^(?:define|declare) [^@\n]*@([-\w.$]+)\(", re.MULTILINE)
_DEFINED = re.compile(r"^define [^@\n]*@([-\w.$]+)\(", re.MULTILINE)


def redirect(
    text: str,
    kind_of: Callable[[str], str | None],
    definitions: Mapping[str, str],
    declarations: Mapping[str, str],
) -> str:
    """`text`, with calls of functions that have a kind going to `@activerules.<kind>`.

    Arguments
        kind_of       the kind of a function, by its name; None: its calls stay. A function the
                      module defines itself is not asked for
        definitions   per kind what is added to the text if it is called; it may call other kinds
        declarations  what definitions call, by name: added where it is called and not there
    """
    defined = set(_DEFINED.findall(text))
    used: set[str] = set()

    def changed(call: re.Match[str]) -> str:
        kind = kind_of(call["name"]) if call["name"] not in defined else None
        if kind is None:
            return call[0]
        used.add(kind)
        return f"{call['before']}@activerules.{kind}"

    text = _CALLED.sub(changed, text)
    wrappers: dict[str, str] = {}
    while used:
        kind = used.pop()
        wrappers[kind] = definitions[kind]
        used |= {k for k in definitions if f"@activerules.{k}(" in wrappers[kind]} - wrappers.keys()
    added = "".join(wrappers[kind] for kind in sorted(wrappers))
    there = set(_MADE.findall(text)) | set(_MADE.findall(added))
    missing = [
        line for name, line in declarations.items() if f"@{name}(" in added and name not in there
    ]
    return "\n".join([text, *missing, added])

"""Code that only leads to an abort: functions that never return, and functions only they call.

Needs       the text of a module, as LLVM prints it; the function to differentiate
Gives       the text with declarations of these functions instead of their code. Once one is called,
            nothing is reversed, so it is never differentiated; it may be large (the panics of Zig)
Invariants  A1  functions that can be reached from the function through others that return, or
            through variables, keep their code
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set

from activerules.ir.llvm.closure import closure
from activerules.ir.text.handlers import DEFINITION

_NAME = re.compile(r"@(\"[^\"]*\"|[-\w.$]+)")
_VARIABLE = re.compile(r"^@(?P<name>\"[^\"]*\"|[-\w.$]+) = [^\n]*", re.MULTILINE)
_JUMPED_TO = re.compile(r"\bblockaddress\(@(\"[^\"]*\"|[-\w.$]+)")
"""A table of blocks needs its function."""
_GROUP = re.compile(r"^attributes (#\d+) = \{[^\n]*\bnoreturn\b", re.MULTILINE)
_ONLY_DEFINED = re.compile(
    r" (?:internal|private|available_externally|linkonce|weak|linkonce_odr|weak_odr)(?= )"
    r"| comdat(?:\([^)]*\))?(?= |$)"
    r"| personality ptr @(?:\"[^\"]*\"|[-\w.$]+)| !\w+ !\d+"
)


def declared_if_never_returning(text: str, function: str) -> str:
    """The text in which functions that only lead to an abort are declared, without code."""
    if "noreturn" not in text:
        return text
    definitions = {match["name"].strip('"'): match for match in DEFINITION.finditer(text)}
    marks = {"noreturn", *_GROUP.findall(text)}
    never = {
        name
        for name, definition in definitions.items()
        if not marks.isdisjoint(_marks(definition[0]))
    }
    never.discard(function)
    if not never:
        return text
    return with_declared(text, definitions.keys() - reached(text, function, never))


def reached(text: str, function: str, never: Set[str] = frozenset()) -> set[str]:
    """The names of functions that are reachable from one without passing through those in `never`,
    and of functions whose blocks are jumped to.
    """
    definitions = {match["name"].strip('"'): match for match in DEFINITION.finditer(text)}
    jumped = {name.strip('"') for name in _JUMPED_TO.findall(text)}
    return _kept(text, definitions, never, function) | jumped


def with_declared(text: str, names: Set[str]) -> str:
    """The text in which these functions are declared."""
    return DEFINITION.sub(
        lambda match: _declared(match[0]) if match["name"].strip('"') in names else match[0], text
    )


def _marks(definition: str) -> list[str]:
    """The attributes of a function after its parameters."""
    return definition.partition("\n")[0].rpartition(")")[2].split()


def _kept(
    text: str, definitions: Mapping[str, re.Match[str]], never: Set[str], function: str
) -> set[str]:
    """The names of functions whose code stays."""
    variables = {match["name"].strip('"'): match[0] for match in _VARIABLE.finditer(text)}

    def mentioned(name: str) -> set[str]:
        return _names(definitions[name][0] if name in definitions else variables.get(name, ""))

    return closure([function], lambda name: mentioned(name) - never)


def _names(text: str) -> set[str]:
    return {name.strip('"') for name in _NAME.findall(text)}


def _declared(definition: str) -> str:
    head = definition.partition("\n")[0].rpartition(" {")[0]
    return _ONLY_DEFINED.sub("", head.replace("define ", "declare ", 1))

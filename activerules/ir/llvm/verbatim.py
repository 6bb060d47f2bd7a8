"""Text that the model keeps verbatim: lines of globals, attributes and their groups, metadata.

Needs       such text, as LLVM prints it
Gives       the facts in it that analyses and generators need, so that none of them parses text
Invariants  V1  names are as in the model: without the `@`, with the quotes where LLVM writes them
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from activerules.ir.llvm.model import Module

_NAME = re.compile(r'@("[^"]+"|[-\w.$]+)')
_CONSTANT = re.compile(r"^(?!external )(?:\w+ |\w+\([^)]*\) )*constant ")
_NUMBERS = re.compile(r" constant (?P<type>\[\d+ x (?:i8|float|double)\]|float|double) ")
_GROUP = re.compile(r"#\d+\b")
_LOCATION = re.compile(r" ?!dbg !\d+")
_NO_MEMORY = re.compile(r"memory\(none\)|\breadnone\b")
_REPLACED = re.compile(r"\b(?:weak|linkonce)\b")
_CALLEES = re.compile(r"!callees (!\d+)")
_MACHINE = re.compile(r'"(?:target-cpu|target-features|tune-cpu)"="[^"]*"')


# --- globals ---


def names_in(text: str) -> list[str]:
    """The globals and functions that a text mentions."""
    return _NAME.findall(text)


def value_of_global(line: str) -> str:
    """The text after the name in the line of a global."""
    return line.split("=", 1)[-1].strip()


def is_constant(line: str) -> bool:
    """Whether the line of a global defines one that never changes."""
    value = value_of_global(line)
    return _CONSTANT.match(value) is not None and not may_be_replaced(value.split(" constant ")[0])


def type_of_numbers(line: str) -> str | None:
    """The type of a constant global that holds numbers and no pointers; None for others."""
    match = _NUMBERS.search(line)
    return match["type"] if match is not None else None


def with_names(text: str, names: Mapping[str, str]) -> str:
    """The text of a constant expression with its globals renamed."""
    for old, new in names.items():
        text = re.sub(rf"@{re.escape(old)}(?![-\w.$\"])", lambda _, o=new: f"@{o}", text)
    return text


# --- attributes ---


def may_be_replaced(linkage: str) -> bool:
    """Whether a linker may take another definition than that of the module."""
    return _REPLACED.search(linkage) is not None


def attribute_groups(module: Module) -> dict[str, str]:
    """Per attribute group (`#0`), its attributes."""
    lines = (line.split(None, 3) for line in module.trailer if line.startswith("attributes "))
    return {group: "".join(rest).strip("{} ") for _, group, _, *rest in lines}


def spelt_out(attributes: str, groups: Mapping[str, str]) -> str:
    """Attributes without groups."""
    return _GROUP.sub(lambda match: groups.get(match[0], ""), attributes)


def promises_no_memory(attributes: str) -> bool:
    """Whether attributes, spelt out, say that no memory is read or written."""
    return _NO_MEMORY.search(attributes) is not None


def of_machine(attributes: str) -> list[str]:
    """The attributes that say which machine a function is compiled for."""
    return _MACHINE.findall(attributes)


# --- metadata ---


def without_location(attributes: str) -> str:
    """Attributes of a function without the metadata of its place in the source."""
    return _LOCATION.sub("", attributes)


def listed_callees(metadata: str, trailer: Iterable[str]) -> set[str]:
    """The functions LLVM has written down that a call may go to."""
    mentioned = _CALLEES.search(metadata)
    if mentioned is None:
        return set()
    start = f"{mentioned[1]} = "
    return {name for line in trailer if line.startswith(start) for name in _NAME.findall(line)}

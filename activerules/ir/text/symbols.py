"""Functions and globals in the text of a module, looked up and changed by name.

Needs       the text of a module as LLVM prints it; the names are the caller's
Gives       the functions called and defined: `called`, `globals_named`, `names_in`, `is_loaded`
            declarations changed: `with_definitions`, `with_parameters`, `with_results`; definitions
            changed: `with_promises`, `with_statuses`
            pointers that Numba or a program resolves by name: `resolved`
Invariants  Y1  a name is found wherever the text has it
            Y2  what is changed is what the caller names; all other text stays as it is
Cost        one search of the text each, which begins with a word that is rare in it
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

_NAMED = re.compile(r'@(?:"([^"]+)"|([-\w.$]+))')
_UNNAMED = re.compile(r"\binttoptr\b|\bcall\b[^@\n]*? %[^\s(]+\(")


def called(text: str, prefix: str) -> list[str]:
    """The functions called, declared or defined whose names begin with `prefix`."""
    return re.findall(rf"@({re.escape(prefix)}[\w.]+)\(", text)


def globals_named(text: str, prefix: str) -> list[str]:
    """The global variables whose names begin with `prefix`."""
    return re.findall(rf'({re.escape(prefix)}[^"\s]*)"? = ', text)


def names_in(text: str) -> Iterator[str]:
    """The name of every function and global variable in the text, once per occurrence."""
    for quoted, plain in _NAMED.findall(text):
        yield quoted or plain


def has_unnamed(text: str) -> bool:
    """Whether the text makes pointers from integers or calls through pointers: `names_in` then does
    not name all that it uses.
    """
    return _UNNAMED.search(text) is not None


def is_loaded(text: str, name: str) -> bool:
    """Whether the global variable of that name is read by a load."""
    return re.search(rf'= load [^\n]*@"?{re.escape(name)}\b', text) is not None


def renamed(text: str, name: str, new: str) -> str:
    """`text` with another name for one function."""
    return re.sub(rf'@"?{re.escape(name)}"?(?![\w.$])', f"@{new}", text)


def with_definitions(text: str, definitions: Mapping[str, str], needed: Mapping[str, str]) -> str:
    """`text` with `definitions` in place of the declarations of these functions.

    needed   declarations of what the definitions call, in case the text has none
    """
    defined: list[str] = []

    def define(match: re.Match[str]) -> str:
        defined.append(definitions[match["name"]])
        return ""

    text = re.sub(_declaration(definitions) + "\n", define, text)
    if not defined:
        return text
    for name, declaration in needed.items():
        is_used = f"@{name}(" in "".join(defined)
        if is_used and not re.search(rf"^de\w+ [^\n]*@{name}\(", text, re.MULTILINE):
            defined.append(declaration)
    return text + "\n".join(["", *defined, ""])


def with_parameters(text: str, positions: Mapping[str, Collection[int]], attributes: str) -> str:
    """`text` with attributes for pointer parameters of declared functions, given by position."""

    def declare(match: re.Match[str]) -> str:
        head, name, parameters, tail = match.groups()
        each = parameters.split(", ")
        for k in positions[name]:
            each[k] = f"ptr {attributes}{each[k].removeprefix('ptr')}"
        return f"{head}{name}({', '.join(each)}){tail}"

    return re.sub(_declaration(positions), declare, text)


def _declaration(names: Collection[str]) -> str:
    return rf"(declare [^@\n]*@)(?P<name>{'|'.join(map(re.escape, names))})\(([^\n]*)\)([^)\n]*)"


def with_results(text: str, result: str, *, prefix: str) -> str:
    """`text` with attributes for the i32 result of functions declared by names with `prefix`."""
    pattern = rf"declare i32 @(?P<name>{re.escape(prefix)}[\w.]+)\(ptr"
    return re.sub(pattern, rf"declare {result} i32 @\g<name>(ptr", text)


def with_statuses(text: str, result: str, *, parameter: str, unless: str) -> str:
    """`text` with attributes for the i32 result of definitions whose first parameter is the pointer
    `parameter`; unchanged if a value that matches the pattern `unless` is returned.
    """
    if re.search(rf"ret i32 {unless}\b", text):
        return text
    pattern = rf"^(define [^@\n]*?)i32 (?=@[^(\n]+\(ptr [^,\n]*%{parameter}\b)"
    return re.sub(pattern, rf"\1{result} i32 ", text, flags=re.MULTILINE)


def with_promises(text: str, function: str, promises: Mapping[int, str]) -> str:
    """`text` with attributes for the parameters, by number, of the definition of `function`; their
    types are single words.
    """
    pattern = rf'^define [^@\n]*@"?{re.escape(function)}"?\((.*)\)[^)\n]*$'
    header = re.search(pattern, text, re.MULTILINE)
    assert header is not None
    parameters = re.split(r", (?=\w+ )", header[1])  # attributes have commas, too
    for k, promise in promises.items():
        parts = parameters[k].split(" ", 1)
        parameters[k] = f"{parts[0]} {promise} {parts[1]}"
    return text[: header.start(1)] + ", ".join(parameters) + text[header.end(1) :]


def resolved(text: str, prefix: str) -> str:
    """`text` with each external pointer called `prefix` and a name made a constant: the address of
    the function of that name.
    """
    declaration = rf'(@"{re.escape(prefix)}([^"]+)" =) external global ptr'
    return re.sub(declaration, r'\1 internal constant ptr @"\2"', text)

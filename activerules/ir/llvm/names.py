"""Names of functions: as they are in the source, and of those that a front end defines for
derivatives.

Gives       `plain_name`: the name of a function from its mangled symbol
            `in_symbols`: a name with only characters that symbols may have
            `FAILED_AT`, `SCALAR`, `RECORDS`, `VIEWED_RECORDS`: names in generated code
"""

from __future__ import annotations

import re

FAILED_AT = "activerules.raise.at"
"""`void (ptr, ptr excinfo, i32 status, ptr site)`: adds the site of a call to an exception."""

SCALAR = "activerules.scalar."
"""Begins the name under which code calls a scalar function of the C library that has a vector form:
`activerules.scalar.logf`."""

RECORDS = "activerules.records."
"""Begins the names of the functions that declare the layout of new memory, and do nothing."""

VIEWED_RECORDS = "activerules.viewed_records"
"""`void (ptr)`: memory of records is also viewed as something else, and what is declared of new
memory in the module may not hold; does nothing."""

_NOT_IN_SYMBOLS = re.compile(r"[^A-Za-z0-9_.]")
_LENGTH = re.compile(r"\d+")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def plain_name(symbol: str) -> str:
    """The name in a mangled symbol (`power` for `_ZN4main5powerB2v3...` and `_Z5powerd`)."""
    rest, name = symbol.strip('"'), symbol
    if not rest.startswith("_Z"):
        return name
    rest = rest[3:] if rest.startswith("_ZN") else rest[2:]
    while length := _LENGTH.match(rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return _ESCAPED.sub(_unescaped, name)


def in_symbols(name: str) -> str:
    """A name with other characters replaced by `_`."""
    return _NOT_IN_SYMBOLS.sub("_", name)


def _unescaped(match: re.Match[str]) -> str:
    """The character that `_3c` and the like encode; letters and digits are never encoded."""
    text = bytes.fromhex(match[0].replace("_", "")).decode("utf8", "replace")
    is_escape = "\ufffd" not in text and not re.search(r"[A-Za-z0-9]", text) and text.isprintable()
    return text if is_escape else match[0]

"""Names of functions as a reader knows them.

Gives       `plain_name`: a function's own name in the symbol that stands for it
            `in_symbols`: a name as a part of a symbol
"""

from __future__ import annotations

import re

_NOT_IN_SYMBOLS = re.compile(r"[^A-Za-z0-9_.]")
_LENGTH = re.compile(r"\d+")
_ESCAPED = re.compile(r"(?:_[0-9a-f]{2})+")


def plain_name(symbol: str) -> str:
    """The function's own name in a mangled one (`_ZN4main5powerB2v3...`, `_Z5powerd`: `power`)."""
    rest, name = symbol.strip('"'), symbol
    if not rest.startswith("_Z"):
        return name
    rest = rest[3:] if rest.startswith("_ZN") else rest[2:]
    while length := _LENGTH.match(rest):
        end = length.end() + int(length[0])
        name, rest = rest[length.end() : end], rest[end:]
    return _ESCAPED.sub(_unescaped, name)


def in_symbols(name: str) -> str:
    """A name with what symbols have."""
    return _NOT_IN_SYMBOLS.sub("_", name)


def _unescaped(found: re.Match[str]) -> str:
    """What `_3c` and the like stand for; letters and digits are never written so."""
    text = bytes.fromhex(found[0].replace("_", "")).decode("utf8", "replace")
    is_escape = "\ufffd" not in text and not re.search(r"[A-Za-z0-9]", text) and text.isprintable()
    return text if is_escape else found[0]

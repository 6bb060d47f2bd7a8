r"""Names of functions and variables that LLVM prints with escapes: `@"f\22g"`, or not ASCII.

Needs       the text of a module as LLVM prints it
Gives       `Escaped`: the text with plain names instead, and back
Invariants  E1  `restored(text)` is the module's text; in names of derivatives, too, the plain name
                is replaced by the escaped one
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from activerules.errors import ActiverulesError

_STEM = "activerules.named."
_NAMED = re.compile(r'c"[^"]*"|(?P<kind>[@$])"(?P<name>[^"]*\\[^"]*)"')
"""A name with an escape in it; texts in constants are passed over."""
_QUOTED = re.compile(rf'(?<=[@$])"[^"]*{re.escape(_STEM)}[^"]*"')
_PLAIN = re.compile(rf"{re.escape(_STEM)}(?P<number>\d+)(?P<suffix>[-\w.$]*)")
_NEEDS_NO_QUOTES = re.compile(r"[-A-Za-z_.][-A-Za-z0-9_.]*")


def printed(name: str) -> str:
    """A name as LLVM prints it."""
    return name if _NEEDS_NO_QUOTES.fullmatch(name) else f'"{_with_escapes(name)}"'


def _with_escapes(name: str) -> str:
    return "".join(map(_byte, name.encode()))


def _byte(b: int) -> str:
    if b == ord("\\"):
        return "\\\\"
    return chr(b) if 32 <= b < 127 and b != ord('"') else f"\\{b:02X}"


@dataclass(frozen=True)
class Escaped:
    """The names with escapes of one module, by number."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> Escaped:
        """The escaped names in a text."""
        names = (match["name"] for match in _NAMED.finditer(text) if match["kind"])
        return cls(tuple(dict.fromkeys(names)) if "\\" in text else ())

    def plain(self, text: str) -> str:
        """The text with plain names instead."""
        if not self.names:
            return text
        numbers = {name: k for k, name in enumerate(self.names)}
        return _NAMED.sub(
            lambda m: f"{m['kind']}{_STEM}{numbers[m['name']]}" if m["kind"] else m[0],
            text,
        )

    def plain_name(self, name: str) -> str:
        """The plain name for `name`, which may be given as it is, or as LLVM prints it."""
        for spelling in (_with_escapes(name), name):
            if spelling in self.names:
                return f"{_STEM}{self.names.index(spelling)}"
        return name

    def restored(self, text: str) -> str:
        """The text with the names of the module."""
        if not self.names:
            return text
        text = _QUOTED.sub(lambda quoted: _PLAIN.sub(self._name, quoted[0]), text)
        return _PLAIN.sub(lambda match: f'"{self._name(match)}"', text)

    @contextmanager
    def in_errors(self) -> Generator[None]:
        """Make errors raised inside use the names of the module."""
        try:
            yield
        except ActiverulesError as error:
            error.what, error.why = self.restored(error.what), self.restored(error.why)
            error.where = [
                (label, self.restored(text), location) for label, text, location in error.where
            ]
            raise

    def _name(self, plain: re.Match[str]) -> str:
        return self.names[int(plain["number"])] + plain["suffix"]

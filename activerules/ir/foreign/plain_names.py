r"""Names that the engine would misread: those that LLVM prints with escapes (`@"f\22g"`, or not
ASCII), and those of a library's functions for functions that only the module can call.

Needs       the text of a module as LLVM prints it
Gives       `PlainNames`: the text with plain names instead, and back
Invariants  E1  `restored(text)` is the module's text; in names of derivatives, too, the plain name
                is replaced by the module's
            E2  a function with the name of a library's function is that function, as it is for
                LLVM, unless it is `internal` or `private`
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from activerules.errors import ActiverulesError
from activerules.ir.derivatives.table import function_of
from activerules.ir.normal.effects import effect_of

_STEM = "activerules.named."
_NAMED = re.compile(r'c"[^"]*"|(?P<kind>[@$])"(?P<name>[^"]*\\[^"]*)"')
"""A name with an escape in it; texts in constants are passed over."""
_LOCAL = re.compile(r"^define (?:internal|private) [^@\n]*@([-\w.$]+)\(", re.MULTILINE)
_QUOTED = re.compile(rf'(?<=[@$])"[^"]*{re.escape(_STEM)}[^"]*"')
_PLAIN = re.compile(rf"{re.escape(_STEM)}(?P<number>\d+)(?P<suffix>[-\w.$]*)")
_NEEDS_NO_QUOTES = re.compile(r"[-A-Za-z_.][-A-Za-z0-9_.]*")


def printed(name: str) -> str:
    """A name as LLVM prints it."""
    return _quoted(_with_escapes(name))


def _with_escapes(name: str) -> str:
    return "".join(map(_byte, name.encode()))


def _quoted(name: str) -> str:
    return name if _NEEDS_NO_QUOTES.fullmatch(name) else f'"{name}"'


def _byte(b: int) -> str:
    if b == ord("\\"):
        return "\\\\"
    return chr(b) if 32 <= b < 127 and b != ord('"') else f"\\{b:02X}"


def _in_library(name: str) -> bool:
    own = name.startswith("activerules.")
    return not own and (effect_of(name) is not None or function_of(name) is not None)


@dataclass(frozen=True)
class PlainNames:
    """Such names of one module, by number."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> PlainNames:
        """Those in a text."""
        escaped = (m["name"] for m in _NAMED.finditer(text) if m["kind"]) if "\\" in text else ()
        return cls(tuple(dict.fromkeys([*escaped, *filter(_in_library, _LOCAL.findall(text))])))

    def plain(self, text: str) -> str:
        """The text with plain names instead."""
        if not self.names:
            return text
        numbers = {name: k for k, name in enumerate(self.names)}
        unescaped = "|".join(re.escape(name) for name in self.names if "\\" not in name)
        text = _NAMED.sub(
            lambda m: f"{m['kind']}{_STEM}{numbers[m['name']]}" if m["kind"] else m[0],
            text,
        )
        if not unescaped:
            return text
        pattern = rf'c"[^"]*"|@(?P<name>{unescaped})(?![-\w.$])'
        return re.sub(
            pattern, lambda m: f"@{_STEM}{numbers[m['name']]}" if m["name"] else m[0], text
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
        return _PLAIN.sub(lambda match: _quoted(self._name(match)), text)

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

"""Tokens of one line of LLVM IR, and the types in them.

A `Cursor` walks over the tokens of a line. Text that the engine keeps verbatim is cut out of the
source by `text`, so nothing is ever reassembled from tokens.

Errors      `IRSyntaxError` quotes the line and gives its number in the text that was parsed.
"""

from __future__ import annotations

import re

from activerules.errors import IRSyntaxError
from activerules.ir.llvm import types as T

TOKEN = re.compile(r'[%@$!#c]?"[^"]*"|[%@$!#]?[-+\w$.]+|\S')

_OPENING, _CLOSING = frozenset("([{<"), frozenset(")]}>")
_NAMED_SCALARS: dict[str, T.Type] = {
    "void": T.VOID, "label": T.LABEL, "metadata": T.METADATA, "token": T.TOKEN, "ptr": T.PTR,
    **T.FLOAT_TYPES, "i1": T.I1, "i8": T.I8, "i16": T.I16, "i32": T.I32, "i64": T.I64,
}  # fmt: skip
_INTEGER = re.compile(r"i(\d+)$")
_compound_types: dict[str, T.Type] = {}


class Cursor:
    """A position in the tokens of one line; `load` starts a line. The last token is empty."""

    __slots__ = ("_bounds", "at", "number", "source", "tokens")

    def __init__(self, source: str = "", number: int = 0) -> None:
        self.load(source, number)

    def load(self, source: str, number: int) -> None:
        """Start on `source`, line `number` of the module."""
        self.source, self.number = source, number
        self.tokens = TOKEN.findall(source)
        self.tokens.append("")
        self.at = 0
        self._bounds: list[tuple[int, int]] | None = None

    def error(self, why: str) -> IRSyntaxError:
        """The error that says where the cursor is."""
        return IRSyntaxError(
            "this line of LLVM IR cannot be parsed",
            where=[("at the line", self.source.strip(), f"line {self.number}")],
            why=f"{why} (at {self.tokens[self.at]!r})" if self.tokens[self.at] else why,
        )

    def take(self) -> str:
        """The current token; the cursor moves on."""
        token = self.tokens[self.at]
        if not token:
            raise self.error("the line ends too early")
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        """Whether the current token is `token`; if so the cursor moves on."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def expect(self, token: str) -> None:
        """Step over `token`, or raise."""
        if self.tokens[self.at] != token:
            raise self.error(f"{token!r} was expected")
        self.at += 1

    def expect_end(self) -> None:
        """Raise if tokens are left."""
        if self.tokens[self.at]:
            raise self.error("unexpected text")

    def text(self, start: int, end: int) -> str:
        """The source text of the tokens `start` to `end` (exclusive)."""
        if start >= end:
            return ""
        if end == start + 1:
            return self.tokens[start]
        if self._bounds is None:
            self._bounds = [m.span() for m in TOKEN.finditer(self.source)]
        return self.source[self._bounds[start][0] : self._bounds[end - 1][1]]

    def closing(self, start: int) -> int:
        """Index one past the bracket that closes the one at token `start`."""
        depth, at = 0, start
        for token in self.tokens[start:]:
            at += 1
            if token in _OPENING:
                depth += 1
            elif token in _CLOSING:
                depth -= 1
                if not depth:
                    return at
        raise self.error("a bracket is not closed")

    def skip_attribute(self) -> None:
        """Step over one attribute: `nonnull`, `align 8`, `range(i32 0, 5)`, `"key"="value"`."""
        word = self.take()
        if self.tokens[self.at] == "(":
            self.at = self.closing(self.at)
        elif word == "align" and self.tokens[self.at].isdigit():
            self.at += 1
        elif self.tokens[self.at] == "=":
            self.at += 2

    def at_type(self) -> bool:
        """Whether the current token starts a type."""
        token = self.tokens[self.at]
        return (
            token in _NAMED_SCALARS
            or token[:1] in ("%", "{", "[", "<")
            or bool(_INTEGER.match(token))
        )

    def type(self) -> T.Type:
        """Parse a type; function types only occur at calls and are parsed there."""
        token = self.tokens[self.at]
        scalar = _NAMED_SCALARS.get(token)
        if scalar is None:
            return self._compound_type(token)
        self.at += 1
        if scalar is T.PTR and self.tokens[self.at] == "addrspace":
            space = int(self.tokens[self.at + 2])
            self.at += 4
            return T.intern(T.PointerType(space))
        return scalar

    def _compound_type(self, token: str) -> T.Type:
        if token[:1] == "%":
            self.at += 1
            return T.intern(T.NamedType(token[1:]))
        if match := _INTEGER.match(token):
            self.at += 1
            return T.int_type(int(match[1]))
        if token not in ("{", "[", "<"):
            raise self.error("a type was expected")
        end = self.closing(self.at)
        key = " ".join(self.tokens[self.at : end])
        compound = _compound_types.get(key)
        if compound is None:
            compound = _compound_types[key] = T.intern(self._bracketed_type())
        self.at = end
        return compound

    def _bracketed_type(self) -> T.Type:
        opening = self.take()
        if opening == "{":
            return T.StructType(self._elements())
        if opening == "<" and self.accept("{"):
            elements = self._elements()
            self.expect(">")
            return T.StructType(elements, packed=True)
        scalable = opening == "<" and self.accept("vscale") and self.accept("x")
        length = self.take()
        if not length.isdigit():
            raise self.error("a length was expected")
        self.expect("x")
        element = self.type()
        if opening == "[":
            self.expect("]")
            return T.ArrayType(int(length), element)
        self.expect(">")
        return T.VectorType(int(length), element, scalable)

    def _elements(self) -> tuple[T.Type, ...]:
        elements: list[T.Type] = []
        while not self.accept("}"):
            if elements:
                self.expect(",")
            elements.append(self.type())
        return tuple(elements)

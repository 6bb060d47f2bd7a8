"""Operands of instructions: values, constants, labels, flags.

Needs       the tokens of one instruction, and the values of its function by name
Gives       `OperandParser`, on which `ir.llvm.instruction_parser` has a method per opcode
Invariants  a value is one object: all its uses, forward ones too, are that object
"""

from __future__ import annotations

from activerules.ir.llvm.lexer import Cursor
from activerules.ir.llvm.model import (
    Block,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
)
from activerules.ir.llvm.types import METADATA, VOID, Type

FLAGS = frozenset(
    "nnan ninf nsz arcp contract afn reassoc fast "
    "nuw nsw exact disjoint nneg samesign inbounds nusw".split()
)
_CONSTANT_WORDS = frozenset("true false null undef poison zeroinitializer none".split())
_CONSTANT_EXPRESSIONS = frozenset(
    "getelementptr ptrtoint inttoptr bitcast addrspacecast trunc add sub mul xor shl icmp fcmp "
    "extractelement insertelement shufflevector blockaddress splat ptrauth ptrtoaddr".split()
)
_CONSTANT_MARKS = frozenset(("dso_local_equivalent", "no_cfi"))


class OperandParser(Cursor):
    """Parses operands of one function; `locals` maps names after `%` to their values."""

    __slots__ = ("function", "globals", "locals", "module")

    def __init__(self, function: Function, module: Module) -> None:
        super().__init__()
        self.function, self.module = function, module
        self.locals: dict[str, Value] = {a.name: a for a in function.arguments}
        self.globals: dict[str, GlobalRef] = {}

    def value(self, t: Type) -> Value:
        """Parse a value of type `t`."""
        token = self.tokens[self.at]
        first = token[:1]
        if first == "%":
            self.at += 1
            local = self.locals.get(token[1:])
            if local is None:
                self.at -= 1
                raise self.error("the value is not defined")
            return local
        if first == "@":
            self.at += 1
            return self._global(token[1:], t)
        if t is METADATA:
            return self._metadata_operand()
        return self._constant(t, token)

    def typed_value(self) -> Value:
        """Parse a type and a value."""
        return self.value(self.type())

    def _global(self, name: str, t: Type) -> GlobalRef:
        ref = self.globals.get(name)
        if ref is None:
            ref = self.globals[name] = GlobalRef(name, t)
        return ref

    def _constant(self, t: Type, token: str) -> Constant:
        if token in _CONSTANT_WORDS or token[:1] in "-+0123456789":
            return Constant(t, self.take())
        start = self.at
        if token in _CONSTANT_MARKS:
            self.at += 2
        elif token in _CONSTANT_EXPRESSIONS:
            while self.tokens[self.at] != "(":
                if self.take() == "inrange":
                    self.at = self.closing(self.at)
            self.at = self.closing(self.at)
        elif token[:2] == 'c"':
            self.at += 1
        elif token in ("{", "[", "<"):
            self.at = self.closing(self.at)
        else:
            raise self.error("a value was expected")
        names = tuple(x[1:] for x in self.tokens[start : self.at] if x[:1] == "@")
        return Constant(t, self.text(start, self.at), names)

    def _metadata_operand(self) -> Constant:
        start = self.at
        while self.tokens[self.at] not in (",", ")", ""):
            self.at = (
                self.closing(self.at)
                if self.tokens[self.at] in ("(", "{", "[", "<")
                else self.at + 1
            )
        return Constant(METADATA, self.text(start, self.at))

    def _at_value(self) -> bool:
        token = self.tokens[self.at]
        return (
            token[:1] in "%@-+0123456789{[<"
            or token in _CONSTANT_WORDS
            or token in _CONSTANT_EXPRESSIONS
            or token in _CONSTANT_MARKS
            or token[:2] == 'c"'
        )

    def label(self) -> Block:
        """Parse `label %name`."""
        self.expect("label")
        block = self.value(VOID)
        if not isinstance(block, Block):
            raise self.error("a block was expected")
        return block

    def integer(self) -> int:
        """Parse an integer literal."""
        token = self.take()
        if not token.lstrip("-").isdigit():
            raise self.error("an integer was expected")
        return int(token)

    def _indices(self) -> tuple[int, ...]:
        indices: list[int] = []
        while self.accept(","):
            indices.append(self.integer())
        return tuple(indices)

    def _alignment(self, i: Instruction) -> None:
        if self.accept(","):
            self.expect("align")
            i.attributes["align"] = self.integer()

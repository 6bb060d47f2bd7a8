"""Instructions from their text: a method per opcode.

Needs       a line of a function body, split into opcode and rest by `ir.llvm.parser`
Gives       `InstructionParser.fill`: operands, type, flags and attributes of an instruction
Invariants  nothing of the line is lost

Entries of `Instruction.attributes` made here (all optional):

    any opcode      metadata: str, the tail `, !dbg !7, !tbaa !3`
                    verbatim: str, the text after `%name = ` of an opcode that is not interpreted;
                    such an instruction has no operands
    load, store     align: int, volatile: True, atomic: str (ordering, with its syncscope)
    alloca          allocated: Type, align: int, inalloca: str, address_space: int
    icmp, fcmp      predicate: str
    getelementptr   source: Type
    extractvalue, insertvalue       indices: tuple[int, ...]
    call, invoke    tail: "tail ", "musttail " or "notail ", cconv: str, return_attributes: str,
                    function_type: FunctionType, argument_attributes: list[str],
                    call_attributes: str (operand bundles too)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from activerules.ir.llvm.lexer import Cursor
from activerules.ir.llvm.model import BINARY_FLOAT, BINARY_INT, CASTS, Block, Constant, Instruction
from activerules.ir.llvm.operand_parser import FLAGS, OperandParser
from activerules.ir.llvm.types import (
    I1,
    METADATA,
    PTR,
    VOID,
    ArrayType,
    FunctionType,
    NamedType,
    StructType,
    Type,
    VectorType,
    intern,
)

_CALLING_CONVENTIONS = re.compile(
    r"\w+cc$|amdgpu_\w+$|spir_\w+$|ptx_\w+$|riscv_\w+$|intel_ocl_bicc$"
)
_METADATA_TAIL = re.compile(r",\s*![A-Za-z_][\w.]*\s+!")


class InstructionParser(OperandParser):
    """Parses the instructions of one function."""

    __slots__ = ()

    def fill(self, instruction: Instruction, rest: str, line: str, number: int) -> None:
        """Parse `rest`, the text after the opcode, into `instruction`."""
        tail = _METADATA_TAIL.search(rest, rest.rfind('"') + 1)
        if tail is not None:
            instruction.attributes["metadata"] = rest[tail.start() :]
            rest = rest[: tail.start()]
        self.load(rest, number)
        parse = _OPCODES.get(instruction.opcode)
        if parse is None:
            raise Cursor(line, number).error(f"the opcode {instruction.opcode!r} is not known")
        if self.tokens[0] in FLAGS:
            instruction.flags = self._flags()
        parse(self, instruction)
        if self.tokens[self.at]:
            raise self.error("unexpected text")
        if instruction.type is not VOID and instruction.name is None:
            instruction.name = f".unused.{number}"

    def _flags(self) -> tuple[str, ...]:
        start = self.at
        while self.tokens[self.at] in FLAGS:
            self.at += 1
        return tuple(self.tokens[start : self.at])

    def binary(self, i: Instruction) -> None:
        """`add nsw i64 %x, %y`."""
        i.type = t = self.type()
        x = self.value(t)
        self.expect(",")
        i.operands = [x, self.value(t)]

    def unary(self, i: Instruction) -> None:
        """`fneg double %x`, `freeze i32 %x`."""
        i.type = self.type()
        i.operands = [self.value(i.type)]

    def cast(self, i: Instruction) -> None:
        """`zext i1 %x to i64`."""
        i.operands = [self.typed_value()]
        self.expect("to")
        i.type = self.type()

    def compare(self, i: Instruction) -> None:
        """`icmp slt i64 %x, %y`."""
        i.attributes["predicate"] = self.take()
        t = self.type()
        x = self.value(t)
        self.expect(",")
        i.operands = [x, self.value(t)]
        i.type = intern(VectorType(t.length, I1, t.scalable)) if isinstance(t, VectorType) else I1

    def select(self, i: Instruction) -> None:
        """`select i1 %c, double %x, double %y`."""
        condition = self.typed_value()
        self.expect(",")
        i.type = self.type()
        x = self.value(i.type)
        self.expect(",")
        i.operands = [condition, x, self.typed_value()]

    def load_memory(self, i: Instruction) -> None:
        """`load atomic volatile double, ptr %p syncscope("s") acquire, align 8`."""
        atomic = self._access_marks(i)
        i.type = self.type()
        self.expect(",")
        i.operands = [self.typed_value()]
        if atomic:
            self._ordering(i)
        self._alignment(i)

    def store(self, i: Instruction) -> None:
        """`store double %x, ptr %p, align 8`."""
        atomic = self._access_marks(i)
        x = self.typed_value()
        self.expect(",")
        i.operands = [x, self.typed_value()]
        if atomic:
            self._ordering(i)
        self._alignment(i)

    def _access_marks(self, i: Instruction) -> bool:
        atomic = self.accept("atomic")
        if self.accept("volatile"):
            i.attributes["volatile"] = True
        return atomic

    def _ordering(self, i: Instruction) -> None:
        start = self.at
        while self.tokens[self.at] not in (",", ""):
            self.skip_attribute()
        i.attributes["atomic"] = self.text(start, self.at)

    def alloca(self, i: Instruction) -> None:
        """`alloca { i64, double }, i32 %n, align 8`."""
        if self.tokens[self.at] in ("inalloca", "swifterror"):
            i.attributes["inalloca"] = self.take()
        i.type = PTR
        i.attributes["allocated"] = self.type()
        while self.accept(","):
            if self.accept("align"):
                i.attributes["align"] = self.integer()
            elif self.tokens[self.at] == "addrspace":
                i.attributes["address_space"] = int(self.tokens[self.at + 2])
                self.at += 4
            else:
                i.operands = [self.typed_value()]

    def getelementptr(self, i: Instruction) -> None:
        """`getelementptr inbounds { i64, double }, ptr %p, i32 0, i32 1`."""
        i.attributes["source"] = self.type()
        types: list[Type] = []
        while self.accept(","):
            types.append(self.type())
            i.operands.append(self.value(types[-1]))
        i.type = types[0]
        for t in types[1:]:
            if isinstance(t, VectorType) and not isinstance(i.type, VectorType):
                i.type = intern(VectorType(t.length, i.type, t.scalable))

    def phi(self, i: Instruction) -> None:
        """`phi double [ 0.0, %entry ], [ %x, %loop ]`."""
        i.type = t = self.type()
        while True:
            self.expect("[")
            i.operands.append(self.value(t))
            self.expect(",")
            block = self.value(VOID)
            if not isinstance(block, Block):
                raise self.error("a block was expected")
            i.blocks.append(block)
            self.expect("]")
            if not self.accept(","):
                return

    def branch(self, i: Instruction) -> None:
        """`br label %a`, `br i1 %c, label %a, label %b`."""
        if self.tokens[self.at] == "label":
            i.blocks = [self.label()]
            return
        i.operands = [self.typed_value()]
        self.expect(",")
        i.blocks = [self.label()]
        self.expect(",")
        i.blocks.append(self.label())

    def switch(self, i: Instruction) -> None:
        """`switch i32 %x, label %d [ i32 0, label %a ... ]`."""
        i.operands = [self.typed_value()]
        self.expect(",")
        i.blocks = [self.label()]
        self.expect("[")
        while not self.accept("]"):
            i.operands.append(self.typed_value())
            self.expect(",")
            i.blocks.append(self.label())

    def ret(self, i: Instruction) -> None:
        """`ret void`, `ret i32 %x`."""
        t = self.type()
        if t is not VOID:
            i.operands = [self.value(t)]

    def unreachable(self, i: Instruction) -> None:
        """`unreachable`."""

    def extractvalue(self, i: Instruction) -> None:
        """`extractvalue { i64, i1 } %x, 1`."""
        t = self.type()
        i.operands = [self.value(t)]
        i.attributes["indices"] = indices = self._indices()
        for k in indices:
            if isinstance(t, NamedType):
                t = self.module.types.get(t.name)
            if isinstance(t, StructType) and k < len(t.elements):
                t = t.elements[k]
            elif isinstance(t, ArrayType):
                t = t.element
            else:
                raise self.error("the indices do not fit the type")
        i.type = t

    def insertvalue(self, i: Instruction) -> None:
        """`insertvalue { i64, i1 } %x, i64 %y, 0`."""
        i.type = self.type()
        aggregate = self.value(i.type)
        self.expect(",")
        i.operands = [aggregate, self.typed_value()]
        i.attributes["indices"] = self._indices()

    def extractelement(self, i: Instruction) -> None:
        """`extractelement <2 x double> %v, i32 0`."""
        t = self.type()
        v = self.value(t)
        self.expect(",")
        i.operands = [v, self.typed_value()]
        i.type = _vector(self, t).element

    def insertelement(self, i: Instruction) -> None:
        """`insertelement <2 x double> %v, double %x, i32 0`."""
        i.type = self.type()
        v = self.value(i.type)
        self.expect(",")
        x = self.typed_value()
        self.expect(",")
        i.operands = [v, x, self.typed_value()]

    def shufflevector(self, i: Instruction) -> None:
        """`shufflevector <2 x double> %v, <2 x double> %w, <4 x i32> <i32 0, ...>`."""
        t = self.type()
        v = self.value(t)
        self.expect(",")
        w = self.typed_value()
        self.expect(",")
        mask_type = _vector(self, self.type())
        i.operands = [v, w, self.value(mask_type)]
        i.type = intern(VectorType(mask_type.length, _vector(self, t).element, mask_type.scalable))

    def marked_call(self, i: Instruction) -> None:
        """`tail call ...`."""
        i.attributes["tail"] = f"{i.opcode} "
        self.expect("call")
        i.opcode = "call"
        if self.tokens[self.at] in FLAGS:
            i.flags = self._flags()
        self.call(i)

    def call(self, i: Instruction) -> None:
        """`call fastcc double @f(double %x, ptr nonnull %p) #5`."""
        self._call_target(i)
        self._call_arguments(i)
        start = self.at
        self.at = len(self.tokens) - 1
        if self.at > start:
            i.attributes["call_attributes"] = self.text(start, self.at)

    def invoke(self, i: Instruction) -> None:
        """`invoke double @f(double %x) to label %a unwind label %b`."""
        self._call_target(i)
        self._call_arguments(i)
        start = self.at
        while not (self.tokens[self.at] == "to" and self.tokens[self.at + 1] == "label"):
            self.take()
        if self.at > start:
            i.attributes["call_attributes"] = self.text(start, self.at)
        self.expect("to")
        i.blocks = [self.label()]
        self.expect("unwind")
        i.blocks.append(self.label())

    def _call_target(self, i: Instruction) -> None:
        if not self.at_type():
            self._calling_convention(i)
        i.type = self.type()
        if self.tokens[self.at] == "(":
            self._function_type(i)
        if self.tokens[self.at] == "asm":
            start = self.at
            while self.tokens[self.at] != "(":
                self.take()
            i.callee = Constant(PTR, self.text(start, self.at))
        else:
            i.callee = self.value(PTR)

    def _calling_convention(self, i: Instruction) -> None:
        token = self.tokens[self.at]
        if token == "cc" or _CALLING_CONVENTIONS.match(token):
            start = self.at
            self.at += 2 if token == "cc" else 1
            i.attributes["cconv"] = self.text(start, self.at)
        start = self.at
        while not self.at_type():
            self.skip_attribute()
        if self.at > start:
            i.attributes["return_attributes"] = self.text(start, self.at)

    def _function_type(self, i: Instruction) -> None:
        self.expect("(")
        parameters: list[Type] = []
        vararg = False
        while not self.accept(")"):
            if parameters:
                self.expect(",")
            if self.accept("..."):
                vararg = True
            else:
                parameters.append(self.type())
        i.attributes["function_type"] = FunctionType(i.type, tuple(parameters), vararg)

    def _call_arguments(self, i: Instruction) -> None:
        self.expect("(")
        attributes: list[str] = []
        tokens = self.tokens
        while not self.accept(")"):
            if attributes:
                self.expect(",")
            t = self.type()
            start = self.at
            if tokens[start][:1] not in ("%", "@") and t is not METADATA:
                while not self._at_value():
                    self.skip_attribute()
            attributes.append(self.text(start, self.at))
            i.operands.append(self.value(t))
        if any(attributes):
            i.attributes["argument_attributes"] = attributes

    def verbatim(self, i: Instruction) -> None:
        """An opcode that is not interpreted: the text is kept, only the result type is found."""
        i.type = self._verbatim_type(i.opcode)
        i.attributes["verbatim"] = (
            f"{i.opcode} {' '.join(i.flags)} {self.source.strip()}"
            if i.flags
            else (f"{i.opcode} {self.source.strip()}".strip())
        )
        i.flags = ()
        self.at = len(self.tokens) - 1

    def _verbatim_type(self, opcode: str) -> Type:
        if opcode in ("landingpad", "va_arg"):
            if opcode == "va_arg":
                self.typed_value()
                self.expect(",")
            return self.type()
        if opcode not in ("atomicrmw", "cmpxchg"):
            return VOID
        depth = 0  # the pointer may be an expression with commas in it
        while depth or self.tokens[self.at] != ",":
            depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(self.take(), 0)
        self.expect(",")
        t = self.type()
        return t if opcode == "atomicrmw" else intern(StructType((t, I1)))


def _vector(cursor: Cursor, t: Type) -> VectorType:
    if not isinstance(t, VectorType):
        raise cursor.error("a vector was expected")
    return t


_OPCODES: dict[str, Callable[[InstructionParser, Instruction], None]] = {
    **dict.fromkeys(BINARY_FLOAT | BINARY_INT, InstructionParser.binary),
    **dict.fromkeys(CASTS, InstructionParser.cast),
    **dict.fromkeys(("fneg", "freeze"), InstructionParser.unary),
    **dict.fromkeys(("icmp", "fcmp"), InstructionParser.compare),
    **dict.fromkeys(("tail", "musttail", "notail"), InstructionParser.marked_call),
    "select": InstructionParser.select,
    "load": InstructionParser.load_memory,
    "store": InstructionParser.store,
    "alloca": InstructionParser.alloca,
    "getelementptr": InstructionParser.getelementptr,
    "phi": InstructionParser.phi,
    "br": InstructionParser.branch,
    "switch": InstructionParser.switch,
    "ret": InstructionParser.ret,
    "unreachable": InstructionParser.unreachable,
    "call": InstructionParser.call,
    "invoke": InstructionParser.invoke,
    "extractvalue": InstructionParser.extractvalue,
    "insertvalue": InstructionParser.insertvalue,
    "extractelement": InstructionParser.extractelement,
    "insertelement": InstructionParser.insertelement,
    "shufflevector": InstructionParser.shufflevector,
    **dict.fromkeys(
        "fence atomicrmw cmpxchg va_arg landingpad resume indirectbr callbr "
        "cleanuppad catchpad cleanupret catchret catchswitch".split(),
        InstructionParser.verbatim,
    ),
}

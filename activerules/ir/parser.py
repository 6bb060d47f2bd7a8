"""Textual LLVM IR to the engine's classes.

Needs       the text LLVM prints for a module (LLVM 22), or text written in the same manner by hand
Gives       a `Module`; see `activerules.ir.model` for the operands of each opcode
Invariants  P1  the printer's text of the result parses to an equal module
            P2  nothing is lost but comments, debug records (`#dbg_value`) and use-list orders
            P3  a value is one object: all its uses, forward ones too, are that object

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

from activerules.ir.lexer import Cursor
from activerules.ir.model import (
    BINARY_FLOAT,
    BINARY_INT,
    CASTS,
    Argument,
    Block,
    Constant,
    Function,
    GlobalRef,
    Instruction,
    Module,
    Value,
)
from activerules.ir.types import (
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
_CALLING_CONVENTIONS = re.compile(
    r"\w+cc$|amdgpu_\w+$|spir_\w+$|ptx_\w+$|riscv_\w+$|intel_ocl_bicc$"
)

_LINE = re.compile(
    r'\s*(?:(?P<label>"[^"]*"|[-\w$.]+):\s*(?:;|$)|(?:%(?P<name>"[^"]*"|[-\w$.]+)\s*=\s*)?(?P<opcode>[a-z_]+)\b)'
)
_CONTINUATION = re.compile(r"\s*(?:to label|cleanup\s*$|catch |filter |\])")
_METADATA_TAIL = re.compile(r",\s*![A-Za-z_][\w.]*\s+!")
_TYPE_LINE = re.compile(r'%("[^"]*"|[-\w$.]+)\s*=\s*type\s+(.*)$')
_GLOBAL_LINE = re.compile(r'(@(?:"[^"]*"|[-\w$.]+)|\$(?:"[^"]*"|[-\w$.]+))\s*=')
_QUOTED = re.compile(r'"[^"]*"|;')


def parse_module(text: str) -> Module:
    """Parse a whole module. Raises `IRSyntaxError` with the line that was not understood."""
    module = Module()
    lines = text.splitlines()
    bodies: list[tuple[Function, int, int]] = []
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line or line.isspace() or line.startswith(";"):
            continue
        if line.startswith("define"):
            function = _parse_signature(line, number, module, "define")
            end = _end_of_body(lines, number)
            bodies.append((function, number, end))
            number = end + 1
        else:
            _parse_top_level(line, number, module)
    for function, start, end in bodies:
        _parse_body(function, lines, start, end, module)
    return module


def _end_of_body(lines: list[str], start: int) -> int:
    for number in range(start, len(lines)):
        if lines[number].startswith("}"):
            return number
    raise Cursor(lines[start - 1], start).error("the function has no closing brace")


def _parse_top_level(line: str, number: int, module: Module) -> None:
    if line.startswith(("@", "$")):
        match = _GLOBAL_LINE.match(line)
        if match is None:
            raise Cursor(line, number).error("a global was expected")
        name = match[1]
        module.globals[name[1:] if name.startswith("@") else name] = line
    elif line.startswith("declare"):
        _parse_signature(line, number, module, "declare")
    elif line.startswith("%"):
        _parse_named_type(line, number, module)
    elif line.startswith(("!", "attributes ")):
        module.trailer.append(line)
    elif line.startswith(("source_filename", "target ", "module asm")):
        module.header.append(line)
    elif not line.startswith(("uselistorder", "^")):
        raise Cursor(line, number).error("not a line of a module")


def _parse_named_type(line: str, number: int, module: Module) -> None:
    match = _TYPE_LINE.match(_without_comment(line))
    if match is None:
        raise Cursor(line, number).error("a named type was expected")
    if match[2].strip() == "opaque":
        module.types[match[1]] = None
    else:
        cursor = Cursor(match[2], number)
        module.types[match[1]] = cursor.type()
        cursor.expect_end()


def _without_comment(line: str) -> str:
    if ";" in line:
        for match in _QUOTED.finditer(line):
            if match[0] == ";":
                return line[: match.start()].rstrip()
    return line


def _parse_signature(line: str, number: int, module: Module, keyword: str) -> Function:
    cursor = Cursor(_without_comment(line), number)
    cursor.expect(keyword)
    start = cursor.at
    while True:
        at = cursor.at
        if cursor.at_type():
            result = cursor.type()
            if cursor.tokens[cursor.at][:1] == "@":
                break
            cursor.at = at
        cursor.skip_attribute()
    prefix = cursor.text(start, at)
    name = cursor.take()[1:]
    arguments, vararg = _parse_parameters(cursor, numbered=keyword == "define")
    start = cursor.at
    end = len(cursor.tokens) - 1
    if keyword == "define":
        end -= 1
        if cursor.tokens[end] != "{":
            raise cursor.error("a definition ends with '{'")
    function = Function(name, result, arguments, [], prefix, cursor.text(start, end), vararg)
    module.functions[name] = function
    return function


def _parse_parameters(cursor: Cursor, numbered: bool) -> tuple[list[Argument], bool]:
    arguments: list[Argument] = []
    unnamed = 0
    cursor.expect("(")
    while not cursor.accept(")"):
        if arguments:
            cursor.expect(",")
        if cursor.accept("..."):
            cursor.expect(")")
            return arguments, True
        t = cursor.type()
        start = cursor.at
        while cursor.tokens[cursor.at] not in (",", ")") and cursor.tokens[cursor.at][:1] != "%":
            cursor.skip_attribute()
        attributes = cursor.text(start, cursor.at)
        name = cursor.take()[1:] if cursor.tokens[cursor.at][:1] == "%" else ""
        if numbered and (not name or name == str(unnamed)):
            name = str(unnamed)
            unnamed += 1
        arguments.append(Argument(name, t, attributes))
    return arguments, False


def _logical_lines(lines: list[str], start: int, end: int) -> list[tuple[int, str]]:
    """The lines that hold something, with their numbers: no comments, continued lines joined."""
    logical: list[tuple[int, str]] = []
    open_switch = False
    for number in range(start, end):
        line = lines[number]
        if ";" in line:
            line = _without_comment(line)
        if not line or line.isspace():
            continue
        if open_switch or _CONTINUATION.match(line):
            logical[-1] = (logical[-1][0], f"{logical[-1][1]} {line.strip()}")
            open_switch = open_switch and "]" not in line
        elif not line.lstrip().startswith("#dbg_"):
            logical.append((number + 1, line))
            open_switch = line.endswith("[")
    return logical


def _parse_body(function: Function, lines: list[str], start: int, end: int, module: Module) -> None:
    """Two passes: the first makes every block and every named instruction, the second fills them,
    so that a forward reference is an ordinary lookup.
    """
    parser = _BodyParser(function, module)
    pending: list[tuple[int, str, Instruction, str]] = []
    local = parser.locals
    unnamed = sum(1 for a in function.arguments if a.name.isdigit())
    block: Block | None = None
    for number, line in _logical_lines(lines, start, end):
        match = _LINE.match(line)
        if match is None:
            raise Cursor(line, number).error("neither a label nor an instruction")
        label, name, opcode = match.groups()
        if label is not None or block is None:
            if label is None or label.isdigit():
                unnamed = int(label or unnamed) + 1
            block = _add_block(function, label if label is not None else str(unnamed - 1), local)
            if label is not None:
                continue
        if name is not None and name.isdigit():
            unnamed = int(name) + 1
        instruction = Instruction(opcode, VOID, [], name)
        instruction.parent = block
        block.instructions.append(instruction)
        if name is not None:
            local[name] = instruction
        pending.append((number, line, instruction, line[match.end() :]))
    for number, line, instruction, rest in pending:
        parser.fill(instruction, rest, line, number)


def _add_block(function: Function, name: str, local: dict[str, Value]) -> Block:
    block = Block(name, [], function)
    function.blocks.append(block)
    local[name] = block
    return block


class _BodyParser(Cursor):
    """Parses the instructions of one function; `locals` maps names after `%` to their values."""

    __slots__ = ("function", "globals", "locals", "module")

    def __init__(self, function: Function, module: Module) -> None:
        super().__init__()
        self.function, self.module = function, module
        self.locals: dict[str, Value] = {a.name: a for a in function.arguments}
        self.globals: dict[str, GlobalRef] = {}

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

    # --- operands ---

    def value(self, t: Type) -> Value:
        """Parse a value of type `t`."""
        token = self.tokens[self.at]
        first = token[:1]
        if first == "%":
            self.at += 1
            found = self.locals.get(token[1:])
            if found is None:
                self.at -= 1
                raise self.error("the value is not defined")
            return found
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
        found = self.globals.get(name)
        if found is None:
            found = self.globals[name] = GlobalRef(name, t)
        return found

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

    # --- opcodes ---

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
        for _ in range(self.tokens.index(",")):
            self.take()
        self.expect(",")
        t = self.type()
        return t if opcode == "atomicrmw" else intern(StructType((t, I1)))


def _vector(cursor: Cursor, t: Type) -> VectorType:
    if not isinstance(t, VectorType):
        raise cursor.error("a vector was expected")
    return t


_OPCODES: dict[str, Callable[[_BodyParser, Instruction], None]] = {
    **dict.fromkeys(BINARY_FLOAT | BINARY_INT, _BodyParser.binary),
    **dict.fromkeys(CASTS, _BodyParser.cast),
    **dict.fromkeys(("fneg", "freeze"), _BodyParser.unary),
    **dict.fromkeys(("icmp", "fcmp"), _BodyParser.compare),
    **dict.fromkeys(("tail", "musttail", "notail"), _BodyParser.marked_call),
    "select": _BodyParser.select,
    "load": _BodyParser.load_memory,
    "store": _BodyParser.store,
    "alloca": _BodyParser.alloca,
    "getelementptr": _BodyParser.getelementptr,
    "phi": _BodyParser.phi,
    "br": _BodyParser.branch,
    "switch": _BodyParser.switch,
    "ret": _BodyParser.ret,
    "unreachable": _BodyParser.unreachable,
    "call": _BodyParser.call,
    "invoke": _BodyParser.invoke,
    "extractvalue": _BodyParser.extractvalue,
    "insertvalue": _BodyParser.insertvalue,
    "extractelement": _BodyParser.extractelement,
    "insertelement": _BodyParser.insertelement,
    "shufflevector": _BodyParser.shufflevector,
    **dict.fromkeys(
        "fence atomicrmw cmpxchg va_arg landingpad resume indirectbr callbr "
        "cleanuppad catchpad cleanupret catchret catchswitch".split(),
        _BodyParser.verbatim,
    ),
}

"""Textual LLVM IR to the engine's classes.

Needs       the text LLVM 20 to 22 prints for a module, or text written in the same manner by hand
Gives       a `Module`; see `activerules.ir.llvm.model` for the operands of each opcode
Invariants  P1  the printer's text of the result parses to an equal module
            P2  nothing is lost but comments, debug records (`#dbg_value`) and use-list orders
            P3  a value is one object: all its uses, forward ones too, are that object
"""

from __future__ import annotations

import re
from hashlib import sha256

from activerules.ir.llvm.instruction_parser import InstructionParser
from activerules.ir.llvm.lexer import Cursor
from activerules.ir.llvm.model import Argument, Block, Function, Instruction, Module, Value
from activerules.ir.llvm.types import VOID

_LINE = re.compile(
    r'\s*(?:(?P<label>"[^"]*"|[-\w$.]+):\s*(?:;|$)|(?:%(?P<name>"[^"]*"|[-\w$.]+)\s*=\s*)?(?P<opcode>[a-z_]+)\b)'
)
_CONTINUATION = re.compile(r"\s*(?:to label|cleanup\s*$|catch |filter |\])")
_TYPE_LINE = re.compile(r'%("[^"]*"|[-\w$.]+)\s*=\s*type\s+(.*)$')
_GLOBAL_LINE = re.compile(r'(@(?:"[^"]*"|[-\w$.]+)|\$(?:"[^"]*"|[-\w$.]+))\s*=')
_QUOTED = re.compile(r'"[^"]*"|;')
_LONG = 512


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
    parser = InstructionParser(function, module)
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
        instruction = Instruction(opcode, VOID, [], name and _shortened(name))
        instruction.parent = block
        block.instructions.append(instruction)
        if name is not None:
            local[name] = instruction
        pending.append((number, line, instruction, line[match.end() :]))
    for number, line, instruction, rest in pending:
        parser.fill(instruction, rest, line, number)


def _add_block(function: Function, name: str, local: dict[str, Value]) -> Block:
    block = Block(_shortened(name), [], function)
    function.blocks.append(block)
    local[name] = block
    return block


def _shortened(name: str) -> str:
    """The name in the model: LLVM's parser takes no name of over 1024 characters, as that of a
    block that was inlined may be once derivatives add to it.
    """
    return name if len(name) < _LONG else f"shortened.{sha256(name.encode()).hexdigest()}"

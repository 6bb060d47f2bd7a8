"""The engine's own IR: plain classes, which are parsed from LLVM's text and printed as such.

A `Module` holds `Function`s, a `Function` holds `Block`s, a `Block` holds `Instruction`s; an
instruction is a value, as are `Argument`, `Constant`, `GlobalRef` and `Block` (a label operand).
Identity is equality: two instructions are the same value only if they are the same object. What
LLVM writes and the engine does not interpret (attributes, metadata, alignment) is kept verbatim in
`Instruction.attributes` and printed back.

Conventions per opcode (operands in order; `detail` is an entry of `Instruction.attributes`):

    binary, fneg, select    operands as LLVM writes them
    icmp, fcmp              the same; detail "predicate"
    casts                   one operand; the result type is `type`
    load                    [pointer]
    store                   [value, pointer]
    alloca                  [] or [count]; detail "allocated" is the Type
    getelementptr           [base, index...]; detail "source" is the Type
    phi                     operands are the values; `blocks` the incoming blocks, same order
    br                      [] with blocks [target], or [condition] with blocks [if_true, if_false]
    switch                  [value, case constants...]; blocks [default, case blocks...]
    ret                     [] or [value]
    unreachable             []
    call, invoke            arguments only; `callee` is the called value (GlobalRef for a direct
                            call); invoke: blocks [normal, unwind]
    extractvalue            [aggregate]; detail "indices": tuple[int, ...]
    insertvalue             [aggregate, value]; detail "indices"
    fence, atomicrmw, cmpxchg, va_arg, landingpad, resume ...
                            parsed into `verbatim` (see parser) or refused

Flags (`nsw`, `fast`, `inbounds` ...) are in `flags`, in LLVM's order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from activerules.ir.llvm.types import LABEL, PTR, Type


class Value:
    """Anything that can be an operand: has a `type` and prints as an operand with `ref`."""

    __slots__ = ()
    type: Type

    @property
    def ref(self) -> str:
        """The value as an operand, without its type: `%x`, `@f`, `1.0`."""
        raise NotImplementedError


@dataclass(slots=True, eq=False)
class Constant(Value):
    """A literal, kept as LLVM's text: `0`, `0x3FF0000000000000`, `null`, `{ i64 1, i1 false }`.

    A constant expression is one, too. `globals` lists the names (without `@`) of the globals its
    text mentions.
    """

    type: Type
    text: str
    globals: tuple[str, ...] = ()

    @property
    def ref(self) -> str:
        """LLVM's text of the literal."""
        return self.text

    def __repr__(self) -> str:
        return f"{self.type} {self.text}"


@dataclass(slots=True, eq=False)
class GlobalRef(Value):
    """A global variable or function by name (as written after `@`, quotes included)."""

    name: str
    type: Type = PTR

    @property
    def ref(self) -> str:
        """`@name`."""
        return f"@{self.name}"

    def __repr__(self) -> str:
        return self.ref


@dataclass(slots=True, eq=False)
class Argument(Value):
    """A parameter of a function; `attributes` is LLVM's text between type and name."""

    name: str
    type: Type
    attributes: str = ""

    @property
    def ref(self) -> str:
        """`%name`."""
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"{self.type} {self.ref}"


@dataclass(slots=True, eq=False)
class Instruction(Value):
    """One instruction; its operands are listed in the module docstring.

    `name` is None if it has no result.
    """

    opcode: str
    type: Type
    operands: list[Value]
    name: str | None = None
    flags: tuple[str, ...] = ()
    blocks: list[Block] = field(default_factory=lambda: [])
    callee: Value | None = None
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    parent: Block | None = None

    @property
    def ref(self) -> str:
        """`%name`."""
        return f"%{self.name}"

    @property
    def owner(self) -> Block:
        """The block that contains it; there must be one."""
        assert self.parent is not None, f"{self!r} stands in no block"
        return self.parent

    @property
    def callee_name(self) -> str | None:
        """Name of the function called directly; None for indirect calls and other opcodes."""
        return self.callee.name if isinstance(self.callee, GlobalRef) else None

    @property
    def is_ordinary(self) -> bool:
        """Whether it is neither volatile nor atomic: it may then be moved, or repeated."""
        return not {"volatile", "atomic"} & self.attributes.keys()

    def __repr__(self) -> str:
        return f"<{self.opcode} {self.ref if self.name else ''}>"


@dataclass(slots=True, eq=False)
class Block(Value):
    """A basic block: a label and its instructions, the last a terminator."""

    name: str
    instructions: list[Instruction] = field(default_factory=list[Instruction])
    parent: Function | None = None
    type: Type = LABEL

    @property
    def ref(self) -> str:
        """`%name`."""
        return f"%{self.name}"

    @property
    def terminator(self) -> Instruction:
        """The last instruction."""
        return self.instructions[-1]

    @property
    def successors(self) -> list[Block]:
        """Blocks the terminator may go to: one entry per edge, so one block may come twice."""
        return self.terminator.blocks

    @property
    def phis(self) -> Iterator[Instruction]:
        """The phis it begins with."""
        for instruction in self.instructions:
            if instruction.opcode != "phi":
                return
            yield instruction

    def append(self, instruction: Instruction) -> Instruction:
        """Put an instruction at the end; returns it."""
        instruction.parent = self
        self.instructions.append(instruction)
        return instruction

    def insert(self, at: int, *instructions: Instruction) -> None:
        """Put instructions before the one at position `at`; -1 is the terminator."""
        self.instructions[at:at] = instructions
        for instruction in instructions:
            instruction.parent = self

    def __repr__(self) -> str:
        return f"<block {self.name}>"


@dataclass(slots=True, eq=False)
class Function:
    """A function definition (`blocks` not empty) or declaration.

    `prefix` is the text between `define`/`declare` and the return type (linkage, visibility, cconv,
    return attributes); `suffix` the text after the closing parenthesis of the parameters
    (attributes, section, `#0`, metadata), without the opening brace.
    """

    name: str
    result: Type
    arguments: list[Argument]
    blocks: list[Block] = field(default_factory=list[Block])
    prefix: str = ""
    suffix: str = ""
    vararg: bool = False

    @property
    def is_declaration(self) -> bool:
        """Whether it has no body."""
        return not self.blocks

    @property
    def entry(self) -> Block:
        """The entry block. `IndexError` for a declaration."""
        return self.blocks[0]

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, block by block."""
        for block in self.blocks:
            yield from block.instructions

    def local_names(self) -> set[str]:
        """The names of its parameters, blocks and values."""
        values = {i.name for i in self.instructions() if i.name}
        return values | {a.name for a in self.arguments} | {b.name for b in self.blocks}

    def mentioned(self) -> Iterator[str]:
        """The names of the globals and functions that its instructions refer to."""
        for i in self.instructions():
            for value in (*i.operands, i.callee):
                if isinstance(value, GlobalRef):
                    yield value.name
                elif isinstance(value, Constant):
                    yield from value.globals

    def remove_unused(self, candidates: Collection[Instruction]) -> None:
        """Take out the candidates that only one another use."""
        dead: set[Value] = set(candidates)
        changed = bool(dead)
        while changed:
            used = {o for i in self.instructions() if i not in dead for o in i.operands}
            changed = not dead.isdisjoint(used)
            dead -= used
        for block in self.blocks:
            block.instructions = [i for i in block.instructions if i not in dead]

    def replace(self, instead: Mapping[Value, Value]) -> None:
        """Take out the instructions that are keys; their values are used instead."""
        if not instead:
            return
        for block in self.blocks:
            block.instructions = [i for i in block.instructions if i not in instead]
        for i in self.instructions():
            for k, value in enumerate(i.operands):
                while value in instead:
                    value = instead[value]
                i.operands[k] = value

    def __repr__(self) -> str:
        return f"<function @{self.name}>"


@dataclass(slots=True, eq=False)
class Module:
    """A whole module, everything verbatim and in order.

    header      source_filename, datalayout, triple and inline asm lines
    types       the named structs (None: opaque)
    globals     name -> the full line of every global variable, alias and comdat
    functions   name -> function
    trailer     the attribute groups and metadata lines
    """

    header: list[str] = field(default_factory=list[str])
    types: dict[str, Type | None] = field(default_factory=dict[str, Type | None])
    globals: dict[str, str] = field(default_factory=dict[str, str])
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    trailer: list[str] = field(default_factory=list[str])

    def defined(self) -> list[Function]:
        """The functions with a body, in order."""
        return [f for f in self.functions.values() if not f.is_declaration]

    def declare(self, name: str, result: Type, operands: Sequence[Value]) -> None:
        """Add the declaration of a function that is called with these, unless there is one."""
        if name not in self.functions:
            parameters = [Argument(f"a{k}", o.type) for k, o in enumerate(operands)]
            self.functions[name] = Function(name, result, parameters)


BINARY_FLOAT = frozenset("fadd fsub fmul fdiv frem".split())
BINARY_INT = frozenset("add sub mul udiv sdiv urem srem shl lshr ashr and or xor".split())
MAY_TRAP = frozenset("udiv sdiv urem srem".split())
CASTS = frozenset(
    "trunc zext sext fptrunc fpext fptoui fptosi uitofp sitofp "
    "ptrtoint inttoptr bitcast addrspacecast".split()
)


def accessed_type(access: Instruction) -> Type:
    """The type that a load reads or a store writes."""
    return access.operands[0].type if access.opcode == "store" else access.type


def backward_slice(value: Value, goes_on: Callable[[Instruction], bool]) -> Iterator[Instruction]:
    """The instructions from which a value is computed, each once: its own, and, for those of which
    `goes_on` is true, those of their operands.
    """
    seen: set[Instruction] = set()
    work = [value]
    while work:
        instruction = work.pop()
        if instruction in seen or not isinstance(instruction, Instruction):
            continue
        seen.add(instruction)
        yield instruction
        if goes_on(instruction):
            work.extend(instruction.operands)

"""Appends new instructions to a block, one method per opcode.

Names are made by a `Namer`, shared by all builders of one function, so that they never clash. What
is made carries no fast-math flag, no `nsw`, `nuw` or `inbounds` unless the caller passes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from activerules.ir.llvm.constants import constant
from activerules.ir.llvm.model import Block, Constant, GlobalRef, Instruction, Value
from activerules.ir.llvm.types import I1, I8, I64, PTR, VOID, FloatType, IntType, PointerType, Type

Flags = tuple[str, ...]


class Namer:
    """Makes names `<hint>.<prefix><n>`, each once. `taken` are names that must not be made."""

    def __init__(self, prefix: str = "d", taken: Iterable[str] = ()) -> None:
        self.prefix = prefix
        self._taken = frozenset(taken)
        self._count = 0

    def __call__(self, hint: str = "") -> str:
        """A name that was not given out before; `hint` makes it readable."""
        while True:
            name = f"{hint}.{self.prefix}{self._count}" if hint else f"{self.prefix}{self._count}"
            self._count += 1
            if name not in self._taken:
                return name


def suffixed(name: str, suffix: str) -> str:
    """`name` with a suffix, inside the quotes if it has them."""
    return f'{name[:-1]}{suffix}"' if name.startswith('"') else name + suffix


class Builder:
    """Appends to `target`, a block or a plain list.

    `declarations` maps the name of every function called by name to a `declare` line that fits the
    call; the caller adds those that its module lacks.
    """

    def __init__(
        self,
        target: Block | list[Instruction],
        namer: Namer | None = None,
        declarations: dict[str, str] | None = None,
    ) -> None:
        self.target = target
        self.namer = namer if namer is not None else Namer()
        self.declarations = declarations if declarations is not None else {}

    def at(self, target: Block | list[Instruction]) -> Builder:
        """A builder for another block of the same function: shares names and declarations."""
        return Builder(target, self.namer, self.declarations)

    def append(self, instruction: Instruction) -> Instruction:
        """Append an instruction as it is."""
        if isinstance(self.target, Block):
            return self.target.append(instruction)
        self.target.append(instruction)
        return instruction

    def emit(
        self,
        opcode: str,
        t: Type,
        operands: list[Value],
        *,
        flags: Flags = (),
        blocks: Sequence[Block] = (),
        hint: str = "",
        **attributes: object,
    ) -> Instruction:
        """Append any opcode; entries of `attributes` that are None are left out."""
        return self.append(
            Instruction(
                opcode,
                t,
                operands,
                None if t is VOID else self.namer(hint),
                flags,
                list(blocks),
                None,
                {k: v for k, v in attributes.items() if v is not None},
            )
        )

    # --- values ---

    def const(self, t: Type, number: float | None) -> Constant:
        """A literal; see `constants.constant`."""
        return constant(t, number)

    def binary(self, op: str, x: Value, y: Value, flags: Flags = (), hint: str = "") -> Instruction:
        """Any opcode with two operands of the type of its result."""
        return self.emit(op, x.type, [x, y], flags=flags, hint=hint)

    def fadd(self, x: Value, y: Value, flags: Flags = ()) -> Instruction:
        """`x + y`."""
        return self.binary("fadd", x, y, flags)

    def fsub(self, x: Value, y: Value) -> Instruction:
        """`x - y`."""
        return self.binary("fsub", x, y)

    def fmul(self, x: Value, y: Value) -> Instruction:
        """`x * y`."""
        return self.binary("fmul", x, y)

    def fdiv(self, x: Value, y: Value) -> Instruction:
        """`x / y`."""
        return self.binary("fdiv", x, y)

    def fneg(self, x: Value) -> Instruction:
        """`-x`."""
        return self.emit("fneg", x.type, [x])

    def fcmp(self, predicate: str, x: Value, y: Value) -> Instruction:
        """Compare floats; `predicate` is LLVM's: `oeq`, `olt`, `uno` ..."""
        return self.emit("fcmp", I1, [x, y], predicate=predicate)

    def icmp(self, predicate: str, x: Value, y: Value) -> Instruction:
        """Compare integers or pointers; `predicate` is LLVM's: `eq`, `slt`, `ult` ..."""
        return self.emit("icmp", I1, [x, y], predicate=predicate)

    def select(
        self, condition: Value, x: Value, y: Value, flags: Flags = (), hint: str = ""
    ) -> Instruction:
        """`x` where `condition`, else `y`."""
        return self.emit("select", x.type, [condition, x, y], flags=flags, hint=hint)

    def cast(self, op: str, x: Value, t: Type, flags: Flags = (), hint: str = "") -> Instruction:
        """`fpext`, `trunc`, `sitofp` ... of `x` to `t`."""
        return self.emit(op, t, [x], flags=flags, hint=hint)

    def extractvalue(self, aggregate: Value, t: Type, *indices: int) -> Instruction:
        """A field of an aggregate; `t` is the type of the field."""
        return self.emit("extractvalue", t, [aggregate], indices=indices)

    def insertvalue(self, aggregate: Value, value: Value, *indices: int) -> Instruction:
        """The aggregate with one field replaced."""
        return self.emit("insertvalue", aggregate.type, [aggregate, value], indices=indices)

    # --- memory ---

    def alloca(
        self, t: Type, count: Value | None = None, align: int | None = None, hint: str = ""
    ) -> Instruction:
        """Stack memory for `count` (one) values of `t`."""
        operands = [] if count is None else [count]
        return self.emit("alloca", PTR, operands, hint=hint, allocated=t, align=align)

    def load(
        self, t: Type, pointer: Value, align: int | None = None, metadata: str | None = None
    ) -> Instruction:
        """Load a `t`; without `align` LLVM assumes the alignment of the type."""
        return self.emit("load", t, [pointer], align=align, metadata=metadata)

    def store(
        self, value: Value, pointer: Value, align: int | None = None, metadata: str | None = None
    ) -> Instruction:
        """Store `value`; without `align` LLVM assumes the alignment of the type."""
        return self.emit("store", VOID, [value, pointer], align=align, metadata=metadata)

    def gep(
        self, source: Type, pointer: Value, indices: Sequence[Value], flags: Flags = ()
    ) -> Instruction:
        """`getelementptr`; scalar pointers only."""
        operands = [pointer, *indices]
        return self.emit("getelementptr", pointer.type, operands, flags=flags, source=source)

    # --- calls ---

    def call(
        self,
        callee: str | Value,
        result: Type,
        arguments: Sequence[Value],
        flags: Flags = (),
        hint: str = "",
        attributes: str | None = None,
    ) -> Instruction:
        """Call a function; one given by name is recorded in `declarations`.

        `attributes` are those of the call, after the arguments: `nounwind`, `#3`.
        """
        if isinstance(callee, str):
            parameters = ", ".join(str(a.type) for a in arguments)
            self.declarations.setdefault(callee, f"declare {result} @{callee}({parameters})")
            callee = GlobalRef(callee)
        call = self.emit(
            "call", result, list(arguments), flags=flags, hint=hint, call_attributes=attributes
        )
        call.callee = callee
        return call

    def intrinsic(self, name: str, result: Type, arguments: Sequence[Value]) -> Instruction:
        """Call an intrinsic given without the suffix for the type of its result: `llvm.sin` of
        double is `llvm.sin.f64`.
        """
        return self.call(f"{name}.{suffix_of(result)}", result, arguments)

    # --- control ---

    def phi(
        self, t: Type, edges: Iterable[tuple[Value, Block]] = (), hint: str = ""
    ) -> Instruction:
        """A phi; edges may be added later with `add_incoming`."""
        phi = self.emit("phi", t, [], hint=hint)
        for value, block in edges:
            add_incoming(phi, value, block)
        return phi

    def br(self, target: Block) -> Instruction:
        """Jump."""
        return self.emit("br", VOID, [], blocks=[target])

    def cond_br(self, condition: Value, if_true: Block, if_false: Block) -> Instruction:
        """Branch."""
        return self.emit("br", VOID, [condition], blocks=[if_true, if_false])

    def switch(
        self, value: Value, default: Block, cases: Sequence[tuple[int, Block]]
    ) -> Instruction:
        """Branch on an integer."""
        operands = [value, *(constant(value.type, k) for k, _ in cases)]
        return self.emit("switch", VOID, operands, blocks=[default, *(b for _, b in cases)])

    def ret(self, value: Value | None = None) -> Instruction:
        """Return."""
        return self.emit("ret", VOID, [] if value is None else [value])

    def unreachable(self) -> Instruction:
        """The end of a path that is never taken."""
        return self.emit("unreachable", VOID, [])


def at_offset(b: Builder, pointer: Value, count: int) -> Value:
    """The address `count` bytes after `pointer`."""
    return b.gep(I8, pointer, [b.const(I64, count)]) if count else pointer


def add_incoming(phi: Instruction, value: Value, block: Block) -> None:
    """Add an edge to a phi."""
    phi.operands.append(value)
    phi.blocks.append(block)


_FLOAT_SUFFIXES = {
    "half": "f16", "bfloat": "bf16", "float": "f32", "double": "f64", "x86_fp80": "f80",
    "fp128": "f128", "ppc_fp128": "ppcf128",
}  # fmt: skip


def suffix_of(t: Type) -> str:
    """The name of a type in the names of intrinsics."""
    match t:
        case FloatType(kind):
            return _FLOAT_SUFFIXES[kind]
        case PointerType(space):
            return f"p{space}"
        case IntType():
            return str(t)
        case _:
            raise ValueError(f"no intrinsic suffix for {t}")

"""An interpreter for small functions of the engine's IR, which tells observers what happens.

Integers are signed Python numbers of 64 bits; floats may be anything with arithmetic (duals).
Memory is a dict from (name of the base pointer, byte offset) to values, zero where nothing was
stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from activerules.ir.llvm.cfg import Loop, control_flow
from activerules.ir.llvm.constants import number_of
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import size_of

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda x, y: x == y, "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y, "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y, "ge": lambda x, y: x >= y,
}  # fmt: skip
_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: signed(x + y), "sub": lambda x, y: signed(x - y),
    "srem": lambda x, y: abs(x) % abs(y) * (1 if x >= 0 else -1),
    "urem": lambda x, y: signed(x % (1 << 64) % (y % (1 << 64))),
    "lshr": lambda x, y: signed(x % (1 << 64) >> y), "ashr": lambda x, y: x >> y,
    "udiv": lambda x, y: signed(x % (1 << 64) // (y % (1 << 64))),
    "sdiv": lambda x, y: abs(x) // abs(y) * (1 if x * y >= 0 else -1),
    "mul": lambda x, y: signed(x * y), "shl": lambda x, y: signed(x << y),
    "or": lambda x, y: x | y, "and": lambda x, y: x & y, "xor": lambda x, y: x ^ y,
    "fadd": lambda x, y: x + y, "fsub": lambda x, y: x - y, "fmul": lambda x, y: x * y,
}  # fmt: skip
_CALLS: dict[str, Callable[..., Any]] = {
    "llvm.umul.with.overflow.i64": lambda x, y: (
        signed(x * y),
        x % (1 << 64) * (y % (1 << 64)) >= 1 << 64,
    ),
    "llvm.smax.i64": max,
    "llvm.smin.i64": min,
    "llvm.umax.i64": lambda x, y: max(x, y, key=lambda v: v % (1 << 64)),
    "llvm.usub.sat.i64": lambda x, y: signed(max(x % (1 << 64) - y % (1 << 64), 0)),
    "llvm.umin.i64": lambda x, y: min(x, y, key=lambda v: v % (1 << 64)),
}


def signed(number: int) -> int:
    """The number of 64 bits with a sign that is congruent to `number`."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


class Interpreter:
    """Runs one function.

    values      the latest value of everything computed so far
    counters    the number (from 0) of the current iteration of each loop
    """

    def __init__(self, function: Function) -> None:
        self.function = function
        self.flow = control_flow(function)
        self.values: dict[Value, Any] = {}
        self.counters: dict[Loop, int] = {}
        self.memory: dict[tuple[str, int], Any] = {}
        self.steps = 0
        self.at_block: Callable[[Block], None] = lambda block: None
        self.at_access: Callable[[Instruction, tuple[str, int]], None] = lambda i, address: None
        self.at_value: Callable[[Instruction], None] = lambda i: None

    def run(self, arguments: list[Any], limit: int = 20_000) -> bool:
        """Whether it returned within `limit` blocks."""
        self.values = dict(zip(self.function.arguments, arguments, strict=True))
        before, block = None, self.function.entry
        for _ in range(limit):
            self._enter(before, block)
            following = self._block(block)
            if following is None:
                return True
            before, block = block, following
        return False

    def _enter(self, before: Block | None, block: Block) -> None:
        loop = self.flow.loop_of(block)
        if loop is not None and block is loop.header:
            again = before in loop.blocks
            self.counters[loop] = self.counters[loop] + 1 if again else 0
        phis = list(block.phis)
        new = [self._value(phi.operands[phi.blocks.index(before)]) for phi in phis if before]
        self.values.update(zip(phis, new, strict=True))
        self.at_block(block)
        for phi in phis:
            self.at_value(phi)

    def _block(self, block: Block) -> Block | None:
        for i in block.instructions:
            if i.opcode == "br":
                taken = not i.operands or self._value(i.operands[0])
                return i.blocks[0 if taken else 1]
            if i.opcode == "ret":
                return None
            if i.opcode != "phi":
                self.values[i] = self._result(i)
                if i.name is not None:
                    self.at_value(i)
        raise AssertionError("a block without end")

    def _value(self, value: Value) -> Any:
        if isinstance(value, Constant):
            number = number_of(value)
            assert number is not None, value
            return number
        return self.values[value]

    def _result(self, i: Instruction) -> Any:
        x = [self._value(o) for o in i.operands]
        match i.opcode:
            case "getelementptr":
                base, offset = x[0]
                return (base, offset + x[1] * size_of(i.attributes["source"]))
            case "load":
                self.at_access(i, x[0])
                return self.memory.get(x[0], 0.0)
            case "store":
                self.at_access(i, x[1])
                self.memory[x[1]] = x[0]
                return None
            case "icmp" | "fcmp":
                predicate = i.attributes["predicate"]
                if predicate[0] == "u" and isinstance(x[0], int):
                    x = [v % (1 << 64) for v in x]
                return _COMPARE[predicate if len(predicate) == 2 else predicate[1:]](*x)
            case "select":
                return x[1] if x[0] else x[2]
            case "call":
                return _CALLS[i.callee_name or ""](*x)
            case "extractvalue":
                return x[0][i.attributes["indices"][0]]
            case "zext" | "sitofp":
                return int(x[0]) if i.opcode == "zext" else float(x[0])
            case opcode:
                return _BINARY[opcode](*x)

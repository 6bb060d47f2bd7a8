"""An interpreter of random programs that knows which integers are bits of floats.

Memory is cells of eight bytes, each with a number or pointer in it and whether a float was put
there. An integer is `bits` if it was read from such a cell, cast from a float, or computed from an
integer that is.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import IntType, size_of
from tests.ir.interpreter import Interpreter, signed

CELL = 8
_MATH: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in ("sin", "cos", "tanh", "exp")},
    **{f"llvm.{name}.f64": getattr(math, name) for name in ("sin", "cos", "exp", "fabs", "sqrt")},
    "llvm.copysign.f64": math.copysign,
    **{f"llvm.{name}.i64": f for name, f in (("smax", max), ("smin", min))},
    **{f"llvm.{name}.i32": f for name, f in (("smax", max), ("smin", min))},
}
_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "fadd": lambda x, y: x + y, "fsub": lambda x, y: x - y, "fmul": lambda x, y: x * y,
    "fdiv": lambda x, y: x / y, "add": lambda x, y: x + y, "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y, "and": lambda x, y: x & y, "or": lambda x, y: x | y,
    "xor": lambda x, y: x ^ y, "shl": lambda x, y: x << y,
}  # fmt: skip
_UNARY: dict[str, Callable[[Any], Any]] = {
    "fneg": lambda x: -x, "trunc": lambda x: x, "sext": lambda x: x, "freeze": lambda x: x,
    "sitofp": float, "uitofp": float, "fptosi": int,
}  # fmt: skip


class Unsupported(Exception):
    """The program uses what this interpreter does not know."""


def _wrapped(value: Any, t: Any) -> Any:
    """An integer with the sign it has in a type."""
    if not isinstance(t, IntType) or not isinstance(value, int):
        return value
    half = 1 << (t.bits - 1)
    return bool(value & 1) if t.bits == 1 else (value + half) % (2 * half) - half


class BitsInterpreter(Interpreter):
    """Runs one function; `bits` are the integers seen so far that were bits of a float."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)
        self.tainted: dict[Value, bool] = {}
        self.float_cells: set[tuple[Any, int]] = set()
        self.bits: set[Instruction] = set()

    def _note(self, i: Instruction, tainted: bool) -> None:
        self.tainted[i] = tainted
        if tainted and i.type.is_int:
            self.bits.add(i)

    def _is_bits(self, value: Value) -> bool:
        return value.type.is_float or self.tainted.get(value, False)

    def _enter(self, before: Block | None, block: Block) -> None:
        phis = list(block.phis)
        chosen = [p.operands[p.blocks.index(before)] for p in phis] if before else []
        tainted = [self._is_bits(o) for o in chosen]
        super()._enter(before, block)
        for phi, one in zip(phis, tainted, strict=True):
            self._note(phi, one)

    def _value(self, value: Value) -> Any:
        if isinstance(value, Constant) and value.text in {"undef", "poison", "null"}:
            return ("null", 0) if value.type.is_pointer else 0
        return super()._value(value)

    def _result(self, i: Instruction) -> Any:
        x = [self._value(o) for o in i.operands]
        match i.opcode:
            case "load" | "store":
                return self._access(i, x)
            case "alloca":
                return (i, 0)
            case "call":
                return self._call(i, x)
            case "getelementptr" | "icmp":
                return super()._result(i)
        if i.type.is_int:
            others = i.operands[1:] if i.opcode == "select" else i.operands
            self._note(i, any(o.type.is_int and self.tainted.get(o, False) for o in others))
        return _wrapped(self._computed(i, x), i.type)

    def _computed(self, i: Instruction, x: list[Any]) -> Any:
        match i.opcode:
            case "select":
                return x[1] if x[0] else x[2]
            case "fcmp":
                return self._compared(i.attributes["predicate"], *x)
            case "bitcast":
                return self._cast_bits(i, x[0])
            case "zext":
                return x[0] % (1 << i.operands[0].type.bits)
            case opcode if opcode in _UNARY:
                return _UNARY[opcode](x[0])
            case opcode if opcode in _ARITHMETIC:
                return _ARITHMETIC[opcode](*x)
        raise Unsupported(i.opcode)

    def _cast_bits(self, i: Instruction, x: Any) -> Any:
        if i.type.is_int:
            self._note(i, True)
        return self.as_type(i.type, x)

    @staticmethod
    def _compared(predicate: str, x: float, y: float) -> bool:
        return {"lt": x < y, "gt": x > y, "le": x <= y, "ge": x >= y, "eq": x == y, "ne": x != y}[
            predicate[1:]
        ]

    # --- memory ---

    def _access(self, i: Instruction, x: list[Any]) -> Any:
        t = i.type if i.opcode == "load" else i.operands[0].type
        place = x[-1]
        if size_of(t) != CELL or place[1] % CELL:
            raise Unsupported(f"an access of type {t}")
        if i.opcode == "store":
            self._put(place, x[0], self._is_bits(i.operands[0]))
            return None
        value = self.memory.get(place, 0)
        self._note(i, place in self.float_cells)
        return self.as_type(t, value)

    def _put(self, place: tuple[Any, int], value: Any, is_float: bool) -> None:
        self.memory[place] = value
        (self.float_cells.add if is_float else self.float_cells.discard)(place)

    @staticmethod
    def as_type(t: Any, value: Any) -> Any:
        """The bits of a cell as a value of a type."""
        if t.is_int and isinstance(value, float):
            return struct.unpack("<q", struct.pack("<d", value))[0]
        if t.is_float and isinstance(value, int):
            return struct.unpack("<d", struct.pack("<q", value))[0]
        if t.is_int and isinstance(value, tuple):
            raise Unsupported("an address as an integer")
        return value

    def _call(self, i: Instruction, x: list[Any]) -> Any:
        name = i.callee_name or ""
        if name in _MATH:
            self._note(i, any(o.type.is_int and self.tainted.get(o, False) for o in i.operands))
            return _MATH[name](*x)
        if name == "malloc":
            self.steps += 1
            return ((i, self.steps), 0)
        if name.startswith("llvm.mem"):
            self._move(name, *x[:3])
        elif not name.startswith("llvm."):
            raise Unsupported(name)
        return None

    def _move(self, name: str, to: Any, source: Any, size: int) -> None:
        offsets = range(0, signed(size), CELL)
        if name.startswith("llvm.memset"):
            found = [(0, False)] * len(offsets)
        else:
            places = [(source[0], source[1] + k) for k in offsets]
            found = [(self.memory.get(p, 0), p in self.float_cells) for p in places]
        for k, (value, is_float) in zip(offsets, found, strict=True):
            self._put((to[0], to[1] + k), value, is_float)

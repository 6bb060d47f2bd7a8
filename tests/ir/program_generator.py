"""Makes random programs of the language of `random_programs` from a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.ir import program_idioms
from tests.ir.program_language import FLOATS, INTEGERS, POINTERS, UNARY, Node


@dataclass
class Generator:
    """Makes programs from a seed; `idioms`: with those of other front ends, too."""

    rng: random.Random
    loops: list[str] = field(default_factory=list)
    slots: int = 0
    pointers: bool = True
    idioms: bool = False

    def program(self, size: int = 10) -> Node:
        self.pointers = self.rng.random() < 0.6
        body = self.body(size, 0)
        return (body, self.number(2))

    def pick(self, *pairs: tuple[float, Any]) -> Any:
        return self.rng.choices([v for _, v in pairs], [w for w, _ in pairs])[0]

    def number(self, depth: int) -> Node:
        r = self.rng
        if depth <= 0 or r.random() < 0.25:
            kind = self.pick((4, "s"), (3, "ld"), (1, "const"), (1, "x"), (1, "y"), (0.7, "i2d"))
            match kind:
                case "s":
                    return ("s", r.randrange(FLOATS))
                case "ld":
                    return ("ld", self.base(), self.integer(1))
                case "const":
                    return ("const", r.choice([0.5, -1.25, 2.0, 0.0, 1.0]))
                case "i2d":
                    return ("i2d", self.integer(1))
                case _:
                    return (kind,)
        kind = self.pick(
            (3, "+"), (2, "-"), (3, "*"), (1, "div"), (4, "unary"), (1, "sel"), (0.7, "call")
        )
        if kind == "unary":
            return (r.choice(UNARY), self.number(depth - 1))
        if kind == "sel":
            return ("sel", self.condition(1), self.number(depth - 1), self.number(depth - 1))
        return (kind, self.number(depth - 1), self.number(depth - 1))

    def integer(self, depth: int) -> Node:
        r = self.rng
        kind = self.pick(
            (4, "i"),
            (1, "n"),
            (2, "c"),
            (1.5 * depth, "op"),
            (1.2 * depth, "ldi"),
            (0.4 * depth, "d2i"),
        )
        match kind:
            case "i":
                return ("i", r.randrange(INTEGERS + self.slots))
            case "c":
                return ("c", r.randrange(8))
            case "op":
                return (
                    r.choice(["add", "sub", "mul"]),
                    self.integer(depth - 1),
                    self.integer(depth - 1),
                )
            case "ldi":
                return ("ldi", self.integer(depth - 1))
            case "d2i":
                return ("d2i", self.number(1))
        return ("n",)

    def condition(self, depth: int) -> Node:
        r = self.rng
        if depth > 0 and r.random() < 0.25:
            return (r.choice(["and", "or"]), self.condition(depth - 1), self.condition(depth - 1))
        if r.random() < 0.5:
            return (
                "fcmp",
                r.choice(["olt", "ogt", "ole", "oge", "ult", "uge"]),
                self.number(1),
                self.number(1),
            )
        predicate = r.choice(["slt", "sgt", "eq", "ne", "sle"])
        return ("icmp", predicate, ("and", self.integer(1), ("c", 3)), ("c", r.randrange(4)))

    def base(self) -> Node:
        if self.pointers and self.rng.random() < 0.3:
            return ("p", self.rng.randrange(POINTERS))
        return (self.rng.choice(["a", "a", "b", "loc"]),)

    def body(self, size: int, depth: int) -> list[Node]:
        made: list[Node] = []
        while size > 0:
            statement, cost = self.statement(size, depth)
            made.append(statement)
            size -= cost
            if statement[0] in {"break", "continue", "return"}:
                break
        return made

    def statement(self, size: int, depth: int) -> tuple[Node, int]:
        deep = 0.0 if depth > 3 or size < 2 else 1.0
        pointers = 1.0 if self.pointers else 0.0
        jump = 0.0 if depth == 0 else 0.8
        loops = jump * bool(self.loops)
        if self.idioms and self.rng.random() < 0.35:
            return program_idioms.make(self.rng.choice(program_idioms.KINDS), self), 1
        kind = self.pick(
            (4, "set"), (1.5, "seti"), (4, "store"), (0.6 * pointers, "setp"),
            (0.5 * pointers, "choose"), (0.4 * pointers, "swap"), (0.4 * pointers, "new"),
            (0.4, "copy"), (0.3, "clear"),
            (3 * deep, "if"), (0.5 * deep, "switch"), (3 * deep, "for"), (1.5 * deep, "while"),
            (0.7 * deep, "do"), (loops, "break"), (0.6 * loops, "continue"), (0.2 * jump, "return"),
        )  # fmt: skip
        if kind in {"if", "switch", "for", "while", "do"}:
            return self.compound(kind, size, depth)
        if kind in {"set", "seti", "store", "break", "continue", "return"}:
            return self.simple(kind), 1
        return self.on_memory(kind), 1

    def simple(self, kind: str) -> Node:
        r = self.rng
        match kind:
            case "set":
                return ("set", r.randrange(FLOATS), self.bounded(2))
            case "seti":
                return ("seti", r.randrange(INTEGERS), ("and", self.integer(2), ("c", 15)))
            case "store":
                return ("store", self.base(), self.integer(2), self.bounded(2))
            case "return":
                return ("return", self.number(2))
        return (kind, r.randrange(1, len(self.loops) + 1))

    def on_memory(self, kind: str) -> Node:
        pointer, base, other = self.rng.randrange(POINTERS), self.base_array(), self.base_array()
        match kind:
            case "setp":
                return ("setp", pointer, base, self.integer(1))
            case "choose":
                return ("choose", pointer, self.condition(0), base, other)
            case "swap":
                return ("swap",)
            case "new":
                return ("new", pointer, base)
            case "copy":
                return ("copy", base, self.integer(1), other, self.integer(1), self.integer(1))
        return ("clear", base, self.integer(1), self.integer(1))

    def compound(self, kind: str, size: int, depth: int) -> tuple[Node, int]:
        r = self.rng
        inner = r.randrange(1, max(2, size))
        if kind == "if":
            orelse = self.body(r.randrange(1, inner + 1), depth + 1) if r.random() < 0.5 else []
            return ("if", self.condition(1), self.body(inner, depth + 1), orelse), inner + 1
        if kind == "switch":
            bodies = [self.body(max(1, inner // 3), depth + 1) for _ in range(r.randrange(2, 5))]
            return ("switch", self.integer(1), bodies), inner + 1
        self.loops.append(kind)
        if kind == "for":
            way = r.choice(["slt", "slt", "slt", "sle", "ult", "sgt", "sge", "ne"])
            lo, bound = self.integer(1), self.integer(1)
            step = 1 if way == "ne" else r.choice([1, 1, 1, 2, 3])
            width = r.choice([64, 64, 32, 8])
            slot = INTEGERS + self.slots
            self.slots += 1
            made: Node = (
                "for",
                slot,
                (way, width, r.random() < 0.7),
                lo,
                bound,
                step,
                self.body(inner, depth + 1),
            )
            self.slots -= 1
        else:
            made = (kind, self.condition(1), r.randrange(1, 6), self.body(inner, depth + 1))
        self.loops.pop()
        return made, inner + 1

    def base_array(self) -> Node:
        return (self.rng.choice(["a", "b", "loc"]),)

    def bounded(self, depth: int) -> Node:
        e = self.number(depth)
        return e if self.rng.random() < 0.35 else (self.rng.choice(["sin", "tanh", "soft"]), e)

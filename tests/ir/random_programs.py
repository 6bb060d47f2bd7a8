"""Random structured programs, in three forms that must agree: a syntax tree, LLVM IR, and exact
forward derivatives.

A program is `double f(ptr a, ptr b, ptr index, i64 n, double x, double y)`: `a` and `b` hold
`LENGTH` doubles, `index` as many integers. Its statements are nested tuples; every array access
goes through a base (`a`, `b`, a stack array, a scratch array from malloc, or a pointer variable
that may lead to any of them) and an index that is masked to stay inside.

    ("set", k, e)  ("seti", k, i)  ("store", base, i, e)  ("setp", k, base, i)
    ("choose", k, c, base, base)  ("swap",)  ("new", k, base)
    ("copy", base, i, base, i, n)  ("clear", base, i, n)
    ("if", c, body, orelse)  ("switch", i, bodies)
    ("for", slot, (predicate, width, nsw), lo, bound, step, body)
    ("while", c, fuel, body)  ("do", c, fuel, body)
    ("break", level)  ("continue", level)  ("return", e)

`lower` writes it as an unoptimising compiler would, with every variable in an alloca. `evaluate`
runs it on dual numbers.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LENGTH, MASK, OFFSETS = 12, 7, 3
FLOATS, INTEGERS, POINTERS = 4, 3, 2
UNARY = ("sin", "cos", "tanh", "soft", "root", "neg", "fabs", "exps")
Node = tuple[Any, ...]


class TooLong(Exception):
    """The program runs for too many steps to be of use."""


# --- making one ---


@dataclass
class Generator:
    """Makes programs from a seed."""

    rng: random.Random
    loops: list[str] = field(default_factory=list)
    slots: int = 0
    pointers: bool = True

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


def most_slots(body: list[Node]) -> int:
    """Number of integer slots the statements use."""
    count = INTEGERS
    for statement in body:
        if statement[0] == "for":
            count = max(count, statement[1] + 1)
        for part in statement:
            for inner in [part] if _is_body(part) else part if isinstance(part, list) else []:
                count = max(count, most_slots(inner))
    return count


def _is_body(part: Any) -> bool:
    return isinstance(part, list) and all(isinstance(s, tuple) for s in part)


# --- exact derivatives: the tree on dual numbers ---


class Dual:
    """A number and its derivatives with respect to all inputs."""

    __slots__ = ("t", "v")

    def __init__(self, v: float, t: Any = 0.0) -> None:
        self.v, self.t = v, t


class _Jump(Exception):
    def __init__(self, kind: str, level: int) -> None:
        self.kind, self.level = kind, level


class _Return(Exception):
    pass


@dataclass
class Evaluation:
    """Runs a tree. `arrays`: name -> list of Dual, changed in place."""

    arrays: dict[str, list[Dual]]
    index: list[int]
    n: int
    x: Dual
    y: Dual
    steps: int = 0

    def run(self, program: Node) -> Dual:
        body, result = program
        self.s = [Dual(0.25 * k) for k in range(FLOATS)]
        self.i = [k for k in range(most_slots(body))]
        self.arrays["loc"] = [Dual(0.125 * k) for k in range(LENGTH)]
        self.p = [(self.arrays["a"], 0), (self.arrays["loc"], 1)]
        try:
            self.body(body)
        except _Return as value:
            return value.args[0]
        return self.number(result)

    def base(self, base: Node) -> tuple[list[Dual], int]:
        return self.p[base[1]] if base[0] == "p" else (self.arrays[base[0]], 0)

    def number(self, e: Node) -> Dual:
        match e:
            case ("s", k):
                return self.s[k]
            case ("const", c):
                return Dual(c)
            case ("x",):
                return self.x
            case ("y",):
                return self.y
            case ("i2d", i):
                return Dual(0.125 * float(self.integer(i) & MASK))
            case ("ld", base, i):
                array, offset = self.base(base)
                return array[offset + (self.integer(i) & MASK)]
            case ("sel", c, p, q):
                # both sides run in the lowered form, too: there are no side effects in expressions
                return self.number(p) if self.condition(c) else self.number(q)
            case ("+" | "-" | "*" | "div" | "call", p, q):
                return _binary(e[0], self.number(p), self.number(q))
            case (name, p):
                return _unary(name, self.number(p))
        raise AssertionError(e)

    def integer(self, e: Node) -> int:
        match e:
            case ("i", k):
                return self.i[k]
            case ("n",):
                return self.n
            case ("c", c):
                return c
            case ("ldi", i):
                return self.index[self.integer(i) & MASK]
            case ("d2i", d):
                return int(math.sin(self.number(d).v) * 4.0)
            case (name, p, q):
                p, q = self.integer(p), self.integer(q)
                wide = {"add": p + q, "sub": p - q, "mul": p * q, "and": p & q}[name]
                return (wide + (1 << 63)) % (1 << 64) - (1 << 63)
        raise AssertionError(e)

    def condition(self, c: Node) -> bool:
        match c:
            case ("and", p, q):
                return self.condition(p) & self.condition(q)
            case ("or", p, q):
                return self.condition(p) | self.condition(q)
            case ("fcmp", predicate, p, q):
                p, q = self.number(p).v, self.number(q).v
                return {"lt": p < q, "gt": p > q, "le": p <= q, "ge": p >= q}[predicate[1:]]
            case ("icmp", predicate, p, q):
                return _compare(predicate, self.integer(p), self.integer(q))
        raise AssertionError(c)

    def body(self, statements: list[Node]) -> None:
        for statement in statements:
            self.steps += 1
            if self.steps > 3000:
                raise TooLong
            self.statement(statement)

    def statement(self, statement: Node) -> None:
        match statement:
            case ("set", k, e):
                self.s[k] = self.number(e)
            case ("seti", k, i):
                self.i[k] = self.integer(i)
            case ("store", base, i, e):
                array, offset = self.base(base)
                value = self.number(e)
                array[offset + (self.integer(i) & MASK)] = value
            case ("break" | "continue", level):
                raise _Jump(statement[0], level)
            case ("return", e):
                raise _Return(self.number(e))
            case ("if" | "switch" | "for" | "while" | "do", *_):
                self.control(statement)
            case _:
                self.on_memory(statement)

    def on_memory(self, statement: Node) -> None:
        match statement:
            case ("setp", k, base, i):
                self.p[k] = (self.base(base)[0], self.integer(i) & OFFSETS)
            case ("choose", k, c, p, q):
                self.p[k] = self.base(p) if self.condition(c) else self.base(q)
            case ("swap",):
                self.p = self.p[::-1]
            case ("new", k, base):
                self.p[k] = (list(self.base(base)[0]), 0)
            case ("copy", to, i, source, j, n):
                self.copy(to, i, source, j, n)
            case ("clear", base, i, n):
                array, _ = self.base(base)
                start, count = self.integer(i) & OFFSETS, self.integer(n) & MASK
                array[start : start + count] = [Dual(0.0)] * count

    def control(self, statement: Node) -> None:
        match statement:
            case ("if", c, body, orelse):
                self.body(body if self.condition(c) else orelse)
            case ("switch", i, bodies):
                self.body(bodies[min(self.integer(i) & 3, len(bodies) - 1)])
            case ("for", slot, how, lo, bound, step, body):
                self.count(slot, how, lo, bound, step, body)
            case ("while", c, fuel, body):
                while fuel > 0 and self.condition(c):
                    fuel -= 1
                    if self.iteration(body):
                        break
            case ("do", c, fuel, body):
                while not self.iteration(body):
                    fuel -= 1
                    if not (fuel > 0 and self.condition(c)):
                        break

    def copy(self, to: Node, i: Node, source: Node, j: Node, n: Node) -> None:
        target, start = self.base(to)[0], self.integer(i) & OFFSETS
        origin, begin, count = (
            self.base(source)[0],
            self.integer(j) & OFFSETS,
            self.integer(n) & MASK,
        )
        target[start : start + count] = origin[begin : begin + count]

    def count(
        self, slot: int, how: Node, lo: Node, bound: Node, step: int, body: list[Node]
    ) -> None:
        way = how[0]
        low, high = self.integer(lo) & 3, self.integer(bound) & MASK
        if way in {"sgt", "sge"}:
            value, end, step = high, low, -step
        else:
            value, end = low, max(high, low) if way == "ne" else high
        while True:
            self.i[slot] = value
            if not _compare(way, value, end):
                return
            if self.iteration(body):
                return
            value = self.i[slot] + step

    def iteration(self, body: list[Node]) -> bool:
        """Run a loop's body once; whether the loop is left."""
        self.steps += 1
        try:
            self.body(body)
        except _Jump as jump:
            if jump.level > 1:
                raise _Jump(jump.kind, jump.level - 1) from None
            return jump.kind == "break"
        return False


def _compare(predicate: str, p: int, q: int) -> bool:
    return {"lt": p < q, "gt": p > q, "le": p <= q, "ge": p >= q, "eq": p == q, "ne": p != q}[
        predicate if predicate in {"eq", "ne"} else predicate[1:]
    ]


def _binary(name: str, p: Dual, q: Dual) -> Dual:
    match name:
        case "+":
            return Dual(p.v + q.v, p.t + q.t)
        case "-":
            return Dual(p.v - q.v, p.t - q.t)
        case "*":
            return Dual(p.v * q.v, p.t * q.v + p.v * q.t)
        case "div":
            below = q.v * q.v + 2.0
            return Dual(p.v / below, (p.t - p.v / below * 2.0 * q.v * q.t) / below)
    r = p
    for _ in range(2):
        # helper(p, q): r = r * q + p, twice
        r = Dual(r.v * q.v + p.v, r.t * q.v + r.v * q.t + p.t)
    return r


def _unary(name: str, p: Dual) -> Dual:
    v = p.v
    match name:
        case "sin":
            return Dual(math.sin(v), math.cos(v) * p.t)
        case "cos":
            return Dual(math.cos(v), -math.sin(v) * p.t)
        case "tanh":
            return Dual(math.tanh(v), (1 - math.tanh(v) ** 2) * p.t)
        case "soft":
            return Dual(v / (1.0 + v * v), (1 - v * v) / (1 + v * v) ** 2 * p.t)
        case "root":
            r = math.sqrt(v * v + 1.0)
            return Dual(r, v / r * p.t)
        case "neg":
            return Dual(-v, -p.t)
        case "fabs":
            return Dual(abs(v), math.copysign(1.0, v) * p.t)
        case "exps":
            r = math.exp(math.sin(v))
            return Dual(r, r * math.cos(v) * p.t)
    raise AssertionError(name)


# --- the same as LLVM IR ---


@dataclass
class Lowering:
    """Writes a program in LLVM IR, every variable in an alloca."""

    lines: list[str] = field(default_factory=list)
    allocas: list[str] = field(default_factory=list)
    temporaries: int = 0
    loops: list[tuple[str, str]] = field(default_factory=list)

    def program(self, program: Node, attributes: str = "") -> str:
        body, result = program
        for k in range(FLOATS):
            self.variable(f"s{k}", "double", f"{0.25 * k!r}")
        for k in range(most_slots(body)):
            self.variable(f"i{k}", "i64", str(k))
        self.allocas.append("  %loc = alloca [12 x double], align 16")
        for k in range(LENGTH):
            self.put(f"%loc.{k} = getelementptr double, ptr %loc, i64 {k}")
            self.put(f"store double {0.125 * k!r}, ptr %loc.{k}")
        self.variable("p0", "ptr", "%a")
        self.variable("p1", "ptr", "%loc.1")
        self.body(body)
        value = self.number(result)
        self.put(f"ret double {value}")
        return "\n".join(
            [
                f"define double @f(ptr {attributes}%a, ptr {attributes}%b, ptr %index, i64 %n, "
                "double %x, double %y) {",
                "entry:",
                *self.allocas,
                *self.lines,
                "}",
                _HELPERS,
            ]
        )

    def variable(self, name: str, t: str, start: str) -> None:
        self.allocas.append(f"  %{name} = alloca {t}")
        self.put(f"store {t} {start}, ptr %{name}")

    def put(self, line: str) -> None:
        self.lines.append("  " + line)

    def new(self, line: str) -> str:
        self.temporaries += 1
        self.put(f"%t{self.temporaries} = {line}")
        return f"%t{self.temporaries}"

    def label(self, hint: str) -> str:
        self.temporaries += 1
        return f"{hint}{self.temporaries}"

    def open(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def go(self, label: str) -> None:
        self.put(f"br label %{label}")

    def branch(self, c: str, yes: str, no: str) -> None:
        self.put(f"br i1 {c}, label %{yes}, label %{no}")

    def masked(self, i: Node, mask: int) -> str:
        return self.new(f"and i64 {self.integer(i)}, {mask}")

    def base(self, base: Node) -> str:
        return self.new(f"load ptr, ptr %p{base[1]}") if base[0] == "p" else f"%{base[0]}"

    def address(self, base: Node, i: Node, mask: int = MASK) -> str:
        pointer = self.base(base)
        return self.new(f"getelementptr double, ptr {pointer}, i64 {self.masked(i, mask)}")

    def number(self, e: Node) -> str:
        match e:
            case ("s", k):
                return self.new(f"load double, ptr %s{k}")
            case ("const", c):
                return repr(c)
            case ("x",) | ("y",):
                return f"%{e[0]}"
            case ("i2d", i):
                d = self.new(f"sitofp i64 {self.masked(i, MASK)} to double")
                return self.new(f"fmul double {d}, 0.125")
            case ("ld", base, i):
                return self.new(f"load double, ptr {self.address(base, i)}")
            case ("sel", c, p, q):
                c, p, q = self.condition(c), self.number(p), self.number(q)
                return self.new(f"select i1 {c}, double {p}, double {q}")
            case (_, _, _):
                return self.binary(e)
            case ("neg", p):
                return self.new(f"fneg double {self.number(p)}")
            case (name, p):
                symbol = {"fabs": "llvm.fabs.f64", "sin": "llvm.sin.f64"}.get(name, name)
                return self.new(f"call double @{symbol}(double {self.number(p)})")
        raise AssertionError(e)

    def binary(self, e: Node) -> str:
        name, p, q = e[0], self.number(e[1]), self.number(e[2])
        match name:
            case "div":
                square = self.new(f"fmul double {q}, {q}")
                below = self.new(f"fadd double {square}, 2.0")
                return self.new(f"fdiv double {p}, {below}")
            case "call":
                return self.new(f"call double @helper(double {p}, double {q})")
        opcode = {"+": "fadd", "-": "fsub", "*": "fmul"}[name]
        return self.new(f"{opcode} double {p}, {q}")

    def integer(self, e: Node) -> str:
        match e:
            case ("i", k):
                return self.new(f"load i64, ptr %i{k}")
            case ("n",):
                return "%n"
            case ("c", c):
                return str(c)
            case ("ldi", i):
                at = self.new(f"getelementptr i64, ptr %index, i64 {self.masked(i, MASK)}")
                return self.new(f"load i64, ptr {at}")
            case ("d2i", d):
                s = self.new(f"call double @llvm.sin.f64(double {self.number(d)})")
                four = self.new(f"fmul double {s}, 4.0")
                return self.new(f"fptosi double {four} to i64")
            case (name, p, q):
                p, q = self.integer(p), self.integer(q)
                return self.new(f"{name} i64 {p}, {q}")
        raise AssertionError(e)

    def condition(self, c: Node) -> str:
        match c:
            case ("and" | "or", p, q):
                p, q = self.condition(p), self.condition(q)
                return self.new(f"{c[0]} i1 {p}, {q}")
            case ("fcmp", predicate, p, q):
                p, q = self.number(p), self.number(q)
                return self.new(f"fcmp {predicate} double {p}, {q}")
            case ("icmp", predicate, p, q):
                p, q = self.integer(p), self.integer(q)
                return self.new(f"icmp {predicate} i64 {p}, {q}")
        raise AssertionError(c)

    def body(self, statements: list[Node]) -> None:
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: Node) -> None:
        match statement:
            case ("set", k, e):
                self.put(f"store double {self.number(e)}, ptr %s{k}")
            case ("seti", k, i):
                self.put(f"store i64 {self.integer(i)}, ptr %i{k}")
            case ("store", base, i, e):
                value = self.number(e)
                self.put(f"store double {value}, ptr {self.address(base, i)}")
            case ("setp", k, base, i):
                self.put(f"store ptr {self.address(base, i, OFFSETS)}, ptr %p{k}")
            case ("choose", k, c, p, q):
                c = self.condition(c)
                chosen = self.new(f"select i1 {c}, ptr {self.base(p)}, ptr {self.base(q)}")
                self.put(f"store ptr {chosen}, ptr %p{k}")
            case ("swap",):
                p, q = self.new("load ptr, ptr %p0"), self.new("load ptr, ptr %p1")
                self.put(f"store ptr {q}, ptr %p0")
                self.put(f"store ptr {p}, ptr %p1")
            case ("new", k, base):
                scratch = self.new(f"call ptr @malloc(i64 {8 * LENGTH})")
                self.put(
                    f"call void @llvm.memcpy.p0.p0.i64(ptr {scratch}, ptr {self.base(base)}, "
                    f"i64 {8 * LENGTH}, i1 false)"
                )
                self.put(f"store ptr {scratch}, ptr %p{k}")
            case ("copy", to, i, source, j, n):
                target, origin = self.address(to, i, OFFSETS), self.address(source, j, OFFSETS)
                size = self.new(f"mul i64 {self.masked(n, MASK)}, 8")
                self.put(
                    f"call void @llvm.memmove.p0.p0.i64(ptr {target}, ptr {origin}, "
                    f"i64 {size}, i1 false)"
                )
            case ("clear", base, i, n):
                target = self.address(base, i, OFFSETS)
                size = self.new(f"mul i64 {self.masked(n, MASK)}, 8")
                self.put(f"call void @llvm.memset.p0.i64(ptr {target}, i8 0, i64 {size}, i1 false)")
            case _:
                self.control(statement)

    def control(self, statement: Node) -> None:
        match statement:
            case ("if", c, body, orelse):
                yes, no, after = self.label("then"), self.label("else"), self.label("after")
                self.branch(self.condition(c), yes, no)
                for label, part in ((yes, body), (no, orelse)):
                    self.open(label)
                    self.body(part)
                    self.go(after)
                self.open(after)
            case ("switch", i, bodies):
                labels, after = [self.label("case") for _ in bodies], self.label("after")
                cases = " ".join(f"i64 {k}, label %{label}" for k, label in enumerate(labels[:-1]))
                self.put(f"switch i64 {self.masked(i, 3)}, label %{labels[-1]} [ {cases} ]")
                for label, part in zip(labels, bodies, strict=True):
                    self.open(label)
                    self.body(part)
                    self.go(after)
                self.open(after)
            case ("for", *_):
                self.count(*statement[1:])
            case ("while", c, fuel, body):
                self.fuelled(c, fuel, body, first=True)
            case ("do", c, fuel, body):
                self.fuelled(c, fuel, body, first=False)
            case ("break" | "continue", level):
                self.go(self.loops[-level][statement[0] == "continue"])
                self.open(self.label("dead"))
            case ("return", e):
                self.put(f"ret double {self.number(e)}")
                self.open(self.label("dead"))

    def fuelled(self, c: Node, fuel: int, body: list[Node], *, first: bool) -> None:
        left = self.label("fuel")
        self.allocas.append(f"  %{left} = alloca i64")
        self.put(f"store i64 {fuel}, ptr %{left}")
        head, test, inside, latch, after = (
            self.label(h) for h in ("head", "test", "body", "latch", "after")
        )
        self.go(head if first else inside)
        self.open(head)
        value = self.new(f"load i64, ptr %{left}")
        self.branch(self.new(f"icmp sgt i64 {value}, 0"), test, after)
        self.open(test)
        self.branch(self.condition(c), inside, after)
        self.open(inside)
        self.loops.append((after, latch))
        if first:
            self.burn(left)
        self.body(body)
        self.loops.pop()
        self.go(latch)
        self.open(latch)
        if not first:
            self.burn(left)
        self.go(head)
        self.open(after)

    def burn(self, left: str) -> None:
        value = self.new(f"load i64, ptr %{left}")
        self.put(f"store i64 {self.new(f'sub i64 {value}, 1')}, ptr %{left}")

    def count(
        self, slot: int, how: Node, lo: Node, bound: Node, step: int, body: list[Node]
    ) -> None:
        way, width, nsw = how
        low, high = self.masked(lo, 3), self.masked(bound, MASK)
        if way in {"sgt", "sge"}:
            start, end, step = high, low, -step
        else:
            start, end = low, high
            if way == "ne":
                end = self.new(f"call i64 @llvm.smax.i64(i64 {low}, i64 {high})")
        t, variable, add = f"i{width}", self.label("counter"), "add nsw" if nsw else "add"
        self.allocas.append(f"  %{variable} = alloca {t}")
        if width < 64:
            start, end = (self.new(f"trunc i64 {v} to {t}") for v in (start, end))
        self.put(f"store {t} {start}, ptr %{variable}")
        head, inside, latch, after = (self.label(h) for h in ("head", "body", "latch", "after"))
        self.go(head)
        self.open(head)
        value = self.new(f"load {t}, ptr %{variable}")
        wide = value if width == 64 else self.new(f"sext {t} {value} to i64")
        self.put(f"store i64 {wide}, ptr %i{slot}")
        self.branch(self.new(f"icmp {way} {t} {value}, {end}"), inside, after)
        self.open(inside)
        self.loops.append((after, latch))
        self.body(body)
        self.loops.pop()
        self.go(latch)
        self.open(latch)
        value = self.new(f"load {t}, ptr %{variable}")
        self.put(f"store {t} {self.new(f'{add} {t} {value}, {step}')}, ptr %{variable}")
        self.go(head)
        self.open(after)


_HELPERS = """
define internal double @helper(double %p, double %q) {
entry:
  br label %loop
loop:
  %k = phi i64 [ 0, %entry ], [ %k.next, %loop ]
  %r = phi double [ %p, %entry ], [ %r.next, %loop ]
  %rq = fmul double %r, %q
  %r.next = fadd double %rq, %p
  %k.next = add i64 %k, 1
  %more = icmp ult i64 %k.next, 2
  br i1 %more, label %loop, label %end
end:
  ret double %r.next
}
define internal double @soft(double %v) {
  %square = fmul double %v, %v
  %below = fadd double %square, 1.0
  %r = fdiv double %v, %below
  ret double %r
}
define internal double @root(double %v) {
  %square = fmul double %v, %v
  %above = fadd double %square, 1.0
  %r = call double @llvm.sqrt.f64(double %above)
  ret double %r
}
define internal double @exps(double %v) {
  %s = call double @sin(double %v)
  %r = call double @exp(double %s)
  ret double %r
}
declare double @sin(double)
declare double @cos(double)
declare double @tanh(double)
declare double @exp(double)
declare double @llvm.sin.f64(double)
declare double @llvm.sqrt.f64(double)
declare double @llvm.fabs.f64(double)
declare i64 @llvm.smax.i64(i64, i64)
declare ptr @malloc(i64)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"""


def lower(program: Node, attributes: str = "") -> str:
    """LLVM IR of a program; `attributes` ("" or "noalias ") are those of `a` and `b`."""
    return Lowering().program(program, attributes)


@dataclass(frozen=True)
class Inputs:
    """Arguments of a program; `same`: `b` is `a`."""

    a: np.ndarray
    b: np.ndarray
    index: np.ndarray
    n: int
    x: float
    y: float
    same: bool


def make_inputs(seed: int, *, same: bool = False) -> Inputs:
    """Random arguments."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, LENGTH))
    index = rng.integers(0, 8, size=LENGTH)
    return Inputs(a, a if same else b, index, int(rng.integers(0, 8)), *rng.normal(size=2), same)


def evaluate(program: Node, inputs: Inputs) -> tuple[Dual, dict[str, list[Dual]]]:
    """The result and the arrays left behind, with derivatives by (a, b, x, y).

    Raises `TooLong`, or `OverflowError`, for a program that is of no use.
    """
    one = np.eye(2 * LENGTH + 2)
    a = [Dual(float(v), one[k]) for k, v in enumerate(inputs.a)]
    b = a if inputs.same else [Dual(float(v), one[LENGTH + k]) for k, v in enumerate(inputs.b)]
    arrays = {"a": a, "b": b}
    x, y = Dual(inputs.x, one[-2]), Dual(inputs.y, one[-1])
    result = Evaluation(arrays, [int(k) for k in inputs.index], inputs.n, x, y).run(program)
    return result, arrays

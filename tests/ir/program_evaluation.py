"""Runs random programs on dual numbers: their results with exact derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tests.ir import program_idioms
from tests.ir.program_language import FLOATS, LENGTH, MASK, OFFSETS, Node, most_slots


class TooLong(Exception):
    """The program runs for too many steps to be of use."""


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
        program_idioms.start(self, lambda: Dual(0.0))
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
            case _:
                program_idioms.evaluate(self, statement, _unary, _binary)

    def constant(self, number: float) -> Dual:
        return Dual(number)

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

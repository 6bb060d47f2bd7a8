"""Writes random programs in LLVM IR, as an unoptimising compiler would."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.ir import program_idioms
from tests.ir.program_language import FLOATS, LENGTH, MASK, OFFSETS, Node, most_slots


@dataclass
class Lowering:
    """Writes a program in LLVM IR, every variable in an alloca."""

    lines: list[str] = field(default_factory=list)
    allocas: list[str] = field(default_factory=list)
    temporaries: int = 0
    loops: list[tuple[str, str]] = field(default_factory=list)
    idioms: bool = False

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
        if self.idioms:
            program_idioms.declare(self)
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
                program_idioms.HELPERS if self.idioms else "",
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
            case _:
                program_idioms.lower(self, statement)

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


def lower(program: Node, attributes: str = "", *, idioms: bool = False) -> str:
    """LLVM IR of a program; `attributes` ("" or "noalias ") are those of `a` and `b`."""
    return Lowering(idioms=idioms).program(program, attributes)

"""Random loop nests that work in place on one array, with affine subscripts, as LLVM IR."""

from __future__ import annotations

import random

_SUBSCRIPTS = (
    ("{i}", 4), ("{i} + 1", 2), ("{i} - 1", 2), ("{j}", 2), ("{i} + {j}", 1), ("2 * {i}", 1),
    ("2 * {i} + 1", 1), ("n - 1 - {i}", 1), ("0", 1), ("3", 1), ("m", 1),
    ("{i} + 1 urem m", 2), ("{i} - 1 srem m", 2),
)  # fmt: skip


class Nest:
    """The text of a function `void f(ptr a, i64 n, i64 m)`."""

    pointers = ("a",)

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.lines: list[str] = []
        self.count = 0
        self.label = "entry"
        # a row of the array has m elements, or as many as it takes to make rows overlap or not
        self.width = rng.choice(["m", "m", "m", "n", "5"])
        self.flat = rng.random() < 0.25
        self.flag = rng.choice(["", "nsw ", "nuw nsw "])
        self._body()
        body = "\n".join(self.lines)
        parameters = ", ".join(f"ptr %{name}" for name in self.pointers)
        self.text = (
            "declare i64 @llvm.smax.i64(i64, i64)\n"
            "declare i64 @llvm.usub.sat.i64(i64, i64)\n"
            f"define void @f({parameters}, i64 %n, i64 %m) {{\nentry:\n{body}\n  ret void\n}}\n"
        )

    def _body(self) -> None:
        for _ in range(self.rng.randrange(1, 3)):
            self._loop([], self.rng.randrange(1, 4))

    def _new(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def _emit(self, line: str) -> str:
        name = self._new()
        self.lines.append(f"  {name} = {line}")
        return name

    def _begin(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.label = label

    def _loop(self, around: list[str], depth: int) -> None:
        rng = self.rng
        number = self.count = self.count + 1
        head, body, after = f"head{number}", f"body{number}", f"after{number}"
        step = rng.choice([1, 1, 1, 1, 2, -1])
        low = rng.choice(["0", "0", "1", *(f"{i} + 1" for i in around), *around])
        high = rng.choice(["n", "n", "m", "n - 1", "4", *around])
        first, last = (low, high) if step > 0 else (f"{high} - 1", low)
        start, bound = self._integer(first), self._integer(last)
        before = self.label
        self.lines.append(f"  br label %{head}")
        self._begin(head)
        i = f"%i{number}"
        self.lines.append(f"  {i} = phi i64 [ {start}, %{before} ], [ {i}.next, %latch{number} ]")
        test = self._emit(f"icmp {'slt' if step > 0 else 'sge'} i64 {i}, {bound}")
        self.lines.append(f"  br i1 {test}, label %{body}, label %{after}")
        self._begin(body)
        self._inside([*around, i], depth)
        self.lines.append(f"  br label %latch{number}")
        self._begin(f"latch{number}")
        self.lines.append(f"  {i}.next = add {self.flag if step > 0 else ''}i64 {i}, {step}")
        self.lines.append(f"  br label %{head}")
        self._begin(after)

    def _inside(self, inner: list[str], depth: int) -> None:
        if depth > 1 and self.rng.random() < 0.3:
            self._statement(inner)
        if depth > 1:
            self._loop(inner, depth - 1)
        if depth == 1 or self.rng.random() < 0.3:
            self._guarded(inner)

    def _guarded(self, around: list[str]) -> None:
        if self.rng.random() < 0.8:
            self._statement(around)
            return
        number = self.count = self.count + 1
        test = self._emit(
            f"icmp slt i64 {around[-1]}, {self._integer(self.rng.choice(['m', '2']))}"
        )
        self.lines.append(f"  br i1 {test}, label %then{number}, label %join{number}")
        self._begin(f"then{number}")
        self._statement(around)
        self.lines.append(f"  br label %join{number}")
        self._begin(f"join{number}")

    def _statement(self, around: list[str]) -> None:
        """a[s] = 0.4 a[s'] + 0.3 a[s''] a[s''']"""
        x, y, z = (self._emit(f"load double, ptr {self._address(around)}") for _ in range(3))
        product = self._emit(f"fmul double {y}, {z}")
        scaled = [self._emit(f"fmul double {v}, {c}") for v, c in ((product, 0.3), (x, 0.4))]
        total = self._emit(f"fadd double {scaled[0]}, {scaled[1]}")
        self.lines.append(f"  store double {total}, ptr {self._address(around)}")

    def _address(self, around: list[str]) -> str:
        row, column = (self._subscript(around) for _ in range(2))
        index = self._integer(row)
        if not self.flat:
            # as Python has it: a negative index counts from the end
            if self.rng.random() < 0.3:
                negative = self._emit(f"icmp slt i64 {index}, 0")
                wrapped = self._emit(f"select i1 {negative}, i64 {self._integer('n')}, i64 0")
                index = self._emit(f"add i64 {wrapped}, {index}")
            index = self._emit(f"mul i64 {index}, {self._integer(self.width)}")
            index = self._emit(f"add i64 {index}, {self._integer(column)}")
        return self._emit(f"getelementptr double, ptr %a, i64 {index}")

    def _subscript(self, around: list[str]) -> str:
        i, j = (self.rng.choice(around) for _ in range(2))
        kinds, weights = zip(*_SUBSCRIPTS, strict=True)
        return self.rng.choices(kinds, weights)[0].format(i=i, j=j)

    def _integer(self, expression: str) -> str:
        """A value for a sum like `2 * %i + 1`."""
        tokens = expression.split()
        value = self._factor(tokens[0])
        for operator, token in zip(tokens[1::2], tokens[2::2], strict=True):
            opcode = {"+": "add", "-": "sub", "*": "mul"}.get(operator, operator)
            value = self._emit(f"{opcode} i64 {value}, {self._factor(token)}")
        return value

    @staticmethod
    def _factor(token: str) -> str:
        return f"%{token}" if token in {"n", "m"} else token


class RangeNest(Nest):
    """Nests whose loops count as Numba's `range` does: how many iterations are left, from a number
    that is found before the loop.
    """

    def _loop(self, around: list[str], depth: int) -> None:
        rng = self.rng
        number = self.count = self.count + 1
        head, after = f"head{number}", f"after{number}"
        step = rng.choice([1, 1, 1, 2, 3])
        low = self._integer(rng.choice(["0", "1", "2", *(f"{i} + 1" for i in around)]))
        length = self._length(rng.choice(["n", "m", "n + 1"]), low, step)
        any_ = self._emit(f"icmp {rng.choice(['ne', 'sgt'])} i64 {length}, 0")
        before = self.label
        self.lines.append(f"  br i1 {any_}, label %{head}, label %{after}")
        self._begin(head)
        i, left = f"%i{number}", f"%left{number}"
        latch = f"latch{number}"
        self.lines.append(f"  {i} = phi i64 [ {low}, %{before} ], [ {i}.next, %{latch} ]")
        self.lines.append(f"  {left} = phi i64 [ {length}, %{before} ], [ {left}.next, %{latch} ]")
        self._inside([*around, i], depth)
        self.lines.append(f"  br label %{latch}")
        self._begin(latch)
        self.lines.append(f"  {i}.next = add i64 {i}, {step}")
        self.lines.append(f"  {left}.next = add nsw i64 {left}, -1")
        more = self._emit(f"icmp sgt i64 {left}, 1")
        self.lines.append(f"  br i1 {more}, label %{head}, label %{after}")
        self._begin(after)

    def _length(self, high: str, low: str, step: int) -> str:
        """The length of `range(low, high, step)`; `high` and `low` are not negative."""
        distance = self._emit(f"call i64 @llvm.usub.sat.i64(i64 {self._integer(high)}, i64 {low})")
        if step == 1:
            return distance
        if step == 2 and self.rng.random() < 0.5:
            odd = self._emit(f"trunc i64 {distance} to i1")
            halves = self._emit(f"lshr i64 {distance}, 1")
            return self._emit(f"add i64 {halves}, {self._emit(f'zext i1 {odd} to i64')}")
        more = self._emit(f"add i64 {distance}, {step - 1}")
        return self._emit(f"{self.rng.choice(['udiv', 'sdiv'])} i64 {more}, {step}")


class ChoiceNest(Nest):
    """Nests of which each statement replaces an entry if what is computed from others is less."""

    def _statement(self, around: list[str]) -> None:
        """a[s] = min(a[s], 0.6 a[s'] + a[s'']), by a choice or by a branch"""
        target = self._address(around)
        old, y, z = (
            self._emit(f"load double, ptr {pointer}")
            for pointer in (target, self._address(around), self._address(around))
        )
        scaled = self._emit(f"fmul double {y}, 0.6")
        other = self._emit(f"fadd double {scaled}, {z}")
        less = self._emit(f"fcmp olt double {other}, {old}")
        if self.rng.random() < 0.5:
            new = self._emit(f"select i1 {less}, double {other}, double {old}")
            self.lines.append(f"  store double {new}, ptr {target}")
            return
        number = self.count = self.count + 1
        self.lines.append(f"  br i1 {less}, label %less{number}, label %met{number}")
        self._begin(f"less{number}")
        self.lines.append(f"  store double {other}, ptr {target}")
        self.lines.append(f"  br label %met{number}")
        self._begin(f"met{number}")


class ReadingNest(Nest):
    """The text of a function `void f(ptr a, ptr b, i64 n, i64 m)`: an outer loop with a nest that
    reads `b` and writes `a`, and behind it a loop that writes `b`.
    """

    pointers = ("a", "b")
    reads = True

    def _body(self) -> None:
        self._loop([], 9)

    def _inside(self, inner: list[str], depth: int) -> None:
        if depth < 9:
            super()._inside(inner, depth)
            return
        self._loop(inner, self.rng.randrange(2, 4))
        self.reads = False
        self._loop(inner, 1)
        self.reads = True

    def _statement(self, around: list[str]) -> None:
        """a[s] = 0.4 a[s] + 0.3 b[t] b[u], or b[s] = 0.4 a[t] + 0.3 b[u] b[v]"""
        target = self._entry("a" if self.reads else "b", around)
        other = target if self.reads else self._entry("a", around)
        x, y, z = (
            self._emit(f"load double, ptr {pointer}")
            for pointer in (other, self._entry("b", around), self._entry("b", around))
        )
        product = self._emit(f"fmul double {y}, {z}")
        scaled = [self._emit(f"fmul double {v}, {c}") for v, c in ((product, 0.3), (x, 0.4))]
        total = self._emit(f"fadd double {scaled[0]}, {scaled[1]}")
        self.lines.append(f"  store double {total}, ptr {target}")

    def _entry(self, base: str, around: list[str]) -> str:
        subscript = self._subscript(around)
        index = self._integer("0" if "rem" in subscript else subscript)
        return self._emit(f"getelementptr double, ptr %{base}, i64 {index}")


class WindowNest(ReadingNest):
    """Such nests in which neighbouring entries are read, sometimes of what is written."""

    def _statement(self, around: list[str]) -> None:
        """a[s] = 0.4 a[s] + 0.3 (b[t] b[u] + b[v] + ...); in the last loop the other way round"""
        rng = self.rng
        here, there = ("a", "b") if self.reads else ("b", "a")
        if rng.random() < 0.1:
            there = here
        read = self._reads(there, around)
        total = self._emit(f"fmul double {read[0]}, {read[1]}")
        for one in read[rng.randrange(3) :]:
            total = self._emit(f"fadd double {total}, {one}")
        scaled = self._emit(f"fmul double {total}, 0.3")
        target = self._entry(here, around)
        old = self._emit(f"load double, ptr {target}")
        kept = self._emit(f"fmul double {old}, 0.4")
        new = self._emit(f"fadd double {scaled}, {kept}")
        self.lines.append(f"  store double {new}, ptr {target}")

    def _reads(self, base: str, around: list[str]) -> list[str]:
        """Loads of some entries, as many as are added up."""
        rng = self.rng
        i, step = rng.choice([around[-1], around[-1], rng.choice(around)]), rng.choice([1, 1, 1, 2])
        first = rng.randrange(-2, 2)
        return [
            self._read(base, f"{step} * {i} + {first + rng.choice([k, k, k, rng.randrange(4)])}")
            for k in range(rng.randrange(2, 6))
        ]

    def _read(self, base: str, subscript: str) -> str:
        index = self._integer(subscript)
        address = self._emit(f"getelementptr double, ptr %{base}, i64 {index}")
        return self._emit(f"load double, ptr {address}")


class PeriodicNest(WindowNest):
    """Such nests in which neighbours may be periodic, written in one of several ways."""

    def _reads(self, base: str, around: list[str]) -> list[str]:
        i, length = around[-1], self.rng.choice("nm")
        ways = (
            self._next_by_choice, self._before_by_choice, self._next_by_rest, self._before_by_rest
        )  # fmt: skip
        found = [self._read(base, f"{i} + {k}") for k in (0, self.rng.randrange(-1, 2))]
        for way in self.rng.choices(ways, k=self.rng.randrange(1, 4)):
            address = self._emit(f"getelementptr double, ptr %{base}, i64 {way(i, length)}")
            found.append(self._emit(f"load double, ptr {address}"))
        return found

    def _next_by_choice(self, i: str, length: str) -> str:
        after = self._integer(f"{i} + 1")
        if self.rng.random() < 0.5:
            ends = self._emit(f"icmp eq i64 {after}, %{length}")
        else:
            ends = self._emit(f"icmp sge i64 {i}, {self._integer(f'{length} - 1')}")
        return self._emit(f"select i1 {ends}, i64 0, i64 {after}")

    def _before_by_choice(self, i: str, length: str) -> str:
        before, last = self._integer(f"{i} - 1"), self._integer(f"{length} - 1")
        predicate = self.rng.choice(["ne", "sgt"])
        inside = self._emit(f"icmp {predicate} i64 {i}, 0")
        return self._emit(f"select i1 {inside}, i64 {before}, i64 {last}")

    def _next_by_rest(self, i: str, _: str) -> str:
        return self._integer(f"{i} + 1 {self.rng.choice(['urem', 'srem'])} m")

    def _before_by_rest(self, i: str, _: str) -> str:
        """(i - 1) % m, as Python has it"""
        rest = self._integer(f"{i} - 1 srem m")
        signs = self._emit(f"xor i64 {rest}, %m")
        differ = self._emit(f"icmp slt i64 {signs}, 0")
        added = self._emit(f"select i1 {differ}, i64 %m, i64 0")
        return self._emit(f"add i64 {added}, {rest}")

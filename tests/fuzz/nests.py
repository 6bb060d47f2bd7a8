"""Random programs of nested loops and slices over matrices, for hypothesis.

A program is the text of a module with `program(a, b, m, q)`: two matrices m and q of one shape, an
array a with an entry per column, and b with one per row. Its loops are what numerical codes are
made of: stencils with rows and columns at several distances, grids that end at a border or close to
a ring, sums of inner loops, triangles, pairs of rows, searches for the least candidate, products of
parts of rows, whole rows and blocks as slices, in loops over time. It stays in range for matrices
of any shape, empty ones too, and its values stay bounded.
"""

from __future__ import annotations

from fuzz.writer import Writer

BOUNDED = ("math.sin({})", "math.tanh({})", "0.5 * math.cos({})", "{0} / (1.0 + {0} * {0})")
ARRAY_BOUNDED = ("np.sin({})", "np.tanh({})", "0.5 * np.cos({})", "{0} / (1.0 + {0} * {0})")
# where a cell has a neighbour, and which: by a condition, as the nearest one, or around a ring
NEIGHBOURS = (
    ("i > 0", ("i - 1", "j"), ("max(i - 1, 0)", "j"), ("(i - 1) % len(b)", "j")),
    ("i < len(b) - 1", ("i + 1", "j"), ("min(i + 1, len(b) - 1)", "j"), ("(i + 1) % len(b)", "j")),
    ("j >= 1", ("i", "j - 1"), ("i", "max(0, j - 1)"), ("i", "j - 1")),
    ("j != len(a) - 1", ("i", "j + 1"), ("i", "min(len(a) - 1, j + 1)"), ("i", "(j + 1) % len(a)")),
    (
        "i > 0 and j + 1 < len(a)",
        ("i - 1", "j + 1"),
        ("max(i - 1, 0)", "min(j + 1, len(a) - 1)"),
        ("i - 1", "(j + 1) % len(a)"),
    ),
)
UPDATES = ("=", "=", "+=", "-=", "*=")
MATRICES = ("m", "q", "w")


class NestWriter(Writer):
    """Draws one program."""

    least = 3

    # --- expressions in a nest: i is a row, j a column, each at least one from the border ---

    def entry(self, inner: bool) -> str:
        """An entry of an array near the place of the loops."""
        matrix = self.pick(MATRICES)
        row = self.pick(("i", "i", "i - 1", "i + 1"))
        if not inner:
            return self.pick((f"b[{row}]", f"b[{row}]", f"{matrix}[{row}, 0]", "s"))
        column = self.pick(("j", "j", "j - 1", "j + 1"))
        places = (
            f"{matrix}[{row}, {column}]", f"{matrix}[{row}, {column}]",
            f"a[{column}]", f"b[{row}]", "s", f"{matrix}[{row}, k]",
            f"{matrix}[k % len(b), {column}]",
        )  # fmt: skip
        return self.pick(places)

    def value(self, inner: bool, depth: int = 2) -> str:
        """A float expression of such entries."""
        kind = self.draw(6) if depth else 0
        if kind < 2:
            return self.entry(inner)
        if kind == 2:
            return self.pick(("0.7", "-1.3", "0.25"))
        if kind == 5:
            return self.pick(BOUNDED).format(self.value(inner, depth - 1))
        form = self.pick(("({} + {})", "({} - {})", "({} * {})", "max({}, {})"))
        return form.format(self.value(inner, depth - 1), self.value(inner, depth - 1))

    def bounded(self, inner: bool) -> str:
        """One of moderate size."""
        return self.pick(BOUNDED).format(self.value(inner))

    # --- statements ---

    def statement(self, depth: int) -> None:
        """One statement, outside nests."""
        self.budget -= 1
        kinds = (
            self.nest, self.nest, self.nest, self.grid, self.pairs,
            self.rows, self.blocks, self.whole, self.swap,
        )  # fmt: skip
        if depth == 1 and self.budget > 0:
            kinds = (*kinds, self.time)
        kinds[self.draw(len(kinds))](depth)

    def time(self, depth: int) -> None:
        """A loop around other statements."""
        self.names += 1
        self.emit(depth, f"for t{self.names} in range({self.pick(('2', '3', 'len(b) % 4'))}):")
        for _ in range(1 + self.draw(3)):
            self.statement(depth + 1)

    def grid(self, depth: int) -> None:
        """All cells of a grid, whose border has fewer neighbours."""
        down = ("len({})", "len({})", "len({}) - 1, -1, -1")
        self.emit(depth, f"for i in range({self.pick(down).format('b')}):")
        self.emit(depth + 1, f"for j in range({self.pick(down).format('a')}):")
        for _ in range(1 + self.draw(3)):
            x, y = self.pick(MATRICES), self.pick(MATRICES)
            condition, beside, *nearest = self.pick(NEIGHBOURS)
            place = f"{y}[i, j] {self.pick(UPDATES)}"
            term = self.pick(("{} * m[i, j]", "{} - q[i, j]", "{} * a[j] + b[i]", "{}"))
            kind = self.draw(3)
            at = ", ".join(beside if kind < 2 else self.pick(nearest))
            value = self.pick(BOUNDED).format(f"({term.format(f'{x}[{at}]')})")
            if kind == 0:
                self.emit(depth + 2, f"if {condition}:")
                self.emit(depth + 3, f"{place} {value}")
            elif kind == 1:
                self.emit(depth + 2, f"{place} {value} if {condition} else {x}[i, j]")
            else:
                self.emit(depth + 2, f"{place} {value}")

    def pairs(self, depth: int) -> None:
        """Pairs of rows, by entries of some of their columns."""
        x, last = self.pick(MATRICES), self.pick(("0", "len(a) - 1"))
        self.emit(depth, "for i in range(len(b)):")
        others = ("len(b)", "i + 1, len(b)", "i", "len(b) - 1, i, -1")
        self.emit(depth + 1, f"for j in range({self.pick(others)}):")
        self.emit(depth + 2, f"d = {x}[j, 0] - {x}[i, 0]")
        self.emit(depth + 2, f"d = math.tanh(d * ({x}[i, {last}] - {x}[j, {last}]))")
        forms = ("s += d * d", "b[i] += 0.1 * d", "b[j] -= 0.1 * d", "w[i, 0] -= 0.1 * d * b[j]")
        self.emit(depth + 2, self.pick(forms))

    def nest(self, depth: int) -> None:
        """Two loops, with statements in front of the inner one, in it and behind it."""
        rows = (
            "1, len(b) - 1", "1, len(b) - 1", "len(b) - 2, 0, -1", "1, len(b) - 1, 2", "1, n - 1",
        )  # fmt: skip
        columns = (
            "1, len(a) - 1", "1, len(a) - 1", "len(a) - 2, 0, -1", "1, len(a) - 1, 2", "1, n - 1",
            "1, min(i, len(a) - 1)", "min(i, len(a)) , len(a) - 1",
        )  # fmt: skip
        if self.draw(5) == 0:  # columns outside: only what does not depend on the other loop
            self.emit(depth, f"for j in range({self.pick(columns[:5])}):")
            self.emit(depth + 1, f"for i in range({self.pick(rows)}):")
            return self.body(depth + 2)
        self.emit(depth, f"for i in range({self.pick(rows)}):")
        if self.draw(2):
            self.emit(depth + 1, f"s = {self.pick(('0.0', self.value(False)))}")
        if self.draw(4) == 0:
            self.search(depth + 1)
        self.emit(depth + 1, f"for j in range({self.pick(columns)}):")
        self.body(depth + 2)
        if self.draw(2):
            place = self.pick(("b[i]", "b[i - 1]", "s", "m[i, 0]", "q[i, len(a) - 1]"))
            self.emit(depth + 1, f"{place} {self.pick(UPDATES)} {self.pick(BOUNDED).format('s')}")
        return None

    def body(self, depth: int) -> None:
        """Statements in an inner loop."""
        for _ in range(1 + self.draw(3)):
            kind = self.draw(6)
            if kind == 0:
                self.emit(depth, f"if {self.value(True, 1)} > {self.value(True, 0)}:")
                self.emit(depth + 1, self.update())
                if self.draw(2):
                    self.emit(depth + 1, self.pick(("continue", "break")))
            elif kind == 1:
                self.emit(depth, f"s += {self.bounded(True)}")
            else:
                self.emit(depth, self.update())

    def update(self) -> str:
        """An entry is written or added to."""
        matrix = self.pick(MATRICES)
        places = (
            f"{matrix}[i, j]", f"{matrix}[i, j]", f"{matrix}[i, j]", f"{matrix}[i - 1, j]",
            f"{matrix}[i, j + 1]", "a[j]", "b[i]", "s", f"{matrix}[i, k]",
        )  # fmt: skip
        return f"{self.pick(places)} {self.pick(UPDATES)} {self.bounded(True)}"

    def search(self, depth: int) -> None:
        """The least candidate of a row, or the place of it."""
        self.emit(depth, "least = 1e9")
        self.emit(depth, "for j in range(len(a)):")
        self.emit(
            depth + 1, f"d = {self.pick(('m[i, j]', 'q[i - 1, j] * a[j]', '(a[j] - b[i]) ** 2'))}"
        )
        self.emit(depth + 1, f"if d {self.pick('<<>')} least:")
        self.emit(depth + 2, "least = d")
        if self.draw(2):
            self.emit(depth + 2, "k = j")
        self.emit(depth, "if least < 1e8:")
        self.emit(depth + 1, f"s = {self.pick(BOUNDED).format('least')}")

    def rows(self, depth: int) -> None:
        """Whole rows, or parts of them, as vectors."""
        x, y = self.pick(MATRICES), self.pick(MATRICES)
        self.emit(depth, f"for i in range({self.pick(('1, len(b)', 'len(b) - 1, 0, -1'))}):")
        left, right = self.pick((
            (f"{x}[i, :i]", f"{y}[i - 1, :i]"), (f"{x}[i]", f"{y}[i - 1]"),
            (f"{x}[i, :i]", "a[:i]"), (f"{x}[i, 1:]", f"{y}[i, :-1]"), (f"{x}[i]", f"{y}[i][::-1]"),
        ))  # fmt: skip
        both = self.pick(ARRAY_BOUNDED).format(f"({right} + {left})")
        forms = (
            f"s += np.tanh(np.dot({left}, {right}))",
            f"b[i] = 0.5 * math.sin({left} @ {right})",
            f"{left}[:] {self.pick(UPDATES)} {both}",
            f"{left}[:] {self.pick(('+=', '-='))} math.tanh(b[i]) * {right}",
            f"s += math.tanh(np.sum({left} * {right}))",
        )
        self.emit(depth + 1, self.pick(forms))

    def blocks(self, depth: int) -> None:
        """Inner parts of matrices, shifted against each other."""
        shifts = (
            "[1:-1, 1:-1]",
            "[:-2, 1:-1]",
            "[2:, 1:-1]",
            "[1:-1, :-2]",
            "[1:-1, 2:]",
            "[:-2, 2:]",
        )
        x, terms = (
            self.pick(MATRICES),
            [self.pick(MATRICES) + self.pick(shifts) for _ in range(2 + self.draw(3))],
        )
        value = self.pick(ARRAY_BOUNDED).format(
            f"({self.pick(' + | - | * '.split('|')).join(terms)})"
        )
        self.emit(depth, "if len(b) > 2 and len(a) > 2:")
        self.emit(depth + 1, f"{x}[1:-1, 1:-1] {self.pick(UPDATES)} {value}")

    def whole(self, depth: int) -> None:
        """Whole arrays, broadcast and reduced."""
        x, y = self.pick(MATRICES), self.pick(MATRICES)
        forms = (
            f"w = np.tanh({x} * {y})", f"w = np.sin({x} + a)",
            f"{x}[:] = np.cos({y} * b.reshape(-1, 1))", f"a[:] = np.tanh(np.sum({x}, axis=0))",
            f"b[:] = np.tanh(np.sum({x}, axis=1))", f"b[:] = np.sin({x} @ a)",
            f"a[:] = np.tanh(b @ {x})", f"w = np.outer(np.sin(b), a) + {y}",
            f"w = np.where({x} > {y}, {x}, np.tanh({y}))", f"{x}[:, ::2] *= np.tanh(s)",
            f"{x}[:] = np.tanh({y}[::-1])", f"w = {x}.copy()",
        )  # fmt: skip
        self.emit(depth, self.pick(forms))

    def swap(self, depth: int) -> None:
        """Matrices change their names."""
        x, y = self.pick(("m", "q", "w")), self.pick(("q", "w"))
        self.emit(depth, f"{x}, {y} = {y}, {x}")

    def program(self) -> str:
        """The whole text."""
        self.lines = ["@njit", "def program(a, b, m, q):"]
        self.emit(1, "s, k, w, n = 0.3, 0, m * q, min(len(a), len(b))")
        while self.budget > 0:
            self.statement(1)
        self.emit(1, "total = math.tanh(s) + np.sum(np.sin(a)) + np.sum(b)")
        self.emit(1, "return total + np.sum(m) + np.sum(np.cos(q)) + 0.5 * np.sum(w)")
        return "\n".join([HEADER, *self.lines, ""])


HEADER = "import math\nimport numpy as np\nfrom numba import njit\n"

"""Random nopython programs, for hypothesis.

A program is the text of a module: helper functions, and `program(x, y, a, b, m, n)` with floats x
and y, arrays a and b of one length, a matrix m of as many rows, and an integer n. It is built by
drawing statements; every draw is hypothesis's, so that a failing program shrinks.

Values stay in range: what a statement keeps goes through a bounded function, so that no program
overflows and finite differences resolve its derivatives. Branches on floats are smooth almost
everywhere; nothing else in a program is not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fuzz.writer import Writer

UNARY = (
    "math.sin({})", "math.cos({})", "math.tanh({})", "math.exp(-abs({}))", "math.atan({})",
    "math.sqrt(1.0 + {0} * {0})", "math.log(1.5 + {0} * {0})", "-({})", "abs({})",
    "1.0 / (1.0 + {0} * {0})",
)  # fmt: skip
BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "({0} / (1.0 + {1} * {1}))", "min({}, {})",
    "max({}, {})",
    "math.hypot({}, 1.0 + abs({}))", "(abs({}) + 0.5) ** math.tanh({})",
)  # fmt: skip
BOUNDED = ("math.sin({})", "math.tanh({})", "0.5 * math.cos({})", "0.9 * math.atan({})")
ARRAY_UNARY = (
    "np.sin({})",
    "np.tanh({})",
    "{}.copy()",
    "np.exp(-np.abs({}))",
    "-({})",
    "np.sqrt(1.0 + {0} * {0})",
)
VIEWS = ("{}[::-1]", "{}[1:]", "{}[:-1]", "{}[::2]")
REDUCTIONS = (
    "np.sum({})",
    "{}.sum()",
    "np.mean({})",
    "np.max({})",
    "np.min({})",
    "np.var({})",
    "np.sum({0} * {0})",
)


@dataclass
class Scope:
    """What a statement may read and write. `full` holds arrays of the arguments' length."""

    floats: list[str]
    integers: list[str]
    full: list[str]
    arrays: list[str]
    writable: list[str]
    local_floats: list[str] = field(default_factory=list)
    local_arrays: list[str] = field(default_factory=list)
    indices: list[tuple[str, str]] = field(default_factory=list)
    depth: int = 1
    in_loop: bool = False

    def inner(self, **changes: object) -> Scope:
        """A scope for a nested block: what is defined there ends with it."""
        copied = Scope(
            list(self.floats), list(self.integers), list(self.full), list(self.arrays),
            list(self.writable), list(self.local_floats), list(self.local_arrays),
            list(self.indices), self.depth + 1, self.in_loop,
        )  # fmt: skip
        for name, value in changes.items():
            setattr(copied, name, value)
        return copied


class ProgramWriter(Writer):
    """Draws one program of numbers, arrays, views, loops and branches."""

    least = 4

    def __init__(self, draw: Callable[[int], int], largest: int) -> None:
        super().__init__(draw, largest)
        self.helpers: list[str] = []

    # --- expressions ---

    def scalar(self, scope: Scope, depth: int = 2) -> str:
        """A float expression."""
        kind = self.draw(8) if depth else self.draw(3)
        if kind == 0:
            return self.pick(scope.floats)
        if kind == 1:
            return self.element(scope)
        if kind == 2:
            return self.pick(("0.7", "-1.3", "0.25", "2.0"))
        if kind in (3, 4):
            return self.pick(BINARY).format(
                self.scalar(scope, depth - 1), self.scalar(scope, depth - 1)
            )
        if kind == 5:
            return self.pick(UNARY).format(self.scalar(scope, depth - 1))
        if kind == 6:
            return self.pick(REDUCTIONS).format(self.pick(scope.arrays))
        return self.call(scope, depth - 1)

    def call(self, scope: Scope, depth: int) -> str:
        """A call of a helper; a conditional expression where there is none."""
        if "scale" in self.helpers and self.draw(2):
            return f"scale({self.scalar(scope, depth)}, {self.scalar(scope, depth)})"
        if "weigh" in self.helpers and self.draw(2):
            return f"weigh({self.pick(scope.arrays)}, {self.scalar(scope, depth)})"
        chosen, other = self.scalar(scope, depth), self.scalar(scope, depth)
        return f"({chosen} if {self.condition(scope)} else {other})"

    def element(self, scope: Scope) -> str:
        """An element of an array, in range whatever the sizes."""
        if self.draw(6) == 0:
            return f"m[{self.integer(scope)} % m.shape[0], {self.integer(scope)} % m.shape[1]]"
        near = [f"{name}[{index}]" for name, index in scope.indices]
        if near and self.draw(3):
            return self.pick(near)
        name = self.pick(scope.arrays)
        return f"{name}[{self.integer(scope)} % {name}.size]"

    def integer(self, scope: Scope) -> str:
        """A non-negative integer expression."""
        first = self.pick([*scope.integers, "0", "1", "2"])
        return (
            first
            if self.draw(2)
            else f"({first} {self.pick('+*')} {self.pick([*scope.integers, '3'])})"
        )

    def condition(self, scope: Scope) -> str:
        """A comparison of floats or of integers."""
        if self.draw(3) == 0:
            return f"{self.integer(scope)} % 2 == {self.draw(2)}"
        return f"{self.scalar(scope, 1)} {self.pick('<>')} {self.scalar(scope, 0)}"

    def bounded(self, scope: Scope, depth: int = 2) -> str:
        """A float expression of moderate size."""
        return self.pick(BOUNDED).format(self.scalar(scope, depth))

    # --- statements ---

    def fresh(self, stem: str) -> str:
        """A new name."""
        self.names += 1
        return f"{stem}{self.names}"

    def block(self, scope: Scope, most: int = 4) -> None:
        """A few statements; at least one."""
        for _ in range(1 + self.draw(most)):
            self.statement(scope)

    def statement(self, scope: Scope) -> None:
        """One statement, from the budget of the program."""
        self.budget -= 1
        simple = (
            self.assign, self.update, self.write, self.write, self.fill, self.array, self.view,
            self.rebind, self.matrix,
        )  # fmt: skip
        nested = (self.branch, self.counted, self.counted, self.stencil, self.until)
        leave = (self.leave,) if scope.in_loop else ()
        is_full = self.budget <= 0 or scope.depth >= 4
        kinds = simple if is_full else (*simple, *nested, *leave)
        kinds[self.draw(len(kinds))](scope)

    def assign(self, scope: Scope) -> None:
        """A new float."""
        name, value = self.fresh("s"), self.bounded(scope)
        self.emit(scope.depth, f"{name} = {value}")
        scope.floats.append(name)
        scope.local_floats.append(name)

    def update(self, scope: Scope) -> None:
        """A float that is there takes another value."""
        name = self.pick(scope.local_floats)
        self.emit(scope.depth, f"{name} = {self.bounded(scope)} + 0.5 * math.tanh({name})")

    def target(self, scope: Scope) -> str:
        near = [f"{name}[{index}]" for name, index in scope.indices if name in scope.writable]
        if near and self.draw(3):
            return self.pick(near)
        name = self.pick(scope.writable)
        return f"{name}[{self.integer(scope)} % {name}.size]"

    def write(self, scope: Scope) -> None:
        """An element of an array is written or added to."""
        place = self.target(scope)
        self.emit(scope.depth, f"{place} {self.pick(('=', '=', '+=', '*='))} {self.bounded(scope)}")

    def fill(self, scope: Scope) -> None:
        """A whole array, or a part of it, is written."""
        name = self.pick(scope.writable)
        part = self.pick(("[:]", "[1:]", "[::2]"))
        if self.draw(2) or name not in scope.full or part != "[:]":
            self.emit(scope.depth, f"{name}{part} {self.pick(('=', '*='))} {self.bounded(scope)}")
        else:
            self.emit(
                scope.depth,
                f"{name}[:] = np.sin({self.pick(scope.full)} + {self.scalar(scope, 1)})",
            )

    def array(self, scope: Scope) -> None:
        """A new array of the full length."""
        name, value = self.fresh("v"), self.whole(scope)
        self.emit(scope.depth, f"{name} = {value}")
        for group in (scope.full, scope.arrays, scope.writable, scope.local_arrays):
            group.append(name)

    def rebind(self, scope: Scope) -> None:
        """A name takes another array: a new one, or one that has a name already."""
        if not scope.local_arrays:
            return self.array(scope)
        name = self.pick(scope.local_arrays)
        if self.draw(3) == 0:
            other = self.pick(scope.local_arrays)
            return self.emit(scope.depth, f"{name}, {other} = {other}, {name}")
        return self.emit(scope.depth, f"{name} = {self.whole(scope)}")

    def matrix(self, scope: Scope) -> None:
        """An element, a row or a column of the matrix is written."""
        i, j = self.integer(scope), self.integer(scope)
        place = self.pick((
            f"m[{i} % m.shape[0], {j} % m.shape[1]]", f"m[{i} % m.shape[0]]",
            f"m[:, {j} % m.shape[1]]", "m.T[0]",
        ))  # fmt: skip
        self.emit(scope.depth, f"{place} {self.pick(('=', '+=', '*='))} {self.bounded(scope)}")

    def whole(self, scope: Scope) -> str:
        """An array of the full length."""
        s = self.bounded(scope, 1)
        u, v = self.pick(scope.full), self.pick(scope.full)
        return self.pick((
            u, f"({u} if {self.condition(scope)} else {v})",
            f"{u} * {s}", f"{u} + {v}", f"{u} * {v}", f"np.full({u}.size, {s})",
            f"np.zeros({u}.size)", f"np.where({u} > {s}, {u}, {v})",
            self.pick(ARRAY_UNARY).format(u),
            f"fresh({u}, {s})" if "fresh" in self.helpers else f"np.sin({u} - {s})",
        ))  # fmt: skip

    def view(self, scope: Scope) -> None:
        """A name for a part of an array, or another one for all of it."""
        name, source = self.fresh("w"), self.pick(scope.full)
        if self.draw(4) == 0:
            self.emit(scope.depth, f"{name} = m[{self.integer(scope)} % m.shape[0]]")
        else:
            self.emit(scope.depth, f"{name} = {self.pick(VIEWS).format(source)}")
        scope.arrays.append(name)
        if source in scope.writable:
            scope.writable.append(name)

    def branch(self, scope: Scope) -> None:
        """An if statement, sometimes with an else."""
        self.emit(scope.depth, f"if {self.condition(scope)}:")
        self.block(scope.inner(), 3)
        if self.draw(2):
            self.emit(scope.depth, "else:")
            self.block(scope.inner(), 3)

    def counted(self, scope: Scope) -> None:
        """A for loop over a range, which may depend on the loop around it."""
        i = self.fresh("i")
        size = self.pick(["n", "3", *(f"{name} + 1" for name in scope.integers if name != "n")])
        self.emit(scope.depth, f"for {i} in range({size}):")
        inside = scope.inner(in_loop=True)
        inside.integers.append(i)
        self.block(inside)

    def stencil(self, scope: Scope) -> None:
        """A for loop over the inner elements of full arrays."""
        i, names = self.fresh("i"), scope.full[-3:]
        self.emit(scope.depth, f"for {i} in range(1, {self.pick(scope.full)}.size - 1):")
        inside = scope.inner(in_loop=True)
        inside.integers.append(i)
        inside.indices += [
            (name, f"{i}{shift}") for name in names for shift in ("", " - 1", " + 1")
        ]
        self.block(inside)

    def until(self, scope: Scope) -> None:
        """A while loop whose length depends on floats."""
        k = self.fresh("k")
        self.emit(scope.depth, f"{k} = 0")
        self.emit(scope.depth, f"while {k} < 5 and {self.condition(scope)}:")
        inside = scope.inner(in_loop=True)
        inside.integers.append(k)
        self.emit(inside.depth, f"{k} += 1")
        self.block(inside)

    def leave(self, scope: Scope) -> None:
        """A break, a continue or a return under a condition."""
        self.emit(scope.depth, f"if {self.condition(scope)}:")
        inner = scope.inner()
        self.emit(inner.depth, self.pick(("break", "continue", f"return {self.bounded(scope)}")))

    # --- the module ---

    def program(self) -> str:
        """The whole text."""
        self.helpers = [name for name in HELPERS if self.draw(2)]
        scope = Scope(["x", "y", "s0"], ["n"], ["a", "b"], ["a", "b"], ["a", "b"], ["s0"])
        self.lines = ["@njit", "def program(x, y, a, b, m, n):", "    s0 = 0.3"]
        self.block(scope, 6)
        terms = [self.scalar(scope), *(f"math.sin({name})" for name in scope.local_floats[-3:])]
        terms += [f"np.sum({name})" for name in scope.arrays[-2:]]
        self.emit(scope.depth, f"return {' + '.join(terms)}")
        return "\n".join([HEADER, *(HELPERS[name] for name in self.helpers), *self.lines, ""])


HEADER = "import math\nimport numpy as np\nfrom numba import njit\n"
HELPERS = {
    "scale": """@njit
def scale(p, q):
    if p > q:
        return p * math.sin(q)
    return q - 0.5 * p
""",
    "weigh": """@njit
def weigh(v, p):
    total = 0.0
    for k in range(v.size):
        total += math.sin(v[k] * p)
        if total > 2.0:
            break
    return total
""",
    "fresh": """@njit
def fresh(v, p):
    out = np.empty(v.size)
    for k in range(v.size):
        out[k] = math.tanh(p + v[k]) + 0.1 * v[0]
    return out
""",
}

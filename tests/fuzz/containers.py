"""Random programs that keep numbers and arrays in containers, for hypothesis.

A program is the text of a module with `program(x, y, a, b, n)`: two numbers, two arrays of four
entries, and a number of iterations. Lists, dictionaries, tuples, records and objects hold numbers
and arrays, the same array several times too. What is read from them is changed in place, stored
elsewhere, and passed to functions with rules. Values stay bounded.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.writer import Writer

UNARY = (
    "math.sin({})", "math.cos({})", "math.tanh({})", "math.exp(-abs({}))", "math.atan({})",
    "math.sqrt(1.0 + {0} * {0})", "-({})", "1.0 / (1.0 + {0} * {0})",
)  # fmt: skip
BINARY = (
    "({} + {})", "({} - {})", "({} * {})", "({0} / (1.0 + {1} * {1}))", "min({}, {})",
    "max({}, {})",
)  # fmt: skip
BOUNDED = ("math.sin({})", "math.tanh({})", "0.5 * math.cos({})")

# The containers that a program may start with: statements, and the name's kind.
STARTS = {
    "numbers": "{} = [{f}, {f}]",
    "typed": "{} = List([{f}, {f}])",
    "arrays": "{} = [{c}, {c}]",
    "typed_arrays": "{} = List([{c}, {c}])",
    "pairs": "{} = [({f}, {c}), ({f}, {c})]",
    "table": "{} = {{0: {f}, 1: {f}}}",
    "array_table": "{} = {{0: {c}, 1: {c}}}",
    "triple": "{} = ({f}, {f}, {f})",
    "pair": "{} = ({f}, {c})",
    "array_triple": "{} = ({c}, {c}, {c})",
    "named": "{} = Pair({f}, {c})",
    "box": "{} = Box({f}, {c})",
    "holder": "{} = Holder(Box({f}, {c}), {c})",
    "complex": "{} = complex({f}, {f})",
    "records": "{} = r.copy()",
    "lists": "{} = [[{f}, {f}], [{f}]]",
    "objects": "{} = [Box({f}, {c}), Box({f}, {c})]",
}
NUMBERS = {
    "numbers": ("{0}[{i} % len({0})]", "sum({0})", "max({0})", "{0}[-1]"),
    "typed": ("{0}[{i} % len({0})]", "sum({0})", "{0}[-1]"),
    "arrays": ("{0}[{i} % len({0})][{i} % 4]", "{0}[-1].sum()"),
    "typed_arrays": (
        "{0}[{i} % len({0})][{i} % 4]", "{0}[0].sum()", "ruled_list({0}, {f})",
        "kept_list({0}, {f})",
    ),
    "pairs": ("{0}[{i} % len({0})][0]", "{0}[{i} % len({0})][1][{i} % 4]"),
    "table": ("{0}[{i} % 2]", "{0}.get({i}, 0.7)", "{0}[0]"),
    "array_table": ("{0}[{i} % 2][{i} % 4]", "{0}[0].sum()"),
    "triple": ("{0}[{i} % 3]", "{0}[1]", "sum({0})"),
    "pair": ("{0}[0]", "{0}[1][{i} % 4]"),
    "array_triple": ("{0}[{i} % 3][{i} % 4]", "{0}[1].sum()", "ruled_tuple({0}, {f})"),
    "named": ("{0}.value", "{0}.data[{i} % 4]"),
    "box": (
        "{0}.value", "{0}.data[{i} % 4]", "{0}.total()", "{0}.double", "ruled_box({0}, {f})",
        "kept_box({0}, {f})",
    ),
    "holder": (
        "{0}.box.value", "{0}.data[{i} % 4]", "{0}.box.total()", "{0}.reach()",
        "ruled_box({0}.box, {f})", "kept_box({0}.box, {f})",
    ),
    "complex": ("{0}.real", "{0}.imag", "abs({0} + 3.0)", "({0} * {0}).imag", "np.exp({0}).real"),
    "records": (
        "{0}[{i} % 4].u", "{0}[{i} % 4].v[{i} % 2]", "{0}['u'][{i} % 4]", "{0}.v.sum()",
        "ruled_records({0}, {f})", "weigh_record({0}[{i} % 4], {f})",
    ),
    "lists": ("{0}[{i} % len({0})][0]", "sum({0}[{i} % len({0})])"),
    "objects": ("{0}[{i} % len({0})].value", "{0}[{i} % len({0})].total()"),
}  # fmt: skip
ARRAYS = {  # contiguous, of four entries
    "arrays": ("{0}[{i} % len({0})]", "{0}[-1]"),
    "typed_arrays": ("{0}[{i} % len({0})]",),
    "pairs": ("{0}[{i} % len({0})][1]",),
    "array_table": ("{0}[{i} % 2]",),
    "pair": ("{0}[1]",),
    "array_triple": ("{0}[{i} % 3]", "{0}[2]"),
    "named": ("{0}.data",),
    "box": ("{0}.data",),
    "holder": ("{0}.data", "{0}.box.data"),
    "objects": ("{0}[{i} % len({0})].data",),
    "numbers": ("np.array({0})[:1] * np.ones(4)",),
}
CHANGES = {
    "numbers": (
        "{0}[{i} % len({0})] = {f}", "{0}.append({f})", "{0}[0] *= {f}", "{0}.extend([{f}, {f}])",
        "{0}.insert({i} % 2, {f})", "{0}.reverse()", "{0}.sort()", "{0} += [{f}]",
        "{0} = [math.sin(q + {f}) for q in {0}]", "{0} = {0}[1:] + [{f}]", "{0}[:1] = [{f}]",
        "{0} = sorted({0})",
    ),
    "typed": (
        "{0}[{i} % len({0})] = {f}", "{0}.append({f})", "{0}[0] *= {f}", "{0}.reverse()",
        "{0}.insert({i} % 2, {f})", "{0} = {0}.copy()", "{0}.extend({0}[:1])",
    ),
    "arrays": (
        "{0}[{i} % len({0})] = {c}", "{0}.append({c})", "{0}[0][{i} % 4] {u} {f}",
        "{0}[{i} % len({0})][:] = {f}", "{0}[-1] += {f}", "{0}.reverse()",
        "{0} = [q * {f} for q in {0}]", "{0}[0], {0}[1] = {0}[1], {0}[0]",
    ),
    "typed_arrays": (
        "{0}[{i} % len({0})] = {c}", "{0}.append({c})", "{0}[0][{i} % 4] {u} {f}",
        "{0}[1][:] = {f}", "{0}[0], {0}[1] = {0}[1], {0}[0]",
    ),
    "pairs": (
        "{0}.append(({f}, {c}))", "{0}[{i} % len({0})] = ({f}, {c})",
        "{0}[0][1][{i} % 4] {u} {f}", "{0}[0] = ({0}[1][0] * {f}, {0}[1][1])",
    ),
    "table": (
        "{0}[{i}] = {f}", "{0}[0] {u} {f}", "{0}[{i} % 5] = {0}.get({i} % 5, 0.1) * {f}",
        "{0} = {{0: {f}, 1: {0}[0]}}", "{0}.update({{1: {f}}})",
        "{0}.setdefault({i}, {f})",
    ),
    "array_table": (
        "{0}[{i}] = {c}", "{0}[0][{i} % 4] {u} {f}", "{0}[0], {0}[1] = {0}[1], {0}[0]",
        "{0}[{i} % 2] = {c} * {f}",
    ),
    "triple": (
        "{0} = ({0}[1], {0}[2], {f})", "{0} = ({f}, {0}[{i} % 3], {0}[0] * {f})",
        "{0} = turned({0}, {f})",
    ),
    "pair": ("{0} = ({f}, {c})", "{0}[1][{i} % 4] {u} {f}", "{0} = ({0}[0] * {f}, {0}[1] + {f})"),
    "array_triple": (
        "{0} = ({0}[1], {0}[2], {c})", "{0}[{i} % 3][{i} % 4] {u} {f}", "{0}[{i} % 3][:] = {f}",
        "spoil({0}, {f})",
    ),
    "named": (
        "{0} = Pair({f}, {c})", "{0}.data[{i} % 4] {u} {f}",
        "{0} = Pair({0}.value * {f}, {0}.data)",
    ),
    "box": (
        "{0}.value = {f}", "{0}.data = {c}", "{0}.data[{i} % 4] {u} {f}", "{0}.add({f})",
        "{0} = Box({f}, {0}.data)", "{0}.value *= {f}",
    ),
    "holder": (
        "{0}.box.value = {f}", "{0}.data = {0}.box.data", "{0}.box.data = {c}",
        "{0}.box.add({f})", "{0}.box = Box({f}, {0}.data)", "{0}.data[{i} % 4] {u} {f}",
    ),
    "complex": (
        "{0} = {0} * complex({f}, {f}) / (1.0 + abs({0} + 3.0))", "{0} += complex(0.0, {f})",
        "{0} = np.exp(1j * {0}.real) * {f}", "{0} = {0}.conjugate() + {f}",
    ),
    "records": (
        "{0}[{i} % 4].u {u} {f}", "{0}[{i} % 4].v[{i} % 2] {u} {f}", "{0}.u[:] = {f}",
        "{0}[{i} % 4] = {0}[{i} % 4]", "{0}['v'][:, {i} % 2] {u} {f}", "stir_record({0}[0], {f})",
        "{0} = {0}[::-1].copy()",
    ),
    "lists": (
        "{0}[{i} % len({0})].append({f})", "{0}.append([{f}, {f}])", "{0}[0][0] {u} {f}",
    ),
    "objects": (
        "{0}[{i} % len({0})].value = {f}", "{0}[{i} % len({0})].add({f})",
        "{0}.append(Box({f}, {c}))", "{0}[0], {0}[1] = {0}[1], {0}[0]",
    ),
}  # fmt: skip
LOOPS = {  # the header of a loop over it, and a name of a number, or of an array, inside
    "numbers": (("for {k}, {s} in enumerate({0}):", "s", ""),),
    "typed": (("for {s} in {0}:", "s", ""),),
    "arrays": (("for {w} in {0}:", "", "w"),),
    "typed_arrays": (("for {w} in {0}:", "", "w"),),
    "pairs": (("for {s}, {w} in {0}:", "s", "w"),),
    "table": (("for {k}, {s} in {0}.items():", "s", ""), ("for {s} in {0}.values():", "s", "")),
    "array_table": (("for {w} in {0}.values():", "", "w"),),
    "array_triple": (("for {w} in {0}:", "", "w"),),
    "triple": (("for {s} in {0}:", "s", ""),),
}


class ContainerWriter(Writer):
    """Draws one program."""

    least = 3

    def __init__(self, draw: Callable[[int], int], largest: int) -> None:
        super().__init__(draw, largest)
        self.floats = ["x", "y", "s0"]
        self.locals = ["s0"]
        self.integers = ["n"]
        self.arrays = ["a", "b"]
        self.held: dict[str, str] = {"r": "records"}
        self.iterated: list[str] = []

    # --- expressions ---

    def number(self, depth: int = 2) -> str:
        """A float expression."""
        kind = self.draw(8)
        if kind == 0 or not depth:
            return self.pick(self.floats)
        if kind == 1:
            return f"{self.pick(self.arrays)}[{self.integer()} % 4]"
        if kind == 2:
            return (
                f"np.sum({self.array(depth - 1)})"
                if self.draw(3)
                else f"slope_of_walk({self.array(0)}, {self.number(0)})"
            )
        if kind == 3:
            return self.pick(UNARY).format(self.number(depth - 1))
        if kind == 4:
            return self.pick(BINARY).format(self.number(depth - 1), self.number(depth - 1))
        name = self.pick([*self.held])
        return self.filled(self.pick(NUMBERS[self.held[name]]), name, 0)

    def filled(self, template: str, name: str, depth: int = 1) -> str:
        """A template with a name, integers, numbers and arrays in its fields."""
        out = []
        rest = template
        while rest:
            at = min((rest.find(f) for f in FIELDS if f in rest), default=len(rest))
            out.append(rest[:at])
            field, rest = rest[at : at + 3], rest[at + 3 :]
            if field:
                out.append(self.field(field, name, depth))
        return "".join(out).replace("{{", "{").replace("}}", "}")

    def field(self, field: str, name: str, depth: int) -> str:
        if field == "{0}":
            return name
        if field == "{i}":
            return self.integer()
        if field == "{u}":
            return self.pick(("=", "+=", "*="))
        if field == "{f}":
            return self.pick(BOUNDED).format(self.number(depth))
        return self.array(depth)

    def integer(self) -> str:
        return self.pick([*self.integers, "0", "1", "2", "(n + 1)"])

    def array(self, depth: int = 1) -> str:
        """A contiguous array of four entries, new or not."""
        holders = [name for name, kind in self.held.items() if kind in ARRAYS]
        if holders and self.draw(2):
            name = self.pick(holders)
            return self.filled(self.pick(ARRAYS[self.held[name]]), name, 0)
        if depth and self.draw(2):
            template = self.pick((
                "np.sin({})", "{} * {f}", "{}[::-1].copy()", "np.full(4, {f})",
                "np.where({} > 0.1, {}, {})", "np.sort({})", "np.cumsum({}) * 0.3",
                "{}[np.argsort({})]", "np.roll({}, 1)", "({} + {})",
            ))  # fmt: skip
            text = template.replace("{f}", self.pick(BOUNDED).format(self.number(0)))
            return text.format(*[self.pick(self.arrays)] * text.count("{}"))
        return self.pick(self.arrays)

    def condition(self) -> str:
        if self.draw(2):
            return f"{self.integer()} % 2 == {self.draw(2)}"
        return f"{self.number(1)} {self.pick('<>')} {self.number(0)}"

    def fresh(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # --- statements ---

    def statement(self, depth: int) -> None:
        """One statement, from the budget of the program."""
        self.budget -= 1
        kinds = [self.assign, self.update, self.write, *[self.change] * 5, self.pop, self.attempt]
        if self.budget > 0 and depth < 3:
            kinds += [self.branch, self.counted, self.loop, self.loop]
        if depth == 1:
            kinds += [self.start, self.start, self.alias]
        kinds[self.draw(len(kinds))](depth)

    def block(self, depth: int, most: int = 3) -> None:
        """A few statements; names of theirs end with it."""
        kept = (
            list(self.floats),
            list(self.locals),
            list(self.integers),
            list(self.arrays),
            dict(self.held),
        )
        for _ in range(1 + self.draw(most)):
            self.statement(depth)
        self.floats, self.locals, self.integers, self.arrays, self.held = kept

    def start(self, depth: int) -> None:
        """A new container."""
        kind = self.pick([*STARTS])
        name = self.fresh("h")
        self.emit(depth, self.filled(STARTS[kind].replace("{}", "{0}", 1), name))
        self.held[name] = kind

    def alias(self, depth: int) -> None:
        """Another name of an array that is held somewhere."""
        name = self.fresh("w")
        self.emit(depth, f"{name} = {self.array()}")
        self.arrays.append(name)

    def assign(self, depth: int) -> None:
        name = self.fresh("s")
        self.emit(depth, f"{name} = {self.pick(BOUNDED).format(self.number())}")
        self.floats.append(name)
        self.locals.append(name)

    def update(self, depth: int) -> None:
        name = self.pick(self.locals)
        self.emit(depth, f"{name} = {self.pick(BOUNDED).format(self.number())} + 0.5 * {name}")

    def write(self, depth: int) -> None:
        target = self.pick(self.arrays)
        value = self.pick(BOUNDED).format(self.number())
        self.emit(depth, f"{target}[{self.integer()} % 4] {self.pick(('=', '+=', '*='))} {value}")

    def change(self, depth: int) -> None:
        """A container is changed, one that no loop goes through."""
        names = [name for name in self.held if name not in self.iterated]
        name = self.pick(names)
        template = self.pick(CHANGES[self.held[name]])
        self.emit(depth, self.filled(template, name))

    def pop(self, depth: int) -> None:
        """An entry is taken out of a list or dictionary that has more than two."""
        names = [n for n, kind in self.held.items() if kind in POPS and n not in self.iterated]
        if not names:
            return self.start(depth) if depth == 1 else self.assign(depth)
        name = self.pick(names)
        text, kind = POPS[self.held[name]]
        new = self.pick(self.locals) if kind == "s" else ""
        self.emit(depth, f"if len({name}) > 2:")
        self.emit(depth + 1, text.format(name, new))

    def attempt(self, depth: int) -> None:
        """A function that may raise, and what is done then."""
        name = self.pick(self.locals)
        self.emit(depth, "try:")
        self.emit(depth + 1, f"{name} = positive({self.number(1)})")
        self.emit(depth, "except Exception:")
        self.emit(depth + 1, f"{name} = {self.pick(BOUNDED).format(self.number(1))}")

    def branch(self, depth: int) -> None:
        self.emit(depth, f"if {self.condition()}:")
        self.block(depth + 1)
        if self.draw(2):
            self.emit(depth, "else:")
            self.block(depth + 1)

    def counted(self, depth: int) -> None:
        i = self.fresh("i")
        self.emit(depth, f"for {i} in range({self.pick(('n', '3'))}):")
        self.integers.append(i)
        self.block(depth + 1)
        self.integers.remove(i)

    def loop(self, depth: int) -> None:
        """A loop over a container, or over a generator."""
        names = [name for name, kind in self.held.items() if kind in LOOPS]
        k, s, w = self.fresh("k"), self.fresh("s"), self.fresh("w")
        kept = list(self.floats), list(self.arrays), list(self.integers)
        if names and self.draw(4):
            name = self.pick(names)
            text, number, array = self.pick(LOOPS[self.held[name]])
            self.emit(depth, text.format(name, k=k, s=s, w=w))
            self.iterated.append(name)
        else:
            name, number, array = "", "s", ""
            self.emit(depth, f"for {s} in walk({self.array(0)}, {self.number(0)}):")
        self.floats += [s] if number else []
        self.arrays += [w] if array else []
        self.block(depth + 1)
        self.floats, self.arrays, self.integers = kept
        if name:
            self.iterated.remove(name)

    # --- the module ---

    def program(self) -> str:
        """The whole text."""
        self.lines = [
            "@njit", "def program(x, y, a, b, n):", "    s0 = 0.3", "    r = records_of(a, b)"
        ]  # fmt: skip
        self.start(1)
        self.start(1)
        for _ in range(2 + self.draw(5)):
            self.statement(1)
        terms = [self.number(), *(f"math.sin({name})" for name in self.locals[-3:])]
        terms += [f"math.sin(np.sum({name}))" for name in self.arrays[-2:]]
        for name, kind in self.held.items():
            terms += [self.filled(self.pick(NUMBERS[kind]), name, 0)]
        self.emit(1, f"return {' + '.join(terms)}")
        return "\n".join([HEADER, *self.lines, ""])


FIELDS = ("{0}", "{i}", "{u}", "{f}", "{c}")
POPS = {
    "numbers": ("{1} = {0}.pop()", "s"),
    "typed": ("{1} = {0}.pop(0)", "s"),
    "arrays": ("{0}.pop()", ""),
    "typed_arrays": ("{0}.pop(0)", ""),
    "table": ("{1} = {0}.pop(2, 0.2)", "s"),
    "array_table": ("{0}.pop(2, {0}[0])", ""),
    "objects": ("{0}.pop()", ""),
    "pairs": ("del {0}[0]", ""),
}
HEADER = """import math

import numpy as np
from numba import njit
from numba.typed import List

from fuzz.classes import *  # noqa: F403

"""

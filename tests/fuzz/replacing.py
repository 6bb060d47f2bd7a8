"""Random programs that replace the arrays in their arguments, for hypothesis, and their
check.

A program is the text of a module with `make(m, p)`, which puts copies of the rows of a matrix, and
numbers, into objects, or into typed lists, and `program(c0, …, x, a, n)` of these containers, a
number, an array and a number of iterations. Fields are assigned, exchanged within an object and
between two, put into new objects; lists grow, shrink and are reordered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import assume
from numba.typed import List

import activerules as ar
from activerules.testing.numeric import directional_derivative, inner
from fuzz.containers import BINARY, BOUNDED, HEADER
from fuzz.writer import Writer

# Memory of this size goes back to the allocator, which writes into it, as soon as it is released;
# NumPy keeps that of smaller arrays as it is.
LENGTH = 160
ROWS, FLOATS = (12, LENGTH), 12


@dataclass(frozen=True)
class Kind:
    """How a container is made, what is read from it, and what changes it."""

    made: str
    arrays: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    boxes: tuple[str, ...] = ()


OBJECTS = {
    "box": Kind(
        "Box({f}, {c})", ("{0}.data",), ("{0}.value", "{0}.total()"),
        ("{0}.add({f})", "renew({0}, {f})"), ("{0}",),
    ),
    "holder": Kind(
        "Holder(Box({f}, {c}), {c})", ("{0}.data", "{0}.box.data"),
        ("{0}.box.value", "{0}.reach()"),
        (
            "{0}.box.add({f})", "renew({0}.box, {f})",
            "{0}.data, {0}.box.data = {0}.box.data, {0}.data",
        ),
        ("{0}.box", "{0}"),
    ),
    "boxes": Kind(
        "(Box({f}, {c}), Box({f}, {c}))", ("{0}[0].data", "{0}[1].data"),
        ("{0}[0].value", "{0}[1].total()"), ("{0}[1].add({f})", "exchange({0}[0], {0}[1])"),
        ("{0}[0]", "{0}[1]"),
    ),
}  # fmt: skip
STRIPS = {
    "strip": replace(OBJECTS["box"], made="Strip({f}, {c})"),
    "roll": replace(OBJECTS["holder"], made="Roll(Strip({f}, {c}), {c})"),
    "strips": replace(OBJECTS["boxes"], made="(Strip({f}, {c}), Strip({f}, {c}))"),
}
LISTS = {
    "rows": Kind(
        "List([{c}, {c}])", ("{0}[0]", "{0}[1]", "{0}[-1]"), ("{0}[-1].sum()", "float(len({0}))"),
        (
            "{0}[0], {0}[1] = {0}[1], {0}[0]", "{0}.append({c} + 0.0)", "{0}.reverse()",
            "if len({0}) > 2: {0}.pop()", "{0}.extend([{c} * {f}, {c} * {f}])",
        ),
    ),
    "numbers": Kind(
        "List([{f}, {f}])", (), ("{0}[0]", "{0}[-1]", "sum({0})"),
        (
            "{0}[1] = {f}", "{0}.append({f})", "{0}.reverse()", "if len({0}) > 2: {0}.pop()",
            "{0}.insert(0, {f})",
        ),
    ),
}  # fmt: skip
NEW_ARRAYS = (
    "{c} * {f}", "{c} + {c}", "np.sin({c})", "{c}.copy()", "{c}", "{c}[::-1].copy()",
    "np.full(len(a), {f})", "np.where({c} > 0.2, {c}, {f} * {c})", "np.zeros(len(a))",
)  # fmt: skip
VIEWS = ("{c}[::-1]", "{c}[:]", "np.roll({c}, 1)[::-1]")


class ReplacingWriter(Writer):
    """Draws one program."""

    least = 3

    def program(self) -> str:
        """The whole text."""
        table = self.pick((OBJECTS, OBJECTS, STRIPS, LISTS))
        self.new_arrays = (*NEW_ARRAYS, *VIEWS) if table is STRIPS else NEW_ARRAYS
        self.class_name = "Strip" if table is STRIPS else "Box"
        kinds = [self.pick([*table]) for _ in range(1 + self.draw(3))]
        self.containers = {f"c{k}": table[kind] for k, kind in enumerate(kinds)}
        self.arrays, self.numbers, self.boxes = ["a"], ["x", "s0"], []
        for name, kind in self.containers.items():
            self.arrays += [array.format(name) for array in kind.arrays]
            self.numbers += [number.format(name) for number in kind.numbers]
            self.boxes += [box.format(name) for box in kind.boxes]
        made = ", ".join(self.made(kind.made) for kind in self.containers.values())
        constant = [self.draw(5) == 0 for _ in kinds]
        self.lines = [
            f"CONSTANT = {constant}", "", "",
            "def make(m, p):", f"    return [{made}]", "", "",
            "@njit", f"def program({', '.join(self.containers)}, x, a, n):", "    s0 = 0.3",
        ]  # fmt: skip
        self.block(1, self.budget)
        terms = [self.filled(kind.numbers[-1], name) for name, kind in self.containers.items()]
        terms += [f"math.sin({self.number()})", f"np.sum({self.pick(self.arrays)})"]
        self.emit(1, f"return s0 + {' + '.join(terms)}")
        return "\n".join([HEADER, *self.lines, ""])

    def made(self, template: str) -> str:
        """A template with rows and numbers of its own."""
        while "{f}" in template or "{c}" in template:
            self.names += 1
            template = template.replace("{f}", f"p[{self.names - 1}]", 1)
            template = template.replace("{c}", f"m[{self.names - 1}].copy()", 1)
        return template

    def number(self, depth: int = 2) -> str:
        """A float expression."""
        kind = self.draw(4) if depth else 0
        if kind == 1:
            return f"{self.pick(self.arrays)}[{self.draw(4)}]"
        if kind == 2:
            return self.pick(BINARY).format(self.number(depth - 1), self.number(depth - 1))
        return self.pick(self.numbers) if kind == 0 else f"np.sum({self.pick(self.arrays)})"

    def filled(self, template: str, name: str = "") -> str:
        """A template with a name, numbers and arrays in its fields."""
        text = template.replace("{0}", name)
        while "{f}" in text or "{c}" in text:
            text = text.replace("{f}", self.pick(BOUNDED).format(self.number()), 1)
            text = text.replace("{c}", self.pick(self.arrays), 1)
        return text

    def block(self, depth: int, most: int) -> None:
        """Some statements; names of theirs end with it."""
        kept = list(self.arrays), list(self.numbers), list(self.boxes)
        for _ in range(most):
            if self.budget > 0:
                self.statement(depth)
        if depth > 1:
            self.arrays, self.numbers, self.boxes = kept

    def statement(self, depth: int) -> None:
        """One statement, from the budget of the program."""
        self.budget -= 1
        changes = [self.replace, self.replace, self.change, self.change, self.write, self.exchange]
        kinds: list[Callable[[int], None]] = changes if depth > 2 else [*changes, self.nest]
        if depth == 1:
            kinds = [*kinds, self.name_array, self.new_box]
        kinds[self.draw(len(kinds))](depth)

    def replaceable(self) -> list[str]:
        """The places of arrays in containers."""
        return [array for array in self.arrays if not array.isidentifier()]

    def replace(self, depth: int) -> None:
        """An array is replaced."""
        place = self.pick(self.replaceable() or ["a[:]"])
        self.emit(depth, f"{place} = {self.filled(self.pick(self.new_arrays))}")

    def change(self, depth: int) -> None:
        """Whatever else changes an argument."""
        name = self.pick([*self.containers])
        self.emit(depth, self.filled(self.pick(self.containers[name].changes), name))

    def write(self, depth: int) -> None:
        """An array is written to."""
        target = f"{self.pick(self.arrays)}[{self.pick(('0', '1:', '-1'))}]"
        self.emit(depth, f"{target} {self.pick(('=', '+=', '*='))} {self.filled('{f}')}")

    def exchange(self, depth: int) -> None:
        """Two arrays change places, or two objects exchange theirs."""
        if len(self.boxes) > 1 and self.draw(2):
            first, second = self.pick(self.boxes), self.pick(self.boxes)
            self.emit(depth, f"exchange({first}, {second})")
        else:
            places = self.replaceable() or ["a[:]"]
            first, second = self.pick(places), self.pick(places)
            self.emit(depth, f"{first}, {second} = {second}, {first}")

    def nest(self, depth: int) -> None:
        """A loop, or a branch."""
        if self.draw(2):
            self.emit(depth, f"for k{depth} in range({self.pick(('n', '3'))}):")
        else:
            self.emit(depth, f"if {self.number(1)} > {self.number(1)}:")
        self.emit(depth + 1, f"s0 += 0.1 * {self.filled('{f}')}")
        self.block(depth + 1, 1 + self.draw(3))

    def name_array(self, depth: int) -> None:
        """Another name of an array, or a new one."""
        self.names += 1
        self.emit(depth, f"w{self.names} = {self.filled(self.pick(self.new_arrays))}")
        self.arrays.append(f"w{self.names}")

    def new_box(self, depth: int) -> None:
        """A local object, which may have an array of an argument."""
        self.names += 1
        name = f"o{self.names}"
        data = self.filled(self.pick(self.new_arrays))
        self.emit(depth, f"{name} = {self.class_name}({self.number()}, {data})")
        self.arrays.append(f"{name}.data")
        self.numbers.append(f"{name}.value")
        self.boxes.append(name)


def check_replacing(namespace: dict[str, Any], at: int) -> None:
    """Both modes against finite differences; shadows start as cotangents of what is held after."""
    make, program, constant = (namespace[name] for name in ("make", "program", "CONSTANT"))
    rng = np.random.default_rng(at)
    m, m_dot, m_bar, fixed_m = rng.normal(size=(4, *ROWS))
    p, p_dot, p_bar, fixed_p = rng.normal(size=(4, FLOATS))
    a, a_dot, a_bar = rng.normal(size=(3, ROWS[1]))
    x, x_dot = map(float, rng.normal(size=2))

    def made(m: np.ndarray, p: np.ndarray) -> list[Any]:
        both = zip(constant, make(m, p), make(fixed_m, fixed_p), strict=True)
        return [other if fixed else own for fixed, own, other in both]

    def paired(weights: Sequence[Any], values: Sequence[Any]) -> float:
        """The sum of products of what is held, but in constants and behind the end of a list."""
        triples = zip(constant, weights, values, strict=True)
        return math.fsum(
            term
            for fixed, one, other in triples
            if not fixed
            for term in (
                [inner(*pair) for pair in zip(one, other, strict=False)]
                if isinstance(one, List)
                else [inner(one, other)]
            )
        )

    def phi(m: np.ndarray, p: np.ndarray, a: np.ndarray, x: float) -> float:
        values, a = made(m, p), a.copy()
        return program(*values, x, a, 2) + a_bar @ a + paired(make(m_bar, p_bar), values)

    def run(mode: Any, shadows: list[Any], a_shadow: np.ndarray, number: Any) -> Any:
        """Derivatives; the primal is to be that of a call without them."""
        expected, now, a_expected, a_now = made(m, p), made(m, p), a.copy(), a.copy()
        value = program(*expected, x, a_expected, 2)
        given = [
            ar.Const(v) if fixed else ar.Duplicated(v, shadow)
            for fixed, v, shadow in zip(constant, now, shadows, strict=True)
        ]
        returned = ar.Active if mode is ar.ReverseWithPrimal else ar.Duplicated
        array = ar.Duplicated(a_now, a_shadow)
        derivatives, found = ar.autodiff(mode, program, returned, *given, number, array, 2)
        np.testing.assert_allclose(found, value, rtol=1e-12)
        np.testing.assert_allclose(a_now, a_expected, rtol=1e-12)
        ones = make(np.ones(ROWS), np.ones(FLOATS))
        np.testing.assert_allclose(paired(ones, now), paired(ones, expected), rtol=1e-11)
        return derivatives

    assume(abs(phi(m, p, a, x)) < 1e6)
    expected, error = directional_derivative(phi, (m, p, a, x), (m_dot, p_dot, a_dot, x_dot))
    assume(error < 1e-5 * max(1.0, abs(expected)))  # a branch right at the point, say
    tolerance = 10.0 * error + 1e-8 * max(1.0, abs(expected))
    shadows, a_shadow = make(m_bar, p_bar), a_bar.copy()
    *_, x_bar, _, _ = run(ar.ReverseWithPrimal, shadows, a_shadow, ar.Active(x))
    reverse = a_shadow @ a_dot + x_bar * x_dot + paired(make(m_dot, p_dot), shadows)
    assert abs(reverse - expected) <= tolerance
    shadows, a_shadow = make(m_dot, p_dot), a_dot.copy()
    tangent = run(ar.ForwardWithPrimal, shadows, a_shadow, ar.Duplicated(x, x_dot))
    forward = tangent + a_bar @ a_shadow + paired(make(m_bar, p_bar), shadows)
    assert abs(forward - expected) <= tolerance

"""Random programs whose arguments are containers, for hypothesis, and their check.

A program is the text of a module with `make(m, p)`, which puts rows of a matrix, the same row
several times too, and numbers into containers, and `program(c0, …, x, a, n)` of these containers, a
number, a row and a number of iterations. Shadows are made by `make`, so that they share memory as
the containers do. Arrays in containers are changed in place. Some containers are Const, and made of
another matrix and other numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import assume

import activerules as ar
from activerules.testing.numeric import directional_derivative, inner
from fuzz.containers import HEADER, NUMBERS, ContainerWriter

ROWS, FLOATS = (6, 4), 12

# Per kind: how it is made, how it is annotated, and what changes it.
ARGUMENTS = {
    "typed": ("List([{f}, {f}])", ar.Duplicated, ("{0}[{i} % 2] {u} {f}", "{0}.reverse()")),
    "typed_arrays": (
        "List([{c}, {c}])", ar.Duplicated,
        ("{0}[{i} % 2][{i} % 4] {u} {f}", "{0}[{i} % 2][:] = {f}", "{0}[-1][1:] *= {f}"),
    ),
    "table": ("table({f}, {f})", ar.Duplicated, ()),
    "array_table": (
        "table({c}, {c})", ar.Duplicated, ("{0}[{i} % 2][{i} % 4] {u} {f}", "{0}[1][:] = {f}")
    ),
    "triple": ("({f}, {f}, {f})", ar.Active, ("{0} = turned({0}, {f})",)),
    "complex": ("complex({f}, {f})", ar.Active, ("{0} += complex(0.0, {f})",)),
    "pair": (
        "({f}, {c})", ar.MixedDuplicated,
        ("{0}[1][{i} % 4] {u} {f}", "{0} = ({f}, {0}[1])", "{0}[1][:] = {c} * {f}"),
    ),
    "named": (
        "Pair({f}, {c})", ar.MixedDuplicated,
        ("{0}.data[{i} % 4] {u} {f}", "{0} = Pair({0}.value * {f}, {0}.data)"),
    ),
    "array_triple": (
        "({c}, {c}, {c})", ar.Duplicated,
        ("{0}[{i} % 3][{i} % 4] {u} {f}", "{0}[{i} % 3][:] = {f}", "spoil({0}, {f})"),
    ),
    "box": (
        "Box({f}, {c})", ar.Duplicated,
        ("{0}.value {u} {f}", "{0}.data[{i} % 4] {u} {f}", "{0}.add({f})"),
    ),
    "holder": (
        "Holder(Box({f}, {c}), {c})", ar.Duplicated,
        ("{0}.box.value = {f}", "{0}.data[{i} % 4] {u} {f}", "{0}.box.add({f})"),
    ),
    "records": (
        "m[:3].ravel().view(RECORD)", ar.Duplicated,
        ("{0}[{i} % 4].u {u} {f}", "{0}[{i} % 4].v[{i} % 2] {u} {f}", "{0}.u[:] = {f}"),
    ),
}  # fmt: skip

# The rules in the programs take these only as Duplicated.
ACTIVE_IN_RULES = {"array_triple"}


class ArgumentWriter(ContainerWriter):
    """Draws one program."""

    def program(self) -> str:
        """The whole text."""
        kinds = [self.pick([*ARGUMENTS]) for _ in range(1 + self.draw(3))]
        names = [f"c{k}" for k in range(len(kinds))]
        self.floats, self.arrays, self.held = ["x", "s0"], ["a"], {"r": "records"}
        self.held |= zip(names, kinds, strict=True)
        self.iterated += names  # no list or dictionary gets longer or shorter
        constant = [kind not in ACTIVE_IN_RULES and self.draw(4) == 0 for kind in kinds]
        made = ", ".join(self.made(ARGUMENTS[kind][0]) for kind in kinds)
        self.lines = [
            f"KINDS, CONSTANT = {kinds}, {constant}", "", "",
            "def make(m, p):", f"    return [{made}]", "", "",
            "@njit", f"def program({', '.join(names)}, x, a, n):", "    s0 = 0.3",
            "    r = records_of(a, a)",
        ]  # fmt: skip
        for _ in range(2 + self.draw(4)):
            self.statement(1)
        terms = [self.number(), *(f"math.sin({name})" for name in self.locals[-2:])]
        terms += [f"math.sin(np.sum({name}))" for name in self.arrays[-2:]]
        terms += [self.filled(self.pick(NUMBERS[kind]), c, 0) for c, kind in self.held.items()]
        self.emit(1, f"return {' + '.join(terms)}")
        return "\n".join([HEADER, *self.lines, ""])

    def made(self, template: str) -> str:
        """A template with numbers of their own, and rows, in its fields."""
        while "{f}" in template or "{c}" in template:
            self.names += 1
            template = template.replace("{f}", f"p[{self.names - 1}]", 1)
            template = template.replace("{c}", f"m[{self.draw(ROWS[0])}]", 1)
        return template

    def change(self, depth: int) -> None:
        """An argument is changed, or another container."""
        arguments = [name for name in self.held if name in self.iterated and name[0] == "c"]
        name = self.pick(arguments)
        changes = ARGUMENTS[self.held[name]][2]
        if self.draw(2) and changes:
            self.emit(depth, self.filled(self.pick(changes), name))
        else:
            super().change(depth)


def check_arguments(namespace: dict[str, Any], at: int) -> None:
    """Both modes against finite differences; shadows start as cotangents of what is held after."""
    make, program, constant = (namespace[name] for name in ("make", "program", "CONSTANT"))
    activities = [
        ar.Const if fixed else ARGUMENTS[kind][1]
        for kind, fixed in zip(namespace["KINDS"], constant, strict=True)
    ]
    in_memory = [activity is ar.Duplicated for activity in activities]
    rng = np.random.default_rng(at)
    m, m_dot, m_bar, fixed_m = rng.normal(size=(4, *ROWS))
    p, p_dot, p_bar, fixed_p = rng.normal(size=(4, FLOATS))
    x, x_dot = map(float, rng.normal(size=2))

    def containers_of(m: np.ndarray, p: np.ndarray) -> list[Any]:
        both = zip(constant, make(m, p), make(fixed_m.copy(), fixed_p), strict=True)
        return [other if fixed else own for fixed, own, other in both]

    def paired(numbers: np.ndarray, values: Any, chosen: Any = None) -> float:
        """The numbers that containers hold, times others; arrays are rows of the matrix."""
        pairs = zip(make(0.0 * m, numbers), values, chosen or [True] * len(values), strict=True)
        return math.fsum(
            inner(others, held)
            for others, held, use in pairs
            if use and not isinstance(others, np.ndarray)
        )

    def phi(m: np.ndarray, p: np.ndarray, x: float) -> float:
        values = containers_of(m, p)
        value = program(*values, x, m[0], 2)
        return value + np.sum(m_bar * m) + paired(p_bar, values, in_memory)

    def run(mode: Any, shadow: np.ndarray, shadows: list[Any], annotated: list[Any]) -> Any:
        """Derivatives; the primal is to be that of a call without them."""
        after, now = m.copy(), m.copy()
        value = program(*containers_of(after, p), x, after[0], 2)
        *containers, number = annotated
        given = [
            a(v) if a in (ar.Active, ar.Const) else a(v, s)
            for a, v, s in zip(containers, containers_of(now, p), shadows, strict=True)
        ]
        returned = ar.Active if mode is ar.ReverseWithPrimal else ar.Duplicated
        row = ar.Duplicated(now[0], shadow[0])
        derivatives, found = ar.autodiff(mode, program, returned, *given, number, row, 2)
        # the value of a derivative in the program is computed in another order
        np.testing.assert_allclose(found, value, rtol=1e-12)
        np.testing.assert_allclose(now, after, rtol=1e-12, atol=1e-14)
        return derivatives

    expected, error = directional_derivative(phi, (m, p, x), (m_dot, p_dot, x_dot))
    assume(error < 1e-5 * max(1.0, abs(expected)))  # a branch right at the point, say
    tolerance = 10.0 * error + 1e-8 * max(1.0, abs(expected))
    shadow = m_bar.copy()
    shadows = make(shadow, p_bar)
    *bars, x_bar, _, _ = run(ar.ReverseWithPrimal, shadow, shadows, [*activities, ar.Active(x)])
    bars = [s if held else bar for held, s, bar in zip(in_memory, shadows, bars, strict=True)]
    varied = [not fixed for fixed in constant]
    reverse = np.sum(shadow * m_dot) + x_bar * x_dot + paired(p_dot, bars, varied)
    assert abs(reverse - expected) <= tolerance
    shadow = m_dot.copy()
    shadows = make(shadow, p_dot)
    annotated = [ar.Const if fixed else ar.Duplicated for fixed in constant]
    annotated.append(ar.Duplicated(x, x_dot))
    tangent = run(ar.ForwardWithPrimal, shadow, shadows, annotated)
    forward = tangent + np.sum(m_bar * shadow) + paired(p_bar, shadows, in_memory)
    assert abs(forward - expected) <= tolerance

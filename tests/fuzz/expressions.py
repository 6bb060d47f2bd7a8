"""Random programs of array expressions of all ranks, for hypothesis.

A program is `program(x, a, b, m, t)` with a float, vectors of four and three, a matrix of 3 x 4 and
an array of 2 x 3 x 4. It joins, cuts, turns, sums, sorts and multiplies arrays, real and complex,
and writes into parts of them. The writer knows all shapes, so that every program runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from fuzz.writer import Writer

Shape = tuple[int, ...]
ARGUMENTS: dict[str, Shape] = {"a": (4,), "b": (3,), "m": (3, 4), "t": (2, 3, 4)}
LARGEST_SIZE = 64

OF_ONE = (
    "np.sin({})", "np.exp(-np.abs({}))", "np.sqrt(1.0 + {0} * {0})", "np.clip({}, -0.6, 0.7)",
    "np.where({0} > 0.1, {0}, 0.5 * {0})", "np.abs({})", "{0} ** 2", "np.arctan({})", "{}.copy()",
    "-{}", "(2.0 + 1j) * {}", "np.exp(1j * {})",
)  # fmt: skip
OF_TWO = (
    "{} + {}", "{} - {}", "{} * {}", "{0} / (1.5 + np.abs({1}))", "np.maximum({}, {})",
    "np.minimum({}, {})", "np.where({0} > {1}, {0} * {1}, {1})", "{0} + 1j * {1}",
)  # fmt: skip
OF_COMPLEX = (
    "{}.real",
    "{}.imag",
    "np.abs({} + 3.0)",
    "({0} * np.conj({0})).real",
    "({0} * {0}).imag",
)


class Value(NamedTuple):
    """A name or an expression, and the shape of its value."""

    text: str
    shape: Shape
    is_complex: bool = False

    @property
    def size(self) -> int:
        """The number of entries."""
        size = 1
        for n in self.shape:
            size *= n
        return size


@dataclass(frozen=True)
class Form:
    """An expression in one array: its text, and the shape of the result by that of the array."""

    text: str
    shape: Callable[[Shape], Shape]
    ranks: tuple[int, ...] = (1, 2, 3)


def _flat(shape: Shape) -> Shape:
    return (Value("", shape).size,)


FORMS = (
    Form("{}.T", lambda s: s[::-1]),
    Form("{}[::-1]", lambda s: s),
    Form("{}[..., ::2]", lambda s: (*s[:-1], (s[-1] + 1) // 2)),
    Form("{}[1:]", lambda s: (s[0] - 1, *s[1:])),
    Form("{}[-1]", lambda s: s[1:], (2, 3)),
    Form("{}[..., 0]", lambda s: s[:-1], (2, 3)),
    Form("{}[None]", lambda s: (1, *s), (1, 2)),
    Form("{}[np.array([0, 1, 0])]", lambda s: (3, *s[1:])),
    Form("np.ravel({})", _flat),
    Form("{}.flatten()", _flat),
    Form("{}.copy().reshape(-1)", _flat),
    Form("np.cumsum({})", _flat),
    Form("np.repeat({}, 2)", lambda s: (2 * _flat(s)[0],)),
    Form("np.sum({}, axis=0)", lambda s: s[1:], (2, 3)),
    Form("np.sum({}, axis=-1)", lambda s: s[:-1], (2, 3)),
    Form("np.flip({})", lambda s: s),
    Form("np.roll({}, 1)", lambda s: s),
    Form("np.asfortranarray({})", lambda s: s),
    Form("np.concatenate(({0}, {0}[::-1]))", lambda s: (2 * s[0], *s[1:])),
    Form("np.stack(({0}, 0.5 * {0}))", lambda s: (2, *s), (1, 2)),
    Form("np.sort({})", lambda s: s, (1,)),
    Form("{0}[np.argsort({0})]", lambda s: s, (1,)),
    Form("np.diff({}.copy())", lambda s: (s[0] - 1,), (1,)),
    Form("np.outer({0}, {0})", lambda s: s * 2, (1,)),
    Form("np.diag({})", lambda s: s * 2, (1,)),
    Form("np.convolve({0}, {0})", lambda s: (2 * s[0] - 1,), (1,)),
    Form("np.interp({}, np.linspace(-1.0, 1.0, 4), np.arange(4.0) ** 2)", lambda s: s, (1,)),
    Form("{0} @ {0}.T", lambda s: (s[0], s[0]), (2,)),
    Form("np.tril({})", lambda s: s, (2,)),
    Form("np.hstack(({0}, {0}))", lambda s: (s[0], 2 * s[1]), (2,)),
    Form("np.linalg.inv({0} @ {0}.T + 2.0 * np.eye({0}.shape[0]))", lambda s: (s[0], s[0]), (2,)),
    Form("{}.transpose(2, 0, 1)", lambda s: (s[2], s[0], s[1]), (3,)),
    Form("{0}.copy().reshape({0}.shape[0], -1)", lambda s: (s[0], s[1] * s[2]), (3,)),
)
OF_REAL_ALONE = (
    "np.sort", "argsort", "np.interp", "np.clip", "np.where", "np.maximum", "np.minimum",
    "np.arctan", "1j", "np.linalg", "np.diff",
)  # fmt: skip
TARGETS = ("[:]", "[1:]", "[::-1]", "[..., ::2]", "[0]", "[..., -1]")


class ExpressionWriter(Writer):
    """Draws one program."""

    least = 3

    def __init__(self, draw: Callable[[int], int], largest: int) -> None:
        super().__init__(draw, largest)
        self.arrays = [Value(name, shape) for name, shape in ARGUMENTS.items()]

    def array(self, is_complex: bool | None = None) -> Value:
        """One of the arrays, a late one rather than an early one."""
        found = [a for a in self.arrays if is_complex in (None, a.is_complex)]
        return found[-1 - self.draw(min(len(found), 5))]

    def of_one(self) -> Value:
        """A function of the entries of an array."""
        a = self.array()
        if a.is_complex:
            return Value(self.pick(OF_COMPLEX).format(a.text), a.shape)
        text = self.pick(OF_ONE)
        return Value(text.format(a.text), a.shape, "1j" in text)

    def of_two(self) -> Value:
        """A function of the entries of two arrays, one of which may be broadcast."""
        a = self.array(is_complex=False)
        fitting = [
            b for b in self.arrays
            if not b.is_complex and b.shape == a.shape[len(a.shape) - len(b.shape) :]
        ]  # fmt: skip
        b = fitting[self.draw(len(fitting))]
        text = self.pick(OF_TWO)
        return Value(text.format(a.text, b.text), a.shape, "1j" in text)

    def form(self) -> Value:
        """Another arrangement of an array, sums and products of its entries."""
        a = self.array()
        forms = [
            form for form in FORMS
            if len(a.shape) in form.ranks and a.shape[0] > 1 and min(form.shape(a.shape)) > 0
            and not (a.is_complex and any(name in form.text for name in OF_REAL_ALONE))
        ]  # fmt: skip
        if not forms:
            return Value(f"{a.text} * 0.5", a.shape, a.is_complex)
        form = forms[self.draw(len(forms))]
        return Value(form.text.format(a.text), form.shape(a.shape), a.is_complex)

    def define(self) -> None:
        """A name for a new array, or for a view."""
        kinds = (self.of_one, self.of_two, self.form, self.form)
        value = kinds[self.draw(len(kinds))]()
        if value.size > LARGEST_SIZE:
            return
        self.names += 1
        text = value.text if self.draw(2) or value.is_complex else f"np.tanh({value.text})"
        self.emit(1, f"v{self.names} = {text}")
        self.arrays.append(Value(f"v{self.names}", value.shape, value.is_complex))

    def write(self) -> None:
        """Part of an array is written, from a number or from a part of that array."""
        a = self.array(is_complex=False)
        target = a.text + self.pick(TARGETS)
        value = self.pick((
            f"math.sin(x + {a.text}.sum())", "0.3", f"np.cos({target})", f"{target} * {target}",
        ))  # fmt: skip
        if value.startswith("np.") and len(a.shape) == 1 and target.endswith(("[0]", "-1]")):
            value = "x"
        self.emit(1, f"{target} {self.pick(('=', '=', '+=', '*='))} {value}")

    def program(self) -> str:
        """The whole text."""
        self.lines = [f"def program(x, {', '.join(ARGUMENTS)}):"]
        for _ in range(self.budget):
            (self.write if self.draw(4) == 0 else self.define)()
        last = self.arrays[-3:]
        terms = [
            f"np.sum(np.sin({a.text}{'.real + ' + a.text + '.imag' if a.is_complex else ''}))"
            for a in last
        ]
        self.emit(1, f"return x * {' + '.join(terms)}")
        header = "import math\nimport numpy as np\nfrom numba import njit\n\n\n@njit\n"
        return header + "\n".join([*self.lines, ""])

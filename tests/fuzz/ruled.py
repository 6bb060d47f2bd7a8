"""Functions with rules written by hand, exact ones, and random programs that call them.

Each rule keeps what its reverse needs in a way of its own: on the tape, in arguments that it names
in `saves` or reads as they are, in a closure, not at all. A program is the text of a module with
`program(s, t, a, b, n)`: two numbers, two arrays of four entries, and a number of iterations. It
calls the functions with whole arrays, views, new arrays and numbers, in loops and branches, and
writes into the arrays between the calls and their reverse.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

import activerules as ar
from activerules.chainrules import rrule, scalar_rule
from fuzz.writer import Writer

# --- numbers ---


@njit
def curve(x, y):
    return math.sin(x) * math.cos(y)


@ar.augmented_primal(curve)
def curve_augmented(config, ret: ar.Active, x: ar.Active, y: ar.Active):
    return ar.AugmentedReturn(curve(x.val, y.val), None, (math.cos(x.val), math.sin(y.val)))


@ar.reverse(curve)
def curve_reverse(config, dret: ar.Active, tape, x: ar.Active, y: ar.Active):
    cosine, sine = tape
    return dret.val * cosine * math.cos(y.val), -dret.val * math.sin(x.val) * sine


@ar.forward(curve)
def curve_forward(config, ret: ar.Duplicated, x: ar.Duplicated, y: ar.Duplicated):
    by_x, by_y = math.cos(x.val) * math.cos(y.val), -math.sin(x.val) * math.sin(y.val)
    return curve(x.val, y.val), by_x * x.dval + by_y * y.dval


@njit
def squash(x):
    return x / (1.0 + x * x)


scalar_rule(squash, lambda y, x: ((1.0 - x * x) / (1.0 + x * x) ** 2,))


# --- arrays as results ---


@njit
def blend(a, w):
    return math.tanh(w) * np.sin(a)


@ar.augmented_primal(blend)
def blend_augmented(config, ret: ar.Duplicated, a: ar.Duplicated, w: ar.Active):
    result = blend(a.val, w.val)
    return ar.AugmentedReturn(result, np.zeros_like(result), a.val.copy())


@ar.reverse(blend)
def blend_reverse(config, dret: ar.Duplicated, tape, a: ar.Duplicated, w: ar.Active):
    ar.accumulate(a, dret.dval * math.tanh(w.val) * np.cos(tape))
    return None, np.sum(dret.dval * np.sin(tape)) * (1.0 - math.tanh(w.val) ** 2)


@ar.forward(blend)
def blend_forward(config, ret: ar.Duplicated, a: ar.Duplicated, w: ar.Duplicated):
    slope = (1.0 - math.tanh(w.val) ** 2) * w.dval
    tangent = math.tanh(w.val) * np.cos(a.val) * a.dval + slope * np.sin(a.val)
    return blend(a.val, w.val), tangent


@njit
def shrunk(a):
    size = np.sum(a * a)
    return a / (1.0 + size), math.tanh(size)


@ar.augmented_primal(shrunk)
def shrunk_augmented(config, ret: ar.MixedDuplicated, a: ar.Duplicated):
    small, size = shrunk(a.val)
    return ar.AugmentedReturn((small, size), (np.zeros_like(small), 0.0), size)


@ar.reverse(shrunk, saves="a")
def shrunk_reverse(config, dret: ar.MixedDuplicated, tape, a: ar.Duplicated):
    small_bar, size_bar = dret.dval
    scale = 1.0 / (1.0 + np.sum(a.val * a.val))
    by_size = size_bar * (1.0 - tape * tape) - scale * scale * np.sum(small_bar * a.val)
    ar.accumulate(a, scale * small_bar + 2.0 * by_size * a.val)


@ar.forward(shrunk)
def shrunk_forward(config, ret: ar.Duplicated, a: ar.Duplicated):
    small, size = shrunk(a.val)
    scale, size_dot = 1.0 / (1.0 + np.sum(a.val * a.val)), 2.0 * np.sum(a.val * a.dval)
    small_dot = scale * a.dval - scale * scale * size_dot * a.val
    return (small, size), (small_dot, (1.0 - size * size) * size_dot)


@njit
def rolled(a):
    return np.sin(np.roll(a, 1))


@rrule.register(rolled)
def rolled_rrule(f, a):
    slopes = np.cos(np.roll(a, 1))

    def pullback(y_bar):
        return None, np.roll(slopes * y_bar, -1)

    return rolled(a), pullback


@ar.forward(rolled)
def rolled_forward(config, ret: ar.Duplicated, a: ar.Duplicated):
    return rolled(a.val), np.cos(np.roll(a.val, 1)) * np.roll(a.dval, 1)


# --- numbers of arrays, and arrays in place ---


@njit
def energy(a):
    return 0.5 * np.sum(np.sin(a) ** 2)


@ar.augmented_primal(energy)
def energy_augmented(config, ret: ar.Active, a: ar.Duplicated):
    return ar.AugmentedReturn(energy(a.val), None, None)


@ar.reverse(energy)
def energy_reverse(config, dret: ar.Active, tape, a: ar.Duplicated):
    ar.accumulate(a, dret.val * np.sin(a.val) * np.cos(a.val))


@ar.forward(energy)
def energy_forward(config, ret: ar.Duplicated, a: ar.Duplicated):
    return energy(a.val), np.sum(np.sin(a.val) * np.cos(a.val) * a.dval)


@njit
def stir(a, b, w):
    for i in range(len(a)):
        a[i] = math.cos(a[i]) * math.tanh(w) + 0.5 * math.sin(b[i])


@ar.augmented_primal(stir)
def stir_augmented(config, ret: ar.Const, a: ar.Duplicated, b: ar.Duplicated, w: ar.Active):
    before = a.val.copy()
    stir(a.val, b.val, w.val)
    return ar.AugmentedReturn(None, None, before)


@ar.reverse(stir, saves="b")
def stir_reverse(config, dret: ar.Const, tape, a: ar.Duplicated, b: ar.Duplicated, w: ar.Active):
    w_bar = 0.0
    for i in range(len(tape)):
        w_bar += a.dval[i] * math.cos(tape[i])
        b.dval[i] += a.dval[i] * 0.5 * math.cos(b.val[i])
        a.dval[i] *= -math.sin(tape[i]) * math.tanh(w.val)
    return None, None, w_bar * (1.0 - math.tanh(w.val) ** 2)


@ar.forward(stir)
def stir_forward(config, ret: ar.Const, a: ar.Duplicated, b: ar.Duplicated, w: ar.Duplicated):
    slope = (1.0 - math.tanh(w.val) ** 2) * w.dval
    for i in range(len(a.val)):
        by_a = -math.sin(a.val[i]) * math.tanh(w.val) * a.dval[i]
        a.dval[i] = by_a + math.cos(a.val[i]) * slope + 0.5 * math.cos(b.val[i]) * b.dval[i]
    stir(a.val, b.val, w.val)


# --- programs ---

NUMBERS = ("s", "t", "a[0]", "b[2]", "a[i % 4]", "b[(i + 1) % 4]", "c[-1]")
ARRAYS = ("a", "b", "c")
CALLS_OF_NUMBERS = (
    "curve({0}, {1})", "squash({0})", "squash({0} * {1})", "energy({2})", "energy({2}[1:])",
    "energy(blend({2}, {0}))", "shrunk({2})[1]", "energy({2}[::-2])", "curve({0}, energy({2}))",
    "math.sin({0}) * {1}", "np.sum(rolled({2}))", "inside({2}, {0})",
)  # fmt: skip
CALLS_OF_ARRAYS = (
    "blend({0}, {1})", "blend({0}[::-1], {1})", "shrunk({0})[0]", "rolled({0})", "{0}.copy()",
    "{0}", "blend(rolled({0}), {1})", "0.5 * ({0} + rolled({0}))", "np.tanh({0}) * {1}",
)  # fmt: skip
PLACES = (
    "{0}[i % 4] = {1}",
    "{0}[1:] *= {1}",
    "{0}[:] = {2}",
    "{0} += {1} * {2}",
    "{0}[i % 4] += {1}",
)
STIRRED = (
    "stir({0}, {1}, {2})", "stir({0}[1:], {1}[:3], {2})", "stir({0}[::2], {1}[2:], {2})",
    "stir({0}, {1}.copy(), {2})", "stir({0}, rolled({1}), {2})", "stir({0}[::-1], {0}.copy(), {2})",
)  # fmt: skip


class RuledWriter(Writer):
    """Draws one program."""

    least = 2

    def number(self) -> str:
        """A bounded number of a call."""
        call = self.pick(CALLS_OF_NUMBERS)
        return call.format(self.pick(NUMBERS), self.pick(NUMBERS), self.pick(ARRAYS))

    def array(self) -> str:
        """An array of four entries."""
        return self.pick(CALLS_OF_ARRAYS).format(self.pick(ARRAYS), self.pick(NUMBERS))

    def statement(self, depth: int) -> None:
        """One statement."""
        self.budget -= 1
        kind = self.draw(9 if depth < 3 and self.budget > 0 else 6)
        if kind < 2:
            form = self.pick(("{} = {}", "{} += 0.5 * {}", "{} = {} - 0.3 * i"))
            self.emit(depth, form.format(self.pick(("s", "t")), self.number()))
        elif kind == 2:
            self.emit(depth, f"{self.pick(ARRAYS)} = {self.array()}")
        elif kind == 3:
            form = self.pick(PLACES)
            self.emit(depth, form.format(self.pick(ARRAYS), self.number(), self.pick(ARRAYS)))
        elif kind == 4:
            form = self.pick(STIRRED)
            self.emit(depth, form.format(self.pick(ARRAYS), self.pick(ARRAYS), self.pick(NUMBERS)))
        elif kind == 5:
            self.emit(depth, f"c, {self.pick(('s', 't'))} = shrunk({self.pick(ARRAYS)})")
        elif kind == 6:
            self.emit(depth, f"if {self.pick(NUMBERS)} > {self.pick(NUMBERS)}:")
            self.block(depth + 1)
            if self.draw(2):
                self.emit(depth, "else:")
                self.block(depth + 1)
        else:
            self.loop(depth)

    def block(self, depth: int) -> None:
        """A few statements."""
        for _ in range(1 + self.draw(3)):
            self.statement(depth)

    def loop(self, depth: int) -> None:
        """A loop over numbers or by a condition, that may end early."""
        self.names += 1
        if self.draw(3):
            self.emit(depth, f"for k{self.names} in range({self.pick(('n', '2', 'n + i'))}):")
        else:
            self.emit(depth, f"while i < {self.names} * n:")
        self.emit(depth + 1, "i += 1")
        self.block(depth + 1)
        if self.draw(3) == 0:
            self.emit(depth + 1, f"if s > {self.pick(NUMBERS)}:")
            self.emit(depth + 2, self.pick(("break", "continue", "return s * t + energy(c)")))
            self.block(depth + 1)

    def program(self) -> str:
        """The whole text."""
        self.lines = ["@njit", "def program(s, t, a, b, n):"]
        self.emit(1, "i, c = 0, a * b")
        while self.budget > 0:
            self.statement(1)
        self.emit(1, "return s + curve(t, s) + np.sum(np.sin(a) + np.cos(b) * c)")
        return "\n".join([HEADER, *self.lines, ""])


HEADER = """import math
import numpy as np
from numba import njit
from fuzz.ruled import blend, curve, energy, rolled, shrunk, squash, stir

@njit
def inside(a, w):
    b = blend(a, w)
    stir(b, a, w)
    return energy(b) + curve(b[0], w)
"""

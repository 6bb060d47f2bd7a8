"""Random structured programs, in three forms that must agree: a syntax tree, LLVM IR, and exact
forward derivatives.

A program is `double f(ptr a, ptr b, ptr index, i64 n, double x, double y)`: `a` and `b` hold
`LENGTH` doubles, `index` as many integers. Its statements are nested tuples; every array access
goes through a base (`a`, `b`, a stack array, a scratch array from malloc, or a pointer variable
that may lead to any of them) and an index that is masked to stay inside.

    ("set", k, e)  ("seti", k, i)  ("store", base, i, e)  ("setp", k, base, i)
    ("choose", k, c, base, base)  ("swap",)  ("new", k, base)
    ("copy", base, i, base, i, n)  ("clear", base, i, n)
    ("if", c, body, orelse)  ("switch", i, bodies)
    ("for", slot, (predicate, width, nsw), lo, bound, step, body)
    ("while", c, fuel, body)  ("do", c, fuel, body)
    ("break", level)  ("continue", level)  ("return", e)

More statements, idioms of other front ends, are in `program_idioms`; a `Generator` makes them if it
is asked to.

`lower` writes it as an unoptimising compiler would, with every variable in an alloca. `evaluate`
runs it on dual numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tests.ir.program_evaluation import Dual, Evaluation, TooLong
from tests.ir.program_generator import Generator
from tests.ir.program_language import LENGTH, Node
from tests.ir.program_lowering import lower

__all__ = ["LENGTH", "Generator", "Inputs", "TooLong", "evaluate", "lower", "make_inputs"]


@dataclass(frozen=True)
class Inputs:
    """Arguments of a program; `same`: `b` is `a`."""

    a: np.ndarray
    b: np.ndarray
    index: np.ndarray
    n: int
    x: float
    y: float
    same: bool


def make_inputs(seed: int, *, same: bool = False) -> Inputs:
    """Random arguments."""
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(2, LENGTH))
    index = rng.integers(0, 8, size=LENGTH)
    return Inputs(a, a if same else b, index, int(rng.integers(0, 8)), *rng.normal(size=2), same)


def evaluate(program: Node, inputs: Inputs) -> tuple[Dual, dict[str, list[Dual]]]:
    """The result and the arrays left behind, with derivatives by (a, b, x, y).

    Raises `TooLong`, or `OverflowError`, for a program that is of no use.
    """
    one = np.eye(2 * LENGTH + 2)
    a = [Dual(float(v), one[k]) for k, v in enumerate(inputs.a)]
    b = a if inputs.same else [Dual(float(v), one[LENGTH + k]) for k, v in enumerate(inputs.b)]
    arrays = {"a": a, "b": b}
    x, y = Dual(inputs.x, one[-2]), Dual(inputs.y, one[-1])
    result = Evaluation(arrays, [int(k) for k in inputs.index], inputs.n, x, y).run(program)
    return result, arrays

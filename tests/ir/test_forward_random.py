"""Random programs in forward mode: tangents of any width agree with exact derivatives, and the
reverse of the forward derivative with differences of the exact gradient.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

from tests.ir.forward_harness import Const, Duplicated
from tests.ir.harness import Compiled, _shim, compile_text
from tests.ir.random_programs import (
    LENGTH,
    Generator,
    Inputs,
    TooLong,
    evaluate,
    make_inputs,
)
from tests.ir.test_random_programs import ATTEMPTS, LARGE, differentiated

ACTIVITIES = [Duplicated, Duplicated, Const, Const, Duplicated, Duplicated]
WIDTHS = (1, 2, 3, 4, 8)


def exact_tangents(program: Any, inputs: Inputs, directions: np.ndarray) -> np.ndarray | None:
    """Of (result, a, b) along each direction of (a, b, x, y); None for a program that runs too long
    or whose numbers grow too large.
    """
    try:
        result, arrays = evaluate(program, inputs)
    except (TooLong, OverflowError):
        return None
    left = [result, *arrays["a"], *([] if inputs.same else arrays["b"])]
    if not all(abs(d.v) < LARGE and np.all(np.abs(d.t) < LARGE) for d in left):
        return None
    return np.array([[np.dot(d.t + np.zeros(2 * LENGTH + 2), v) for d in left] for v in directions])


def computed_tangents(compiled: Compiled, inputs: Inputs, directions: np.ndarray) -> np.ndarray:
    """The same, by the generated code."""
    a = inputs.a.copy()
    b = a if inputs.same else inputs.b.copy()
    shadows = [(v[:LENGTH].copy(), v[LENGTH : 2 * LENGTH].copy()) for v in directions]
    index = inputs.index.copy()
    passed: list[Any] = [a.ctypes.data, *(s[0].ctypes.data for s in shadows)]
    passed += [b.ctypes.data, *(s[0 if inputs.same else 1].ctypes.data for s in shadows)]
    passed += [index.ctypes.data, inputs.n]
    passed += [inputs.x, *directions[:, -2], inputs.y, *directions[:, -1]]
    width = len(directions)
    if width == 1:
        result = [compiled.function("f.forward")(*passed)]
    else:
        out = (ctypes.c_double * width)()
        shim = _shim(compiled, compiled.module_functions["f.forward"], len(passed))
        shim(ctypes.addressof(out), *passed)
        result = list(out)
    kept = 1 if inputs.same else 2
    return np.array([[r, *np.concatenate(s[:kept])] for r, s in zip(result, shadows, strict=True)])


@pytest.mark.parametrize("number", range(40))
def test_program(number: int) -> None:
    rng = random.Random(1000 + number)
    numbers = np.random.default_rng(number)
    same = rng.random() < 0.2
    qualifier = "" if same or rng.random() < 0.5 else "noalias "
    width = WIDTHS[number % len(WIDTHS)]
    text = None
    for _ in range(ATTEMPTS):
        program = Generator(rng).program(rng.choice([6, 10, 14, 20]))
        inputs = make_inputs(rng.randrange(1 << 30), same=same)
        directions = numbers.normal(size=(width, 2 * LENGTH + 2))
        if same:
            directions[:, LENGTH : 2 * LENGTH] = 0.0
        expected = exact_tangents(program, inputs, directions)
        if expected is None:
            continue
        text = differentiated(program, qualifier, ACTIVITIES, mode="forward", width=width)
        if text is not None:
            break
    assert text is not None, "everything is refused"
    computed = computed_tangents(compile_text(text, (None, 1, 2)[number % 3]), inputs, directions)
    np.testing.assert_allclose(
        computed, expected, rtol=1e-7, atol=1e-8 * max(1.0, np.abs(expected).max())
    )

"""Random programs: their gradients agree with exact forward derivatives, whatever control flow and
memory they use.
"""

from __future__ import annotations

import ctypes
import random
from typing import Any

import numpy as np
import pytest

from activerules.errors import FloatBitsInInteger, UnsupportedIR
from activerules.ir.foreign.differentiate import differentiate
from tests.ir.harness import Active, Compiled, Const, Duplicated, compile_text
from tests.ir.random_programs import (
    LENGTH,
    Generator,
    Inputs,
    TooLong,
    evaluate,
    lower,
    make_inputs,
)

ACTIVITIES = [Duplicated, Duplicated, Const, Const, Active, Active]
LARGE = 1e4
ATTEMPTS = 200
"""Draws until a program is well conditioned and not refused; no end would hide a refusal of all."""
COPIES = ("a copy of memory that mixes types", "memory whose type is not known", "the bits of an")


class _Pair(ctypes.Structure):
    _fields_ = (("x", ctypes.c_double), ("y", ctypes.c_double))


def expected_gradient(
    program: Any, inputs: Inputs, cotangents: list[np.ndarray], seed: float
) -> np.ndarray | None:
    """By (a, b, x, y); None for a program that runs too long or whose numbers grow too large."""
    try:
        result, arrays = evaluate(program, inputs)
    except (TooLong, OverflowError):
        return None
    left = [result, *arrays["a"], *([] if inputs.same else arrays["b"])]
    if not all(abs(d.v) < LARGE and np.all(np.abs(d.t) < LARGE) for d in left):
        return None
    weights = [seed, *np.concatenate(cotangents[: 1 if inputs.same else 2])]
    return sum(
        (w * (d.t + np.zeros(2 * LENGTH + 2)) for w, d in zip(weights, left, strict=True)),
        np.zeros(2 * LENGTH + 2),
    )


def computed_gradient(
    compiled: Compiled, inputs: Inputs, cotangents: list[np.ndarray], seed: float
) -> np.ndarray:
    """The same, by the generated code."""
    a = inputs.a.copy()
    b = a if inputs.same else inputs.b.copy()
    a_shadow = cotangents[0].copy()
    b_shadow = a_shadow if inputs.same else cotangents[1].copy()
    index = inputs.index.copy()
    prototype = ctypes.CFUNCTYPE(
        _Pair, *[ctypes.c_void_p] * 5, ctypes.c_int64, *[ctypes.c_double] * 3
    )
    gradient = prototype(compiled.engine.get_function_address("f.gradient"))
    addresses = [array.ctypes.data for array in (a, a_shadow, b, b_shadow, index)]
    pair = gradient(*addresses, inputs.n, inputs.x, inputs.y, seed)
    return np.concatenate(
        [a_shadow, np.zeros(LENGTH) if inputs.same else b_shadow, [pair.x, pair.y]]
    )


def differentiated(
    program: Any, qualifier: str, activities: Any = ACTIVITIES, **how: Any
) -> str | None:
    """The derivative; None if a copy is refused between arrays whose type nothing shows."""
    try:
        return differentiate(lower(program, qualifier), "f", activities, **how)
    except (UnsupportedIR, FloatBitsInInteger) as refused:
        if any(reason in str(refused) for reason in COPIES):
            return None
        raise


@pytest.mark.parametrize("number", range(60))
def test_program(number: int) -> None:
    rng = random.Random(number)
    numbers = np.random.default_rng(number)
    same = rng.random() < 0.2
    qualifier = "" if same or rng.random() < 0.5 else "noalias "
    text = None
    for _ in range(ATTEMPTS):
        program = Generator(rng).program(rng.choice([6, 10, 14, 20]))
        inputs = make_inputs(rng.randrange(1 << 30), same=same)
        cotangents = list(numbers.normal(size=(2, LENGTH)))
        expected = expected_gradient(program, inputs, cotangents, 0.75)
        if expected is None:
            continue
        text = differentiated(program, qualifier)
        if text is not None:
            break
    assert text is not None, "everything is refused"
    compiled = compile_text(text, (None, 1, 2)[number % 3])
    computed = computed_gradient(compiled, inputs, cotangents, 0.75)
    np.testing.assert_allclose(
        computed, expected, rtol=1e-7, atol=1e-8 * max(1.0, np.abs(expected).max())
    )

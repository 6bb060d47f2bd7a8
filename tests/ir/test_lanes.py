"""The files of `cases/`, and random programs, with several cotangents in one reverse sweep."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.ir.lanes_harness import check_lanes
from tests.ir.random_programs import LENGTH, Generator, lower, make_inputs
from tests.ir.test_differentiate_cases import FILES, read_case
from tests.ir.test_random_programs import ACTIVITIES, differentiated, expected_gradient

CASES = [path for path in FILES if read_case(path).refused is None]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda k: CASES[k].stem)
def test_case(number: int) -> None:
    case = read_case(CASES[number])
    width, opt = (2, 3, 4)[number % 3], (0, 2)[number % 2]
    check_lanes(case.text, case.function, case.activities, case.arguments, width, opt)


@pytest.mark.parametrize("number", range(15))
def test_random_program(number: int) -> None:
    """Allocations, calls that are not inlined, loops of unknown length, aliasing arguments."""
    rng = random.Random(1000 + number)
    same = rng.random() < 0.2
    text = None
    while text is None:
        program = Generator(rng).program(rng.choice([6, 10, 14]))
        inputs = make_inputs(rng.randrange(1 << 30), same=same)
        if expected_gradient(program, inputs, [np.ones(LENGTH)] * 2, 1.0) is None:
            continue
        source = lower(program, "" if same else "noalias ")
        text = source if differentiated(program, "" if same else "noalias ") else None
    a = inputs.a.copy()
    args = [a, a if same else inputs.b.copy(), inputs.index, inputs.n, inputs.x, inputs.y]
    check_lanes(text, "f", ACTIVITIES, args, (2, 3, 4)[number % 3])

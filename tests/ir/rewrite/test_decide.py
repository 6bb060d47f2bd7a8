"""Choices and remainders that are decided at compile time, in random loop nests."""

import random

import pytest

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.rewrite.decide import decide
from tests.ir.analysis.loops.test_dependence import SIZES, parsed
from tests.ir.interpreter import Interpreter
from tests.ir.nests import Nest, RangeNest


def left_by(function, sizes):
    """The memory after a run, and every integer that was computed, by name."""
    run = Interpreter(function)
    seen = {}
    run.at_value = lambda i: seen.setdefault(i.name, []).append(run.values[i])
    assert run.run([("a", 0), *sizes])
    return run.memory, seen


@pytest.mark.parametrize("kind", [Nest, RangeNest])
@pytest.mark.parametrize("block", range(4))
def test_e1_every_value_that_is_left_has_the_bits_it_had(block, kind):
    changed = 0
    for seed in range(block * 20, block * 20 + 20):
        before, after = (parsed(kind(random.Random(seed)).text) for _ in range(2))
        if not decide(after, Integers(control_flow(after), {}, after.arguments[1:])):
            continue
        changed += 1
        for sizes in SIZES:
            (memory, values), (expected, known) = left_by(after, sizes), left_by(before, sizes)
            assert memory == expected
            assert all(values[name] == known[name] for name in values.keys() & known.keys())
    assert changed

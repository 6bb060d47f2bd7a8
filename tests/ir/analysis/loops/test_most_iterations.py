"""Integers in all iterations of a loop but one, while random loop nests run."""

from __future__ import annotations

import random
from typing import Any

import pytest

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.loops.most_iterations import but_the_first, but_the_last
from activerules.ir.llvm.cfg import Loop, control_flow
from activerules.ir.llvm.model import Function, Instruction
from tests.ir.analysis.loops.test_dependence import SIZES, Watch, parsed
from tests.ir.nests import PeriodicNest


class WatchOfMost(Watch):
    """Checks T1 and T2 in innermost loops; what is said of an iteration that goes on is checked
    when the next one begins.
    """

    def __init__(self, function: Function, sizes: tuple[int, int], integers: Integers) -> None:
        inner = [loop for loop in integers.flow.loops if not loop.children]
        self.first = {loop: but_the_first(integers, loop) for loop in inner}
        self.last = {loop: but_the_last(integers, loop) for loop in inner}
        self.waiting: list[tuple[Loop, bool, Any]] = []
        self.new: set[Instruction] = set()
        super().__init__(function, sizes, integers)

    def _note(self, loop: Loop, holds: bool, what: Any, *, in_first: bool) -> None:
        if not in_first:
            self.waiting.append((loop, holds, what))
        elif self._counters()[loop]:
            assert holds, what

    def _block(self, block: Any) -> None:
        loop = self.loops.get(block)
        if loop in self.first:
            assert not self._counters()[loop] or all(w[1] for w in self.waiting), self.waiting
            self.waiting = []
        for inner, known in self._around(block):
            for p in known.facts(block):
                number = self._at(p)
                in_first = known is self.first[inner]
                self._note(inner, number is None or number >= 0, p, in_first=in_first)

    def _value(self, i: Instruction) -> None:
        if str(i.type) != "i64":
            return
        number = self.run.values[i]
        for loop, known in self._around(i.owner):
            exact, mod = self._at(known.exact(i)), self._at(known.poly(i))
            right = exact in (None, number) and (mod is None or (mod - number) % (1 << 64) == 0)
            self._note(loop, right, i.name, in_first=known is self.first[loop])
            if i in self.integers.exact(i).atoms and i not in known.exact(i).atoms:
                self.new.add(i)

    def _around(self, block: Any) -> list[tuple[Loop, Integers]]:
        loops = [loop for loop in self.first if block in loop.blocks]
        return [(loop, known[loop]) for loop in loops for known in (self.first, self.last)]


@pytest.fixture(scope="module")
def watches() -> list[WatchOfMost]:
    made: list[WatchOfMost] = []
    for seed in range(300, 310):
        function = parsed(PeriodicNest(random.Random(seed)).text)
        integers = Integers(control_flow(function), {}, function.arguments[-2:])
        made += [WatchOfMost(function, sizes, integers) for sizes in SIZES]
    return made


def test_t1_t2_polynomials_and_facts_hold_in_most_iterations(watches) -> None:
    """The watches compare them with each value, and at each block."""
    assert any(one.done and one.accesses for one in watches)
    assert len({i for one in watches for i in one.new}) > 10

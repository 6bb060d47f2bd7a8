"""Trip counts by execution: the emitted count of every kind of loop against the loop, simulated."""

from __future__ import annotations

import ctypes
import itertools
import random
from dataclasses import dataclass

import pytest

from activerules.ir.analysis.loops.trip_counts import LoopFacts, analyse_loops
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.generate.sweep import leaving_iteration
from activerules.ir.llvm.builder import Builder
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.model import Argument, Block, Function
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_function
from activerules.ir.llvm.types import I64
from tests.ir.harness import compile_text
from tests.ir.interpreter import Interpreter, signed

PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
LIMIT = 600


@dataclass(frozen=True)
class Kind:
    """One kind of loop: `first`: tested before the step; `swapped`: the bound stands left."""

    predicate: str
    step: int
    bits: int
    first: bool
    swapped: bool
    flag: str

    def text(self) -> str:
        t, flag = f"i{self.bits}", self.flag + " " if self.flag else ""
        tested = "%k" if self.first else "%k.next"
        operands = f"%bound, {tested}" if self.swapped else f"{tested}, %bound"
        return f"""
define void @f({t} %start, {t} %bound) {{
entry:
  br label %loop
loop:
  %k = phi {t} [ %start, %entry ], [ %k.next, %loop ]
  %k.next = add {flag}{t} %k, {self.step}
  %c = icmp {self.predicate} {t} {operands}
  br i1 %c, label %loop, label %end
end:
  ret void
}}
"""

    def facts(self) -> LoopFacts:
        function = parse_module(self.text()).functions["f"]
        flow = control_flow(function)
        (facts,) = analyse_loops(flow, analyse_returns(function, flow, status=False)).values()
        return facts

    def simulate(self, start: int, bound: int) -> int | None:
        """The number of the iteration that leaves; None if that takes too long or is undefined."""
        low, high = -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        k = start
        for iteration in range(LIMIT):
            after = k + self.step
            wraps = not low <= after <= high
            unsigned = k % (1 << self.bits) + self.step
            if (self.flag == "nsw" and wraps) or (
                self.flag == "nuw" and not 0 <= unsigned < 1 << self.bits
            ):
                return iteration if self.first and not self._holds(k, bound) else None
            after = (after - low) % (1 << self.bits) + low
            if not self._holds(k if self.first else after, bound):
                return iteration
            k = after
        return None

    def _holds(self, tested: int, bound: int) -> bool:
        x, y = (bound, tested) if self.swapped else (tested, bound)
        if self.predicate[0] == "u":
            x, y = x % (1 << self.bits), y % (1 << self.bits)
        return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[
            self.predicate if self.predicate in {"eq", "ne"} else self.predicate[1:]
        ]


KINDS = [
    Kind(*choice)
    for choice in itertools.product(
        PREDICATES, (1, -1, 2, -3, 5), (8, 32, 64), (True, False), (True, False), ("", "nsw", "nuw")
    )
]


@pytest.fixture(scope="module")
def counters() -> dict[Kind, ctypes._CFuncPtr]:  # type: ignore[name-defined]
    """For every kind whose count is known, a compiled function (start, bound) -> count."""
    known = [(kind, kind.facts().trip_count) for kind in KINDS]
    texts, found = [], []
    for number, (kind, count) in enumerate(known):
        if count is None:
            continue
        t = count.start.type
        start, bound = Argument("start", t), Argument("bound", t)
        block = Block("entry")
        builder = Builder(block)
        builder.ret(leaving_iteration(builder, count, start, bound))
        texts.append(print_function(Function(f"count{number}", I64, [start, bound], [block])))
        found.append((kind, f"count{number}"))
    compiled = compile_text("\n".join(texts), None)
    return {kind: compiled.function(name) for kind, name in found}


def test_t2_counts_are_the_number_of_the_leaving_iteration(counters) -> None:
    rng = random.Random(0)
    compared = 0
    for kind, count in counters.items():
        low, high = -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
        edges = [low, low + 1, low + 2, -3, -1, 0, 1, 2, 4, high - 2, high - 1, high]
        for _ in range(60):
            start = rng.choice(edges) if rng.random() < 0.5 else rng.randrange(-40, 41)
            bound = rng.choice(edges) if rng.random() < 0.5 else start + rng.randrange(-30, 31)
            if not low <= bound <= high:
                continue
            expected = kind.simulate(start, bound)
            if expected is not None:
                assert count(start, bound) == expected, (kind, start, bound)
                compared += 1
    assert compared > 5000


@pytest.mark.parametrize("bits", [8, 32, 64])
@pytest.mark.parametrize(
    ("predicate", "step"), [("slt", 1), ("sgt", -1), ("ne", 1), ("ult", 1), ("sle", 1)]
)
def test_ordinary_loops_are_counted(predicate: str, step: int, bits: int, counters) -> None:
    assert Kind(predicate, step, bits, True, False, "") in counters
    assert Kind(predicate, step, bits, False, False, "nsw") in counters


def test_t1_t3_inductions_are_affine() -> None:
    """In iteration k: start + k * step, of numbers from outside the loop, modulo the width."""
    for step, begin, bound in ((5, -7, 40), (-3, 50, -2), (1, (1 << 63) - 3, 2)):
        predicate = "slt" if begin < bound else "sgt"
        function = parse_module(Kind(predicate, step, 64, True, False, "").text()).functions["f"]
        flow = control_flow(function)
        returns = analyse_returns(function, flow, status=False)
        ((loop, facts),) = analyse_loops(flow, returns).items()
        ((phi, induction),) = facts.inductions.items()
        assert induction.constant_step == step
        count = facts.trip_count
        outside = [induction.start, induction.step]
        outside += [] if count is None else [count.start, count.bound]
        assert not any(getattr(v, "parent", None) in loop.blocks for v in outside)
        run = Interpreter(function)
        seen: list[int] = []
        run.at_value = lambda i, phi=phi, run=run, seen=seen: (
            seen.append(run.values[i]) if i is phi else None
        )
        assert run.run([begin, bound], limit=60) or len(seen) > 50
        assert seen == [signed(begin + k * step) for k in range(len(seen))]
        assert len(seen) > 1


@pytest.mark.parametrize(
    "line", ["mul i64 %k, 3", "add i64 %k, %k", "xor i64 %k, 1", "sub i64 %bound, %k"]
)
def test_values_that_are_not_affine_are_no_inductions(line: str) -> None:
    text = Kind("slt", 1, 64, True, False, "").text().replace("add i64 %k, 1", line)
    function = parse_module(text).functions["f"]
    flow = control_flow(function)
    (facts,) = analyse_loops(flow, analyse_returns(function, flow, status=False)).values()
    assert not facts.inductions
    assert facts.trip_count is None

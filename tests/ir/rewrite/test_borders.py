"""The outcomes of comparisons in the first, the last and all other iterations, by execution."""

from __future__ import annotations

from collections import Counter

import pytest

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.loops.trip_counts import analyse_loops
from activerules.ir.analysis.returns import analyse_returns
from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction
from activerules.ir.llvm.parser import parse_module
from activerules.ir.normal import normal_form
from activerules.ir.rewrite.borders import Border, border_of
from activerules.ir.text.normalise import canonical, simple_loops
from tests.ir.interpreter import Interpreter
from tests.ir.rewrite.test_peel import BORDERS, CASES, clamped, loop, nest

CLAMPED = [("smax", "%before", "0"), ("smin", "%final", "%next"), ("umin", "%next", "%final")]
TEXTS = [
    *(loop(*case) for case in CASES if case[2] == "false"),
    *map(nest, BORDERS.values()),
    *(clamped(*case) for case in CLAMPED),
]


def border_in(text: str) -> tuple[Interpreter, Border]:
    module = parse_module(simple_loops(canonical(text)))
    function = module.functions["f"]
    normal_form.tidy(function)
    run = Interpreter(function)
    flow = run.flow = control_flow(function)
    returns = analyse_returns(function, flow, status=False)
    facts, integers = analyse_loops(flow, returns), Integers(flow, module.types)
    (border,) = filter(None, (border_of(one, facts, returns, integers) for one in flow.loops))
    return run, border


def holds(run: Interpreter, i: Instruction, outcome: bool) -> bool:
    """Whether a comparison has just had an outcome; see `Integers.outcome`."""
    if i.opcode == "icmp":
        return run.values[i] == outcome
    chosen = i.operands[0 if outcome else 1]
    return run.values[i] == run.values.get(chosen, integer_of(chosen))


@pytest.mark.parametrize("text", TEXTS)
def test_b1_the_outcomes_are_those_that_are_given(text: str) -> None:
    run, border = border_in(text)
    seen: Counter[str] = Counter()
    for n in range(1, 6):

        def note(i: Instruction, n: int = n) -> None:
            at = run.counters.get(border.loop)
            part, known = "inside", border.inside
            if at == n - 1 and border.last is not None:
                part, known = "last", border.last
            if at == 0 and border.first is not None:
                part, known = "first", border.first
            if i in known:
                seen[part] += 1
                assert holds(run, i, known[i])

        run.at_value = note
        assert run.run([("x", 0), ("y", 0), n])
    assert seen["inside"]
    assert seen["first"] or seen["last"]


@pytest.mark.parametrize("text", TEXTS)
def test_b2_the_loop_ends_at_its_bound(text: str) -> None:
    run, border = border_in(text)
    for n in range(1, 6):
        assert run.run([("x", 0), ("y", 0), n])
        assert run.counters[border.loop] == n - 1
        assert border.latch.successors.count(border.after) == 1

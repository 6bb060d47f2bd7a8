"""Integers as polynomials, while random loop nests run."""

from __future__ import annotations

import random

import pytest

from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.llvm.cfg import Loop, control_flow
from activerules.ir.llvm.model import Argument, Instruction
from tests.ir.analysis.loops.test_dependence import SIZES, Watch, parsed
from tests.ir.nests import Nest, RangeNest


@pytest.fixture(
    scope="module",
    params=[(kind, seed) for kind in (Nest, RangeNest) for seed in range(100, 106)],
    ids=lambda param: f"{param[0].__name__}-{param[1]}",
)
def analysed(request: pytest.FixtureRequest):
    kind, seed = request.param
    function = parsed(kind(random.Random(seed)).text)
    flow = control_flow(function)
    return function, Integers(flow, {}, function.arguments[1:])


def test_i1_i2_i3_polynomials_and_facts_hold_in_every_run(analysed) -> None:
    """The watch compares them with each value, and at each block."""
    function, integers = analysed
    runs = [Watch(function, sizes, integers) for sizes in SIZES]
    assert any(run.done and run.accesses for run in runs)


def test_i4_atoms_are_values_and_loops(analysed) -> None:
    function, integers = analysed
    whole = [i for i in function.instructions() if str(i.type) == "i64"]
    atoms = {a for i in whole for p in (integers.poly(i), integers.exact(i)) for a in p.atoms}
    assert atoms
    for atom in atoms:
        assert isinstance(atom, Loop | Argument | Instruction)
        if isinstance(atom, Instruction):
            assert atom in set(function.instructions())

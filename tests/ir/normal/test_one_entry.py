"""Cycles that are entered at several places, on random graphs: walked before and after."""

import random

import pytest

from activerules.ir.llvm.cfg import control_flow
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.parser import parse_module
from activerules.ir.llvm.printer import print_function
from activerules.ir.normal.one_entry import enter_once
from tests.ir.llvm.graphs import function_of, random_graph

STEPS = 60


def walked(function, names, seed):
    """The blocks of the program that run, where each of its branches is drawn."""
    rng = random.Random(seed)
    values, before, block, seen = {}, None, function.entry, []
    while len(seen) < STEPS:
        phis = list(block.phis)
        chosen = [phi.operands[phi.blocks.index(before)] for phi in phis]
        values.update(zip(phis, [values.get(v, v) for v in chosen], strict=True))
        if block.name in names:
            seen.append(block.name)
        for i in block.instructions:
            if i.opcode == "icmp":
                x, y = (integer_of(values.get(o, o)) for o in i.operands)
                assert i.attributes["predicate"] == "eq"
                values[i] = x == y
        end = block.terminator
        if end.opcode == "ret":
            return seen
        if not end.operands:
            taken = 0
        elif block.name in names:
            taken = rng.randrange(2)
        else:
            taken = 0 if values[end.operands[0]] else 1
        before, block = block, end.blocks[taken]
    return seen


def cases():
    rng = random.Random(3)
    for number in range(500):
        function = function_of(random_graph(rng, rng.randrange(3, 9)))
        yield number, print_function(function)


@pytest.fixture(scope="module")
def changed():
    """Functions before and after, where there was a cycle entered at several places."""
    found = []
    for number, text in cases():
        before, after = parse_module(text), parse_module(text)
        if enter_once(after):
            found.append((number, before.functions["f"], after.functions["f"]))
    assert len(found) > 20
    return found


def test_e1_the_same_blocks_run_in_the_same_order(changed):
    for number, before, after in changed:
        names = {block.name for block in before.blocks}
        for seed in range(5):
            assert walked(after, names, seed) == walked(before, names, seed), number


def test_e2_every_cycle_is_a_natural_loop(changed):
    for _, _, after in changed:
        control_flow(after)  # refuses any other

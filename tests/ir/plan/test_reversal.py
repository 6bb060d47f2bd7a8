"""The way back through random programs, against the blocks that ran."""

from tests.ir.bits_interpreter import CELL, BitsInterpreter, Unsupported
from tests.ir.plan.planned import random_plans
from tests.ir.random_programs import make_inputs


def traces():
    """Plans, and the blocks that ran."""
    for plan, seed in random_plans():
        inputs = make_inputs(seed)
        run = BitsInterpreter(plan.request.function)
        trace = []
        run.at_block = trace.append
        for name in ("a", "b", "index"):
            for k, number in enumerate(getattr(inputs, name).tolist()):
                run.memory[name, CELL * k] = number
        pointers = [(name, 0) for name in ("a", "b", "index")]
        try:
            done = run.run([*pointers, inputs.n, float(inputs.x), float(inputs.y)])
        except (Unsupported, OverflowError, ValueError):
            continue
        if done:
            yield plan, trace


def work_of(plan):
    """The blocks with an instruction to reverse."""
    return {i.parent for i in plan.needs}


def reverse_path(plan, trace):
    """The blocks that the reverse sweep visits, and those it passes over, by index in the trace."""
    at = len(trace) - 1
    visited, passed = [at], []
    while at:
        step = plan.reversal.steps[trace[at]]
        target = step.targets[0]
        if len(step.targets) > 1:
            loop = plan.flow.loop_of(trace[at])
            if loop is not None and trace[at] is loop.header:
                sources = (loop.preheader, loop.latch)
            else:
                sources = plan.returns.predecessors[trace[at]]
            target = step.targets[list(sources).index(trace[at - 1])]
        before = at - 1
        while trace[before] is not target:
            passed.append(before)
            before -= 1
        at = before
        visited.append(at)
    return visited, passed


def test_v1_blocks_with_work_are_visited_in_the_opposite_order():
    compared = 0
    for plan, trace in traces():
        visited, passed = reverse_path(plan, trace)
        assert not any(trace[k] in work_of(plan) for k in passed)
        assert visited == sorted(visited, reverse=True)
        compared += len(visited)
    assert compared > 100


def test_v2_loops_without_work_are_passed_over():
    idle = 0
    for plan, trace in traces():
        visited, _ = reverse_path(plan, trace)
        came_by = {trace[k] for k in visited}
        for loop in plan.flow.loops:
            if loop not in plan.reversal.loops:
                assert not loop.blocks & work_of(plan)
                assert not loop.blocks & came_by
                idle += 1
    assert idle


def test_v3_what_precedes_a_block_was_passed_in_the_same_iteration():
    compared = 0
    for plan, trace in traces():
        visited = [trace[k] for k in reverse_path(plan, trace)[0]]
        order, loop_of = plan.reversal.order, plan.flow.loop_of
        passed = {}  # by the loops around it, what was passed in their present iterations
        before = None
        for block in visited:
            around = list(loop_of(block).ancestors()) if loop_of(block) else []
            for loop in around:
                if before not in loop.blocks or (before is loop.header and block is loop.latch):
                    for inner in plan.flow.loops:
                        if loop in inner.ancestors():
                            passed[inner] = set()
            here = passed.setdefault(loop_of(block), set())
            preceding = {one for one in plan.reversal.reached if order.precedes(one, block)}
            assert preceding <= here
            compared += len(preceding)
            here.add(block)
            before = block
    assert compared > 50


def test_v4_loops_and_blocks_are_in_the_order_of_the_text():
    for plan, _ in random_plans():
        at = {block: k for k, block in enumerate(plan.flow.order)}
        for blocks in (plan.reversal.reached, [loop.header for loop in plan.reversal.loops]):
            assert [*blocks] == sorted(blocks, key=at.get)
    assert any(len(plan.reversal.loops) > 1 for plan, _ in random_plans())

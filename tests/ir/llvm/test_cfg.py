"""Control flow against brute force on random graphs: C1 to C3."""

from __future__ import annotations

import random

import pytest

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.cfg import ControlFlow, control_flow
from tests.ir.llvm.graphs import function_of, random_graph, reachable


def _cases() -> list[tuple[dict[int, list[int]], ControlFlow | None]]:
    rng = random.Random(1)
    made = []
    for _ in range(400):
        graph = random_graph(rng, rng.randrange(3, 10))
        try:
            made.append((graph, control_flow(function_of(graph))))
        except UnsupportedIR:
            made.append((graph, None))
    return made


CASES = _cases()
ACCEPTED = [(graph, flow) for graph, flow in CASES if flow is not None]


def _number(block) -> int:
    return int(block.name[1:])


def _dominates(graph: dict[int, list[int]], a: int, b: int) -> bool:
    return a == b or b not in reachable(graph, 0, without=a)


def test_c1_order_is_a_reverse_postorder_of_reachable_blocks() -> None:
    for graph, flow in ACCEPTED:
        numbers = [_number(block) for block in flow.order]
        assert set(numbers) == reachable(graph, 0)
        assert numbers[0] == 0
        place = {n: k for k, n in enumerate(numbers)}
        for a in numbers:
            for b in numbers:
                assert not (a != b and _dominates(graph, a, b)) or place[a] < place[b]


def test_dominators() -> None:
    for graph, flow in ACCEPTED:
        for a in flow.order:
            for b in flow.order:
                assert flow.dominates(a, b) == _dominates(graph, _number(a), _number(b))


def test_predecessors_are_the_reachable_ones() -> None:
    for graph, flow in ACCEPTED:
        for block in flow.order:
            expected = {n for n in reachable(graph, 0) if _number(block) in graph[n]}
            assert {_number(p) for p in flow.predecessors[block]} == expected


def test_c2_loops_are_natural() -> None:
    for graph, flow in ACCEPTED:
        back = {(a, b) for a in reachable(graph, 0) for b in graph[a] if _dominates(graph, b, a)}
        assert {_number(loop.header) for loop in flow.loops} == {b for _, b in back}
        for loop in flow.loops:
            header = _number(loop.header)
            tails = {a for a, b in back if b == header}
            body = {header} | {
                n
                for n in reachable(graph, 0) - {header}
                if tails & reachable(graph, n, without=header)
            }
            assert {_number(block) for block in loop.blocks} == body


def test_nesting() -> None:
    for _, flow in ACCEPTED:
        for block in flow.order:
            around = [loop for loop in flow.loops if block in loop.blocks]
            inner = flow.loop_of(block)
            assert (inner.depth if inner else 0) == len(around)
            assert set(around) == (set(inner.ancestors()) if inner else set())


def _is_reducible(graph: dict[int, list[int]]) -> bool:
    """Without the edges to dominators, no cycle is left."""
    nodes = reachable(graph, 0)
    rest = {n: [t for t in graph[n] if not _dominates(graph, t, n)] for n in nodes}
    return all(n not in set().union(*(reachable(rest, t) for t in rest[n]), set()) for n in nodes)


def test_c3_irreducible_cycles_are_refused_and_nothing_else() -> None:
    for graph, flow in CASES:
        assert (flow is not None) == _is_reducible(graph)
    assert any(flow is None for _, flow in CASES)


def test_message_names_the_blocks() -> None:
    graph = {0: [1, 2], 1: [2, 3], 2: [1], 3: []}
    with pytest.raises(UnsupportedIR, match="N7"):
        control_flow(function_of(graph))

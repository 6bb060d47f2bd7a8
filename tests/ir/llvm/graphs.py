"""Random control-flow graphs as functions of the engine's IR."""

from __future__ import annotations

import random

from activerules.ir.llvm.model import Function
from activerules.ir.llvm.parser import parse_module


def random_graph(rng: random.Random, count: int) -> dict[int, list[int]]:
    """Successors of `count` nodes, at most two each; the last has none, none leads to node 0."""
    graph = {k: rng.sample(range(1, count), rng.choice([1, 2])) for k in range(count - 1)}
    graph[count - 1] = []
    return graph


def function_of(graph: dict[int, list[int]]) -> Function:
    """A function whose blocks b0, b1, ... branch as the graph says, on its one parameter."""
    lines = ["define void @f(i1 %c) {"]
    for node, targets in graph.items():
        lines.append(f"b{node}:")
        match targets:
            case []:
                lines.append("  ret void")
            case [one]:
                lines.append(f"  br label %b{one}")
            case [one, other]:
                lines.append(f"  br i1 %c, label %b{one}, label %b{other}")
    return parse_module("\n".join([*lines, "}"])).functions["f"]


def reachable(graph: dict[int, list[int]], start: int, without: int | None = None) -> set[int]:
    """Nodes on paths from `start` that avoid `without`."""
    if start == without:
        return set()
    seen, work = {start}, [start]
    while work:
        for target in graph[work.pop()]:
            if target not in seen and target != without:
                seen.add(target)
                work.append(target)
    return seen

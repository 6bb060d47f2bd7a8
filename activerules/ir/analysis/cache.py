"""Cache plan: what the tape keeps and what the reverse sweep recomputes, by a minimum cut.

Needs       the nodes the reverse sweep needs; per node a recipe, a size in bytes, the loop depth at
            which it is computed, and that at which it is kept
Gives       CachePlan, frozen: `kept` (on the tape), and `computed`, each with the nodes from which
            it is recomputed
Invariants  K1  every needed node is at hand, kept, or computed from nodes for which K1 holds
            K2  a node with no recipe is kept if it is needed or used in a computation
            K3  no other choice has a lower total cost of weighted bytes and recomputation (the cut
                is minimal)
Source      Moses and Churavy (2020), Enzyme, sec. 3.4 (minimum cut for the cache); Dinic (1970)

The graph has two vertices per node, joined by an edge whose capacity is the cost of keeping it; an
edge from the source to a node has the cost of recomputing it (infinite if that is impossible); a
needed node is joined to the sink. Costs inside loops are multiplied by `LOOP_WEIGHT` per level.
What is kept further out than it is computed is still read there: that costs what a load costs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from activerules.ir.analysis.nodes import Node, Recipe

LOOP_WEIGHT = 16.0
RELOAD_COST = 0.25
_NEVER = 1e18
_DEEPEST = 8


@dataclass(frozen=True, eq=False)
class CachePlan:
    """What the tape keeps and what the reverse computes again: result of `plan_cache`."""

    needed: frozenset[Node]
    kept: frozenset[Node]
    computed: Mapping[Node, tuple[Node, ...]]


def plan_cache(
    needed: Iterable[Node],
    recipe: Callable[[Node], Recipe],
    size: Callable[[Node], int],
    depth: Callable[[Node], int],
    kept_at: Callable[[Node], float],
) -> CachePlan:
    """Choose what to keep, by one maximum flow on the nodes that the needed ones depend on."""
    needed = frozenset(needed)
    recipes = _closure(needed, recipe)
    network, source = _network(needed, recipes, size, depth, kept_at)
    reachable = network.reachable(source)
    kept: set[Node] = set()
    computed: dict[Node, tuple[Node, ...]] = {}
    work, seen = list(needed), set(needed)
    while work:
        node = work.pop()
        how = recipes[node]
        cut = network.vertex((node, 0)) in reachable and network.vertex((node, 1)) not in reachable
        if how.cost is None or cut:
            kept.add(node)
            continue
        computed[node] = how.operands
        new = [operand for operand in how.operands if operand not in seen]
        seen.update(new)
        work += new
    return CachePlan(needed, frozenset(kept), MappingProxyType(computed))


def _network(
    needed: frozenset[Node],
    recipes: dict[Node, Recipe],
    size: Callable[[Node], int],
    depth: Callable[[Node], int],
    kept_at: Callable[[Node], float],
) -> tuple[_Network, int]:
    """The graph of the module docstring with a maximum flow in it, and its source."""
    network = _Network()
    source, sink = network.vertex("source"), network.vertex("sink")
    for node, how in recipes.items():
        weight = LOOP_WEIGHT ** min(depth(node), _DEEPEST)
        kept = LOOP_WEIGHT ** min(kept_at(node), _DEEPEST)
        below, above = network.vertex((node, 0)), network.vertex((node, 1))
        if how.cost is None:
            network.edge(source, below, _NEVER)
        elif how.cost:
            network.edge(source, below, how.cost * weight)
        if how.cost is None or how.operands or how.cost:
            read = RELOAD_COST * weight if kept < weight else 0.0
            network.edge(below, above, max(size(node), 0.5) * kept + read)
        for operand in how.operands:
            network.edge(network.vertex((operand, 1)), below, _NEVER)
        if node in needed:
            network.edge(above, sink, _NEVER)
    network.saturate(source, sink)
    return network, source


def _closure(needed: frozenset[Node], recipe: Callable[[Node], Recipe]) -> dict[Node, Recipe]:
    recipes: dict[Node, Recipe] = {}
    work = list(needed)
    while work:
        node = work.pop()
        if node not in recipes:
            recipes[node] = recipe(node)
            work.extend(recipes[node].operands)
    return recipes


class _Network:
    """A flow network with Dinic's algorithm; vertices are made on demand."""

    def __init__(self) -> None:
        self.index: dict[object, int] = {}
        self.out: list[list[int]] = []
        self.head: list[int] = []
        self.residual: list[float] = []

    def vertex(self, key: object) -> int:
        """The number of the vertex that stands for `key`."""
        if key not in self.index:
            self.index[key] = len(self.out)
            self.out.append([])
        return self.index[key]

    def edge(self, tail: int, head: int, capacity: float) -> None:
        """Add an edge and its reverse, which has no capacity, as numbers 2k and 2k + 1."""
        for end, left in ((head, capacity), (tail, 0.0)):
            self.out[tail if end == head else head].append(len(self.head))
            self.head.append(end)
            self.residual.append(left)

    def saturate(self, source: int, sink: int) -> None:
        """Send a maximum flow."""
        while (level := self._levels(source)).get(sink) is not None:
            cursor = [0] * len(self.out)
            while self._augment(source, sink, level, cursor):
                pass

    def _levels(self, source: int) -> dict[int, int]:
        level = {source: 0}
        work = deque([source])
        while work:
            vertex = work.popleft()
            for edge in self.out[vertex]:
                if self.residual[edge] > 1e-9 and self.head[edge] not in level:
                    level[self.head[edge]] = level[vertex] + 1
                    work.append(self.head[edge])
        return level

    def _augment(self, source: int, sink: int, level: dict[int, int], cursor: list[int]) -> bool:
        """Push flow along one path of the level graph."""
        path: list[int] = []
        vertex = source
        while vertex != sink:
            edges = self.out[vertex]
            while cursor[vertex] < len(edges):
                edge = edges[cursor[vertex]]
                if self.residual[edge] > 1e-9 and level.get(self.head[edge]) == level[vertex] + 1:
                    break
                cursor[vertex] += 1
            if cursor[vertex] < len(edges):
                path.append(edges[cursor[vertex]])
                vertex = self.head[path[-1]]
            elif path:
                edge = path.pop()
                vertex = self.head[edge ^ 1]
                cursor[vertex] += 1
            else:
                return False
        amount = min(self.residual[edge] for edge in path)
        for edge in path:
            self.residual[edge] -= amount
            self.residual[edge ^ 1] += amount
        return True

    def reachable(self, source: int) -> set[int]:
        """The source's side of the minimum cut: vertices reachable by edges with capacity left."""
        return set(self._levels(source))

"""Control flow: predecessors, dominators and the loop forest of a function.

Gives       ControlFlow, frozen; computed once from a Function and valid as long as its blocks do
            not change
Invariants  C1  `order` is a reverse postorder of the reachable blocks: a block comes after its
                dominators
            C2  loops are natural loops; a header dominates every block of its loop
            C3  an irreducible graph, with a cycle that has two entries, is refused
Source      Cooper, Harvey, Kennedy (2001), A simple, fast dominance algorithm
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from activerules.errors import UnsupportedIR
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Block, Function, Instruction, Value


@dataclass(eq=False)
class Loop:
    """A natural loop in loop-simplify form: one preheader, one latch, exits of its own."""

    header: Block
    blocks: set[Block]
    parent: Loop | None = None
    children: list[Loop] = field(default_factory=lambda: [])
    preheader: Block | None = None
    latch: Block | None = None

    @property
    def depth(self) -> int:
        """1 for an outermost loop."""
        return 1 + (self.parent.depth if self.parent else 0)

    def ancestors(self) -> Iterator[Loop]:
        """The loop itself, then its parents outwards."""
        loop: Loop | None = self
        while loop is not None:
            yield loop
            loop = loop.parent

    def exit_edges(self) -> list[tuple[Block, Block]]:
        """Edges (inside, outside), in the order of the text."""
        function = self.header.parent
        assert function is not None
        return [
            (block, target)
            for block in function.blocks
            if block in self.blocks
            for target in block.successors
            if target not in self.blocks
        ]

    def __repr__(self) -> str:
        return f"<loop {self.header.name}>"


@dataclass(frozen=True, eq=False)
class ControlFlow:
    """Facts about the graph of one function; see the module docstring for invariants."""

    order: tuple[Block, ...]
    predecessors: dict[Block, list[Block]]
    idom: dict[Block, Block | None]
    position: dict[Block, int]
    loops: tuple[Loop, ...]
    innermost: dict[Block, Loop | None]
    _reached: dict[tuple[Block, Block | None], set[Block]] = field(default_factory=lambda: {})

    @cached_property
    def users(self) -> Mapping[Value, list[Instruction]]:
        """The instructions that have a value as an operand, in order."""
        users: dict[Value, list[Instruction]] = {}
        for block in self.order:
            for i in block.instructions:
                for operand in dict.fromkeys(i.operands):
                    users.setdefault(operand, []).append(i)
        return users

    def dominates(self, a: Block, b: Block) -> bool:
        """Whether every path from the entry to `b` passes `a` (reflexive)."""
        step: Block | None = b
        while step is not None and self.position[step] > self.position[a]:
            step = self.idom[step]
        return step is a

    def loop_of(self, block: Block) -> Loop | None:
        """The innermost loop that holds `block`."""
        return self.innermost.get(block)

    def reachable(self, start: Block, without: Block | None) -> set[Block]:
        """The blocks reachable from the end of `start` on paths that avoid `without`."""
        key = (start, without)
        if key not in self._reached:
            seen = closure(
                start.successors, lambda block: () if block is without else block.successors
            )
            self._reached[key] = seen if without is start else seen - {without}
        return self._reached[key]


def control_flow(function: Function) -> ControlFlow:
    """Compute the facts. Raises `UnsupportedIR` (N7) on an irreducible cycle."""
    order = reverse_postorder(function.entry)
    position = {block: k for k, block in enumerate(order)}
    predecessors: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for target in block.successors:
            if block not in predecessors[target]:
                predecessors[target].append(block)
    idom = immediate_dominators(order, predecessors)
    facts = ControlFlow(tuple(order), predecessors, idom, position, (), {})
    loops = _loops(function, facts)
    innermost: dict[Block, Loop | None] = dict.fromkeys(order)
    for loop in sorted(loops, key=lambda loop: -len(loop.blocks)):
        loop.parent = innermost[loop.header]
        for block in loop.blocks:
            innermost[block] = loop
    for loop in loops:
        if loop.parent is not None:
            loop.parent.children.append(loop)
    loops.sort(key=lambda loop: position[loop.header])
    return ControlFlow(tuple(order), predecessors, idom, position, tuple(loops), innermost)


def control_flow_if_reducible(function: Function) -> ControlFlow | None:
    """Like `control_flow`; None for a function that is refused if it is to be differentiated."""
    try:
        return control_flow(function)
    except UnsupportedIR:
        return None


def reverse_postorder(entry: Block) -> list[Block]:
    """The reachable blocks, each before its successors, except along back edges."""
    return postorder(entry, lambda block: block.successors)[::-1]


def postorder(start: Block, targets_of: Callable[[Block], Iterable[Block]]) -> list[Block]:
    """The blocks reachable from `start`, each after its successors, except along back edges."""
    order: list[Block] = []
    seen = {start}
    stack = [(start, iter(targets_of(start)))]
    while stack:
        block, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(targets_of(target))))
                break
        else:
            order.append(block)
            stack.pop()
    return order


def immediate_dominators(
    order: list[Block], predecessors: dict[Block, list[Block]]
) -> dict[Block, Block | None]:
    """The closest dominator of each block of `order`, a reverse postorder; None for the first."""
    position = {block: k for k, block in enumerate(order)}
    idom: dict[Block, Block] = {order[0]: order[0]}

    def meet(a: Block, b: Block) -> Block:
        while a is not b:
            while position[a] > position[b]:
                a = idom[a]
            while position[b] > position[a]:
                b = idom[b]
        return a

    changed = True
    while changed:
        changed = False
        for block in order[1:]:
            known = [p for p in predecessors[block] if p in idom]
            best = known[0]
            for other in known[1:]:
                best = meet(best, other)
            if idom.get(block) is not best:
                idom[block] = best
                changed = True
    return {**idom, order[0]: None}


def _loops(function: Function, facts: ControlFlow) -> list[Loop]:
    loops: dict[Block, Loop] = {}
    for block in facts.order:
        for target in block.successors:
            if facts.position[target] > facts.position[block]:
                continue
            if not facts.dominates(target, block):
                raise UnsupportedIR(
                    what=f"N7: the control flow of {function.name} is irreducible",
                    why=f"the cycle through blocks {target.name} and {block.name} is entered "
                    "in more than one block",
                    instead=["write the loop with `while` or `for`, without jumps into its middle"],
                )
            loop = loops.setdefault(target, Loop(target, {target}))
            loop.latch = block if loop.latch is None else loop.latch
            _collect(loop, block, facts)
    for loop in loops.values():
        outside = [p for p in facts.predecessors[loop.header] if p not in loop.blocks]
        loop.preheader = outside[0] if len(outside) == 1 else None
    return list(loops.values())


def _collect(loop: Loop, tail: Block, facts: ControlFlow) -> None:
    """Add to `loop` the blocks that reach `tail` without passing the header."""
    work = [tail]
    while work:
        block = work.pop()
        if block not in loop.blocks:
            loop.blocks.add(block)
            work.extend(facts.predecessors[block])

"""Reversed control flow: the successors of each block in the reverse sweep.

Needs       ControlFlow, Returns, and the blocks that hold work (an instruction to reverse)
Gives       Reversal, frozen: per live block its successors in the sweep, and how one is chosen;
            `used_across_blocks`: the values whose cotangents are summed in several blocks
Invariants  V1  the reverse sweep visits the blocks that hold work in exactly the opposite order of
                the primal
            V2  a region (a loop, the arms of an `if`) without work is skipped as a whole, and costs
                neither tape nor time
            V3  a block that precedes another was passed in the same iteration of all loops around
                the two, whichever way the sweep came
            V4  loops and blocks are in the order of the text, the same in every process
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from activerules.ir.analysis.returns import Returns
from activerules.ir.llvm.cfg import ControlFlow, Loop, immediate_dominators, postorder
from activerules.ir.llvm.model import Block, Function, Instruction, Value


@dataclass(frozen=True, eq=False)
class Decision:
    """A choice between the predecessors of a join, made by conditions of the primal.

    It is a binary tree with blocks as leaves.
    """

    condition: Value
    if_true: Decision | Block
    if_false: Decision | Block

    def conditions(self) -> list[Value]:
        """All conditions in the tree."""
        conditions = [self.condition]
        for branch in (self.if_true, self.if_false):
            if isinstance(branch, Decision):
                conditions += branch.conditions()
        return conditions


@dataclass(frozen=True, eq=False)
class Step:
    """The step back from a block: one target, or one per live predecessor and a decision.

    Without a decision (None), the predecessor is read from the tape (`Taken`). A target is the
    predecessor itself, or an earlier block if the blocks between hold no work.
    """

    targets: tuple[Block, ...]
    decision: Decision | None = None


@dataclass(frozen=True, eq=False)
class Reversal:
    """Frozen result of `plan_reversal`: the loops and blocks the reverse sweep walks through."""

    steps: dict[Block, Step]
    loops: tuple[Loop, ...]
    reached: tuple[Block, ...]
    order: Precedence


@dataclass(frozen=True, eq=False)
class Precedence:
    """The dominator tree of the reverse sweep: which blocks it has always passed when it comes to a
    block (V3). `last` numbers the blocks in postorder, `first` is the least number in the subtree
    of a block.
    """

    flow: ControlFlow
    first: dict[Block, int]
    last: dict[Block, int]

    def precedes(self, a: Block, b: Block) -> bool:
        """Whether the sweep passed `a` before it comes to `b`, both in the same innermost loop."""
        inside = self.first[a] <= self.last[b] < self.last[a]
        return inside and self.flow.loop_of(a) is self.flow.loop_of(b)


def plan_reversal(
    flow: ControlFlow, returns: Returns, work: Collection[Block], joins: Collection[Block]
) -> Reversal:
    """Follow the steps back from the return block to the entry.

    `joins` are the blocks with active phis.
    """
    loops = tuple(loop for loop in flow.loops if any(b in work for b in loop.blocks))
    finder = _StepFinder(flow, returns, frozenset(work), frozenset(joins), loops)
    steps: dict[Block, Step] = {}
    todo = [returns.exit]
    while todo:
        block = todo.pop()
        if block not in steps:
            steps[block] = finder.step(block)
            todo.extend(steps[block].targets)
    reached = tuple(block for block in flow.order if block in steps)
    return Reversal(steps, loops, reached, _precedence(flow, returns.exit, steps))


def _precedence(flow: ControlFlow, start: Block, steps: dict[Block, Step]) -> Precedence:
    """The dominators of the sweep, without edges from one iteration to another."""
    targets = {block: _targets_in_iteration(flow, block, step) for block, step in steps.items()}
    order = postorder(start, targets.__getitem__)[::-1]
    sources: dict[Block, list[Block]] = {block: [] for block in order}
    for block in order:
        for target in dict.fromkeys(targets[block]):
            sources[target].append(block)
    idom = immediate_dominators(order, sources)
    children: dict[Block, list[Block]] = {block: [] for block in order}
    for block, dominator in idom.items():
        if dominator is not None:
            children[dominator].append(block)
    last = {block: k for k, block in enumerate(postorder(start, children.__getitem__))}
    first: dict[Block, int] = {}
    for block, number in last.items():
        first[block] = min([number, *(first[child] for child in children[block])])
    return Precedence(flow, first, last)


def _targets_in_iteration(flow: ControlFlow, block: Block, step: Step) -> list[Block]:
    """The targets of a step, without the step to the previous iteration of a loop: a block that the
    sweep has passed in one iteration it has not yet passed in the next. In its place, the latch of
    a loop is a target where the sweep enters the loop.

    An edge around a loop from where it is entered (`Plan.passed_over`) would change no dominators.
    """
    loop = flow.loop_of(block)
    if loop is not None and block is loop.header:
        return [step.targets[0]]
    predecessors = list(step.targets)
    for target in step.targets:
        inner = flow.loop_of(target)
        around = inner.ancestors() if inner is not None else ()
        predecessors += [left.latch for left in around if left.latch and block not in left.blocks]
    return predecessors


@dataclass(frozen=True)
class _StepFinder:
    flow: ControlFlow
    returns: Returns
    work: frozenset[Block]
    joins: frozenset[Block]
    loops: tuple[Loop, ...]

    def step(self, block: Block) -> Step:
        predecessors = self.returns.predecessors.get(block, ())
        loop = self.flow.loop_of(block)
        if loop is not None and block is loop.header:
            assert loop.preheader is not None
            assert loop.latch is not None
            return Step((loop.preheader, loop.latch))
        if len(predecessors) > 1 and block not in self.joins:
            dominator = self.flow.idom[block]
            assert dominator is not None
            if self._idle_between(dominator, block):
                return Step((self._over_idle_loops(dominator, block),))
        targets = tuple(self._over_idle_loops(p, block) for p in predecessors)
        if block not in self.joins and len(set(targets)) == 1:
            return Step(targets[:1])
        return Step(targets, self._decide(block) if len(targets) > 1 else None)

    def _over_idle_loops(self, target: Block, block: Block) -> Block:
        """`target`, or the preheader of the outermost idle loop around it without `block`."""
        loop = self.flow.loop_of(target)
        best = target
        while loop is not None and block not in loop.blocks:
            if loop not in self.loops:
                assert loop.preheader is not None
                best = loop.preheader
            loop = loop.parent
        return best

    def _idle_between(self, dominator: Block, block: Block) -> bool:
        """Whether no block between a join and its immediate dominator holds work, and control
        leaves no loop with work between them.
        """
        loop = self.flow.loop_of(dominator)
        while loop is not None and block not in loop.blocks:
            if loop in self.loops:
                return False
            loop = loop.parent
        seen: set[Block] = set()
        todo = [p for p in self.flow.predecessors[block] if p is not dominator]
        while todo:
            reached = todo.pop()
            if reached in seen:
                continue
            if reached in self.work:
                return False
            seen.add(reached)
            todo.extend(p for p in self.flow.predecessors[reached] if p is not dominator)
        return True

    def _decide(self, block: Block) -> Decision | None:
        """The decision tree of a join; None if there is none.

        Loops between the dominator and the join must have a single exit.
        """
        dominator = self.flow.idom[block]
        if dominator is None or self.flow.loop_of(dominator) is not self.flow.loop_of(block):
            return None
        decision = self._follow(dominator, block, 0)
        return decision if isinstance(decision, Decision) else None

    def _follow(self, at: Block, join: Block, depth: int) -> Decision | Block | None:
        """The decision between the paths from `at` to `join`; a block if there is one path."""
        after = self._after_loop(at, join)
        if depth > 6 or after is None:
            return None
        at = after
        arms = [t for t in at.successors if t in self.returns.live]
        if join in arms and len(arms) == 1:
            return at
        if len(arms) == 1:
            back = self._is_back_edge(at, arms[0])
            return None if back else self._follow(arms[0], join, depth)
        branch = at.terminator
        if branch.opcode != "br" or len(arms) != 2:
            return None
        sides: list[Decision | Block | None] = []
        for arm in branch.blocks:
            if arm is join:
                sides.append(at)
            elif self._is_back_edge(at, arm):
                return None
            else:
                sides.append(self._follow(arm, join, depth + 1))
        if_true, if_false = sides
        if if_true is None or if_false is None:
            return None
        if _leaves(if_true) & _leaves(if_false):
            return if_true if if_true is if_false else None
        return Decision(branch.operands[0], if_true, if_false)

    def _after_loop(self, at: Block, join: Block) -> Block | None:
        """`at`; if it is in a loop without the join, the one target of the exits of that loop."""
        loop = self.flow.loop_of(at)
        while loop is not None and join not in loop.blocks:
            exits = {target for _, target in self.returns.exits_of(loop)}
            if len(exits) != 1 or join in exits:
                return None
            (at,) = exits
            loop = self.flow.loop_of(at)
        return at if loop is self.flow.loop_of(join) else None

    def _is_back_edge(self, source: Block, target: Block) -> bool:
        return self.flow.position[target] <= self.flow.position[source]


def _leaves(tree: Decision | Block) -> set[Block]:
    if isinstance(tree, Decision):
        return _leaves(tree.if_true) | _leaves(tree.if_false)
    return {tree}


def used_across_blocks(function: Function) -> frozenset[Value]:
    """The arguments, and the values that are used outside their block, by a phi or by a terminator:
    the code that adds to their cotangents is in several blocks.
    """
    shared: set[Value] = set(function.arguments)
    for block in function.blocks:
        for i in block.instructions:
            leaves = i.opcode == "phi" or i is block.terminator
            shared.update(
                o
                for o in i.operands
                if isinstance(o, Instruction) and (leaves or o.owner is not block)
            )
    return frozenset(shared)

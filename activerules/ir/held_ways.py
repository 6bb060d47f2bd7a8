"""The ways through a function, told apart by what is known on them.

Needs       a Function and its ControlFlow
Gives       `plain_ways`: a `Way` per block; `known_ways`: several, with the values that phis and
            branches give to what later branches go by
Invariants  W1  every run of the function follows ways: what is known on a way is so in that run
            W2  there are at most `_PER_BLOCK` ways with something known through a block

LLVM joins what an inlined function returns in phis, its status among them, and branches on them
again; the state of a generator is such a phi in the header of a loop. Where two ways through a
block hold different references, they can be told apart by that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from activerules.ir.cfg import ControlFlow
from activerules.ir.constants import number_of
from activerules.ir.model import Block, Constant, Instruction, Value
from activerules.ir.types import IntType, PointerType

_PER_BLOCK = 12
_DEEP = 6

_LOGIC = ("and", "or", "xor")


@dataclass(frozen=True)
class Way:
    """A block, and numbers that are known where it is entered by this way; 0 of a null pointer."""

    block: Block
    known: frozenset[tuple[Value, int]] = frozenset()

    def facts(self) -> dict[Value, int]:
        """The numbers that are known."""
        return dict(self.known)


@dataclass
class Ways:
    """`order`: ways before those that follow them, loops aside."""

    order: list[Way] = field(default_factory=list[Way])
    next: dict[Way, list[Way]] = field(default_factory=dict[Way, list[Way]])

    def before(self) -> dict[Way, list[Way]]:
        """The ways that lead to each."""
        found: dict[Way, list[Way]] = {way: [] for way in self.order}
        for way, targets in self.next.items():
            for target in targets:
                found[target].append(way)
        return found


def plain_ways(flow: ControlFlow) -> Ways:
    """One way through each block, with nothing known."""
    made = {block: Way(block) for block in flow.order}
    after = {made[b]: [made[t] for t in dict.fromkeys(b.successors)] for b in flow.order}
    return Ways([made[b] for b in flow.order], after)


def known_ways(flow: ControlFlow) -> Ways:
    """See the module docstring."""
    asked = _asked_at(flow)
    first = Way(flow.order[0])
    after: dict[Way, list[Way]] = {}
    through: dict[Block, int] = {}
    work = [first]
    while work:
        way = work.pop()
        if way in after:
            continue
        after[way] = []
        through[way.block] = through.get(way.block, 0) + 1
        for target in dict.fromkeys(way.block.successors):
            facts = _followed(way, target)
            if facts is None:
                continue
            known = frozenset((v, n) for v, n in facts.items() if v in asked[target])
            one = Way(target, known)
            if one not in after and through.get(target, 0) >= _PER_BLOCK:
                one = Way(target)
            after[way].append(one)
            work.append(one)
    return Ways(sorted(after, key=lambda w: flow.position[w.block]), after)


def value_on(value: Value, facts: dict[Value, int], depth: int = 0) -> int | None:
    """The number that a value is, by what is known; None if that does not follow."""
    if isinstance(value, Constant):
        number = number_of(value)
        return int(number) if isinstance(number, int) else None
    if value in facts:
        return facts[value]
    if not isinstance(value, Instruction) or depth > _DEEP:
        return None
    if value.opcode == "icmp":
        return _compared(value, facts, depth)
    if value.opcode in _LOGIC and str(value.type) == "i1":
        one, other = (value_on(o, facts, depth + 1) for o in value.operands)
        if value.opcode == "and" and 0 in (one, other):
            return 0
        if value.opcode == "or" and 1 in (one, other):
            return 1
        if one is None or other is None:
            return None
        return one ^ other if value.opcode == "xor" else one & other
    return None


def _compared(i: Instruction, facts: dict[Value, int], depth: int) -> int | None:
    one, other = (value_on(o, facts, depth + 1) for o in i.operands)
    if one is None or other is None:
        return None
    predicate: str = i.attributes["predicate"]
    if predicate[0] == "u" and min(one, other) < 0:
        return None
    match predicate[-2:]:
        case "eq":
            return int(one == other)
        case "ne":
            return int(one != other)
        case "lt":
            return int(one < other)
        case "le":
            return int(one <= other)
        case "gt":
            return int(one > other)
        case _:
            return int(one >= other)


def _assume(condition: Value, truth: int, facts: dict[Value, int], depth: int = 0) -> None:
    """Note what follows from a condition that is known."""
    if isinstance(condition, Constant) or depth > _DEEP:
        return
    facts[condition] = truth
    if not isinstance(condition, Instruction):
        return
    both = {("and", 1), ("or", 0)}
    if (condition.opcode, truth) in both:
        for part in condition.operands:
            _assume(part, truth, facts, depth + 1)
    elif condition.opcode == "icmp":
        same = condition.attributes["predicate"] == ("eq" if truth else "ne")
        number = value_on(condition.operands[1], {})
        if same and number is not None:
            facts[condition.operands[0]] = number


def _followed(way: Way, target: Block) -> dict[Value, int] | None:
    """What is known behind an edge; None if control does not go there by this way."""
    facts, branch = way.facts(), way.block.terminator
    if branch.opcode == "br" and len(branch.blocks) == 2 and len({*branch.blocks}) == 2:
        truth = int(branch.blocks[0] is target)
        known = value_on(branch.operands[0], facts)
        if known is not None and known != truth:
            return None
        _assume(branch.operands[0], truth, facts)
    taken = {phi: value_on(_taken(phi, way.block), facts) for phi in target.phis}
    for i in target.instructions:
        facts.pop(i, None)
    return facts | {phi: n for phi, n in taken.items() if n is not None}


def _taken(phi: Instruction, source: Block) -> Value:
    return phi.operands[phi.blocks.index(source)]


# --- what later branches go by ---


def _parts(value: Value, depth: int = 0) -> Iterator[Value]:
    """The values that `value_on` looks at."""
    if isinstance(value, Constant) or depth > _DEEP:
        return
    if isinstance(value.type, IntType | PointerType) and str(value.type) != "i64":
        yield value  # an i64 is a count: what is known of it in the first round is of no use
    if isinstance(value, Instruction) and value.opcode in ("icmp", *_LOGIC):
        for part in value.operands:
            yield from _parts(part, depth + 1)


def _asked_at(flow: ControlFlow) -> dict[Block, set[Value]]:
    """What later branches go by, where a block is entered, its phis included."""
    own: dict[Block, set[Value]] = {}
    for block in flow.order:
        branch = block.terminator
        two = branch.opcode == "br" and len(branch.blocks) == 2
        own[block] = set(_parts(branch.operands[0])) if two else set()
    asked: dict[Block, set[Value]] = {block: set() for block in flow.order}
    work = dict.fromkeys(reversed(flow.order))
    while work:
        block = next(iter(work))
        del work[block]
        found = set(own[block])
        for target in block.successors:
            phis = set(target.phis)
            found |= asked[target] - phis
            for phi in phis & asked[target]:
                found |= set(_parts(_taken(phi, block)))
        found -= {i for i in block.instructions if i.opcode != "phi"}
        if found != asked[block]:
            asked[block] = found
            work |= dict.fromkeys(flow.predecessors[block])
    return asked

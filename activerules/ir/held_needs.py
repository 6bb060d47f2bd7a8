"""How many references must be held at each place, read from what follows.

Needs       `Pointers`, the ways through a function (`held_ways`), the pointers that are asked for
Gives       `Needs`: `surprises`, the pointers of which nothing can be said; `rests`, what is held
            of the others and not needed, by edge; `is_held`, whether one is held at a place;
            `before`, all that is held there
Invariants  N1  where a pointer is made as many are needed as there are; so as many as are needed
                are held everywhere, if what a way does not need is dropped where it begins
            N2  of what a call returns nothing is held where it is not known to have succeeded

On a way as many are needed as are dropped or handed over to memory, less those that are taken;
before a branch as many as the way needs that needs most of them. Where a condition is a phi, that
may be a number for each of its values: it is known on the edges to the phi.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from activerules.ir.held_counts import (
    Held,
    State,
    add,
    agreed,
    assuming,
    condition_of,
    least,
    over,
    plus,
)
from activerules.ir.held_pointers import TAKES, Pointers, base_of, counted
from activerules.ir.held_ways import Way, Ways, value_on
from activerules.ir.model import Argument, Block, Constant, Instruction, Value
from activerules.ir.types import I1

_VISITS = 100
"""As often is a way looked at, on the average; then nothing is said."""


@dataclass
class Rest:
    """References that are left over on an edge, by the ways that go along it.

    kept    others are held behind it
    """

    value: Value
    source: Block
    target: Block
    held: list[tuple[Way, Held]]
    kept: bool


class Needs:
    """How many references must be held at each place, by the ways that lead on."""

    def __init__(
        self,
        pointers: Pointers,
        exit_block: Block,
        ways: Ways,
        values: set[Value],
        by_condition: bool,
    ) -> None:
        self.pointers, self.exit = pointers, exit_block
        self.ways, self.values, self.by_condition = ways, values, by_condition
        self.effects = {b: self._effects(b) for b in pointers.flow.order}
        self.entering: dict[Way, State] = {}
        self.leaving: dict[Way, State] = {}
        self.through: dict[Block, list[Way]] = {}
        self.facts = {way: way.facts() for way in ways.order}
        self._solve()

    def _effects(self, block: Block) -> list[Instruction]:
        """The instructions that change what is held, last first."""
        return [i for i in reversed(block.instructions) if i.opcode != "phi" and self._matters(i)]

    def _matters(self, i: Instruction) -> bool:
        if i in self.values or i.type == I1:
            return True
        return counted(i) in self.values or self._stored(i) is not None

    def _stored(self, i: Instruction) -> Value | None:
        """The pointer of which a store hands a reference over."""
        if i.opcode != "store" or i.operands[0] not in self.values:
            return None
        return i.operands[0] if self.pointers.hands_over(i) else None

    def _solve(self) -> None:
        """Begins with what is last, and comes back to it first: inner loops before outer ones."""
        before = self.ways.before()
        order = self.ways.order[::-1]
        rank = {way: k for k, way in enumerate(order)}
        work = [*range(len(order))]
        waiting = set(work)
        for _ in range(_VISITS * len(order)):
            if not work:
                return
            k = heappop(work)
            waiting.discard(k)
            way = order[k]
            state = self._at_end(way)
            if state is None:
                continue
            self.leaving[way] = dict(state)
            for i in self.effects[way.block]:
                self._before(i, state)
            if self.entering.get(way) != state:
                self.entering[way] = state
                for k in {rank[one] for one in before[way]} - waiting:
                    heappush(work, k)
                    waiting.add(k)
        self.entering = {}

    def _at_end(self, way: Way) -> State | None:
        """What must be held at the end of a block; None if no way on is known yet."""
        if way.block is self.exit:
            return {}
        found: list[State] = []
        for target in self.ways.next[way]:
            if target in self.entering:
                found.append(self._over(way, target))
        if not found:
            return None
        first, *others = found
        known = condition_of(way.block.terminator) if others else None
        if not self._resolves(known):
            known = None
        for other in others:
            first = agreed(first, other, known)
        return self._resolved(first, self.facts[way])

    def _resolves(self, condition: Value | None) -> bool:
        """Whether a condition may become known further up."""
        chosen = isinstance(condition, Instruction) and condition.opcode == "phi"
        return self.by_condition and (chosen or isinstance(condition, Argument))

    def _over(self, way: Way, target: Way) -> State:
        state = over(way.block, target.block, self.entering[target])
        return {v: h for v, h in state.items() if v in self.values}

    def _resolved(self, state: State, facts: dict[Value, int]) -> State:
        """With conditions that are known on a way."""
        if not facts:
            return state
        resolved: State = {}
        for value, held in state.items():
            for condition in held or ():
                truth = None if condition is None else value_on(condition, facts)
                if truth is not None and held is not None:
                    held = assuming(held, condition, bool(truth))
            add(resolved, value, held)
        return resolved

    def _before(self, i: Instruction, state: State) -> None:
        """Change what must be held behind an instruction to what must be held before it."""
        state.pop(i, None)
        if i.type == I1:
            state |= {v: None for v, other in state.items() if other and i in other}
        pointer = counted(i)
        if pointer in self.values:
            add(state, pointer, {None: -1 if i.callee_name == TAKES else 1})
        stored = self._stored(i)
        if stored is not None:
            add(state, stored, {None: 1})
        if pointer in self.values and i.callee_name == TAKES:
            held = state.get(pointer)
            if held is not None and least(held) < 0:
                state[pointer] = None

    # --- what should not be ---

    def surprises(self) -> set[Value]:
        """Pointers that are not held as often as they should be, where they are made, and what
        they become.
        """
        if not self.entering:
            return set(self.values)
        return self.pointers.becoming(self._surprises()) & self.values

    def _surprises(self) -> Iterator[Value]:
        entry = self.entering.get(self.ways.order[0], {})
        yield from (value for value, held in entry.items() if held != {})
        read: dict[tuple[Value, ...], set[Value]] = {}
        for way in self.entering:
            state = dict(self.leaving[way])
            for i in self.effects[way.block]:
                held = state.get(i, {})
                if i in self.values and held not in self.pointers.expected(i):
                    yield i
                elif held and self.pointers.success(i):
                    read.setdefault(_place_of(i), set()).add(i)
                self._before(i, state)
            for target in self.ways.next[way]:
                yield from self._made_of_nothing(way, target)
        for same in read.values():
            yield from same if len(same) > 1 else ()

    def _made_of_nothing(self, way: Way, target: Way) -> Iterator[Value]:
        """Phis of which something must be held where they are nothing in particular."""
        state = self._resolved(self.entering.get(target, {}), self.facts[target])
        for phi in target.block.phis:
            if phi in self.values and state.get(phi, {}) != {}:
                one = phi.operands[phi.blocks.index(way.block)]
                if isinstance(one, Constant):
                    if one.text != "null":
                        yield phi
                elif not self._is_there(one, way.block, target.block):
                    yield phi

    def _is_there(self, value: Value, source: Block, target: Block) -> bool:
        success = self.pointers.success(value)
        edge = success is target and self.pointers.flow.predecessors[target] == [source]
        return edge or self.pointers.is_there(value, source)

    # --- what is left over ---

    def rests(self, wrong: set[Value]) -> list[Rest]:
        """What is left over on each edge, of pointers that are held as often as they should be."""
        found: dict[tuple[Value, Block, Block], Rest] = {}
        doubt: set[tuple[Value, Block, Block]] = set()
        for way in self.ways.order:
            for target in self.ways.next[way] if way in self.leaving else ():
                if target not in self.entering:
                    continue  # it never returns
                for value, held, kept in self._left(way, target, wrong):
                    key = (value, way.block, target.block)
                    if held is None:
                        doubt.add(key)
                        continue
                    rest = found.setdefault(key, Rest(value, way.block, target.block, [], True))
                    rest.held.append((way, held))
                    rest.kept &= kept
        return [r for key, r in found.items() if key not in doubt and any(h for _, h in r.held)]

    def is_held(self, value: Value, at: Instruction) -> bool:
        """Whether a reference is held before an instruction, by whatever way that is reached."""
        found = [state.get(value, {}) for state in self.before(at)]
        return bool(found) and all(held is not None and least(held) > 0 for held in found)

    def before(self, at: Instruction) -> list[State]:
        """What is held before an instruction, by each way that leads there."""
        later = set(at.owner.instructions[at.owner.instructions.index(at) :])
        effects = [i for i in self.effects[at.owner] if i in later]
        states = [dict(self.leaving[way]) for way in self._through(at.owner)]
        for state in states:
            for i in effects:
                self._before(i, state)
        return states

    def _through(self, block: Block) -> list[Way]:
        if not self.through:
            for way in self.entering:
                self.through.setdefault(way.block, []).append(way)
        return self.through.get(block, [])

    def _left(
        self, way: Way, target: Way, wrong: set[Value]
    ) -> Iterator[tuple[Value, Held | None, bool]]:
        branch = way.block.terminator
        known = condition_of(branch)
        truth = branch.blocks[0] is target.block
        behind = self._resolved(self._over(way, target), self.facts[way])
        for value, count in self.leaving[way].items():
            if value in wrong or not self._is_there(value, way.block, target.block):
                continue
            less = behind.get(value, {})
            if count is None or less is None:
                yield value, None, False
                continue
            rest = plus(assuming(count, known, truth), assuming(less, known, truth), -1)
            if rest is None or least(rest) < 0:
                yield value, None, False
            else:
                yield value, rest, least(less) > 0


def _place_of(load: Instruction) -> tuple[Value, ...]:
    """Where a pointer is loaded from: loads of one place give one pointer."""
    place = load.operands[0]
    return (base_of(place), *([] if place is base_of(place) else [place]))

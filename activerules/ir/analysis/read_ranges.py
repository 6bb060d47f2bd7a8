"""Read ranges: what a nest of loops reads of an array that it does not write.

Needs       the Variation of a function, with its Integers, LoopFacts and MemoryFacts; its Returns
Gives       ReadRanges: `of(load)`, the ReadRange that has what a load reads
Invariants  E1  while `loop` runs once, each load that belongs to a range reads one of its entries,
                and nothing writes there
            E2  when control leaves the loop for the block `after`, the first and the last entry of
                the range have been read if all `tests` hold; otherwise no load that belongs to the
                range has run
            E3  control leaves the loop for no other block on the way to a return that succeeds
            E4  each load reads, of a box, the entry at `corner` + `skipped` + its place in the copy

`u[i + 1] - u[i]` in a loop reads each entry of `u` twice. Kept load by load, that takes two numbers
per iteration; a copy of the entries takes one. Made after the loop, it reads no memory that the
program does not read (E2), even if there are exceptions that end the loop early.
Two loads share entries if one reads what the other reads a few iterations before or after. A range
of several axes also has entries that nothing reads, between the rows that the loops traverse: at
most `_BORDER` per row. Where that is not known, the range is a `Box`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import log

from activerules.ir.analysis.cache import LOOP_WEIGHT
from activerules.ir.analysis.loops.affine import (
    Atom,
    Monomial,
    Poly,
    infeasible,
    quotient,
)
from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.analysis.repeated_loads import is_plain_load
from activerules.ir.analysis.returns import Returns
from activerules.ir.analysis.variation import Variation, changes_in, last_iteration
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import I1, size_of

_LARGEST_STRIDE = 16
_BORDER = 16
_MOST_AXES = 2

Test = Poly | tuple[Value, bool]

_Distance = frozenset[tuple[Monomial, int]]
"""The terms of a distance other than the constant."""


@dataclass(frozen=True, eq=False)
class Rows:
    """An axis of a box: `count` rows, whose first entries are `stride` entries apart in the array,
    and `pitch` in the copy.
    """

    count: Poly
    stride: Poly
    pitch: Poly


@dataclass(frozen=True, eq=False)
class Box:
    """Rows of `width` entries, of which the first begins at `corner` behind the base, and one
    follows the other in the copy.

    axes      from the innermost on
    skipped   per load: how many entries between those it reads and the corner are not in the copy
    """

    corner: Poly
    width: Poly
    axes: tuple[Rows, ...]
    skipped: Mapping[Instruction, Poly]

    def with_counters(self, counters: Mapping[Loop, Value]) -> Box:
        """The same, with values in place of the iterations of these loops in `skipped`."""

        def named(atom: Atom) -> Atom:
            return counters.get(atom, atom) if isinstance(atom, Loop) else atom

        return replace(self, skipped={k: p.rename(named) for k, p in self.skipped.items()})


@dataclass(frozen=True, eq=False)
class ReadRange:
    """The entries of `size` bytes behind `base`, from the least of `firsts` to the greatest of
    `lasts`; see the module docstring.

    tests        in the order in which the program makes them, so that one that fails hides those
                 after it: a number must not be negative, a condition be what is said
    first_load   the first of the loads that belong to it
    counters     for each loop that occurs in the numbers, a phi that is its iteration
    depth        the number of entries, expressed as a loop depth
    box          which of the entries are copied; None: all of them
    """

    loop: Loop
    after: Block
    first_load: Instruction
    base: Value
    size: int
    firsts: tuple[Poly, ...]
    lasts: tuple[Poly, ...]
    tests: tuple[Test, ...]
    counters: Mapping[Loop, Value]
    depth: float
    box: Box | None


@dataclass(frozen=True, eq=False)
class _Access:
    """A load from some entries behind `base`: `fixed`, and in each iteration of a loop its stride
    more. A stride is a single term.
    """

    load: Instruction
    base: Value
    size: int
    strides: dict[Loop, tuple[Monomial, int]]
    fixed: Poly


@dataclass(frozen=True, eq=False)
class _Runs:
    """When a block runs: for the iterations from 0 to `ends` of the loops, innermost first, if the
    `tests` hold, among which are those that no end is negative.
    """

    ends: dict[Loop, Poly]
    tests: tuple[Test, ...]


class ReadRanges:
    """The answers for one function, made on demand and memoised."""

    def __init__(self, variation: Variation, returns: Returns) -> None:
        self.variation, self.returns = variation, returns
        self.integers, self.flow = variation.integers, variation.integers.flow
        self._ranges: dict[Loop, dict[Instruction, ReadRange]] = {}

    def of(self, load: Instruction) -> ReadRange | None:
        """The smallest range that a load belongs to, of an outermost loop; None if there is none
        that another load, from another address, belongs to as well.
        """
        best: ReadRange | None = None
        innermost = self.flow.loop_of(load.owner)
        for loop in innermost.ancestors() if innermost is not None else ():
            if loop not in self._ranges:
                self._ranges[loop] = {
                    a.load: found for found, members in self._found(loop) for a in members
                }
            found = self._ranges[loop].get(load)
            if found is not None and (best is None or found.depth <= best.depth):
                best = found
        return best

    def _found(self, loop: Loop) -> Iterator[tuple[ReadRange, list[_Access]]]:
        """The ranges of a loop, and the loads that belong to them."""
        after = self._exit(loop)
        if after is None:
            return
        groups: dict[object, list[_Access]] = {}
        for block in self.flow.order:
            if block in loop.blocks and block in self.returns.live:
                for access in filter(None, (self._access(i, loop) for i in block.instructions)):
                    groups.setdefault(_motion(access), []).append(access)
        memory, dependence = self.variation.memory, self.variation.dependence
        for group in groups.values():
            if _is_shared(group) and not any(
                changes_in(a.load, loop, memory, dependence) for a in group
            ):
                found = self._range(group, loop, after)
                if found is not None:
                    yield found

    def _access(self, i: Instruction, loop: Loop) -> _Access | None:
        if not is_plain_load(i) or i.type == I1 or i.type.is_pointer:
            return None
        address = self.integers.address(i.operands[0])
        size = size_of(i.type, self.integers.named_types)
        if address is None or not is_invariant(address.base, loop):
            return None
        strides: dict[Loop, tuple[Monomial, int]] = {}
        fixed: dict[Monomial, int] = {}
        for monomial, c in address.offset.terms.items():
            inside = [atom for atom in monomial if self._varies(atom, loop)]
            if c % size:
                return None
            match inside:
                case []:
                    fixed[monomial] = c // size
                case [Loop() as inner] if inner not in strides:
                    strides[inner] = tuple(a for a in monomial if a is not inner), c // size
                case _:
                    return None
        return _Access(i, address.base, size, strides, Poly(fixed)) if strides else None

    def _varies(self, atom: Atom, loop: Loop) -> bool:
        """Whether an atom may vary while a loop runs once."""
        inner = self.integers.loop_of(atom)
        return inner is not None and inner.header in loop.blocks

    def _range(
        self, group: list[_Access], loop: Loop, after: Block
    ) -> tuple[ReadRange, list[_Access]] | None:
        """The range of loads that move alike, and those of them that belong to it."""
        runs = {b: self._runs(b, loop) for b in dict.fromkeys(a.load.owner for a in group)}
        first, when = next(
            ((a, r) for a in group if (r := runs[a.load.owner]) is not None), (None, None)
        )
        if first is None or when is None:
            return None
        extent = self._extent(first, when)
        if extent is None:
            return None
        down, up, depth, rows = extent
        certain = [a for a in group if _same(runs[a.load.owner], when)]
        reach = _extremes(certain)
        if not _are_near(reach, first.strides):
            return None
        firsts = tuple(down + Poly(dict(key)) + ends[0] for key, ends in reach.items())
        lasts = tuple(up + Poly(dict(key)) + ends[1] for key, ends in reach.items())
        members = [
            a
            for a in group
            if a in certain
            or (
                self.flow.dominates(first.load.owner, a.load.owner)
                and (_lies_between(a, reach) or any(self._is_read(a, c, when) for c in certain))
            )
        ]
        if not _is_shared(members):
            return None
        box = _box(certain, members, when, rows) if rows else None
        if rows and box is None:
            return None
        used = [*firsts, *lasts, *when.ends.values()]
        if box is not None:
            used += [box.corner, box.width, *(p for r in box.axes for p in (r.count, r.stride))]
            fixed = {a for p in box.skipped.values() for a in p.atoms} - first.strides.keys()
            used += map(Poly.atom, fixed)
        atoms = {a for p in used for a in p.atoms}
        counters = self.variation.counters(atoms, loop)
        if counters is None:
            return None
        if box is not None:
            box = box.with_counters(counters)
        found = ReadRange(
            loop, after, first.load, first.base, first.size, firsts, lasts, when.tests, counters,
            depth, box,
        )  # fmt: skip
        return found, members

    # --- when a block runs ---

    def _runs(self, block: Block, loop: Loop) -> _Runs | None:
        """When a block in a loop runs while the loop runs once; None if that is not known, or may
        depend on what the loop does.
        """
        ends: dict[Loop, Poly] = {}
        tests: list[Test] = []
        inside = self.flow.loop_of(block)
        while inside is not None and inside.latch is not None:
            last = last_iteration(inside, self.variation.facts, self.integers)
            if last is None or self._exit(inside) is None:
                return None
            while not self.flow.dominates(block, inside.latch):
                before = self.flow.idom[block]
                if before is None:
                    return None
                if inside.latch not in self.flow.reachable(before, without=block):
                    block = before
                    continue
                condition = self._condition(block, loop)
                if condition is None:
                    return None
                block, value, holds = condition
                tests.append((value, holds))
            ends[inside] = last
            tests.append(last)
            if inside is loop or inside.preheader is None:
                break
            block, inside = inside.preheader, inside.parent
        known = loop in ends and loop.preheader is not None
        return _Runs(ends, tuple(reversed(tests))) if known else None

    def _exit(self, loop: Loop) -> Block | None:
        """The block for which control leaves a loop, always at the end of an iteration."""
        match self.returns.exits_of(loop):
            case [(block, after)] if block is loop.latch:
                parent = self.flow.loop_of(after)
                only = self.flow.predecessors[after] == [block]
                return after if only and parent is loop.parent else None
            case _:
                return None

    def _condition(self, block: Block, loop: Loop) -> tuple[Block, Value, bool] | None:
        """The one block from which a block is entered, and what must hold there for that: a value
        from before the loop.
        """
        before = self.flow.predecessors[block]
        if len(before) != 1:
            return None
        branch = before[0].terminator
        if branch.opcode != "br" or len(set(branch.blocks)) != 2:
            return None
        condition = branch.operands[0]
        if not is_invariant(condition, loop):
            return None
        return before[0], condition, branch.blocks[0] is block

    # --- where the entries lie ---

    def _extent(
        self, access: _Access, when: _Runs
    ) -> tuple[Poly, Poly, float, list[Monomial]] | None:
        """How far the loops move the address down and up, the number of entries as a depth, and the
        strides of rows that have to be copied one by one.
        """
        known = [*self.integers.facts(access.load.owner), *self.variation.counted([*when.ends])]
        down = up = Poly.number(0)
        for inner, (atoms, c) in access.strides.items():
            end = when.ends[inner]
            never = [Poly.atom(inner) - end - 1, *(Poly.atom(atom) * -1 - 1 for atom in atoms)]
            if not all(infeasible([*known, p]) for p in never):
                return None
            step = Poly({atoms: c}) * end
            down, up = (down, up + step) if c > 0 else (down + step, up)
        depth = self._depth(access.strides, when, known)
        return (down, up, *depth) if depth is not None else None

    def _is_read(self, access: _Access, certain: _Access, when: _Runs) -> bool:
        """Whether what a load reads is what another one, which runs in all iterations, reads in one
        of them.
        """
        known = self.integers.facts(access.load.owner)
        for monomial, c in (access.fixed - certain.fixed).terms.items():
            inner, step = next(
                ((k, step) for k, (atoms, step) in access.strides.items() if atoms == monomial),
                (None, 1),
            )
            if inner is None or c % step:
                return False
            other = Poly.atom(inner) + c // step
            if not all(infeasible([*known, p * -1 - 1]) for p in (other, when.ends[inner] - other)):
                return False
        return True

    def _depth(
        self, strides: Mapping[Loop, tuple[Monomial, int]], when: _Runs, known: list[Poly]
    ) -> tuple[float, list[Monomial]] | None:
        """The number of entries as a loop depth, and the strides of rows, if one may be far longer
        than what is read of its row; None if hardly any entry is read.
        """
        outermost = [*when.ends][-1]
        numbers = {inner: abs(c) for inner, (atoms, c) in strides.items() if not atoms}
        if numbers and max(numbers.values()) > _LARGEST_STRIDE:
            return None
        depth = outermost.depth + (log(sum(numbers.values()), LOOP_WEIGHT) if numbers else -1.0)
        row: tuple[Monomial, int] = (), 1
        length = Poly.number(1)
        for inner, number in numbers.items():
            length += when.ends[inner] * number
        rows: list[Monomial] = []
        dense = True
        for inner in sorted(strides.keys() - numbers.keys(), key=lambda k: len(strides[k][0])):
            atoms, c = strides[inner]
            stride = quotient(atoms, row[0])
            if stride is None or c % row[1]:
                return None
            between = Poly({stride: abs(c // row[1])}) - length
            dense = dense and infeasible([*known, between - _BORDER - 1])
            rows.append(atoms)
            depth, row, length = depth + 1, (atoms, abs(c)), when.ends[inner] + 1
        return depth, [] if dense else [*dict.fromkeys(rows)]


def _box(
    certain: list[_Access], members: list[_Access], when: _Runs, apart: list[Monomial]
) -> Box | None:
    """The rows that loads read, whose strides are `apart`; None if there are too many axes.

    certain   the loads that read the borders of the range
    """
    distances = [a.fixed - Poly({m: a.fixed.terms.get(m, 0) for m in apart}) for a in certain]
    strides = certain[0].strides
    if len(apart) > _MOST_AXES or max(abs(c) for _, c in strides.values()) > _LARGEST_STRIDE:
        return None
    assert len({_without_constant(p) for p in distances}) == 1

    def reach(step: Monomial) -> tuple[Poly, Poly]:
        """How far the loops move down and up by a step."""
        moves = [when.ends[k] * c for k, (atoms, c) in strides.items() if atoms == step]
        downs = [when.ends[k] * c for k, (atoms, c) in strides.items() if atoms == step and c < 0]
        down = sum(downs, Poly.number(0))
        return down, sum(moves, Poly.number(0)) - down

    constants = [p.constant for p in distances]
    corner, width = distances[0] - distances[0].constant + min(constants), Poly.number(1)
    width += max(constants) - min(constants)
    down, up = reach(())
    corner, width = corner + down, width + up - down
    axes: list[Rows] = []
    skipped = {a.load: Poly.number(0) for a in members}
    pitch = width
    for step in apart:
        rows = [a.fixed.terms.get(step, 0) for a in certain]
        (down, up), stride = reach(step), Poly({step: 1})
        lowest = down + min(rows)
        axes.append(Rows(up - down + (max(rows) - min(rows) + 1), stride, pitch))
        corner += stride * lowest
        for a in members:
            row = Poly({(k,): c for k, (atoms, c) in strides.items() if atoms == step})
            row += a.fixed.terms.get(step, 0)
            row -= lowest
            skipped[a.load] += row * (stride - pitch)
        pitch *= axes[-1].count
    return Box(corner, width, tuple(axes), skipped)


def _motion(access: _Access) -> object:
    """What loads of one range have in common: all but how many strides they are apart."""
    steps = {atoms for atoms, _ in access.strides.values()}
    apart = frozenset((m, c) for m, c in access.fixed.terms.items() if m and m not in steps)
    return access.base, access.size, frozenset(access.strides.items()), apart


def _are_near(
    extremes: Mapping[_Distance, tuple[int, int]], strides: Mapping[Loop, tuple[Monomial, int]]
) -> bool:
    """Whether loads are at most `_BORDER` iterations of each loop apart."""
    steps = dict(strides.values())
    low = min(first for first, _ in extremes.values())
    high = max(last for _, last in extremes.values())
    (reference, *others) = map(dict, extremes)
    return high - low <= _BORDER * _LARGEST_STRIDE and all(
        abs(other.get(m, 0) - reference.get(m, 0)) <= _BORDER * abs(steps.get(m, 0))
        for other in others
        for m in other.keys() | reference.keys()
    )


def _same(runs: _Runs | None, others: _Runs) -> bool:
    """Whether two blocks run together."""
    if runs is None or len(runs.tests) != len(others.tests):
        return False
    return all(
        not (x - y).terms if isinstance(x, Poly) and isinstance(y, Poly) else x == y
        for x, y in zip(runs.tests, others.tests, strict=True)
    )


def _extremes(accesses: list[_Access]) -> dict[_Distance, tuple[int, int]]:
    """The least and the greatest constant of fixed distances that differ only in the constant."""
    extremes: dict[_Distance, tuple[int, int]] = {}
    for access in accesses:
        key, c = _without_constant(access.fixed), access.fixed.constant
        low, high = extremes.get(key, (c, c))
        extremes[key] = min(low, c), max(high, c)
    return extremes


def _lies_between(access: _Access, extremes: Mapping[_Distance, tuple[int, int]]) -> bool:
    low, high = extremes.get(_without_constant(access.fixed), (0, -1))
    return low <= access.fixed.constant <= high


def _without_constant(p: Poly) -> _Distance:
    return frozenset((m, c) for m, c in p.terms.items() if m)


def _is_shared(accesses: list[_Access]) -> bool:
    """Whether accesses are at several distances, so that they may have entries in common."""
    return len({(_without_constant(a.fixed), a.fixed.constant) for a in accesses}) > 1

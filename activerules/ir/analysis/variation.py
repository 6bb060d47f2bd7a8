"""Variation: the loops in which a value may change, and hence where it is kept.

Needs       Integers, LoopFacts and MemoryFacts of the function; the Dependence of its accesses
Gives       Variation: `loops(value)`, and `keeping(value)`: the row, or the Table, of a kept value
Invariants  W1  while a loop around `value` that is not in `loops(value)` runs once, `value` is the
                same whenever the iterations of the loops in `loops(value)` inside it are the same
            W2  in the iterations of a home, `value` is computed with one result only, or, where it
                has a Table, with one result per address
            W3  every address that is read while the loop of a Table runs is that of an entry

A value that is the same in all iterations of the innermost loop is kept once per iteration of an
outer one. Where a nest of loops reads an array that it does not write (`y[i] += a[i, j] * x[j]`),
what it reads of `x` is kept once per entry, not once per iteration of the nest. The entry is found
by the address, so that `x[i + j]`, or `j` that starts from `i`, are entries of one table as well.
What lies between the entries of one column, as the rest of a row does for `x[j, 0]`, is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import log

from activerules.ir.analysis.cache import LOOP_WEIGHT
from activerules.ir.analysis.loops.affine import Atom, Monomial, Poly, infeasible
from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.loops.trip_counts import Induction, LoopFacts, is_invariant
from activerules.ir.analysis.memory.exchanged import apart_at_once, start_of
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.repeated_loads import is_plain_load
from activerules.ir.derivatives.table import cost, is_pure_call
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.constants import integer_of
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.llvm.types import I1, I64, size_of

_LARGEST_STRIDE = 16
# in units of depth: a table that is hardly smaller than the rows is not made
_LEAST_GAIN = 0.2


def changes_in(load: Instruction, loop: Loop, memory: MemoryFacts, dependence: Dependence) -> bool:
    """Whether memory that a load in a loop reads may be written while the loop runs once."""
    size = size_of(load.type, memory.named_types)
    return any(
        write.instruction.opcode != "store"
        or not (
            _apart_in(load.operands[0], write.instruction.operands[1], loop, memory)
            or not dependence.met_in_loop(load, write.instruction, loop)
        )
        for write in memory.changes.hitting(load.operands[0], size)
        if write.instruction.owner in loop.blocks
    )


def _apart_in(p: Value, q: Value, loop: Loop, memory: MemoryFacts) -> bool:
    """Whether two pointers into memory that is chosen before a loop are to different memory."""
    chosen_before = all(is_invariant(start_of(pointer), loop) for pointer in (p, q))
    return chosen_before and apart_at_once(p, q, memory)


@dataclass(frozen=True, eq=False)
class Table:
    """What a load reads while `loop` runs once, by address: entries of `size` bytes, as many as the
    product of `counts`, from `first` entries behind `base` on.

    pointer     what the load reads from
    skipped     how many entries between `first` and the one at `pointer` are not in the table
    counters    for each loop that occurs in `first`, a phi that is its iteration
    """

    loop: Loop
    pointer: Value
    base: Value
    first: Poly
    counts: tuple[Poly, ...]
    skipped: Poly
    size: int
    counters: Mapping[Loop, Value]


@dataclass(frozen=True, eq=False)
class Keeping:
    """Where a value is kept: once per iteration of `home` (None: per call), or in a table for each.

    depth   how often it is kept, expressed as a loop depth; for a table this lies between two
    depths
    """

    home: Loop | None
    depth: float
    table: Table | None = None


class Variation:
    """The answers for one function, made on demand and memoised; see the module docstring."""

    def __init__(
        self,
        integers: Integers,
        facts: Mapping[Loop, LoopFacts],
        memory: MemoryFacts,
        dependence: Dependence,
        constant: Mapping[Instruction, Instruction | None],
    ) -> None:
        """`constant`: per load, an instruction that may write its memory later, or None."""
        self.integers, self.facts, self.memory = integers, facts, memory
        self.dependence, self.constant = dependence, constant
        self._loops: dict[Value, frozenset[Loop]] = {}
        self._keeping: dict[Instruction, Keeping] = {}

    def loops(self, value: Value) -> frozenset[Loop]:
        """The loops around a value in whose iterations it may change (W1)."""
        work = [value]
        while work:
            node = work[-1]
            if node in self._loops:
                work.pop()
                continue
            around = self._around(node)
            operands = self._operands(node) if isinstance(node, Instruction) and around else ()
            missing = [o for o in operands or () if o not in self._loops]
            if missing:
                work += missing
                continue
            self._loops[node] = self._changing(node, around, operands)
            work.pop()
        return self._loops[value]

    def _around(self, value: Value) -> list[Loop]:
        """The loops around a value, innermost first."""
        if not isinstance(value, Instruction):
            return []
        loop = self.integers.flow.loop_of(value.owner)
        return list(loop.ancestors()) if loop is not None else []

    def _operands(self, i: Instruction) -> tuple[Value, ...] | None:
        """What the value follows from, beside memory; None if that is not known."""
        if i.opcode == "phi":
            induction = self._induction(i)
            return (induction.start, induction.step) if induction is not None else None
        if i.opcode == "load":
            return tuple(i.operands) if is_plain_load(i) else None
        if i.opcode == "call":
            return tuple(i.operands) if is_pure_call(i.callee_name or "") else None
        return tuple(i.operands) if cost(i) is not None else None

    def _induction(self, phi: Instruction) -> Induction | None:
        loop = self.integers.flow.loop_of(phi.owner)
        return self.facts[loop].inductions.get(phi) if loop is not None else None

    def _changing(
        self, value: Value, around: list[Loop], operands: tuple[Value, ...] | None
    ) -> frozenset[Loop]:
        if operands is None or not around:
            return frozenset(around)
        loops = {loop for o in operands for loop in self._loops[o] if loop in around}
        if isinstance(value, Instruction) and value.opcode == "phi":
            loops.add(around[0])
        elif isinstance(value, Instruction) and value.opcode == "load":
            loops.update(self._written_in(value, around))
        return frozenset(loops)

    def _written_in(self, load: Instruction, around: list[Loop]) -> list[Loop]:
        """The loops that may change the memory a load reads: one, and all around it."""
        if load in self.constant and self.constant[load] is None:
            return []
        for k, loop in enumerate(around):
            if changes_in(load, loop, self.memory, self.dependence):
                return around[k:]
        return []

    # --- where a value is kept ---

    def keeping(self, value: Instruction) -> Keeping:
        """Where a value is kept if it is (W2)."""
        if value not in self._keeping:
            around, varies = self._around(value), self.loops(value)
            home = next((loop for loop in around if loop in varies), None)
            best = Keeping(home, home.depth if home is not None else 0)
            if value.opcode == "load" and home is not None and home is around[0]:
                written = self._written_in(value, around)
                for loop in around[1:]:
                    table = self._table(value, loop, around) if loop not in written else None
                    if table is not None and table.depth < best.depth - _LEAST_GAIN:
                        best = table
            self._keeping[value] = best
        return self._keeping[value]

    def _table(self, load: Instruction, loop: Loop, around: list[Loop]) -> Keeping | None:
        """A table for what the load reads while `loop` runs; None if its bounds are not known."""
        address = self.integers.address(load.operands[0])
        size = size_of(load.type, self.memory.named_types)
        if load.type == I1 or address is None or not is_invariant(address.base, loop):
            return None
        if any(c % size for c in address.offset.terms.values()):
            return None
        entry = Poly({m: c // size for m, c in address.offset.terms.items()})
        inside = around[: around.index(loop) + 1]
        strides = [abs(entry.coefficient(inner)) for inner in inside]
        axes = _axes(entry, inside)
        if axes is None or max(strides) > _LARGEST_STRIDE:
            return None
        known = [*self.integers.facts(load.owner), *self.counted(inside)]
        first, skipped, pitch, counts = Poly.number(0), Poly.number(0), Poly.number(1), list[Poly]()
        for stride, index in axes.items():
            bounds = self._bounds(index, inside)
            if bounds is None:
                return None
            beyond = bounds[0] - index, index - bounds[1]
            if not all(infeasible([*known, distance - 1]) for distance in beyond):
                return None
            step, (low, high) = Poly({stride: 1}), bounds
            first += step * low
            skipped += (index - low) * (step - pitch)
            counts.append(high - low + 1)
            pitch *= counts[-1]
        # strides, too, must be the same while the loop runs
        fixed = {a for p in (first, *counts, *(Poly({s: 1}) for s in axes)) for a in p.atoms}
        placed, counters = self._without_iterations(skipped, inside), self.counters(fixed, loop)
        if counters is None or placed is None:
            return None
        placed = placed.rename(lambda a: counters.get(a, a) if isinstance(a, Loop) else a)
        if any(isinstance(atom, Loop) for atom in placed.atoms):
            return None
        at = load.operands[0], address.base
        table = Table(loop, *at, first, tuple(counts), placed, size, counters)
        depth = loop.depth - 1 + len(axes) - 1
        depth += 1 + log(sum(strides), LOOP_WEIGHT) if any(strides) else 0
        return Keeping(loop.parent, depth, table)

    def _without_iterations(self, p: Poly, inside: list[Loop]) -> Poly | None:
        """A polynomial in values instead of the iterations of loops, innermost first; None if there
        is a loop without a counter.
        """
        for loop in inside:
            if loop in p.atoms:
                steps = {
                    phi: i for phi, i in self.facts[loop].inductions.items() if phi.type == I64
                }
                counter = next((phi for phi, i in steps.items() if i.constant_step == 1), None)
                if counter is None:
                    return None
                start = self.integers.poly(steps[counter].start)
                p = p.substitute(loop, Poly.atom(counter) - start)
        return p

    def _bounds(self, entry: Poly, inside: list[Loop]) -> tuple[Poly, Poly] | None:
        """What `entry` is at least and at most in the iterations of loops, innermost first; only
        likely, until it is proved.
        """
        first = last = entry
        for loop in inside:
            if loop in first.atoms | last.atoms:
                final = last_iteration(loop, self.facts, self.integers)
                if final is None:
                    return None
                first, last = at_end(first, loop, final, -1), at_end(last, loop, final, 1)
        return first, last

    def counted(self, loops: list[Loop]) -> list[Poly]:
        """The distance of each counter from the last iteration, in loops with no other exit."""
        counted = [
            loop for loop in loops if (c := self.facts[loop].trip_count) and c.predicate == "ne"
        ]
        ends = [(loop, last_iteration(loop, self.facts, self.integers)) for loop in counted]
        return [final - Poly.atom(loop) for loop, final in ends if final is not None]

    def counters(self, atoms: set[Atom], loop: Loop) -> dict[Loop, Value] | None:
        """For the loops among the atoms of polynomials, phis that are their iteration; None if not
        all atoms are known before `loop`.
        """
        counters: dict[Loop, Value] = {}
        for atom in atoms:
            if isinstance(atom, Loop):
                phi = self._counter(atom)
                if phi is None or atom not in list(loop.ancestors())[1:]:
                    return None
                counters[atom] = phi
            elif not (isinstance(atom, Value) and atom.type == I64 and is_invariant(atom, loop)):
                return None
        return counters

    def _counter(self, loop: Loop) -> Value | None:
        for phi, iv in self.facts[loop].inductions.items():
            if phi.type == I64 and integer_of(iv.start) == 0 and iv.constant_step == 1:
                return phi
        return None


def _axes(entry: Poly, inside: list[Loop]) -> dict[Monomial, Poly] | None:
    """The index of an entry along each axis, by its stride: how far loops move it. None if it does
    not vary, or not by a fixed stride.
    """
    moved: dict[Monomial, Poly] = {}
    for monomial, c in entry.terms.items():
        loops = [atom for atom in monomial if atom in inside]
        if len(loops) > 1:
            return None
        if loops:
            stride = tuple(atom for atom in monomial if atom is not loops[0])
            moved[stride] = moved.get(stride, Poly.number(0)) + Poly({(loops[0],): c})
    if not moved:
        return None
    # the first axis is along a row, and begins where the others do
    fixed = entry - sum((Poly({m: 1}) * p for m, p in moved.items()), Poly.number(0))
    return {(): fixed + moved.pop((), Poly.number(0)), **moved}


def last_iteration(loop: Loop, facts: Mapping[Loop, LoopFacts], integers: Integers) -> Poly | None:
    """The number of the iteration that leaves a loop that counts by one, modulo 2^64."""
    count = facts[loop].trip_count
    if count is None or abs(count.step) != 1 or count.start.type != I64:
        return None
    if count.predicate == "eq":
        return None
    start, bound = integers.poly(count.start), integers.poly(count.bound)
    distance = (bound - start) * count.step - (1 if count.after else 0)
    return distance + 1 if count.predicate[1:] in {"le", "ge"} else distance


def at_end(p: Poly, loop: Loop, final: Poly, sign: int) -> Poly:
    """A polynomial in the first or the last iteration of a loop, where it is greater; or, if the
    sign is -1, smaller.
    """
    rises = p.coefficient(loop) * sign > 0
    return p.substitute(loop, final if rises else Poly.number(0))

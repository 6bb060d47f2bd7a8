"""Windows: neighbouring entries that a loop loads, all but one of which it loads again.

Needs       Integers, MemoryFacts and Dependence of the function; its live instructions to reverse
Gives       `windows_of`: the Window of each load that has one
Invariants  W1  in iteration t, the loads in `arms[k]` of a Window read the entry that those in
                `arms[k + 1]` read in iteration t - 1, if both are executed
            W2  every iteration of the loop, the last included, executes each load of a Window once
            W3  while the loop runs, the shadows of what a Window reads are only added to

`b[i] = a[i - 1] + a[i] + a[i + 1]` has a window of three arms. The reverse sweep could add to the
shadow of an entry in three iterations, each of which loads and stores what the last one stored: no
vector loop can do that. It adds them up in registers instead, and to the shadow once.

By W1, the first arm may read anything in the first iteration, and the last one in the last: where
neighbours are periodic, `a[(i + 1) % n]` is such an arm.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby

from activerules.ir.analysis.loops.affine import Poly
from activerules.ir.analysis.loops.dependence import Dependence
from activerules.ir.analysis.loops.integers import Integers
from activerules.ir.analysis.loops.most_iterations import but_the_first, but_the_last
from activerules.ir.analysis.loops.trip_counts import is_invariant
from activerules.ir.analysis.memory.facts import MemoryFacts
from activerules.ir.analysis.repeated_loads import is_plain_load
from activerules.ir.analysis.variation import changes_in
from activerules.ir.derivatives.table import row_for
from activerules.ir.llvm.cfg import Loop
from activerules.ir.llvm.model import Instruction, Value

# a window of n arms takes n (n - 1) / 2 registers
_MOST_ARMS = 6


@dataclass(frozen=True, eq=False)
class Window:
    """The loads of one window in the body of `loop`, by how far ahead they read (W1)."""

    loop: Loop
    arms: tuple[tuple[Instruction, ...], ...]


def windows_of(
    integers: Integers,
    memory: MemoryFacts,
    dependence: Dependence,
    reversed_: Collection[Instruction],
) -> dict[Instruction, Window]:
    """The windows of all innermost loops, for loads among the instructions to be reversed."""
    windows: dict[Instruction, Window] = {}
    for loop in integers.flow.loops:
        inside = [i for block in loop.blocks for i in block.instructions if i in reversed_]
        if loop.children or any(i.opcode == "call" and row_for(i) is None for i in inside):
            continue  # W2, W3: a rule may read shadows
        loads = [i for i in loop.header.instructions if i in reversed_ and is_plain_load(i)]
        for arms in _rows(integers, loop, loads):
            together = [load for arm in arms for load in arm]
            if not any(changes_in(load, loop, memory, dependence) for load in together):
                windows |= dict.fromkeys(together, Window(loop, tuple(map(tuple, arms))))
    return windows


def _rows(
    integers: Integers, loop: Loop, loads: list[Instruction]
) -> Iterator[list[list[Instruction]]]:
    """Loads of one array, in lists of equal distance, where the distances have no gap."""
    lines: list[_Line] = []
    scattered: list[Instruction] = []
    for load in loads:
        if not any(line.adds(load, integers) for line in lines):
            new = _Line.through(load, loop, integers)
            lines += new
            scattered += [] if new else [load]
    after = but_the_first(integers, loop) if scattered and lines else integers
    before = but_the_last(integers, loop) if scattered and lines else integers
    for line in lines:
        arms = [[load for _, load in arm] for _, arm in groupby(line.ordered(), lambda x: x[0])]
        distances = sorted({d for d, _ in line.loads})
        start = 0
        for k in range(1, len(distances) + 1):
            gap = k == len(distances) or distances[k] > distances[k - 1] + 1
            if gap or k - start == _MOST_ARMS:
                row = arms[start:k]
                if scattered and len(row) < _MOST_ARMS - 1:
                    first = _take_loads(scattered, line, distances[start] - 1, after)
                    last = _take_loads(scattered, line, distances[k - 1] + 1, before)
                    row = [arm for arm in (first, *row, last) if arm]
                if len(row) > 1:
                    yield row
                start = k


def _take_loads(
    loads: list[Instruction], line: _Line, distance: int, integers: Integers
) -> list[Instruction]:
    """The loads from one pointer that are on a line at a distance; they are removed from `loads`.

    integers   the Integers that hold in all iterations but one
    """
    fitting = [load for load in loads if line.distance(load, integers) == distance]
    taken = [load for load in fitting if load.operands[0] is fitting[0].operands[0]]
    loads[:] = [load for load in loads if load not in taken]
    return taken


@dataclass(eq=False)
class _Line:
    """Loads whose addresses differ by multiples of the step from one iteration to the next."""

    base: Value
    offset: Poly
    step: Poly
    loads: list[tuple[int, Instruction]]

    @staticmethod
    def through(load: Instruction, loop: Loop, integers: Integers) -> list[_Line]:
        """The line through what a load reads; none if its address is not affine in the loop."""
        address = integers.address(load.operands[0])
        if address is None or not is_invariant(address.base, loop):
            return []
        step = address.offset.substitute(loop, Poly.atom(loop) + 1) - address.offset
        varying = {a for a in address.offset.atoms if integers.loop_of(a) is loop} - {loop}
        if varying or loop in step.atoms or not step.terms:
            return []
        return [_Line(address.base, address.offset, step, [(0, load)])]

    def adds(self, load: Instruction, integers: Integers) -> bool:
        """Add a load if it is on this line."""
        distance = self.distance(load, integers)
        if distance is not None:
            self.loads.append((distance, load))
        return distance is not None

    def distance(self, load: Instruction, integers: Integers) -> int | None:
        """How far a load is from the first on this line, in steps; None if it is not on it."""
        address = integers.address(load.operands[0])
        if address is None or address.base is not self.base or load.type != self.loads[0][1].type:
            return None
        return _multiple(address.offset - self.offset, self.step)

    def ordered(self) -> list[tuple[int, Instruction]]:
        """The loads by their distance from the first, in steps."""
        return sorted(self.loads, key=lambda x: x[0])


def _multiple(p: Poly, step: Poly) -> int | None:
    """The number that `step` has to be multiplied by to give `p`, if there is one."""
    if not p.terms:
        return 0
    monomial, c = next(iter(step.terms.items()))
    k = p.terms.get(monomial, 0) // c
    return None if (p - step * k).terms else k

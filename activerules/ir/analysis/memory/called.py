"""A call of a function of the module: its summary in terms of the caller's memory.

Needs       the call; what its operands point to; the summaries of the module's functions
Gives       CalledMemory, frozen
Invariants  C1  pointer operands of different groups point to no common object
            C2  `apart` is True only if no objects of different groups overlap
            C3  `reads` and `writes` have every object of the caller that the callee may read or
                write
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from activerules.ir.analysis.memory.callee import FRESH, CalleeMemory, Groups, Summaries, Summary
from activerules.ir.analysis.memory.objects import MemoryObject, overlap
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Instruction, Value

ObjectsOf = Callable[[Value], Iterable[MemoryObject]]
Pointees = Callable[[MemoryObject], Iterable[MemoryObject]]


@dataclass(frozen=True, eq=False)
class CalledMemory:
    """What a call reads and writes.

    direct    per group, the objects that its operands point to
    deep      per group, the objects reachable from there through pointers
    reached   all objects reachable from the operands
    apart     objects of different groups do not overlap
    """

    call: Instruction
    groups: Groups
    apart: bool
    summary: Summary
    direct: dict[int, frozenset[MemoryObject]]
    deep: dict[int, frozenset[MemoryObject]]
    reached: frozenset[MemoryObject]

    def at(self, region: CalleeMemory) -> frozenset[MemoryObject]:
        """The memory objects that a region of the summary denotes at this call."""
        if region.root == FRESH:
            return frozenset([MemoryObject("result", self.call)])
        if isinstance(region.root, int):
            return (self.deep if region.deep else self.direct)[region.root]
        global_memory = MemoryObject("global", region.root)
        return frozenset([MemoryObject("loaded", global_memory) if region.deep else global_memory])

    def all_at(self, regions: Iterable[CalleeMemory]) -> frozenset[MemoryObject]:
        """The objects of several regions; all reachable ones if the callee calls unknown code."""
        objects = {o for region in regions for o in self.at(region)}
        if self.summary.everything:
            objects |= self.reached
        return frozenset(objects)

    @property
    def reads(self) -> frozenset[MemoryObject]:
        """The memory objects that the callee may read."""
        return self.all_at(self.summary.reads)

    @property
    def writes(self) -> frozenset[MemoryObject]:
        """The memory objects that the callee may write."""
        return self.all_at(self.summary.writes)

    @property
    def fresh(self) -> MemoryObject:
        """The memory it may have allocated and returned."""
        return MemoryObject("result", self.call)

    def hands_on(self, memory: MemoryObject, pointees: Pointees) -> bool:
        """Whether the callee may return or store a pointer to this object that it found."""
        if self.summary.everything:
            return memory in self.reached
        handed_on = {*self.summary.returns, *(pointee for _, pointee in self.summary.stores)}
        found = (o for region in handed_on if region.root != FRESH for o in self.at(region))
        copied = (o for _, source in self.summary.copies for o in self.at(source))
        return memory in found or any(memory in pointees(o) for o in copied)

    def group(self, operand: int) -> frozenset[MemoryObject]:
        """The objects of the group an operand belongs to."""
        number = self.groups[operand]
        return frozenset() if number is None else self.direct[number]


def called_memory(
    call: Instruction, objects: ObjectsOf, pointees: Pointees, summaries: Summaries, disjoint: bool
) -> CalledMemory:
    """Group the operands of a call by the memory they reach, and look up its summary."""
    points = {k: frozenset(objects(o)) for k, o in enumerate(call.operands) if o.type.is_pointer}
    groups = _grouped(points)
    direct = {
        g: frozenset(o for k in points if groups[k] == g for o in points[k])
        for g in set(groups.values())
    }
    deep = {
        g: frozenset(closure((pointee for o in group for pointee in pointees(o)), pointees))
        for g, group in direct.items()
    }
    numbers = tuple(groups.get(k) for k in range(len(call.operands)))
    addresses = [o for k in call.operands if k.type.is_int for o in objects(k)]
    everything = closure([*addresses, *(o for group in direct.values() for o in group)], pointees)
    apart = not any(
        overlap(a, b, disjoint)
        for g, first in direct.items()
        for h, second in direct.items()
        if g < h
        for a in first
        for b in second
    )
    summary = summaries.summary(call, numbers, apart)
    return CalledMemory(call, numbers, apart, summary, direct, deep, frozenset(everything))


def _grouped(points: dict[int, frozenset[MemoryObject]]) -> dict[int, int]:
    """Number the operands so that operands which may point to a common object, directly or through
    other operands, have the same number.

    Different objects that may overlap do not join groups: `apart` says so to the callee.
    """
    groups = {k: k for k in points}
    for k in points:
        for earlier in points:
            if earlier >= k:
                break
            if groups[earlier] != groups[k] and not points[earlier].isdisjoint(points[k]):
                low, high = sorted((groups[earlier], groups[k]))
                groups = {n: low if g == high else g for n, g in groups.items()}
    return groups

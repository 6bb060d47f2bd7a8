"""Pointees: what the pointers of a function point to, and what is reached through them.

Needs       what `points_to` has solved; the writes of the function; its ControlFlow
Gives       `Pointees`, frozen: objects(pointer), pointees(object), reached(call), escaping(value)
Invariants  M1 and M4 of `facts`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from activerules.ir.analysis.memory.called import CalledMemory
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.memory.points_to import (
    Tables,
    objects_of_constant,
    pointees_in,
    reached_by,
    source_loads,
)
from activerules.ir.analysis.memory.writes import Write
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.closure import closure
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.normal.effects import language
from activerules.ir.normal.promises import touches_memory


@dataclass(frozen=True, eq=False, kw_only=True)
class Pointees:
    """What pointers point to.

    copy_sources      per object, those whose bytes, of whatever type, are copied to it
    integer_sources   per object, those from which integers that may be pointers are moved to it
    called            the calls of functions of the module
    readers           marked calls that store pointers only in the memory they write, with that
                      memory (M4)
    """

    points_to: Mapping[Value, frozenset[MemoryObject]]
    contents: Mapping[MemoryObject, frozenset[MemoryObject]]
    copy_sources: Mapping[MemoryObject, frozenset[MemoryObject]]
    integer_sources: Mapping[MemoryObject, frozenset[MemoryObject]]
    tables: Tables
    called: Mapping[Instruction, CalledMemory]
    readers: Mapping[Instruction, frozenset[MemoryObject]]
    writes: tuple[Write, ...]
    flow: ControlFlow

    def objects(self, pointer: Value) -> frozenset[MemoryObject]:
        """What `pointer` may point to; empty for null and undef."""
        return self.points_to.get(pointer) or objects_of_constant(pointer)

    def pointees(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """What pointers stored in `memory` may point to."""
        pointees = pointees_in(
            memory, self.contents, self.copy_sources, self.integer_sources, self.tables
        )
        return frozenset(pointees)

    def copied_with(self, memory: MemoryObject) -> frozenset[MemoryObject]:
        """The objects joined to this one by copies, in either direction; itself included."""
        return frozenset(closure([memory], lambda o: self._copy_neighbours.get(o, ())))

    @cached_property
    def _copy_neighbours(self) -> dict[MemoryObject, set[MemoryObject]]:
        neighbours: dict[MemoryObject, set[MemoryObject]] = {}
        for target, sources in self.copy_sources.items():
            for source in sources:
                neighbours.setdefault(target, set()).add(source)
                neighbours.setdefault(source, set()).add(target)
        return neighbours

    def reachable_from(self, pointer: Value) -> frozenset[MemoryObject]:
        """All memory reachable from a pointer, directly or through stored pointers."""
        return frozenset(closure(self.objects(pointer), self.pointees))

    def reached(self, call: Instruction) -> frozenset[MemoryObject]:
        """All memory that a called function can reach: through its operands, through globals, and
        through pointers stored in memory that this function did not allocate.
        """
        if not touches_memory(call):
            return frozenset()
        through_operands = frozenset(reached_by(call, self.objects, self.pointees))
        if call.callee_name in language().confined:
            return through_operands
        return through_operands | self._exposed

    @cached_property
    def _exposed(self) -> frozenset[MemoryObject]:
        """Globals, and memory reachable through pointers in memory not allocated here."""
        written = {o for w in self.writes for o in self.written_by(w)}
        known = {o for o in self.all_objects | written if o.kind == "global"}
        known |= {p for o in self.contents if not o.is_local for p in self.pointees(o)}
        return frozenset(closure(known, self.pointees))

    def is_always_new(self, memory: MemoryObject) -> bool:
        """Whether control gets new memory for an object whenever it passes its site: a call may
        instead return what it returned earlier, if it reaches that through its operands.
        """
        return memory not in self._returned_again

    @cached_property
    def _returned_again(self) -> frozenset[MemoryObject]:
        results = (o for o in self.all_objects if o.kind == "result")
        return frozenset(
            o
            for o in results
            if isinstance(o.key, Instruction) and self._may_return_again(o.key, o)
        )

    def _may_return_again(self, call: Instruction, memory: MemoryObject) -> bool:
        called = self.called.get(call)
        if called is not None:
            return called.hands_on(memory, self.pointees)
        # the first two operands of a marked call lead to its result
        return call not in self.readers and any(
            memory in self.reachable_from(operand) for operand in call.operands[2:]
        )

    def stored_into(self, call: Instruction) -> frozenset[MemoryObject]:
        """Where a call may store pointers."""
        own = self.readers.get(call)
        return self.reached(call) if own is None else own

    def read_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may read when it is called here."""
        return self.called[call].reads | self._reached_unseen(call)

    def changed_by(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may write when it is called here."""
        return self.called[call].writes | self._reached_unseen(call)

    def _reached_unseen(self, call: Instruction) -> frozenset[MemoryObject]:
        """What a function of the module may reach by calling unknown functions."""
        return self.reached(call) if self.called[call].summary.everything else frozenset()

    def written_by(self, write: Write) -> frozenset[MemoryObject]:
        """The objects a write may change; not those of a write with `everything`."""
        return write.objects.union(*map(self.objects, write.pointers))

    def origins(self, value: Value) -> set[Instruction]:
        """The loads that an integer comes from, those of memory to which it was copied included."""
        return closure(source_loads(value), self._stored_from)

    def _stored_from(self, load: Instruction) -> Iterator[Instruction]:
        """The loads of integers that are stored in memory that a load reads."""
        read = self.objects(load.operands[0])
        for store, sources in self._integer_copies:
            if not read.isdisjoint(self.objects(store.operands[1])):
                yield from sources

    @cached_property
    def _integer_copies(self) -> list[tuple[Instruction, list[Instruction]]]:
        """The stores of integers that were loaded, with the loads."""
        instructions = (i for block in self.flow.order for i in block.instructions)
        stores = [i for i in instructions if i.opcode == "store" and i.operands[0].type.is_int]
        return [(i, loads) for i in stores if (loads := source_loads(i.operands[0]))]

    def escaping(self, returned: Value | None) -> frozenset[MemoryObject]:
        """Memory this function allocated that is still reachable after it has returned."""
        outside = [o for o in self.contents if not o.is_local]
        start = [*outside, *(self.objects(returned) if returned is not None else ())]
        reached = closure(start, self._stored_in)
        return frozenset(o for o in reached if o.kind in {"allocation", "result"})

    def handed_over(self, holders: Iterable[MemoryObject]) -> frozenset[MemoryObject]:
        """Memory reachable through pointers that the function stored in `holders`."""
        start = {p for o in holders for p in self._stored_in(o)}
        return frozenset(closure(start, self._stored_in))

    def _stored_in(self, memory: MemoryObject) -> Iterable[MemoryObject]:
        return self.contents.get(memory, ())

    @cached_property
    def callers(self) -> frozenset[MemoryObject]:
        """Memory the caller can reach after the return: its own, and what was stored there."""
        outside = {o for o in self.all_objects if o.kind in {"argument", "loaded"}}
        return frozenset(outside) | self.handed_over(outside)

    @cached_property
    def all_objects(self) -> frozenset[MemoryObject]:
        """Every object that some pointer of the function may point to."""
        return frozenset(o for objects in self.points_to.values() for o in objects) | frozenset(
            self.contents
        ).union(*(c.reached for c in self.called.values()))

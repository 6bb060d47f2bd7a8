"""Changes: which writes may change memory, and when.

Needs       `Aliasing` of a function in normal form
Gives       `Changes`: overwritten(load), hitting(pointer), writes_of(instruction); `instances`;
            `stored`, the objects to which pointers are stored
Invariants  M3 of `facts`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from activerules.ir.analysis.memory.aliasing import Aliasing
from activerules.ir.analysis.memory.instances import Instances
from activerules.ir.analysis.memory.objects import MemoryObject, root
from activerules.ir.analysis.memory.writes import Write
from activerules.ir.llvm.model import Block, Instruction, Value
from activerules.ir.llvm.types import size_of


@dataclass(frozen=True, eq=False)
class Changes:
    """What the writes of a function change in its memory."""

    memory: Aliasing
    _writes_to: dict[frozenset[MemoryObject], tuple[Write, ...]] = field(default_factory=lambda: {})

    def overwritten(self, instruction: Instruction, pointer: Value, size: int | None) -> bool:
        """M3: whether memory at `pointer` may change between `instruction` and the return.

        With `split`, between `instruction` and the reverse sweep: the caller may write in between.
        """
        return self.written_by_callers(pointer) or any(self.overwriting(instruction, pointer, size))

    def written_by_callers(self, pointer: Value) -> bool:
        """Whether callers may write memory at `pointer` before the reverse sweep runs."""
        objects = self.memory.objects(pointer)
        if self.memory.caller.split and not self.memory.callers.isdisjoint(objects):
            return True
        return any(self.memory.caller.clobbered(root(o)) for o in objects)

    def overwriting(
        self, instruction: Instruction, pointer: Value, size: int | None
    ) -> Iterator[Write]:
        """The writes that may change memory at `pointer` between `instruction` and the return."""
        for write in self.hitting(pointer, size):
            avoided = self._renewed_in(write, instruction, pointer)
            if self._follows(instruction, write.instruction, avoided):
                yield write

    def group_overwritten(self, call: Instruction, group: int) -> bool:
        """Whether memory a callee reaches through a group of pointers may change after it."""
        called = self.memory.called[call]
        return self._any_overwritten(call, called.direct[group] | called.deep[group])

    def container_overwritten(self, call: Instruction, pointer: Value) -> bool:
        """Whether memory a marked call can reach through a pointer may change after it."""
        objects = self.memory.reachable_from(pointer)
        return (
            self.memory.caller.split and not self.memory.callers.isdisjoint(objects)
        ) or self._any_overwritten(call, objects)

    def _any_overwritten(self, call: Instruction, objects: Iterable[MemoryObject]) -> bool:
        return any(self.memory.caller.clobbered(root(o)) for o in objects) or any(
            self._follows(call, w.instruction, [None]) for w in self._changing(frozenset(objects))
        )

    def _overlaps(self, some: Iterable[MemoryObject], others: Iterable[MemoryObject]) -> bool:
        others = tuple(others)
        return any(self.memory.may_overlap(a, b) for a in some for b in others)

    def _follows(
        self, start: Instruction, end: Instruction, avoided: Iterable[Block | None]
    ) -> bool:
        """Whether `end` may run after `start`, on a path that avoids one of the blocks `avoided`
        (None: on any path).
        """
        avoided = tuple(avoided)
        if not avoided:
            return False
        a, b = start.owner, end.owner
        if a is b and a.instructions.index(start) < a.instructions.index(end):
            return True
        return any(b in self.memory.flow.reachable(a, block) for block in avoided)

    def hitting(self, pointer: Value, size: int | None) -> Iterator[Write]:
        """The writes that may change memory at `pointer`, at any time."""
        return (
            w for w in self._changing(self.memory.objects(pointer)) if self.hits(w, pointer, size)
        )

    def _changing(self, objects: frozenset[MemoryObject]) -> tuple[Write, ...]:
        """The writes that may change any of these objects."""
        if objects not in self._writes_to:
            self._writes_to[objects] = tuple(
                write
                for write in self.memory.writes
                if write.everything or self._overlaps(objects, self.memory.written_by(write))
            )
        return self._writes_to[objects]

    def hits(self, write: Write, pointer: Value, size: int | None) -> bool:
        """Whether a write may change memory at `pointer`."""
        if write.everything or self._overlaps(self.memory.objects(pointer), write.objects):
            return True
        return any(self.memory.may_alias(pointer, size, q, write.size) for q in write.pointers)

    @cached_property
    def _by_instruction(self) -> dict[Instruction, list[Write]]:
        writes: dict[Instruction, list[Write]] = {}
        for write in self.memory.writes:
            writes.setdefault(write.instruction, []).append(write)
        return writes

    def writes_of(self, instruction: Instruction) -> list[Write]:
        """What an instruction may write."""
        return self._by_instruction.get(instruction, [])

    def _renewed_in(
        self, write: Write, instruction: Instruction, pointer: Value
    ) -> Iterator[Block | None]:
        """Per object at `pointer` that is written: the block of its site if the write can change
        only its newest instance, which is another one after the site; else None. Nothing for an
        object of which `instruction` accesses an older instance.
        """
        if write.everything:
            yield None
            return
        written = self.memory.written_by(write)
        for o in self.memory.objects(pointer):
            for target in written:
                if self.memory.may_overlap(o, target):
                    site = self._site_of_newest(write, o) if o == target else None
                    if site is None or not self.instances.is_older(pointer, o, instruction):
                        yield site

    def is_older(self, load: Instruction, o: MemoryObject) -> bool:
        """Whether a load reads only what the site of an object no longer allocated last."""
        is_older = self.instances.is_older(load.operands[0], o, load)
        return is_older and self.memory.is_always_new(o)

    def _site_of_newest(self, write: Write, o: MemoryObject) -> Block | None:
        """The block of the site of `o`, if a write can change only its newest instance."""
        if o.kind not in {"allocation", "result"} or not isinstance(o.key, Instruction):
            return None
        pointers = write.pointers
        if o in write.objects:
            if o in self.stored:
                return None
            pointers = (*pointers, *write.instruction.operands)
        newest = all(self.instances.is_newest(p, o) for p in pointers)
        return o.key.owner if newest and self.memory.is_always_new(o) else None

    @cached_property
    def stored(self) -> frozenset[MemoryObject]:
        """The objects to which pointers are stored in memory."""
        return frozenset[MemoryObject]().union(*self.memory.contents.values())

    @cached_property
    def instances(self) -> Instances:
        """Which pointers point to the newest object of an allocation site."""
        return Instances(self.memory.flow, self.memory.objects, self._writers)

    def _writers(self, load: Instruction) -> Iterator[Instruction]:
        """The instructions that may write, at any time, memory that a load reads."""
        size = size_of(load.type, self.memory.named_types)
        return (write.instruction for write in self.hitting(load.operands[0], size))

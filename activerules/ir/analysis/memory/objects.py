"""Memory objects: the regions of memory that the analyses distinguish.

Objects are: each group of pointer parameters that belong to one argument, each alloca, each
allocation site (a new object every time the site is passed), the fresh memory a marked call, or a
function of the module, returns, each global, what is reached through pointers in the memory of a
parameter, and the runtime's own memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from activerules.ir.llvm.model import Instruction
from activerules.ir.normal.effects import CallEffect, effect_of


@dataclass(frozen=True)
class MemoryObject:
    """A piece of memory the analysis tells from others.

    kind    argument, alloca, allocation, result, global, loaded or runtime
    key     identifies it within its kind: group of an argument, instruction of a site, name of a
            global, the object a pointer to it was loaded from
    private whether no other argument or global overlaps it; a name: none but what has it, too
    """

    kind: str
    key: object
    private: bool | str = False

    @property
    def is_local(self) -> bool:
        """Made by this function: no other object can overlap it."""
        return self.kind in {"alloca", "allocation", "result"}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.key}>"


RUNTIME = MemoryObject("runtime", "runtime")
UNKNOWN = MemoryObject("loaded", "integer")


def root(memory: MemoryObject) -> MemoryObject:
    """What one starts from to reach an object by loading pointers; the object itself if none."""
    while memory.kind == "loaded" and isinstance(memory.key, MemoryObject):
        memory = memory.key
    return memory


def overlap(a: MemoryObject, b: MemoryObject, disjoint: bool) -> bool:
    """Whether two objects may share an address; `disjoint`: those of different arguments do not."""
    if a == b:
        return True
    if a.is_local or b.is_local or RUNTIME in (a, b):
        return False
    if {a.kind, b.kind} <= {"argument", "global"}:
        return not disjoint and a.private == b.private and a.private is not True
    return True


def closure(
    start: Iterable[MemoryObject], pointees: Callable[[MemoryObject], Iterable[MemoryObject]]
) -> set[MemoryObject]:
    """The objects in `start`, and all that pointers stored in them lead to, however far."""
    reached: set[MemoryObject] = set()
    work = list(start)
    while work:
        memory = work.pop()
        if memory not in reached:
            reached.add(memory)
            work.extend(pointees(memory))
    return reached


def made_by(o: MemoryObject) -> CallEffect | None:
    """The effect of the runtime's call that allocates an object."""
    if o.kind != "allocation" or not isinstance(o.key, Instruction):
        return None
    return effect_of(o.key.callee_name)


def is_counted(o: MemoryObject) -> bool:
    """Whether an object is allocated as a MemInfo, with its data somewhere behind it."""
    effect = made_by(o)
    return effect is not None and effect.counted


def has_header(o: MemoryObject) -> bool:
    """Whether an object is known to be a header with items behind it; its data may move."""
    effect = made_by(o)
    return effect is not None and effect.header

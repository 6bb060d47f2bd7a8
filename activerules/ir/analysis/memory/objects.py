"""Memory objects: the regions of memory that the analyses distinguish.

Objects are: the memory of each group of pointer parameters that belong to one argument, each
alloca, each allocation site (standing for a new object whenever control passes it), the memory that
a marked call or a function of the module allocates and returns, each global, what is reachable
through pointers in the memory of a parameter, and the runtime's own memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from activerules.ir.llvm.model import Instruction
from activerules.ir.normal.effects import Allocation, allocation


@dataclass(frozen=True)
class MemoryObject:
    """A region of memory that the analyses distinguish from others.

    kind    argument, alloca, allocation, result, global, loaded or runtime
    key     identifies it within its kind: group of an argument, instruction of a site, name of a
            global, the object a pointer to it was loaded from
    private whether no other argument or global overlaps it; a name: only those of the same name do
    """

    kind: str
    key: object
    private: bool | str = False

    @property
    def is_local(self) -> bool:
        """Whether this function allocated it: then no other object overlaps it."""
        return self.kind in {"alloca", "allocation", "result"}

    def __repr__(self) -> str:
        return f"<{self.kind} {self.key}>"


SAME_OBJECT = frozenset({"getelementptr", "bitcast", "addrspacecast", "freeze"})
"""The instructions whose result points into the object that their first operand points to."""

RUNTIME = MemoryObject("runtime", "runtime")
UNKNOWN = MemoryObject("loaded", "integer")


def root(memory: MemoryObject) -> MemoryObject:
    """The object from which loads of pointers reach this one; itself if it is not "loaded"."""
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


def begin_alike(a: MemoryObject, b: MemoryObject) -> bool:
    """Whether two objects start at the same address if they overlap."""
    return isinstance(a.private, str) and a.private == b.private


def made_by(o: MemoryObject) -> Allocation | None:
    """How an object is allocated; None if no call does that."""
    if o.kind != "allocation" or not isinstance(o.key, Instruction):
        return None
    return allocation(o.key)


def is_counted(o: MemoryObject) -> bool:
    """Whether an object is allocated as a MemInfo, which points to its data."""
    made = made_by(o)
    return made is not None and made.counted


def has_header(o: MemoryObject) -> bool:
    """Whether an object is a header followed by items, which may move."""
    made = made_by(o)
    return made is not None and made.header

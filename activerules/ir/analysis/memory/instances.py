"""Instances: which pointers lead to what an allocation site made when it was last passed.

A site in a loop makes a new object in every iteration, and the other analyses know the site alone.
A write through a pointer to the newest object does not change one made before: with a path through
the site between a read and such a write, they do not meet. A pointer that was handed on to a later
iteration, or stored, may lead to an older object.

Needs       a Function in normal form; its ControlFlow; the objects of its pointers; what writes
            the memory a pointer is loaded from
Gives       `is_newest(pointer, object)`
Invariants  I1  when `is_newest(p, o)`, then wherever `p` is used and leads to `o`, it leads to what
                the site of `o` made when it was last passed

I1 holds as each step keeps it. A value that does not precede the site on every path to it
is computed again whenever the site is passed on the way to one of its uses; those that do stand in
front of it, and what is merged where an iteration begins, are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.normal.effects import effect_of

_SAME_OBJECT = frozenset({"getelementptr", "bitcast", "addrspacecast", "freeze"})


@dataclass(frozen=True, eq=False)
class Instances:
    """Answers for one function; `writers` gives the instructions that write what a load reads."""

    flow: ControlFlow
    objects: Callable[[Value], Iterable[MemoryObject]]
    writers: Callable[[Instruction], Iterable[Instruction]]
    _known: dict[tuple[Value, MemoryObject], bool] = field(default_factory=lambda: {})

    def is_newest(self, pointer: Value, memory: MemoryObject) -> bool:
        """I1: whether `pointer` leads, within `memory`, to its newest object only."""
        site = memory.key
        if not isinstance(site, Instruction):
            return False
        if pointer is site or not isinstance(pointer, Instruction):
            return True
        key = (pointer, memory)
        if key not in self._known:
            self._known[key] = True  # what a phi merges with itself is what it was before
            self._known[key] = memory not in self.objects(pointer) or (
                not self._stands_before(pointer, site) and self._keeps(pointer, memory, site)
            )
        return self._known[key]

    def _stands_before(self, value: Instruction, site: Instruction) -> bool:
        """Whether `value` precedes the site on every path to it."""
        if value.owner is site.owner:
            instructions = value.owner.instructions
            return instructions.index(value) < instructions.index(site)
        return self.flow.dominates(value.owner, site.owner)

    def _keeps(self, pointer: Instruction, memory: MemoryObject, site: Instruction) -> bool:
        """Whether a pointer is the newest because the pointers it is computed from are."""
        match pointer.opcode:
            case opcode if opcode in _SAME_OBJECT:
                return self.is_newest(pointer.operands[0], memory)
            case "phi":
                return not self._is_handed_on(pointer, site) and self._all_newest(pointer, memory)
            case "select":
                return self._all_newest(pointer, memory)
            case "load":
                return all(writer is site for writer in self.writers(pointer))
            case "call":
                effect = effect_of(pointer.callee_name)
                gives_data = effect is not None and effect.gives_data
                return gives_data and self.is_newest(pointer.operands[0], memory)
            case _:
                return False

    def _all_newest(self, pointer: Instruction, memory: MemoryObject) -> bool:
        return all(self.is_newest(operand, memory) for operand in pointer.operands)

    def _is_handed_on(self, phi: Instruction, site: Instruction) -> bool:
        """Whether a phi merges what an iteration passing the site hands to the next one."""
        loop = self.flow.loop_of(phi.owner)
        return loop is not None and loop.header is phi.owner and site.owner in loop.blocks

"""Instances: which pointers point to the newest object of an allocation site.

A site in a loop allocates a new object in every iteration; the other analyses know only the site.
A write to the newest object does not change older ones: if the path from a read to such a write
passes the site, the two access different objects. A pointer that was carried to a later iteration,
or stored, may point to an older object.

Needs       a Function in normal form; its ControlFlow; the objects of its pointers; the writers of
            the memory that a pointer is loaded from
Gives       `is_newest(pointer, object)`
Invariants  I1  if `is_newest(p, o)`, then wherever `p` is used and points to `o`, it points to what
                the site of `o` allocated when control last passed it

I1 holds because each step preserves it. A value that does not dominate the site is computed again
after each pass through the site and before its uses; for values that do dominate the site, and for
phis where an iteration begins, the answer is no.
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
    """Answers for one function; `writers`: the instructions that may write what a load reads."""

    flow: ControlFlow
    objects: Callable[[Value], Iterable[MemoryObject]]
    writers: Callable[[Instruction], Iterable[Instruction]]
    _known: dict[tuple[Value, MemoryObject], bool] = field(default_factory=lambda: {})

    def is_newest(self, pointer: Value, memory: MemoryObject) -> bool:
        """I1: whether `pointer`, where it points to `memory`, points to its newest object."""
        site = memory.key
        if not isinstance(site, Instruction):
            return False
        if pointer is site or not isinstance(pointer, Instruction):
            return True
        key = (pointer, memory)
        if key not in self._known:
            self._known[key] = True  # a phi that is its own operand adds nothing
            self._known[key] = memory not in self.objects(pointer) or (
                not self._stands_before(pointer, site) and self._keeps(pointer, memory, site)
            )
        return self._known[key]

    def _stands_before(self, value: Instruction, site: Instruction) -> bool:
        """Whether `value` is computed before the site on every path to it."""
        if value.owner is site.owner:
            instructions = value.owner.instructions
            return instructions.index(value) < instructions.index(site)
        return self.flow.dominates(value.owner, site.owner)

    def _keeps(self, pointer: Instruction, memory: MemoryObject, site: Instruction) -> bool:
        """Whether a pointer is to the newest object as the pointers it is computed from are."""
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
        """Whether a phi carries a pointer into the next iteration of a loop that has the site."""
        loop = self.flow.loop_of(phi.owner)
        return loop is not None and loop.header is phi.owner and site.owner in loop.blocks

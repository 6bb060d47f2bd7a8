"""Interior pointers: which pointers that were loaded or merged may point past the start of their
object.

Needs       a Function in normal form; the objects of its pointers and what calls reach
Gives       `Interior`, frozen: `may_be(pointer, object)`
Invariants  P1  if `may_be(p, o)` is False for a load, phi, select or freeze, then `p` points to the
                start of `o` (of its data, if counted) wherever it points into `o`; or it points to
                the counted object itself, from which no address is computed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from activerules.ir.analysis.memory.addresses import Address, is_renamed
from activerules.ir.analysis.memory.objects import MemoryObject
from activerules.ir.analysis.memory.points_to import HANDED_ON
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.normal.effects import effect_of


@dataclass(frozen=True, eq=False)
class Interior:
    """The result of `interior_pointers`, which grows it to a fixpoint.

    chosen   phis, selects and freezes that may be interior pointers
    stored   objects to which interior pointers may be stored in memory
    """

    objects: Callable[[Value], Iterable[MemoryObject]]
    address: Callable[[Value], Address]
    chosen: set[Value] = field(default_factory=lambda: set())
    stored: set[MemoryObject] = field(default_factory=lambda: set())

    def may_be(self, pointer: Value, memory: MemoryObject) -> bool:
        """P1: whether `pointer` may point into `memory` past its start."""
        if isinstance(pointer, Instruction) and pointer.opcode == "load":
            return memory in self.stored
        return pointer in self.chosen

    def leads_inside(self, pointer: Value) -> bool:
        """Whether a pointer may be interior, as far as is known so far."""
        while isinstance(pointer, Instruction) and is_renamed(pointer):
            pointer = pointer.operands[0]
        if not isinstance(pointer, Instruction):
            return False
        if pointer.opcode in HANDED_ON:
            return any(self.may_be(pointer, o) for o in self.objects(pointer))
        address = self.address(pointer)
        if address.offset or address.stride or pointer.opcode == "inttoptr":
            return True
        if isinstance(address.base, Instruction) and address.base.opcode in HANDED_ON:
            return self.leads_inside(address.base)
        if address.base is pointer and pointer.opcode == "call":
            return self._is_returned_inside(pointer)
        return not address.through and address.base is not pointer

    def _is_returned_inside(self, call: Instruction) -> bool:
        """Whether a call may return an interior pointer: one that it was given, or any other."""
        effect = effect_of(call.callee_name)
        if effect is not None and effect.returns is not None:
            return self.leads_inside(call.operands[effect.returns])
        return effect is None


def interior_pointers(
    instructions: Iterable[Instruction],
    objects: Callable[[Value], Iterable[MemoryObject]],
    address: Callable[[Value], Address],
    reached: Callable[[Instruction], Iterable[MemoryObject]],
) -> Interior:
    """Visit the instructions that store or merge pointers until nothing changes."""
    interior = Interior(objects, address)
    visited = [i for i in instructions if _hands_on(i)]
    size = -1
    while size != (size := len(interior.chosen) + len(interior.stored)):
        for i in visited:
            _visit(i, interior, reached)
    return interior


def _hands_on(i: Instruction) -> bool:
    if i.opcode == "call":
        return effect_of(i.callee_name) is None
    return i.opcode == "store" or (i.opcode in HANDED_ON - {"load"} and not is_renamed(i))


def _visit(
    i: Instruction, interior: Interior, reached: Callable[[Instruction], Iterable[MemoryObject]]
) -> None:
    if i.opcode == "call":
        interior.stored.update(reached(i))
        return
    for operand in i.operands[:1] if i.opcode == "store" else i.operands:
        if operand.type.is_int:
            interior.stored.update(interior.objects(operand))
        elif not interior.leads_inside(operand):
            continue
        elif i.opcode == "store":
            interior.stored.update(interior.objects(operand))
        else:
            interior.chosen.add(i)

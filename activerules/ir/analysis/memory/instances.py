"""Instances: which pointers point to the newest object of an allocation site, which to older ones.

A site in a loop allocates a new object in every iteration; the other analyses know only the site.
A write to the newest object does not change older ones: if the path from a read to such a write
passes the site, or if what is read was carried over from an earlier iteration, as in
`a = a + h * f(a)`, the two access different objects. A pointer that was carried to a later
iteration, or stored, may point to an older object.

Needs       a Function in normal form; its ControlFlow; the objects of its pointers; the writers of
            the memory that a pointer is loaded from
Gives       `is_newest(pointer, object)`, `is_older(pointer, object, at)`,
            `age(pointer, object)`
Invariants  I1  if `is_newest(p, o)`, then wherever `p` is used and points to `o`, it points to what
                the site of `o` allocated when control last passed it
            I2  if `is_older(p, o, i)`, then wherever `i` uses `p` and it points to `o`, it points
                to what the site of `o` allocated before control last passed it
            I3  wherever `p` is used and points to `o`, control has passed the site of `o` at most
                `age(p, o)` times since that allocated what `p` points to

I1 holds because each step preserves it. A value that does not dominate the site is computed again
after each pass through the site and before its uses; for values that do dominate the site, and for
phis where an iteration begins, the answer is no.

I2 holds because a phi where an iteration begins is given what was allocated before. If the site is
in that loop and dominates the use, control has passed the site since: it would otherwise reach the
use, from where the iteration began, without the site.

I3 holds for the newest object, with 0. A phi at the start of the innermost loop with the site is
older by one than what it is given: control cannot pass the site twice without passing that phi, and
everything that is computed from it, again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from activerules.ir.analysis.memory.objects import SAME_OBJECT, MemoryObject
from activerules.ir.llvm.cfg import ControlFlow
from activerules.ir.llvm.model import Instruction, Value
from activerules.ir.normal.effects import effect_of

# of pointers whose age is of use: to the last three objects but the newest
_OLDEST = 3


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
        if (pointer, memory) not in self._known:
            seen: set[Value] = set()
            work = [pointer]
            while work:
                value = work.pop()
                if value in seen or self._known.get((value, memory)):
                    continue
                seen.add(value)
                sources = self._newest_if(value, memory, site)
                if sources is None:
                    self._known[pointer, memory] = False
                    return False
                work += sources
            self._known.update(dict.fromkeys(((value, memory) for value in seen), True))
        return self._known[pointer, memory]

    def is_older(self, pointer: Value, memory: MemoryObject, at: Instruction) -> bool:
        """I2: whether `pointer`, where `at` uses it and it points to `memory`, points to an object
        that is no longer the newest.
        """
        site = memory.key
        if not isinstance(site, Instruction) or not self._stands_before(site, at):
            return False
        seen: set[Value] = set()
        work = [pointer]
        while work:
            value = work.pop()
            if value in seen or memory not in self.objects(value):
                continue
            seen.add(value)
            if self._is_handed_on(value, site):
                continue
            sources = _sources(value)
            if sources is None:
                return False
            work += sources
        return True

    def age(self, pointer: Value, memory: MemoryObject) -> int | None:
        """I3: how often, at most, control has passed the site of `memory` since it allocated what
        `pointer` points to; None if that may be more often than `_OLDEST`.
        """
        pointers = [pointer]
        for age in range(_OLDEST + 1):
            phis = self._handed_on_by(pointers, memory)
            if not phis:
                return age if phis is not None else None
            pointers = [operand for phi in phis for operand in phi.operands]
        return None

    def _handed_on_by(
        self, pointers: Iterable[Value], memory: MemoryObject
    ) -> list[Instruction] | None:
        """The phis, at the start of the innermost loop with the site, from which pointers that may
        not be to the newest object are computed; None if they may be computed otherwise.
        """
        site = memory.key
        loop = self.flow.loop_of(site.owner) if isinstance(site, Instruction) else None
        phis: list[Instruction] = []
        seen: set[Value] = set()
        work = [*pointers]
        while work:
            value = work.pop()
            if value in seen or self.is_newest(value, memory):
                continue
            seen.add(value)
            sources = _sources(value)
            if loop is None or sources is None or not isinstance(value, Instruction):
                return None
            if value.opcode == "phi" and value.owner is loop.header:
                phis.append(value)
            elif value.opcode == "phi" and not self.flow.dominates(loop.header, value.owner):
                return None
            else:
                work += sources
        return phis

    def _stands_before(self, value: Instruction, site: Instruction) -> bool:
        """Whether `value` is computed before the site on every path to it."""
        if value.owner is site.owner:
            instructions = value.owner.instructions
            return instructions.index(value) < instructions.index(site)
        return self.flow.dominates(value.owner, site.owner)

    def _newest_if(
        self, value: Value, memory: MemoryObject, site: Instruction
    ) -> Sequence[Value] | None:
        """The pointers that must be to the newest object for `value` to be, too; None: it need not
        be whatever they are.
        """
        if value is site or not isinstance(value, Instruction) or memory not in self.objects(value):
            return ()
        if self._stands_before(value, site):
            return None
        if value.opcode == "load":
            return () if all(writer is site for writer in self.writers(value)) else None
        return None if self._is_handed_on(value, site) else _sources(value)

    def _is_handed_on(self, value: Value, site: Instruction) -> bool:
        """Whether a phi carries a pointer into the next iteration of a loop that has the site."""
        if not isinstance(value, Instruction) or value.opcode != "phi":
            return False
        loop = self.flow.loop_of(value.owner)
        return loop is not None and loop.header is value.owner and site.owner in loop.blocks


def _sources(value: Value) -> Sequence[Value] | None:
    """The pointers to the same object of which `value` is computed; None for other values."""
    if not isinstance(value, Instruction):
        return None
    if value.opcode == "phi":
        return value.operands
    if value.opcode == "select":
        return value.operands[1:]
    effect = effect_of(value.callee_name) if value.opcode == "call" else None
    if value.opcode in SAME_OBJECT or (effect is not None and effect.gives_data):
        return value.operands[:1]
    return None

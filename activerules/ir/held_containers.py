"""Where a container may be destroyed: it is filled, and not being changed.

Needs       `Pointers`, the blocks and which of them lead to success
Gives       `Containers.is_whole`: whether a destructor may run at a place
Invariants  W1  behind a call that allocates or frees, one of the program, and a branch to where the
                function fails, containers are whole: what changes them does that first or last
            W2  so they are where a loop begins that has one of these in it, or moves no pointer
                and drops none, unless it takes others: it is one of the program, and no part of
                what is done to a container
            W3  a new one is filled where something was stored in it, and one of these came since

A destructor drops what is in a container. That is not there yet right behind its allocation; and
while Numba removes items, or makes room for others, one may be there twice, or dropped already. Of
what a call has returned it is not known whether it is a container.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from activerules.ir.cfg import ControlFlow, Loop
from activerules.ir.held_pointers import CHOICES, DROPS, TAKES, Pointers, base_of, gives_data
from activerules.ir.model import Block, Instruction, Value
from activerules.ir.runtime_calls import RELEASING, CallEffect, effect_of, memory_intrinsic


class Containers:
    """See the module docstring."""

    def __init__(self, pointers: Pointers, flow: ControlFlow, live: Collection[Block]) -> None:
        self.pointers, self.flow, self.live = pointers, flow, live
        self._found: dict[Instruction, bool] = {}
        self._filling: dict[Instruction, dict[Block, int]] = {}

    def may_be_one(self, value: Value) -> bool:
        """Whether a destructor may run where a reference is dropped."""
        return any(i.opcode == "load" or is_container(i) for i in self._sources(value))

    def is_whole(self, value: Value, at: Instruction) -> bool:
        """Whether a destructor may run before an instruction: where memory has just been
        allocated or freed, or a loop begins.
        """
        if at not in self._found:
            self._found[at] = self._are_whole(at)
        return self._found[at] and self._is_filled(value, at, set())

    def _sources(self, value: Value) -> Iterator[Instruction]:
        for source in self.pointers.sources(value):
            if isinstance(source, Instruction):
                yield source

    # --- what is being changed ---

    def _are_whole(self, at: Instruction) -> bool:
        last = previous(at)
        if last is not None and _resizes(last):
            return False
        loop = self._loop(at)
        if loop is None:
            return last is not None and (_allocates(last) or _frees(last))
        return self._is_of_program(loop) or self._is_unchanged_since(at)

    def _loop(self, at: Instruction) -> Loop | None:
        """The loop that begins at a place: with an iteration, or behind its preheader."""
        block, last = at.owner, previous(at)
        targets = block.successors if at is block.terminator else []
        for loop in self.flow.loops:
            if loop.preheader is block and loop.header in targets:
                return loop
            if loop.header is block and (last is None or last.opcode == "phi"):
                return loop
        return None

    def _is_of_program(self, loop: Loop) -> bool:
        instructions = [i for block in loop.blocks for i in block.instructions]
        if any(_allocates(i) or self.pointers.is_call(i) for i in instructions):
            return True
        if any(self._may_fail(block) for block in loop.blocks):
            return True
        drops = () if any(i.callee_name == TAKES for i in instructions) else DROPS
        return not any(_moves(i) or i.callee_name in drops for i in instructions)

    def _may_fail(self, block: Block) -> bool:
        return any(target not in self.live for target in block.successors)

    def _is_unchanged_since(self, at: Instruction) -> bool:
        """Whether nothing was changed since containers were whole, on all ways."""
        seen: set[Block] = set()
        work = [(at.owner, at.owner.instructions.index(at))]
        while work:
            block, end = work.pop()
            for i in reversed(block.instructions[:end]):
                if _changes(i):
                    return False
                if _allocates(i) or self.pointers.is_call(i):
                    break
            else:
                for source in self.flow.predecessors[block]:
                    if source not in seen and not self._may_fail(source):
                        seen.add(source)
                        work.append((source, len(source.instructions)))
        return True

    # --- what is filled ---

    def _is_filled(self, value: Value, at: Instruction, seen: set[Value]) -> bool:
        if value in seen or not isinstance(value, Instruction):
            return True
        seen.add(value)
        if value.opcode == "phi":
            edges = zip(value.operands, value.blocks, strict=True)
            return all(self._is_filled(one, block.terminator, seen) for one, block in edges)
        if value.opcode in CHOICES:
            return all(self._is_filled(one, value, seen) for one in value.operands[1:])
        return not is_container(value) or not self._is_empty(value, at)

    def _is_empty(self, made: Instruction, at: Instruction) -> bool:
        """Whether there is a way from where a container is made to a place, without a store."""
        filling = self._stores(made)
        work = [(made.owner, _index(made))]
        seen: set[Block] = set()
        while work:
            block, start = work.pop()
            if at.owner is block and start < (end := _index(at)):
                if not start < filling.get(block, end) < end:
                    return True
            if filling.get(block, -1) > start or (block is made.owner and start < 0):
                continue
            work += [(target, -1) for target in block.successors if target not in seen]
            seen.update(block.successors)
        return False

    def _stores(self, made: Instruction) -> dict[Block, int]:
        """The first store to the memory in each block: behind the container is made, in its own."""
        if made not in self._filling:
            found = self._filling[made] = {}
            work = [made]
            while work:
                value = work.pop()
                for use in self.pointers.uses.get(value, ()):
                    if use.opcode == "getelementptr" or (use.opcode == "call" and gives_data(use)):
                        work.append(use)
                    elif value is not made and _stores_to(use, value):
                        found[use.owner] = min(_index(use), found.get(use.owner, _index(use)))
        return self._filling[made]


def is_container(value: Value) -> bool:
    """Whether it is the allocation of something with a destructor."""
    if not isinstance(value, Instruction):
        return False
    effect = _effect(value)
    return effect.counted and effect.plain not in (None, value.callee_name)


def _allocates(i: Instruction) -> bool:
    return _effect(i).allocates


def _frees(i: Instruction) -> bool:
    return i.opcode == "call" and i.callee_name in RELEASING


def _resizes(i: Instruction) -> bool:
    return _effect(i).resizes is not None


def _effect(i: Instruction) -> CallEffect:
    effect = effect_of(i.callee_name) if i.opcode == "call" else None
    return effect or CallEffect()


def _moves(i: Instruction) -> bool:
    """Whether an instruction may put an item to another place."""
    if i.opcode == "store":
        return i.operands[0].type.is_pointer
    return _resizes(i) or memory_intrinsic(i) is not None


def _changes(i: Instruction) -> bool:
    """Whether an instruction may change a container at all."""
    if i.opcode == "store" or memory_intrinsic(i) is not None:
        base = base_of(i.operands[i.opcode == "store"])
        return not (isinstance(base, Instruction) and base.opcode == "alloca")
    name = i.callee_name or ""
    if i.opcode != "call" or name == TAKES or name.startswith("llvm."):
        return False
    effect = effect_of(name)
    return effect is None or not (effect.pure or effect.allocates)


def _stores_to(use: Instruction, place: Value) -> bool:
    if use.opcode == "store":
        return use.operands[1] is place
    return memory_intrinsic(use) is not None and use.operands[0] is place


def previous(at: Instruction) -> Instruction | None:
    """The instruction before another one in its block."""
    index = _index(at)
    return at.owner.instructions[index - 1] if index else None


def _index(i: Instruction) -> int:
    return i.owner.instructions.index(i)

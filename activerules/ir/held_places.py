"""Where a reference can be dropped: not before the last access of what is freed.

Needs       `Pointers`, the blocks and the one that returns, what is held at a read
Gives       `Places.of`: edges on the ways on from an edge, one on each
Invariants  L1  behind a place nothing is read that the memory holds or leads to, but where another
                reference to it is held

What is read by way of the pointer is found by following what is computed from it. Where that was
put into memory itself, anything may be read through it.
"""

from __future__ import annotations

from collections.abc import Callable

from activerules.ir.cfg import ControlFlow
from activerules.ir.held_pointers import (
    CHOICES,
    DROPS,
    TAKES,
    Pointers,
    base_of,
    counted,
    gives_data,
)
from activerules.ir.held_reads import may_access
from activerules.ir.model import Block, Instruction, Value
from activerules.ir.runtime_calls import (
    GIVES_ROOM_BACK,
    LINEAR_ALGEBRA,
    MAKES_ROOM,
    effect_of,
    memory_intrinsic,
)
from activerules.ir.types import PointerType

Edge = tuple[Block, Block]

_PASSING = ("llvm.memset.", "llvm.lifetime.", "llvm.assume", "llvm.prefetch")


class Places:
    """See the module docstring."""

    def __init__(self, pointers: Pointers, flow: ControlFlow, exit_block: Block) -> None:
        self.pointers, self.flow, self.exit = pointers, flow, exit_block
        self._derived: dict[frozenset[Value], set[Value] | None] = {}
        self._regions: dict[Block, set[Block]] = {}

    def of(
        self,
        source: Block,
        target: Block,
        value: Value,
        kept: bool,
        held: Callable[[Instruction], bool],
    ) -> list[Edge]:
        """Where to drop a pointer on the way from `source` to `target`; none if there is no place.

        kept    more references are held behind that
        held    whether one is held before an instruction
        """
        sources = self.pointers.sources(value)
        if not sources:
            return [(source, target)]
        region = self._region(target)
        places: list[Edge] = []
        found = self._reached(sources)
        if found is not None:
            now = self._now(found, value, source)
            names = self.pointers.becoming(sources)
            again = isinstance(value, Instruction) and value.owner in region
            used = self._used(now, source, target, names, kept, None if again else held)
            places = self._behind(source, target, used)
        if not places:
            new = source not in region
            places = self._behind(
                source, target, {b for b in region if may_access(b, region, new=new)}
            )
        return places

    def _behind(self, source: Block, target: Block, reading: set[Block]) -> list[Edge]:
        """The edges behind which none of the blocks comes any more, on every way one; none if
        other ways lead to a block that may be before one of them.
        """
        live: set[Block] = set()
        work = [*reading]
        region = self._region(target)
        while work:
            block = work.pop()
            if block not in live:
                live.add(block)
                work += [p for p in self.flow.predecessors[block] if p in region]
        if target not in live:
            return [(source, target)]
        if self.flow.predecessors[target] != [source]:
            return []
        if not all(self.flow.dominates(target, block) for block in live):
            return []
        order = [block for block in self.flow.order if block in live]
        return [(b, t) for b in order for t in dict.fromkeys(b.successors) if t not in live]

    # --- what is read by way of a pointer ---

    def _reached(self, sources: frozenset[Value]) -> set[Value] | None:
        """What leads into the memory, or what that holds; None if that is in memory itself."""
        if sources not in self._derived:
            self._derived[sources] = self._find(sources)
        return self._derived[sources]

    def _find(self, sources: frozenset[Value]) -> set[Value] | None:
        loads = [i for i in sources if isinstance(i, Instruction) and i.opcode == "load"]
        if any(self.pointers.success(i) is None for i in loads):
            return None
        found: set[Value] = set()
        stores: list[Instruction] = []
        work: list[Value] = [*sources, *(other for i in loads for other in self._beside(i))]
        while work:
            value = work.pop()
            if value in found or not isinstance(value, Instruction):
                continue
            found.add(value)
            for use in self.pointers.uses.get(value, ()):
                if use.opcode == "store":
                    stores.append(use)
                    work += self._put_into(value, use)
                elif self._leads(use):
                    work.append(use)
                elif not self._only_reads(use, value):
                    return None
        # what is put into the memory itself is found again where that is read
        return found if all(self._is_found(i, found) for i in stores) else None

    def _put_into(self, memory: Value, store: Instruction) -> list[Value]:
        """A pointer that is put into memory: with the memory, what it leads to may be freed."""
        put, place = store.operands
        return [put] if place is memory and isinstance(put.type, PointerType) else []

    def _is_found(self, store: Instruction, found: set[Value]) -> bool:
        """Whether a store is a reference that is handed over, or what it puts away is known."""
        put, place = store.operands
        counts = put not in found or put in self.pointers.tracked
        return counts or base_of(place) in found or not self.pointers.hands_over(store)

    def _beside(self, load: Instruction) -> list[Value]:
        """The other pointers that a call has returned."""
        found: list[Value] = []
        work = [base_of(load.operands[0])]
        while work:
            for use in self.pointers.uses.get(work.pop(), ()):
                if use.opcode == "getelementptr":
                    work.append(use)
                elif use.opcode == "load" and isinstance(use.type, PointerType):
                    found.append(use)
        return found

    def _leads(self, use: Instruction) -> bool:
        """Whether what an instruction makes of a pointer leads there, too."""
        if use.opcode == "load":
            return isinstance(use.type, PointerType)
        room = use.callee_name == MAKES_ROOM
        return room or use.opcode in ("getelementptr", *CHOICES) or gives_data(use)

    def _only_reads(self, use: Instruction, value: Value) -> bool:
        """Whether an instruction is done with a pointer when it is done."""
        if use.opcode in ("load", "icmp"):
            return True
        if use.opcode == "ptrtoint":  # a distance is computed, not another pointer
            return all(i.opcode in ("sub", "icmp") for i in self.pointers.uses.get(use, ()))
        if use.opcode != "call" or isinstance(use.type, PointerType):
            return False
        if memory_intrinsic(use) in ("memcpy", "memmove"):
            return self._holds_numbers(value)
        known = (*_PASSING, GIVES_ROOM_BACK, *LINEAR_ALGEBRA)
        passing = (use.callee_name or "").startswith(known)
        return passing or counted(use) is not None or self.pointers.is_call(use)

    def _holds_numbers(self, pointer: Value) -> bool:
        """Whether a pointer is into memory without counted pointers in it: an array."""
        base = base_of(pointer)
        if not isinstance(base, Instruction):
            return False
        if base.opcode == "load":
            return self.pointers.success(base) is not None and base not in self.pointers.tracked
        made = base.operands[0] if gives_data(base) else None
        effect = effect_of(made.callee_name) if isinstance(made, Instruction) else None
        return effect is not None and effect.allocates and effect.plain is None

    def _now(self, found: set[Value], value: Value, end: Block) -> set[Value]:
        """Which of the values lead to what `value` is at the end of a block: in a loop, others
        may still be what they were made of in the last round.
        """
        if not isinstance(value, Instruction) or value.opcode in CHOICES:
            return found
        start = value.owner
        since = {start}
        work = [end]
        while work:
            block = work.pop()
            if block not in since:
                since.add(block)
                work += self.flow.predecessors[block]
        return {
            one
            for one in found
            if isinstance(one, Instruction)
            and one.owner in since
            and not (one.opcode == "phi" and one.owner is start)
        }

    def _used(
        self,
        now: set[Value],
        source: Block,
        target: Block,
        names: set[Value],
        kept: bool,
        held: Callable[[Instruction], bool] | None,
    ) -> set[Block]:
        """Where one of the values, as they are on an edge, may be used behind it; of the `names`
        of the pointer it is known how often they are dropped. Not where it is `held` nevertheless.
        """
        found: set[Block] = set()
        work: list[tuple[Value, Block, bool]] = [(one, target, False) for one in now]
        for phi in target.phis:
            if phi.operands[phi.blocks.index(source)] in now:
                work.append((phi, target, True))
        seen: set[tuple[Value, Block, bool]] = set()
        while work:
            state = work.pop()
            if state not in seen:
                seen.add(state)
                kinds = (TAKES, *DROPS) if kept else DROPS if state[0] in names else ()
                found |= self._used_from(*state, kinds, held, work)
        return found

    def _used_from(
        self,
        value: Value,
        start: Block,
        made: bool,
        kinds: tuple[str, ...],
        held: Callable[[Instruction], bool] | None,
        work: list[tuple[Value, Block, bool]],
    ) -> set[Block]:
        """Where a value is used from a block on, before it is made anew; `made`: where that block
        begins; `kinds`: calls that are no use. Phis that become the value are added to the work.
        """
        used: set[Block] = set()
        phis: dict[Block, list[Instruction]] = {}
        for i in self.pointers.uses.get(value, ()):
            if i.opcode == "phi":
                for block, one in zip(i.blocks, i.operands, strict=True):
                    if one is value:
                        phis.setdefault(block, []).append(i)
            elif i.opcode != "icmp" and i.callee_name not in kinds and not (held and held(i)):
                used.add(i.owner)
        own = value.owner if isinstance(value, Instruction) else None
        if own is start and not made:
            return set()
        seen: set[Block] = set()
        blocks = [start]
        while blocks:
            block = blocks.pop()
            if block in seen or (block is own and seen):
                continue
            seen.add(block)
            work += [(phi, phi.owner, True) for phi in phis.get(block, ())]
            blocks += block.successors
        return seen & used

    # --- anything that is read ---

    def _region(self, start: Block) -> set[Block]:
        """The blocks on the ways from `start` to the one that returns."""
        if start not in self._regions:
            found: set[Block] = set()
            work = [start]
            while work:
                block = work.pop()
                if block is not self.exit and block not in found:
                    found.add(block)
                    work += block.successors
            self._regions[start] = found
        return self._regions[start]

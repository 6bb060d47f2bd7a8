"""Where a derivative ends and its primal does not: memory runs out, or the stack.

Needs       the facts of the primal, a copy of it under construction
Gives       `EndsEarly`: branches to where the function ends, once what it holds there is dropped
Invariants  E1  what the primal holds at a place is dropped on the way out; in forward mode the
                shadows of that as well
            E2  a container is destroyed only where it is whole (`held_containers`); one that has
                just been made is dropped without that its destructor runs
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from activerules.ir.builder import Builder
from activerules.ir.derive.primal_copy import B, P, PrimalCopy
from activerules.ir.derive.runtime import ENDS, OUT_OF_MEMORY
from activerules.ir.derive.scopes import Scopes
from activerules.ir.held_known import Holding, drop_references
from activerules.ir.model import Block, Instruction, Value
from activerules.ir.types import I8, I32, I64, PTR, VOID


class EndsEarly(PrimalCopy[P, B]):
    """A copy of the primal that may end at places of its own.

    at          the instruction of the primal before which that is, now
    begun       whether the primal may fail there, too (E2)
    loose       places of references that are nobody's yet
    ends        the blocks where memory or the stack has run out, by what they drop
    """

    def __init__(
        self,
        plan: P,
        scopes: Scopes,
        b: B,
        values: Mapping[Value, Value],
        shadows: Mapping[Value, tuple[Value, ...]],
    ) -> None:
        super().__init__(plan, scopes, b, values, shadows)
        self.at: Instruction | None = None
        self.begun = False
        self.loose: list[Value] = []
        self.ends: dict[tuple[object, ...], Block] = {}

    def _at(self, i: Instruction) -> None:
        """Note that the function may end before an instruction of the primal."""
        self.at, self.begun = i, False

    @contextmanager
    def _holding(self, places: Sequence[Value]) -> Generator[None]:
        """While there are references that the program finds at these places next."""
        self.loose += places
        yield
        del self.loose[len(self.loose) - len(places) :]

    def _places(self, start: Value, offsets: Sequence[int]) -> list[Value]:
        return [self.b.gep(I8, start, [self.b.const(I64, offset)]) for offset in offsets]

    def _fail_unless(self, fine: Value, status: int = OUT_OF_MEMORY) -> None:
        """Go on, unless memory, or what else `status` says, is exhausted."""
        following = Block(self.namer("ok"))
        self.b.cond_br(fine, following, self._ending(status))
        self._open(following)

    def _ending(self, status: int) -> Block:
        held = self._held()
        key = (status, *((one.value, one.by, *one.held.items()) for one in held), *self.loose)
        if key not in self.ends:
            hint = "out_of_memory" if status == OUT_OF_MEMORY else "too_deep"
            block = self.ends[key] = Block(self.namer(hint))
            b = self.b.at(block)
            self._drop(b, held)
            self._leave(b, b.const(I32, status))
        return self.ends[key]

    def _leave(self, b: Builder, status: Value) -> None:
        b.ret(status)

    def _has_ended(self, status: Value) -> Value:
        """Whether a callee has ended where its primal does not."""
        number = self.b.binary("sub", status, self.b.const(I32, ENDS.start))
        return self.b.icmp("ult", number, self.b.const(I32, len(ENDS)))

    def _return_if(self, ended: Value, status: Value) -> None:
        """Leave with the status of a callee that has ended."""
        failed, fine = Block(self.namer("callee.failed")), Block(self.namer("callee.ok"))
        self.b.cond_br(ended, failed, fine)
        self._open(failed)
        self._drop(self.b, self._held())
        self._leave(self.b, status)
        self._open(fine)

    # --- what is dropped ---

    def _held(self) -> list[Holding]:
        if self.at is None:
            return []
        held = self.plan.held.before(self.at, begun=self.begun)
        return [one for one in held if not self._is_in_row(one.value)]

    def _is_in_row(self, pointer: Value) -> bool:
        """Whether a pointer leads to arrays in rows of the tape only: these are not counted."""
        return False

    def _drop(self, b: Builder, held: list[Holding]) -> None:
        for place in self.loose:
            b.call("NRT_decref", VOID, [b.load(PTR, place)])
        for one in held:
            for pointer in self._dropped_for(one.value):
                drop_references(b, pointer, one.held, self._value, one.by)

    def _dropped_for(self, value: Value) -> list[Value]:
        """What is held as often as the primal holds a pointer."""
        return [self._value(value)]

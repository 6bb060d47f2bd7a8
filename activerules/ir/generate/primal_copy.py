"""A copy of the primal under construction: what the augmented primal and forward mode share.

Needs       the facts of the primal, a builder
Gives       `PrimalCopy`: a block for each block of the primal, copies of its instructions, maps
            from its values and pointers to their copies and shadows; branches for the ends that
            the primal does not have: memory or the stack is exhausted, a rule is misused
Invariants  a copy has the operands of the primal until `_connect` replaces them, after all blocks
            are written
            where memory or the stack is exhausted, references that the function owns are lost
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from activerules.ir.derivatives.rulecall import EXCINFO
from activerules.ir.generate.constant_shadows import shadow_of_constant
from activerules.ir.generate.lanes import per_lane
from activerules.ir.generate.mirror import ValueOf, derived_shadow
from activerules.ir.generate.scopes import Scopes
from activerules.ir.generate.sweep import clone, null
from activerules.ir.llvm.builder import Builder, add_incoming
from activerules.ir.llvm.model import Argument, Block, GlobalRef, Instruction, Value
from activerules.ir.llvm.types import I8, I32, I64, PTR, Type
from activerules.ir.plan.callees import CalleeUse
from activerules.ir.plan.facts import Facts
from activerules.ir.tape.runtime import ENDS, OUT_OF_MEMORY

P = TypeVar("P", bound=Facts)
B = TypeVar("B", bound=Builder)


class PrimalCopy(Generic[P, B]):
    """The copy so far; `b` appends to `current`.

    values, shadows   by value of the primal; a shadow is a pointer per lane
    heads, tails      the first and last block of the code for a block of the primal
    ends              by status, the block where memory or the stack is exhausted
    results           the parameters to which a callee stores its result, and the shadow or tangent
    """

    results: list[Argument]

    def __init__(
        self,
        plan: P,
        scopes: Scopes,
        b: B,
        values: Mapping[Value, Value],
        shadows: Mapping[Value, tuple[Value, ...]],
    ) -> None:
        self.plan, self.scopes, self.b = plan, scopes, b
        self.width = plan.request.width
        self.namer = b.namer
        self.values: dict[Value, Value] = dict(values)
        self.shadows: dict[Value, tuple[Value, ...]] = dict(shadows)
        self.blocks: list[Block] = []
        self.heads: dict[Block, Block] = {block: Block(block.name) for block in plan.flow.order}
        self.tails: dict[Block, Block] = {}
        self.clones: list[Instruction] = []
        self.ends: dict[int, Block] = {}
        self.current = Block("")

    def _value(self, value: Value) -> Value:
        return self.values.get(value, value)

    def _shadow(self, value: Value, lane: int) -> Value:
        """The shadow of a pointer; null if it has none, and is never accessed through it."""
        constant_shadow = shadow_of_constant(value, self.plan, self.b.declarations)
        if constant_shadow is not None:
            return constant_shadow
        return self.shadows[value][lane] if value in self.shadows else null()

    def _shadow_in(self, lane: int) -> ValueOf:
        return lambda value: self._shadow(value, lane)

    def _lanes(self, operand: Value) -> list[Value]:
        """What a derivative that is called takes beside an operand: its shadow in each lane."""
        return [self._shadow(operand, k) for k in range(self.width)]

    def _passed(self, use: CalleeUse) -> list[Value]:
        """The operands of a derived call: those of the primal, each followed by its shadows."""
        operands: list[Value] = []
        for o, activity in zip(use.call.operands, use.activities, strict=True):
            operands.append(self._value(o))
            if activity == "duplicated":
                operands += self._lanes(o)
        return operands

    def _derive_shadow(self, i: Instruction, scope: Callable[[int], str] | None = None) -> None:
        """Compute the shadow of a pointer, if `i` computes that from others or loads it; `scope` is
        the metadata of a load, per lane.
        """
        lanes = [
            derived_shadow(self.b, i, self._value, self._shadow_in(k), scope and scope(k))
            for k in range(self.width)
        ]
        if None not in lanes:
            self.shadows[i] = tuple(s for s in lanes if s is not None)

    def _local(self, t: Type) -> Value:
        """Stack memory of the derivative itself, allocated at its entry."""
        slot = self.b.at([]).alloca(t, hint="result")
        self.blocks[0].insert(0, slot)
        return slot

    def _open(self, block: Block) -> None:
        self.blocks.append(block)
        self.current = block
        self.b.target = block

    def _clone(self, i: Instruction) -> Instruction:
        copy = clone(i, self.plan.memory, self.scopes)
        self.current.append(copy)
        self.values[i] = copy
        self.clones.append(copy)
        return copy

    def _call_primal(self, copy: Instruction, symbol: str) -> None:
        """Let the copy of a marked call call the function itself."""
        copy.callee = GlobalRef(symbol)
        parameters = ", ".join(str(o.type) for o in copy.operands)
        self.b.declarations.setdefault(symbol, f"declare {copy.type} @{symbol}({parameters})")

    def _connect(self) -> None:
        """Set the operands and targets of the copies; phis get their blocks with their edges."""
        for copy in self.clones:
            copy.operands = [self._value(o) for o in copy.operands]
            if copy.opcode != "phi":
                copy.blocks = [self.heads[t] for t in copy.blocks]

    def _begin_phi(self, phi: Instruction) -> None:
        """Begin the phi of the shadow of a pointer; `_connect_phi` sets what comes in."""
        if phi.type.is_pointer and self.plan.activity.has_shadow(phi):
            hint = name_beside(phi.name or "", ".shadow")
            self.shadows[phi] = per_lane(self.width, lambda _: self.b.phi(PTR, hint=hint))

    def _connect_phi(self, phi: Instruction) -> list[tuple[Block, Value]]:
        """Set what comes into the copy of a phi and its shadow; return the blocks it comes from,
        with the values of the primal.
        """
        copy = self.values[phi]
        assert isinstance(copy, Instruction)
        sources = self.plan.flow.predecessors[phi.owner]
        edges = [
            (self.tails[source], operand, value)
            for source, operand, value in zip(phi.blocks, phi.operands, copy.operands, strict=True)
            if source in sources
        ]
        copy.blocks = [tail for tail, _, _ in edges]
        copy.operands = [value for _, _, value in edges]
        for lane, shadow in enumerate(self.shadows.get(phi, ())):
            assert isinstance(shadow, Instruction)
            for tail, operand, _ in edges:
                add_incoming(shadow, self._shadow(operand, lane), tail)
        return [(tail, operand) for tail, operand, _ in edges]

    def _hand_back(self, end: Instruction) -> None:
        """In a callee, store the primal's result, and its shadow or tangent, through the
        result parameters.
        """
        if self.results:
            self.b.store(self._value(end.operands[0]), self.results[0])
        for start in self.results[1:]:
            for k, lane in enumerate(self._lanes(end.operands[0])):
                self.b.store(lane, self._lane_address(start, lane.type, k))
        self.b.ret(self.b.const(I32, 0))

    def _lane_address(self, start: Value, t: Type, lane: int) -> Value:
        return self.b.gep(t, start, [self.b.const(I64, lane)])

    def _addresses(self, start: Value, offsets: Sequence[int]) -> list[Value]:
        return [self.b.gep(I8, start, [self.b.const(I64, offset)]) for offset in offsets]

    # --- ends that the primal does not have ---

    def _fail_unless(self, fine: Value, status: int = OUT_OF_MEMORY) -> None:
        """Continue if `fine`; otherwise return `status`: memory, or the stack, is exhausted."""
        following = Block(self.namer("ok"))
        self.b.cond_br(fine, following, self._ending(status))
        self._open(following)

    def _fail_if_null(self, pointer: Value) -> None:
        self._fail_unless(self.b.icmp("ne", pointer, null()))

    def _ending(self, status: int) -> Block:
        if status not in self.ends:
            hint = "out_of_memory" if status == OUT_OF_MEMORY else "too_deep"
            block = self.ends[status] = Block(self.namer(hint))
            b = self.b.at(block)
            self._leave(b, b.const(I32, status))
        return self.ends[status]

    def _leave(self, b: Builder, status: Value) -> None:
        b.ret(status)

    def _has_ended(self, status: Value) -> Value:
        """Whether a callee has returned a status that its primal cannot return."""
        number = self.b.binary("sub", status, self.b.const(I32, ENDS.start))
        return self.b.icmp("ult", number, self.b.const(I32, len(ENDS)))

    def _return_if(self, ended: Value, status: Value, call: Instruction, *, raised: bool) -> None:
        """Return the status of a call if `ended`; `raised`: and the exception that it stored."""
        failed, fine = Block(self.namer("callee.failed")), Block(self.namer("callee.ok"))
        self.b.cond_br(ended, failed, fine)
        self._open(failed)
        if raised:
            own = self.plan.request.parameters[EXCINFO].argument
            if call.operands[EXCINFO] is not own:
                exception = self.b.load(PTR, self._value(call.operands[EXCINFO]))
                self.b.store(exception, self._value(own))
        self._leave(self.b, status)
        self._open(fine)


def name_beside(name: str, suffix: str) -> str:
    """The hint for the name of a value beside another; names in quotes are not extended."""
    return suffix[1:] if name.startswith('"') else name + suffix

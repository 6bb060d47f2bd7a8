"""Speculation: values that the program, as it was written, may not compute.

Needs       the Returns of a Function in normal form
Gives       `speculated`: float instructions whose result may not be used
Invariants  S1  an instruction outside the set is followed, in every run that succeeds, by a store,
                a call, a return or a join that its result reaches; stores to tracked memory do not
                count

LLVM computes `1 / x` before the condition in `1 / x if x != 0 else 0`, since a division cannot
trap, and chooses the result by a `select`; it also moves such instructions out of loops. A value
that the program would not have computed is not part of the derivative, even if its slope is
infinite or NaN: 0 · ∞ is no derivative of the program as it was written. A zero cotangent does not
show that a value is unused: `r * r` with `r = sqrt(x) if x >= 0 else 0.0` has a zero cotangent at
x = 0, and uses the root.
"""

from __future__ import annotations

from collections.abc import Callable

from activerules.ir.analysis.returns import Returns
from activerules.ir.llvm.cfg import immediate_dominators, postorder
from activerules.ir.llvm.model import Block, Instruction, Value

_ARITHMETIC = frozenset("fadd fsub fneg fptrunc fpext freeze select fmul fdiv frem".split())


def speculated(
    returns: Returns,
    chooses: Callable[[Instruction], bool] = lambda i: i.opcode == "select",
    is_tracked: Callable[[Instruction], bool] = lambda access: False,
) -> frozenset[Instruction]:
    """The float arithmetic and calls that may be speculation.

    chooses      whether the result of an operation may not depend on all of its operands
    is_tracked   whether a load or store accesses memory whose used floats are known at run time
    """
    return _Search(returns, chooses, is_tracked).run()


class _Search:
    def __init__(
        self,
        returns: Returns,
        chooses: Callable[[Instruction], bool],
        is_tracked: Callable[[Instruction], bool],
    ) -> None:
        self.returns, self.chooses, self.is_tracked = returns, chooses, is_tracked
        self.after = _PostDominators(returns)
        self.blocks = [block for block in returns.flow.order if block in returns.live]
        self.speculated = {
            i for block in self.blocks for i in block.instructions if self._computes(i)
        }
        self.certain: list[Instruction] = []

    def run(self) -> frozenset[Instruction]:
        for block in self.blocks:
            for i in block.instructions:
                if i.opcode == "phi":
                    self._join(i)
                elif self._is_end(i):
                    self._used(i)
        while self.certain:
            i = self.certain.pop()
            # whether a select uses an operand depends on its condition
            if not self.chooses(i):
                self._used(i)
        return frozenset(self.speculated)

    def _computes(self, i: Instruction) -> bool:
        if i.opcode == "load":
            return self.is_tracked(i)
        return i.type.is_float and (i.opcode in _ARITHMETIC or i.opcode == "call")

    def _is_end(self, i: Instruction) -> bool:
        """Whether the operands of `i` are certainly used if control reaches it."""
        if i.opcode == "store":
            return not self.is_tracked(i)
        return i not in self.speculated and i.opcode != "fcmp" and not self.chooses(i)

    def _join(self, phi: Instruction) -> None:
        for value, origin in zip(phi.operands, phi.blocks, strict=True):
            if origin in self.returns.live and self.after.always_joins(origin, value):
                self._use(value, origin)

    def _used(self, i: Instruction) -> None:
        for value in i.operands:
            self._use(value, i.owner)

    def _use(self, value: Value, block: Block) -> None:
        """Note that `value` is used in `block`, if control reaches it."""
        if (
            isinstance(value, Instruction)
            and value in self.speculated
            and self.after(block, value.owner)
        ):
            self.speculated.discard(value)
            self.certain.append(value)


class _PostDominators:
    """Which blocks every successful run passes after a block."""

    def __init__(self, returns: Returns) -> None:
        self.successors: dict[Block, list[Block]] = {block: [] for block in returns.live}
        for block in returns.live:
            for origin in returns.predecessors[block]:
                if origin in returns.live:
                    self.successors[origin].append(block)
        order = postorder(returns.exit, lambda block: returns.predecessors[block])[::-1]
        self.position = {block: k for k, block in enumerate(order)}
        self.idom = immediate_dominators(order, self.successors)

    def __call__(self, later: Block, block: Block) -> bool:
        """Whether every successful run from `block` passes `later`, or `later` is `block`."""
        step: Block | None = block
        while step is not None and self.position[step] > self.position[later]:
            step = self.idom[step]
        return step is later

    def always_joins(self, block: Block, value: object) -> bool:
        """Whether `value` reaches a phi on every edge out of `block`."""
        return all(
            any(
                value is taken and origin is block
                for phi in target.phis
                for taken, origin in zip(phi.operands, phi.blocks, strict=True)
            )
            for target in self.successors[block]
        )

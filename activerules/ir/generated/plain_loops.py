"""Innermost loops over axes that may have length one: a version of each for axes that are longer.

Needs       generated functions, before they are printed; marks of `ir/normal/short_axes`
Gives       `version_plain_loops`: an innermost loop with marked subscripts (`condition ? i : 0`)
            becomes two: one where all of them are `i`, entered if that holds, and the loop as it
            was
Invariants  L1  each version computes what the loop did; which one runs is decided where it is
                entered, by conditions that do not change in it
            L2  loops stay as they are if their values are used elsewhere but by the phis of their
                exits, if they are large, or if their text names values that the model does not know

LLVM makes such versions itself, by loop unswitching: one for each combination of conditions, in the
first few loops of a function. The others it vectorises with gathers, and leaves reverse sweeps as
they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from activerules.ir.llvm.builder import Builder, Namer
from activerules.ir.llvm.cfg import Loop, control_flow_if_reducible
from activerules.ir.llvm.model import Block, Constant, Function, Instruction, Value
from activerules.ir.llvm.types import I1
from activerules.ir.normal.short_axes import ENTRY, SHORT_AXIS

# instructions of the largest loop that is copied; LLVM's own limit is similar
_LARGEST = 80


def version_plain_loops(functions: Iterable[Function]) -> None:
    """Make the versions, but not in functions that are kept small."""
    for function in functions:
        if "minsize" in function.suffix:
            continue
        marked = [i for i in function.instructions() if i.attributes.get(SHORT_AXIS) == ENTRY]
        flow = control_flow_if_reducible(function) if marked else None
        if flow is None:
            continue
        namer = Namer("plain", function.local_names())
        for loop in flow.loops:
            inside = [i for i in marked if i.parent in loop.blocks]
            if inside and not loop.children:
                _Version(function, loop, inside, namer).make()


class _Version:
    def __init__(
        self, function: Function, loop: Loop, marked: Sequence[Instruction], namer: Namer
    ) -> None:
        self.function, self.loop, self.marked, self.namer = function, loop, marked, namer
        self.blocks = [b for b in function.blocks if b in loop.blocks]

    def make(self) -> None:
        """Put the version beside the loop, unless L2 forbids it."""
        header = self.loop.header
        entering = [b for b in self.function.blocks if header in b.successors and b not in self]
        dispatch = Block(self.namer("plain"), parent=self.function)
        b = Builder(dispatch, self.namer)
        conditions = [c for i in self.marked if (c := self._condition(i, b)) is not None]
        if len(conditions) < len(self.marked) or not self._can_be_copied():
            return
        blocks, copies = self._copied()
        self._enter(entering, dispatch, copies)
        holds = conditions[0]
        for condition in conditions[1:]:
            holds = b.binary("and", holds, condition) if condition is not holds else holds
        b.cond_br(holds, header, blocks[header])
        at = self.function.blocks.index(header)
        self.function.blocks[at:at] = [dispatch, *blocks.values()]
        self.function.replace({i: _plain(i) for i in self.marked})

    def __contains__(self, block: Block | None) -> bool:
        return block in self.loop.blocks

    def _condition(self, i: Instruction, b: Builder) -> Value | None:
        """That the subscript is plain, in front of the loop; None where it is not known there."""
        condition, first, _ = i.operands
        if isinstance(condition, Instruction) and condition.parent in self:
            if condition.opcode != "icmp" or any(
                isinstance(o, Instruction) and o.parent in self for o in condition.operands
            ):
                return None
            condition = b.icmp(condition.attributes["predicate"], *condition.operands)
        if isinstance(first, Constant):
            return b.binary("xor", condition, b.const(I1, 1))
        return condition

    def _can_be_copied(self) -> bool:
        inside = {i for block in self.blocks for i in block.instructions}
        return (
            len(inside) <= _LARGEST
            and not any(map(_names_values, inside))
            and not any(
                value in inside and not (i.opcode == "phi" and i.blocks[k] in self)
                for i in self.function.instructions()
                if i not in inside
                for k, value in enumerate(i.operands)
            )
        )

    def _copied(self) -> tuple[dict[Block, Block], dict[Value, Instruction]]:
        """The copies of the blocks of the loop, and of its instructions."""
        blocks = {block: Block(self.namer(), parent=self.function) for block in self.blocks}
        copies: dict[Value, Instruction] = {}
        for block, copy in blocks.items():
            for i in block.instructions:
                name = None if i.name is None else self.namer()
                targets = [blocks.get(o, o) for o in i.blocks]
                own = dict(i.attributes)
                copies[i] = copy.append(replace(i, name=name, blocks=targets, attributes=own))
        for copy in copies.values():
            copy.operands = [copies.get(o, o) for o in copy.operands]
        for after in {o for block in self.blocks for o in block.successors} - {*self.blocks}:
            for phi in after.phis:
                for value, source in [*zip(phi.operands, phi.blocks, strict=True)]:
                    if source in blocks:
                        phi.operands.append(copies.get(value, value))
                        phi.blocks.append(blocks[source])
        return blocks, copies

    def _enter(
        self, entering: Sequence[Block], dispatch: Block, copies: dict[Value, Instruction]
    ) -> None:
        """Lead the edges into the loop to the block that decides."""
        header = self.loop.header
        for block in entering:
            terminator = block.terminator
            terminator.blocks = [dispatch if o is header else o for o in terminator.blocks]
        for phi in [*header.phis]:
            outer = [(v, o) for v, o in zip(phi.operands, phi.blocks, strict=True) if o not in self]
            values, sources = [v for v, _ in outer], [o for _, o in outer]
            value = values[0]
            if len(outer) > 1:
                value = Instruction("phi", phi.type, values, self.namer(), blocks=sources)
                value.parent = dispatch
                dispatch.instructions.insert(0, value)
            for each in (phi, copies[phi]):
                inner = [
                    (v, o)
                    for v, o in zip(each.operands, each.blocks, strict=True)
                    if o not in entering
                ]
                each.operands = [value, *(v for v, _ in inner)]
                each.blocks = [dispatch, *(o for _, o in inner)]


def _plain(i: Instruction) -> Value:
    """The subscript that a marked select chooses along a longer axis."""
    _, first, second = i.operands
    return second if isinstance(first, Constant) else first


def _names_values(i: Instruction) -> bool:
    """Whether an instruction may name values in text that is kept as it is."""
    return "verbatim" in i.attributes or "%" in i.attributes.get("call_attributes", "")
